"""Where two texts of a SELECT differ in more than their spelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import Place
from lakesql.select.query import parse_query
from lakesql.select.relation import mark_of
from lakesql.select.sqltext import Findings, Text, clauses, hints, projections, read_text, spelled

PartKind = Literal["column", "filter", "source", "rest"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the newer SELECT that differs: a column by its name, a filter, what it reads, or something else.

    `offset` is where the first word that differs stands in the newer text.
    """

    kind: PartKind
    name: str
    offset: int


@lru_cache(maxsize=4096)
def find_differences(old: str, new: str) -> tuple[Difference, ...]:
    """How `new` differs from `old`, both read by `read_query` without a problem; nothing where only spelling does.

    Spaces, comments, capitals, quotes that are not needed, `AS`, brackets that change nothing and the order of the
    columns are spelling; capitals of a field's name in `struct(…)` are not, as it becomes a text in JSON. A column that
    only one of the two has is no difference: who knows the columns tells it.
    """
    if old == new:
        return ()
    before, after = _read(old), _read(new)
    if hints(old) != hints(new):
        return (Difference("rest", "a hint", after.text.tokens[0].start),)
    if _words(before) == _words(after) or _is_same_tree(before, after):
        return ()
    starts = _changed_tokens(before, after)
    there = {(part.kind, part.name): part for part in _parts(before)}
    found = []
    for part in _parts(after):
        former = there.get((part.kind, part.name))
        if former is None and part.kind == "column":
            continue
        if former is None or _bare(before, former.tokens) != _bare(after, part.tokens):
            at = next((start for start in starts if part.first <= start <= part.last), part.first)
            found.append(Difference(part.kind, part.name, at))
    kept = {(part.kind, part.name) for part in _parts(after)}
    gone = [part for part in there.values() if part.kind != "column" and (part.kind, part.name) not in kept]
    first = min(starts, default=after.text.tokens[-1].start)
    found += [Difference(part.kind, part.name, first) for part in gone]
    if not found and {key for key in there if key[0] == "column"} == {key for key in kept if key[0] == "column"}:
        found.append(Difference("rest", "the order of the columns", first))
    return tuple(sorted(found, key=lambda each: each.offset))


def first_change(old: str, new: str) -> int:
    """The offset in `new` of the first word that differs; of its first one where none does."""
    return min(_changed_tokens(_read(old), _read(new)), default=0)


def is_same_expression(old: str, new: str) -> bool:
    """Whether two conditions on a row, such as `delete_when`, differ in their spelling at most."""
    if not (old and new):
        return old == new
    return not find_differences(f"SELECT 1 WHERE {old}", f"SELECT 1 WHERE {new}")


@dataclass(frozen=True, slots=True)
class _Select:
    """A SELECT. `fields` are the offsets of the names of fields that a `struct(…)` of it makes."""

    text: Text
    tree: exp.Query
    fields: frozenset[int]

    def word(self, token: Token) -> str:
        """A token in one spelling; Spark has two for some comparisons."""
        if token.start in self.fields:
            return token.text
        return str(token.token_type) if token.token_type in _COMPARISONS else spelled(token)


@dataclass(frozen=True, slots=True)
class _Part:
    kind: PartKind
    name: str
    tokens: tuple[Token, ...]

    @property
    def first(self) -> int:
        return self.tokens[0].start

    @property
    def last(self) -> int:
        return self.tokens[-1].end


def _read(sql: str) -> _Select:
    findings = Findings(lambda offset: Place("", 1, offset + 1))
    text = read_text(sql, findings)
    return _Select(text, parse_query(text, sql, findings), frozenset(_fields(text.tokens)))


def _fields(tokens: list[Token]) -> Iterator[int]:
    """The offsets of names that end an argument of `struct(…)`: each is an alias, or a column that gives its name."""
    structs: list[bool] = []
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            structs.append(at > 0 and tokens[at - 1].text.lower() == "struct")
        ends_argument = token.token_type in (TokenType.COMMA, TokenType.R_PAREN)
        if ends_argument and structs and structs[-1] and tokens[at - 2].token_type in _BEFORE_NAMES:
            yield tokens[at - 1].start
        if structs and token.token_type is TokenType.R_PAREN:
            structs.pop()


_BEFORE_NAMES = frozenset({TokenType.ALIAS, TokenType.DOT, TokenType.L_PAREN, TokenType.COMMA})


def _words(select: _Select) -> list[str]:
    return [select.word(token) for token in select.text.tokens]


_COMPARISONS = frozenset({TokenType.EQ, TokenType.NEQ})


def _is_same_tree(before: _Select, after: _Select) -> bool:
    """Whether the trees are equal, and made of the same words.

    The parser has one node for functions that it takes for one another, so that equal trees alone are not enough.
    """
    words = [Counter(_bare(it, tuple(it.text.tokens), without_brackets=True)) for it in (before, after)]
    return words[0] == words[1] and _plain(before.tree) == _plain(after.tree)


def _plain(tree: exp.Query) -> exp.Expr:
    """The tree without what is spelling: capitals and quotes of names, brackets, the order of the outermost columns."""

    copy = tree.copy()
    while (bracket := copy.find(exp.Paren)) is not None:
        bracket.replace(bracket.this)
    for name in copy.find_all(exp.Identifier):
        name.set("this", name.name.lower())
        name.set("quoted", False)
    if isinstance(copy, exp.Select) and _is_unordered(copy):
        copy.set("expressions", sorted(copy.expressions, key=lambda it: (it.alias_or_name, it.sql())))
    return copy


def _is_unordered(select: exp.Select) -> bool:
    """Whether the order of the columns means nothing: none is named by its number, or by another one's alias."""
    group = select.args.get("group")
    if any(it.is_star for it in select.expressions) or (group and any(it.is_number for it in group.expressions)):
        return False
    aliases = {it.alias for it in select.expressions if isinstance(it, exp.Alias)}
    return not any(column.name in aliases for it in select.expressions for column in it.find_all(exp.Column))


_BRACKETS = frozenset({TokenType.L_PAREN, TokenType.R_PAREN})


def _bare(select: _Select, tokens: tuple[Token, ...], without_brackets: bool = False) -> list[str]:
    """The words that mean something, in one spelling."""
    left_out = {TokenType.ALIAS, *(_BRACKETS if without_brackets else ())}
    return [select.word(token) for token in tokens if token.token_type not in left_out]


def _changed_tokens(before: _Select, after: _Select) -> list[int]:
    """The offsets in the newer text at which its words begin to differ; of very long texts the first one."""
    old, new, tokens = _words(before), _words(after), after.text.tokens
    last = len(tokens) - 1
    if len(old) + len(new) > _MOST_WORDS:
        pairs = zip(old, new, strict=False)
        return [tokens[next((at for at, (was, now) in enumerate(pairs) if was != now), last)].start]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [tokens[min(j, last)].start for tag, _, _, j, _ in matcher.get_opcodes() if tag != "equal"]


_MOST_WORDS = 6_000
"""Matching words takes a time that grows with the square of their number."""


_FILTERS = frozenset({TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY})


def _parts(select: _Select) -> Iterator[_Part]:
    """The parts of the outermost SELECT; of anything else one part, which is all of it."""
    text, tree = select.text, select.tree
    mark = mark_of(tree) if isinstance(tree, exp.Select) else None
    if mark is None:
        yield _Part("rest", "the query", tuple(text.tokens))
        return
    if mark:
        yield _Part("rest", text.tokens[0].text.upper(), tuple(text.tokens[:mark]))
    spans = projections(text, mark)
    named = len(spans) == len(tree.expressions)
    for number, (first, last) in enumerate(spans):
        name = tree.expressions[number].alias_or_name.lower() if named else str(number)
        if number == 0 and text.tokens[first].token_type is TokenType.DISTINCT:
            yield _Part("rest", "DISTINCT", (text.tokens[first],))
            first += 1
        if last > first:
            yield _Part("column", name, tuple(text.tokens[first:last]))
    for first, last in clauses(text, mark):
        token = text.tokens[first]
        if token.token_type in _FILTERS:
            yield _Part("filter", token.text.upper(), tuple(text.tokens[first:last]))
        elif token.token_type is TokenType.FROM:
            yield _Part("source", "FROM", tuple(text.tokens[first:last]))
        else:
            yield _Part("rest", token.text.upper(), tuple(text.tokens[first:last]))
