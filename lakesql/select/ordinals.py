"""Where GROUP BY, ORDER BY and SORT BY name columns by their numbers, and whether these
exist."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.relation import QueryColumn, Walk, last_mark, mark_of
from lakesql.select.sqltext import Text

_CLAUSES = {
    "group": ("GROUP BY", TokenType.GROUP_BY),
    "order": ("ORDER BY", TokenType.ORDER_BY),
    "sort": ("SORT BY", TokenType.SORT_BY),
}
"""The clauses whose terms may be numbers of columns, each as it is written and by the
token that begins it."""

_LISTS = (
    exp.Group,
    exp.Order,
    exp.Sort,
    exp.Ordered,
    exp.Rollup,
    exp.Cube,
    exp.GroupingSets,
    exp.Tuple,
    exp.Paren,
)
"""Nodes that group the terms of GROUP BY and ORDER BY. A number inside any other node
is a plain number."""

_INTS = range(-(2**31), 2**31)
"""The values of an INT. Spark reads a larger number as a BIGINT, which is a value and
names no column."""


def check_ordinals(
    query: exp.Expr, columns: tuple[QueryColumn, ...] | None, walk: Walk
) -> bool:
    """Adds a finding for each number in the GROUP BY, ORDER BY and SORT BY of a query
    that is the number of none of its `columns` (None: not known); returns whether there
    is none."""
    before = len(walk.findings.problems)
    count = _count_of(columns)
    for key, (words, kind) in _CLAUSES.items():
        for number in dict.fromkeys(_numbers(query.args.get(key))):
            is_there = number > 0 and (count is None or number <= count)
            if not is_there:
                offset = _offset_of(number, kind, query, walk.text)
                walk.findings.add(
                    "unknown-column",
                    offset,
                    f"{words} {number} names no column: {_say_range(count)}.",
                    fix="Name the column itself, or correct the number.",
                )
    return len(walk.findings.problems) == before


def has_ordinals(query: exp.Expr) -> bool:
    """Whether GROUP BY, ORDER BY or SORT BY name columns by numbers, or ORDER BY ALL by
    their order."""
    clauses = (query.args.get(key) for key in _CLAUSES)
    return any(
        _is_ordinal(node)
        for clause in clauses
        if clause is not None
        for node in _terms(clause)
    )


def _terms(clause: exp.Expr) -> Iterator[exp.Expr]:
    for node in clause.walk(prune=lambda each: not isinstance(each, _LISTS)):
        if not isinstance(node, _LISTS):
            yield node


def _is_ordinal(term: exp.Expr) -> bool:
    return term.is_number or (isinstance(term, exp.Var) and term.name.upper() == "ALL")


def _numbers(clause: exp.Expr | None) -> Iterator[int]:
    """The numbers by which a clause names columns."""
    for term in _terms(clause) if clause is not None else ():
        number = term.to_py() if term.is_int else None
        if isinstance(number, int) and number in _INTS:
            yield number


def _count_of(columns: tuple[QueryColumn, ...] | None) -> int | None:
    """The number of columns; None where it is not known, as of a generator whose
    columns have no names yet."""
    if columns is None or any(it.name is None and it.is_made_up for it in columns):
        return None
    return len(columns)


def _say_range(count: int | None) -> str:
    if count is None:
        return "the first column is 1"
    return "the query has one column" if count == 1 else f"the columns are 1 to {count}"


def _offset_of(number: int, kind: TokenType, query: exp.Expr, text: Text) -> int:
    """The offset of a number in a clause that begins with this kind of token."""
    own = mark_of(query) if isinstance(query, exp.Select) else None
    mark = last_mark(query) if own is None else own
    kinds = {begins for _, begins in _CLAUSES.values()}
    clause: TokenType | None = None
    for at in range(mark + 1, len(text.tokens)):
        token, before = text.tokens[at], text.tokens[at - 1]
        is_of_query = own is None or text.depths[at] == text.depths[mark]
        if token.token_type in kinds and is_of_query:
            clause = token.token_type
        is_own = own is None or text.owners[at] == own
        is_number = token.token_type is TokenType.NUMBER and is_own
        if clause is kind and is_number and token.text == str(abs(number)):
            return before.start if number < 0 else token.start
    return text.tokens[mark].start
