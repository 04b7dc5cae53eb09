"""Which columns a name may mean in a scope, in the order in which Spark looks for them.

First come the columns of a relation that qualifies the name, then columns without a
qualifier, then aliases of the SELECT; what follows the column are fields of it.
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
"""The columns that a stream has beside its own."""


@dataclass(frozen=True, slots=True)
class NameMeaning:
    """What a name may mean: `columns`, of which more than one leave it in doubt, and so
    many parts of it before fields.

    `is_known`: without columns, it surely means nothing in this scope. `lacking` is the
    relation that it is said to be a column of, which has no such column.
    """

    columns: tuple[QueryColumn, ...]
    used: int = 1
    is_known: bool = True
    lacking: tuple[str, Relation] | None = None


def find_columns(names: list[str], scope: Scope) -> NameMeaning:
    """What a name of these parts, in small letters, may mean in a scope."""
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
    surely no others.

    What a JOIN has by name it has once, on its left.
    """
    return _columns_of(
        name,
        [(called, source) for called, source in sources if name not in source.using],
    )


def is_called(name: str, source: Relation, qualifier: list[str]) -> bool:
    """Whether a qualifier is that of a relation: its alias, or what it is called by its
    namespace and catalog."""
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
    """Whether a relation may have a column of a name that it is not known for: one that
    Spark makes up, or one of Iceberg's."""
    if name in KEPT_BY_ICEBERG and not source.streams:
        return True
    unnamed = (source.index or {}).get("", ())
    return any(column.is_made_up for column in unnamed) or bool(
        unnamed and not name.isidentifier()
    )
