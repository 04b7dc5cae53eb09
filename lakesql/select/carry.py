"""How `_lakesql_position` gets through a SELECT: as one of the columns of a star, or by
an insertion."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakesql.names import POSITION
from lakesql.select.columns import starred
from lakesql.select.left_out import excepted
from lakesql.select.relation import Carried, Relation, Sources, Walk

CARRY = f" {POSITION},"
"""The text that is inserted behind SELECT. The name is unqualified, as at most one
relation of a stateless SELECT has this column."""


def carry_through(
    select: exp.Select, mark: int, sources: Sources, flowing: Relation, walk: Walk
) -> Carried | None:
    """The position of `_lakesql_position` among the columns of a SELECT that reads the
    relation `flowing`; None where it is not known.

    Unless a star includes it, notes that it is to be inserted into this SELECT.
    """
    carried = _carried_by_stars(select, sources, flowing)
    if len(carried) > 1:
        what, fix = (
            "This SELECT takes all columns of the stream twice.",
            "Keep one * and name the other columns.",
        )
        walk.findings.add(
            "duplicate-column", walk.text.tokens[mark].start, what, fix=fix
        )
    if carried:
        return carried[0]
    walk.inserts.add(mark)
    return Carried("insert", 0)


def _carried_by_stars(
    select: exp.Select, sources: Sources, flowing: Relation
) -> list[Carried | None]:
    """The position of `_lakesql_position` by each star that includes the columns of
    `flowing`; None where it is not known."""
    carried: list[Carried | None] = []
    # the number of columns to the left of the expression; None if not known
    before: int | None = 0
    for expression in select.expressions:
        if not (isinstance(expression, exp.Star | exp.Column) and expression.is_star):
            names = (
                len(expression.expressions)
                if isinstance(expression, exp.Aliases)
                else 1
            )
            before = None if before is None else before + names
            continue
        over = starred(expression, sources)
        if any(source is flowing for source in over):
            carried.append(_carried_by(expression, over, sources, flowing, before))
        elif before is not None:
            width = _width_of(over)
            before = None if width is None else before + width
    return carried


def _width_of(over: Sequence[Relation]) -> int | None:
    """The number of columns that a star over these relations stands for; None where it
    is not known."""
    width = 0
    for source in over:
        if source.columns is None:
            return None
        width += len(source.columns)
    return width if over else None


def _carried_by(
    star: exp.Expr,
    over: Sequence[Relation],
    sources: Sources,
    flowing: Relation,
    before: int | None,
) -> Carried | None:
    """The position of `_lakesql_position` by a star over relations that include
    `flowing`, behind `before` other columns; None where it is not known."""
    if before is None or over[0] is not flowing or flowing.carried is None:
        return None
    dropped = excepted(star, sources, flowing).columns
    if dropped and len(over) > 1:  # those that other relations have stand behind it
        if flowing.columns is None:
            return None
        dropped &= {column.folded for column in flowing.columns}
    return Carried(flowing.carried.by, flowing.carried.index + before - len(dropped))
