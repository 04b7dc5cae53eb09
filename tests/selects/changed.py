"""SELECTs with one thing changed in each: a name, the number of arguments of a call, or
the order of the list.

What is changed follows from the SELECT alone, so that Spark's analyzer and lakesql are
asked about the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import Place
from lakesql.select.sqltext import Findings, Text, projections, read_text


@dataclass(frozen=True, slots=True)
class Changed:
    """A SELECT in which one thing differs from one that Spark accepts, and the offset
    of that."""

    select: str
    offset: int
    kind: str


def changed(select: str) -> Iterator[Changed]:
    """All that `select` becomes by one change."""
    text = read_text(select, Findings(lambda offset: Place("m.sql")))
    (tree,) = Spark().parser().parse(text.tokens, select)
    assert isinstance(tree, exp.Expr)
    yield from _renamed(select, tree)
    yield from _recounted(select, text.tokens)
    yield from _reordered(select, tree, text)


def _renamed(select: str, tree: exp.Expr) -> Iterator[Changed]:
    """Each name with a letter behind it, and each name replaced by the one that stands
    before it."""
    places = {
        name.meta["start"]: name.meta["end"] + 1
        for name in tree.find_all(exp.Identifier)
        if name._meta and not _names_table(name)
    }
    before = ""
    for start, end in sorted(places.items()):
        name = select[start:end]
        yield Changed(select[:start] + longer(name) + select[end:], start, "name")
        if before and before.lower() != name.lower():
            yield Changed(select[:start] + before + select[end:], start, "other name")
        before = name


def _names_table(name: exp.Identifier) -> bool:
    """Whether this is a part of the name of a table that a catalog has."""
    table = name.parent
    return isinstance(table, exp.Table) and len(table.parts) > 1 and name in table.parts


def longer(name: str) -> str:
    """A name with a letter more, quoted as it was."""
    return f"{name[:-1]}q`" if name.endswith("`") else f"{name}q"


def _recounted(select: str, tokens: list[Token]) -> Iterator[Changed]:
    """Each call with one argument more, and with one less."""
    opened: list[tuple[int, list[int]]] = []
    for index, token in enumerate(tokens):
        match token.token_type:
            case TokenType.L_PAREN | TokenType.L_BRACKET:
                opened.append((index, []))
            case TokenType.COMMA if opened:
                opened[-1][1].append(index)
            case TokenType.R_PAREN | TokenType.R_BRACKET if opened:
                start, commas = opened.pop()
                called = tokens[start - 1] if start else token
                is_word = (
                    called.text.replace("_", "").isalnum()
                    and called.token_type is not TokenType.STRING
                )
                if tokens[start].token_type is not TokenType.L_PAREN or not is_word:
                    continue
                if index > start + 1:
                    yield Changed(
                        select[: token.start] + ", NULL" + select[token.start :],
                        called.start,
                        "count",
                    )
                if commas:
                    cut = tokens[commas[-1]].start
                    yield Changed(
                        select[:cut] + select[token.start :], called.start, "count"
                    )


def _reordered(select: str, tree: exp.Expr, text: Text) -> Iterator[Changed]:
    """Each list of a SELECT with its first expression at the end."""
    for found in tree.find_all(exp.Select):
        if not found.comments:
            continue
        spans = [(text.tokens[first].start, text.tokens[last - 1].end + 1) for first, last in
                 projections(text, int(found.comments[-1])) if first < last]  # fmt: skip
        if len(spans) > 1:
            (start, end), last = spans[0], spans[-1][1]
            moved = f"{select[spans[1][0] : last]}, {select[start:end]}"
            yield Changed(select[:start] + moved + select[last:], start, "order")
