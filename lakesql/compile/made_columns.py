"""The lineage of a model's table as values, which are kept with the compiled model."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.select.lineage_edges import Kind


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a node, given by its id, from which another column is made; `kind` is
    OpenLineage's word for how.

    The column `*` is any unknown column; a node `table.…` is a table outside the
    project.
    """

    node: str
    column: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class MadeColumn:
    """A column of a model's table, and the columns from which its value is made."""

    name: str
    sources: tuple[SourceColumn, ...]


@dataclass(frozen=True, slots=True)
class ModelLineage:
    """The columns of a model's table, and in `rows` what decides which rows it has:
    conditions, joins, groups, keys."""

    columns: tuple[MadeColumn, ...] = ()
    rows: tuple[SourceColumn, ...] = ()
