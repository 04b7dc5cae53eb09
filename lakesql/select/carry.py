"""How `_lakesql_position` gets through a SELECT: by a star, or by an insertion."""

from __future__ import annotations

from sqlglot import exp

from lakesql.names import POSITION
from lakesql.select.columns import excepted, starred
from lakesql.select.relation import Carried, Relation, Sources, Walk

CARRY = f" {POSITION},"
"""What is inserted after SELECT. Unqualified, as no more than one relation of a stateless SELECT has this column."""


def carry_through(select: exp.Select, mark: int, sources: Sources, flowing: Relation, walk: Walk) -> Carried | None:
    """Notes the insertion that takes the position through this SELECT, unless a star does. Says where it then is."""
    before: int | None = 0
    carried: list[Carried | None] = []
    for expression in select.expressions:
        if not (isinstance(expression, exp.Star | exp.Column) and expression.is_star):
            width = len(expression.expressions) if isinstance(expression, exp.Aliases) else 1
            before = None if before is None else before + width
            continue
        over = starred(expression, sources)
        if any(source is flowing for source in over):
            dropped, _ = excepted(expression, sources)
            is_known = over[0] is flowing and before is not None
            if dropped and len(over) > 1:
                is_known = is_known and flowing.columns is not None
                dropped &= {column.folded for column in flowing.columns or ()}
            inner = flowing.carried if is_known else None
            carried.append(Carried(inner.by, inner.index + (before or 0) - len(dropped)) if inner else None)
        elif before is not None and over and all(source.columns is not None for source in over):
            before += sum(len(source.columns or ()) for source in over)
        else:
            before = None
    if len(carried) > 1:
        what, fix = "This SELECT takes all columns of the stream twice.", "Keep one * and name the other columns."
        walk.findings.add("duplicate-column", walk.text.tokens[mark].start, what, fix=fix)
    if carried:
        return carried[0]
    walk.inserts.add(mark)
    return Carried("insert", 0)
