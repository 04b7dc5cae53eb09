"""How `_lakesql_position` gets through a SELECT: by a star, or by an insertion."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakesql.names import POSITION
from lakesql.select.columns import excepted, starred
from lakesql.select.relation import Carried, Relation, Sources, Walk

CARRY = f" {POSITION},"
"""What is inserted after SELECT. Unqualified, as no more than one relation of a
stateless SELECT has this column."""


def carry_through(
    select: exp.Select, mark: int, sources: Sources, flowing: Relation, walk: Walk
) -> Carried | None:
    """Where the SELECT has the position of the relation `flowing`, which it reads. None
    where that cannot be known.

    Unless a star has it, the insertion is noted that takes it through.
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
    """Where the position is by each star that stands for the columns of `flowing`."""
    carried: list[Carried | None] = []
    # how many columns stand left of the expression, if that is known
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
    """How many columns a star over these relations stands for."""
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
    """Where the position is by a star over relations of which `flowing` is one, behind
    `before` other columns."""
    if before is None or over[0] is not flowing or flowing.carried is None:
        return None
    dropped, _ = excepted(star, sources)
    if dropped and len(over) > 1:  # those that other relations have stand behind it
        if flowing.columns is None:
            return None
        dropped &= {column.folded for column in flowing.columns}
    return Carried(flowing.carried.by, flowing.carried.index + before - len(dropped))
