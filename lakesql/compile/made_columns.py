"""Where the columns of a model's table come from, as values: what is kept of a model's
lineage."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.select.lineage_edges import Kind


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a node, by its id, that another one is made of; `kind` is
    OpenLineage's word for how.

    The column `*` is any that is not known; the node `table.…` is a table that is none
    of the project's.
    """

    node: str
    column: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class MadeColumn:
    """A column of a model's table, and what its value comes from."""

    name: str
    sources: tuple[SourceColumn, ...]


@dataclass(frozen=True, slots=True)
class ModelLineage:
    """The columns of a model's table, and in `rows` what decides which rows it has:
    conditions, joins, groups, keys."""

    columns: tuple[MadeColumn, ...] = ()
    rows: tuple[SourceColumn, ...] = ()
