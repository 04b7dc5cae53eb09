"""The present state of a table as values, which a plan compares with its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column of a table. `type` is a `stream.types.stored_type`; a `required` one
    accepts no NULL."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class TableState:
    """A table by its newest metadata.

    `properties` include `format-version`. `ledger_models` are the models with a ledger
    entry in any snapshot that the table still has. `is_unwritten`: it has no snapshot
    yet. `was_partitioned_by` are the columns of all partition specs that it has had,
    `lost_partitions` the partition fields among them whose columns no longer exist.
    """

    name: TableName
    columns: tuple[StateColumn, ...]
    partition_by: tuple[PartitionField, ...]
    order_by: tuple[SortField, ...]
    properties: Mapping[str, str]
    ledger_models: frozenset[str]
    is_unwritten: bool = False
    was_partitioned_by: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
