"""What a table is like at this moment, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column that a table has. `type` is a `stream.types.stored_type`; a `required`
    one takes no NULL."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as its newest metadata says.

    `properties` hold `format-version` too. `ledger_models` are the models that have a
    ledger entry in any snapshot which the table still has. `is_unwritten`: no row has
    ever stood in it. `was_partitioned_by` are the columns of all partition specs that
    it has had, `lost_partitions` the partition fields of these whose columns are gone.
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
