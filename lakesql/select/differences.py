"""Which parts of a model's SELECT differ between two versions in more than their
spelling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.column_order import is_moved
from lakesql.select.ctes import cte_tokens
from lakesql.select.ordinals import has_ordinals
from lakesql.select.query import parse_query
from lakesql.select.relation import mark_of
from lakesql.select.spelling import read_words
from lakesql.select.sqltext import (
    Text,
    clauses,
    findings_by_offset,
    hints,
    projections,
    read_text,
)

PartKind = Literal["column", "filter", "source", "rest"]


@dataclass(frozen=True, slots=True)
class SelectDifference:
    """A part of the newer SELECT that differs: a column by its name, a filter, the
    FROM, or anything else.

    `offset` is the place of the first different word in the newer text.
    """

    kind: PartKind
    name: str
    offset: int


@lru_cache(maxsize=4096)
def find_differences(old: str, new: str) -> tuple[SelectDifference, ...]:
    """The parts in which `new` differs from `old`; none where only spelling does. Both
    must be readable by `read_query`.

    `read_words` defines what spelling is; the order of the columns counts as spelling
    too, unless it has a meaning. A column that only one of the two has is not returned,
    as the caller compares the columns.
    """
    if old == new:
        return ()
    before, after = _read(old), _read(new)
    if hints(old) != hints(new):
        return (SelectDifference("rest", "a hint", after.offset(0)),)
    if before.said() == after.said() or _is_reordered(before, after):
        return ()
    changed = _changed_tokens(before, after)
    there = {(part.kind, part.name): part for part in _parts(before)}
    found = []
    for part in _parts(after):
        former = there.get((part.kind, part.name))
        if former is None and part.kind == "column" and part.name:
            continue
        if former is None or before.said(former) != after.said(part):
            at = next(
                (token for token in changed if part.first <= token < part.end),
                part.first,
            )
            found.append(SelectDifference(part.kind, part.name, after.offset(at)))
    kept = {(part.kind, part.name) for part in _parts(after)}
    gone = [
        part
        for part in there.values()
        if part.kind != "column" and (part.kind, part.name) not in kept
    ]
    first = after.offset(min(changed, default=len(after.words) - 1))
    found += [SelectDifference(part.kind, part.name, first) for part in gone]
    if not found and _is_reordered_otherwise(before, after):
        found.append(SelectDifference("rest", "the order of the columns", first))
    return tuple(sorted(found, key=lambda each: each.offset))


def first_change(old: str, new: str) -> int:
    """The offset in `new` of the first word that differs; 0 if none does."""
    after = _read(new)
    changed = _changed_tokens(_read(old), after)
    return after.offset(min(changed)) if changed else 0


def is_same_expression(old: str, new: str) -> bool:
    """Whether two conditions on a row, such as `delete_when`, differ at most in
    spelling."""
    if not (old and new):
        return old == new
    return not find_differences(f"SELECT 1 WHERE {old}", f"SELECT 1 WHERE {new}")


@dataclass(frozen=True, slots=True)
class _ComparedSelect:
    """A SELECT. `words` has the normal form of each of its tokens, and None for a token
    that changes nothing."""

    text: Text
    tree: exp.Query
    words: tuple[str | None, ...]

    def said(self, part: _TokenSpan | None = None) -> list[str]:
        """The normal form of a part, or of the whole SELECT, without the tokens that
        change nothing."""
        words = self.words[part.first : part.end] if part is not None else self.words
        return [word for word in words if word is not None]

    def offset(self, token: int) -> int:
        return self.text.tokens[token].start


@dataclass(frozen=True, slots=True)
class _TokenSpan:
    """A part of a SELECT by its tokens: the number of the first, and one past the
    last."""

    kind: PartKind
    name: str
    first: int
    end: int


def _read(sql: str) -> _ComparedSelect:
    findings = findings_by_offset()
    text = read_text(sql, findings)
    tree = parse_query(text, sql, findings)
    named = cte_tokens(text, tree)
    words = tuple(
        f"`{named[at]}" if at in named else word
        for at, word in enumerate(read_words(text, tree))
    )
    return _ComparedSelect(text, tree, words)


def _is_reordered(before: _ComparedSelect, after: _ComparedSelect) -> bool:
    """Whether two SELECTs differ only in the order of the outermost columns, and that
    order has no meaning."""
    if not (_is_unordered(before.tree) and _is_unordered(after.tree)):
        return False
    parts = [
        sorted((part.kind, part.name, select.said(part)) for part in _parts(select))
        for select in (before, after)
    ]
    return parts[0] == parts[1]


def _is_reordered_otherwise(before: _ComparedSelect, after: _ComparedSelect) -> bool:
    """Whether two SELECTs whose shared parts are the same differ in the order of their
    columns where this may have a meaning.

    A column that only one of the two has moves those behind it, which matters if they
    are named by numbers.
    """
    names = [
        [part.name for part in _parts(select) if part.kind == "column"]
        for select in (before, after)
    ]
    if set(names[0]) == set(names[1]):
        return True
    if has_ordinals(before.tree):
        return is_moved(*names)
    if _is_unordered(before.tree) and _is_unordered(after.tree):
        return False
    shared = [
        [name for name in side if name in names[0] and name in names[1]]
        for side in names
    ]
    return shared[0] != shared[1]


def _is_unordered(tree: exp.Query) -> bool:
    """Whether the order of the columns has no meaning: none is named by its number, or
    by the alias of another one."""
    if not isinstance(tree, exp.Select):
        return False
    if any(it.is_star for it in tree.expressions) or has_ordinals(tree):
        return False
    aliases = {it.alias.lower() for it in tree.expressions if isinstance(it, exp.Alias)}
    return not any(
        column.name.lower() in aliases
        for it in tree.expressions
        for column in it.find_all(exp.Column)
    )


def _changed_tokens(before: _ComparedSelect, after: _ComparedSelect) -> list[int]:
    """The numbers of the newer text's tokens at which differences begin; of very long
    texts only the first."""
    old, new = before.said(), after.said()
    numbers = [number for number, word in enumerate(after.words) if word is not None]
    last = len(numbers) - 1
    if len(old) + len(new) > _MOST_WORDS:
        pairs = zip(old, new, strict=False)
        first = next((at for at, (was, now) in enumerate(pairs) if was != now), last)
        return [numbers[min(first, last)]]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [
        numbers[min(j, last)]
        for tag, _, _, j, _ in matcher.get_opcodes()
        if tag != "equal"
    ]


_MOST_WORDS = 6_000
"""The most words that are matched: the time for it grows with the square of their
number."""


_FILTERS = frozenset({TokenType.WHERE, TokenType.HAVING, TokenType.QUALIFY})


def _parts(select: _ComparedSelect) -> Iterator[_TokenSpan]:
    """The parts of the outermost SELECT; one part, the whole query, if it is a set
    operation or the like."""
    text, tree = select.text, select.tree
    mark = mark_of(tree) if isinstance(tree, exp.Select) else None
    if mark is None:
        yield _TokenSpan("rest", "the query", 0, len(text.tokens))
        return
    if mark:
        yield _TokenSpan("rest", text.tokens[0].text.upper(), 0, mark)
    spans = projections(text, mark)
    named = len(spans) == len(tree.expressions)
    for number, (first, last) in enumerate(spans):
        name = tree.expressions[number].output_name.lower() if named else str(number)
        if number == 0 and text.tokens[first].token_type is TokenType.DISTINCT:
            yield _TokenSpan("rest", "DISTINCT", first, first + 1)
            first += 1
        if last > first:
            yield _TokenSpan("column", name, first, last)
    for first, last in clauses(text, mark):
        token = text.tokens[first]
        if token.token_type in _FILTERS:
            yield _TokenSpan("filter", token.text.upper(), first, last)
        elif token.token_type is TokenType.FROM:
            yield _TokenSpan("source", "FROM", first, last)
        else:
            yield _TokenSpan("rest", token.text.upper(), first, last)
