"""Which columns a name may mean in a scope, in the order in which Spark resolves names.

First come the columns of a relation that the name is qualified by, then columns without
a qualifier, then aliases of the SELECT. The parts behind the column are fields of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakesql.names import CHANGE, KEPT_BY_ICEBERG, RECORD, RECORD_FIELDS
from lakesql.select.relation import QueryColumn, Relation, Scope
from lakesql.select.sqltext import CHANGE_NAMES
from lakesql.stream.types import UNKNOWN, struct_of

_ADDED = {
    RECORD: struct_of((name, UNKNOWN) for name in sorted(RECORD_FIELDS)),
    CHANGE: struct_of((name, UNKNOWN) for name in sorted(CHANGE_NAMES)),
}
"""The columns that lakesql adds to a stream."""


@dataclass(frozen=True, slots=True)
class NameMeaning:
    """What a name may mean. `columns` are the candidates, ambiguous if there are
    several; `used` is the number of the name's parts before fields.

    `is_known`: if there are no columns, the name certainly means nothing in this scope.
    `lacking` is the relation that the name is qualified by and that has no such column.
    """

    columns: tuple[QueryColumn, ...]
    used: int = 1
    is_known: bool = True
    lacking: tuple[str, Relation] | None = None


def find_columns(names: list[str], scope: Scope) -> NameMeaning:
    """The columns that a name may mean in a scope, given by its parts in lower case."""
    lacking: tuple[str, Relation] | None = None
    for depth in range(1, min(len(names), 4)):
        of = [
            (name, source)
            for name, source in scope.sources
            if is_called(name, source, names[:depth])
        ]
        columns, is_known = _columns_of(names[depth], of)
        if columns or not is_known:
            return NameMeaning(columns, depth + 1, is_known)
        if of and depth == 1:
            lacking = of[0]
    columns, is_known = find_unqualified(names[0], scope.sources)
    if not columns and is_known:
        columns = scope.aliases.get(names[0], ())
        is_known = not scope.is_open
    return NameMeaning(columns, 1, is_known, lacking)


def find_unqualified(
    name: str, sources: Iterable[tuple[str, Relation]]
) -> tuple[tuple[QueryColumn, ...], bool]:
    """The columns that a name without a qualifier may mean, and whether there are
    certainly no others.

    Columns that a JOIN shares by USING or NATURAL count once, on its left side.
    """
    return _columns_of(
        name,
        [(called, source) for called, source in sources if name not in source.using],
    )


def is_called(name: str, source: Relation, qualifier: list[str]) -> bool:
    """Whether a qualifier means a relation: its alias, or its name with namespace and
    catalog."""
    if len(qualifier) == 1:
        return bool(name) and name.lower() == qualifier[0]
    return list(source.path[-len(qualifier) :]) == qualifier


def _columns_of(
    name: str, sources: list[tuple[str, Relation]]
) -> tuple[tuple[QueryColumn, ...], bool]:
    columns: list[QueryColumn] = []
    is_known = True
    for _, source in sources:
        if (index := source.index) is None:
            is_known = False
        elif name in index:
            columns += index[name]
        elif name in source.added:
            columns.append(QueryColumn(name, 0, shape=_ADDED[name]))
        else:
            is_known = is_known and not _may_have(name, source)
    return tuple(columns), is_known


def _may_have(name: str, source: Relation) -> bool:
    """Whether a relation may have a column that is not in its index: one that Spark
    names, or a metadata column of Iceberg."""
    if name in KEPT_BY_ICEBERG and not source.streams:
        return True
    unnamed = (source.index or {}).get("", ())
    return any(column.is_made_up for column in unnamed) or bool(
        unnamed and not name.isidentifier()
    )
