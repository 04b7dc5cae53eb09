"""Which columns a relation has behind PIVOT or UNPIVOT, and whether the columns that
these name exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from lakesql.select.relation import (
    QueryColumn,
    Relation,
    Scope,
    Sources,
    Walk,
    offset_of,
)
from lakesql.select.resolve import check_expressions
from lakesql.stream.types import parse_type


def pivoted(pivot: exp.Pivot, name: str, relation: Relation, walk: Walk) -> Relation:
    """The relation behind a PIVOT or UNPIVOT of the relation called `name`. Adds a
    finding for each unknown name."""
    check_pivot(pivot, [(name, relation)], walk)
    columns: tuple[QueryColumn, ...] | None = None
    walk.filters |= is_unpivot(pivot) and not pivot.args.get("include_nulls")
    if is_unpivot(pivot) and relation.named is not None:
        gone = {column.name.lower() for column in _taken(pivot)}
        kept = (column for column in relation.named if column.folded not in gone)
        columns = (*kept, *_added(pivot))
    return replace(relation, columns=columns, source=None, offered=None)


def is_unpivot(pivot: exp.Pivot) -> bool:
    """Whether it is an UNPIVOT, which makes a row of each listed column; of NULL only
    with INCLUDE NULLS."""
    return bool(pivot.args.get("unpivot"))


def check_pivot(pivot: exp.Pivot, sources: Sources, walk: Walk) -> None:
    """Adds a finding for each column that a PIVOT or UNPIVOT names and that does not
    exist."""
    if is_unpivot(pivot):
        check_expressions(_taken(pivot), Scope(tuple(sources)), walk)
        return
    by = [field.this for field in pivot.fields if isinstance(field, exp.In)]
    check_expressions([*pivot.expressions, *by], Scope(tuple(sources)), walk)


def _taken(pivot: exp.Pivot) -> list[exp.Column]:
    """The columns that UNPIVOT turns into rows."""
    listed = [each for field in pivot.fields for each in field.expressions]
    return [column for each in listed for column in each.find_all(exp.Column)]


def _added(pivot: exp.Pivot) -> Iterator[QueryColumn]:
    """The columns that UNPIVOT adds: the name of the column that a row was made of, and
    its value."""
    for field in pivot.fields:
        for name in field.this.find_all(exp.Identifier):
            yield QueryColumn(name.name, offset_of(name), type=parse_type("string"))
    for value in pivot.expressions:
        for name in value.find_all(exp.Identifier):
            yield QueryColumn(name.name, offset_of(name))
