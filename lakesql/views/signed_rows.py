"""The rows by which a SELECT without groups differs from what it was, each as often as it has come or left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from lakesql.identifiers import identifiers
from lakesql.views.changed_rows import ROW, ChangedRows
from lakesql.views.view_tree import COME, GONE, ViewBlock, ViewItem, ViewJoin, ViewQuery, ViewSet

Sign = Literal[1, -1]
Signed = tuple[str, Sign]


def linear_obstacles(query: ViewQuery) -> Iterator[tuple[int, str, int]]:
    """The inputs of which a change is no sum of rows that come and rows that leave: the number, why, and the token."""
    if isinstance(query, ViewSet):
        for branch in query.branches:
            yield from linear_obstacles(branch)
            if not query.is_all:
                yield from _all_of(branch, "a set operation compares rows")
        return
    for number, join in enumerate(query.joins):
        before = [other.item for other in query.joins[:number]]
        blocked = {"left": [join.item], "semi": [join.item], "anti": [join.item], "right": before}
        blocked["full"] = [*before, join.item]
        for item in blocked.get(join.kind, []):
            for one in sorted(item.reads):
                yield one, f"a row may have no partner in this {join.kind} join", join.item.span[0]
        yield from _of_joins((join,))
    for inner in query.inner:
        for one in sorted(inner.query.reads):
            yield one, "a query in an expression", inner.offset_token


def _of_joins(joins: Sequence[ViewJoin]) -> Iterator[tuple[int, str, int]]:
    for join in joins:
        item = join.item
        if item.group:
            for number, inner in enumerate(item.group):
                if inner.kind not in ("first", "inner"):
                    blocked = [other.item for other in item.group[: number + 1]]
                    yield from ((one, "joins in brackets", item.span[0]) for it in blocked for one in sorted(it.reads))
            yield from _of_joins(item.group)
        elif item.query is not None:
            yield from linear_obstacles(item.query)
            yield from _groups(item.query)


def _groups(query: ViewQuery) -> Iterator[tuple[int, str, int]]:
    """The inputs of a query in FROM that groups."""
    if isinstance(query, ViewSet):
        for branch in query.branches:
            yield from _groups(branch)
    elif query.is_grouped or query.is_distinct or query.has_windows:
        yield from _all_of(query, "a query in FROM that groups")


def _all_of(query: ViewQuery, reason: str) -> Iterator[tuple[int, str, int]]:
    yield from ((one, reason, query.span[0]) for one in sorted(query.reads))


def signed_from(rows: ChangedRows, joins: Sequence[ViewJoin]) -> list[Signed]:
    """FROMs that together have the rows that have come (1) and left (-1), each as often as it has.

    What stands before the entry that has changed is as it is, what stands behind it as it was.
    """
    terms: list[Signed] = []
    for number, join in enumerate(joins):
        before = [rows.step(other, other.kind, rows.entry_at(other.item, "new"), "new") for other in joins[:number]]
        after = [rows.step(other, other.kind, rows.entry_at(other.item, "old"), "old") for other in joins[number + 1 :]]
        for text, sign in signed_entries(rows, join.item):
            terms.append(("\n".join([*before, rows.step(join, join.kind, text, "new"), *after]), sign))
    return terms


def signed_entries(rows: ChangedRows, item: ViewItem) -> Iterator[Signed]:
    """An entry of a FROM with the rows alone that have come or left."""
    if not item.reads & rows.changed:
        return
    if item.group:
        for text, sign in signed_from(rows, item.group):
            yield f"({text})", sign
    elif item.input is not None:
        yield rows.entry(item, f"{GONE}{item.input}"), -1
        yield rows.entry(item, f"{COME}{item.input}"), 1
    elif item.query is not None:
        for text, sign in signed_queries(rows, item.query):
            yield rows.entry(item, rows.named_columns(item, text)), sign


def signed_queries(rows: ChangedRows, query: ViewQuery) -> Iterator[Signed]:
    """Queries that together have the rows of a query without groups that have come (1) and left (-1)."""
    if isinstance(query, ViewBlock):
        for text, sign in signed_from(rows, query.joins):
            yield f"{rows.render(query.head, 'new')}\n{rows.after_select(query, text)}", sign
        return
    names = query.outputs.names
    for branch in query.branches:
        for text, sign in signed_queries(rows, branch):
            if branch is query.branches[0] or names is None:
                yield text, sign
            else:
                yield f"SELECT * FROM ({text}) AS {ROW}({identifiers(names)})", sign
