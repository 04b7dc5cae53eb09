"""Which rows a SELECT has gained and lost, each as often as it has, for a GROUP BY over
them.

A row may be among both the gained and the lost ones: the difference of the two counts
is what matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesql.identifiers import identifiers
from lakesql.views.changed_rows import ROW, ChangedRows, FromTerm
from lakesql.views.units import unit_of
from lakesql.views.view_tree import (
    COME,
    GONE,
    ViewBlock,
    ViewItem,
    ViewJoin,
    ViewQuery,
    ViewSet,
    World,
)

Sign = Literal[1, -1]
Signed = tuple[str, Sign]


@dataclass(frozen=True, slots=True)
class SignedRows:
    """FROM and WHERE of a block that return rows that have come (`sign` 1) or left
    (-1). The block's expressions are to be read in the `world`."""

    text: str
    sign: Sign
    world: World


def linear_obstacles(block: ViewBlock) -> Iterator[tuple[int, str, int]]:
    """The inputs whose change is no sum of rows that come and leave: the input's
    number, the reason, and the token."""
    yield from _of_joins(block.joins)


def _of_joins(joins: Sequence[ViewJoin]) -> Iterator[tuple[int, str, int]]:
    for number, join in enumerate(joins):
        blocked: list[ViewItem] = []
        if join.kind in ("right", "full"):
            blocked += [other.item for other in joins[:number]]
        if join.kind == "full" or (
            join.kind in ("left", "semi", "anti") and join.item.group
        ):
            blocked.append(join.item)
        for item in blocked:
            for one in sorted(item.reads):
                yield (
                    one,
                    f"a row may have no partner in this {join.kind} join",
                    join.item.span[0],
                )
        yield from _of_joins(join.item.group)
        for block in _plain_blocks(join.item.query):
            yield from _of_joins(block.joins)


def _plain_blocks(query: ViewQuery | None) -> Iterator[ViewBlock]:
    """The SELECTs of a query in FROM whose rows do not depend on each other."""
    if isinstance(query, ViewBlock):
        if not (query.is_grouped or query.is_distinct or query.has_windows):
            yield query
    elif query is not None and query.is_all:
        for branch in query.branches:
            yield from _plain_blocks(branch)


def signed_block(rows: ChangedRows, block: ViewBlock) -> Iterator[SignedRows]:
    """The rows that a block has gained and lost, before it groups them.

    First for the change of its FROM, with the conditions as they are now; then, for the
    rows that the FROM had before, for the changed results of queries inside
    expressions.
    """
    for text, sign in signed_from(rows, block.joins):
        yield SignedRows(
            rows.from_where(block, FromTerm(text, "new", block.conditions)), sign, "new"
        )
    before = rows.steps(block.joins, "old") if block.joins else ""
    for condition in rows.reached_once(block):
        yield SignedRows(
            rows.from_where(
                block, FromTerm(before, "old", block.conditions, condition)
            ),
            -1,
            "old",
        )
        yield SignedRows(
            rows.from_where(
                block, FromTerm(before, "new", block.conditions, condition)
            ),
            1,
            "new",
        )


def signed_from(rows: ChangedRows, joins: Sequence[ViewJoin]) -> list[Signed]:
    """FROMs that together return the rows that have come (1) and left (-1), each as
    often as it has.

    There is one for each changed entry: entries before it are as they are now, those
    after it as they were.
    """
    terms: list[Signed] = []
    for number, join in enumerate(joins):
        before = [
            rows.step(other, other.kind, rows.entry_at(other.item, "new"), "new")
            for other in joins[:number]
        ]
        after = [
            rows.step(other, other.kind, rows.entry_at(other.item, "old"), "old")
            for other in joins[number + 1 :]
        ]
        for lines, sign in _signed_step(rows, join):
            terms.append(("\n".join([*before, *lines, *after]), sign))
    return terms


def _signed_step(rows: ChangedRows, join: ViewJoin) -> Iterator[tuple[list[str], Sign]]:
    """The lines of a FROM for one changed entry, each with its sign.

    If a row of the left side may have no partner, all rows of it that join a changed
    row are removed with their old partners and added with their new ones.
    """
    if join.kind not in ("left", "semi", "anti"):
        for text, sign in signed_entries(rows, join.item):
            yield [rows.step(join, join.kind, text, "new")], sign
    elif join.item.reads & rows.changed:
        meets = rows.step(join, "semi", rows.differing(join.item), "new")
        yield (
            [meets, rows.step(join, join.kind, rows.entry_at(join.item, "old"), "old")],
            -1,
        )
        yield (
            [meets, rows.step(join, join.kind, rows.entry_at(join.item, "new"), "new")],
            1,
        )


def signed_entries(rows: ChangedRows, item: ViewItem) -> Iterator[Signed]:
    """An entry of a FROM with the rows only that have come (1) or left (-1)."""
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
    """Queries that together return the rows that have come to a query (1) and left it
    (-1).

    If rows of the query depend on each other, these are all rows of the units that a
    change reaches, as they were and as they are now.
    """
    if unit_of(query) is not None:
        for text, world in rows.changes(query):
            yield text, -1 if world == "old" else 1
    elif isinstance(query, ViewBlock):
        for term in signed_block(rows, query):
            yield f"{rows.render(query.head, term.world)}\n{term.text}", term.sign
    else:
        yield from _signed_branches(rows, query)


def _signed_branches(rows: ChangedRows, query: ViewSet) -> Iterator[Signed]:
    """Queries that together return the rows that have come to a UNION ALL and left it,
    with the column names of its first query."""
    names = query.outputs.names
    for branch in query.branches:
        for text, sign in signed_queries(rows, branch):
            if branch is query.branches[0] or names is None:
                yield text, sign
            else:
                yield f"SELECT * FROM ({text}) AS {ROW}({identifiers(names)})", sign
