"""Mode `view`: a SELECT over tables as a view of the catalog, without stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lakesql.model.config import (
    NOTHING_KNOWN,
    Late,
    OnChange,
    PartitionField,
    ReadsFrom,
    SchemaChange,
    SortField,
    TableConfig,
    Trigger,
)
from lakesql.model.writing import Reads, Writing
from lakesql.modes.whole_table import WholeTable
from lakesql.project.procedures import Maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class View(TableConfig):
    """`mode='view'`: the rows of the SELECT, computed when the view is read.

    Only the view itself is written, when its SELECT has changed: the options of tables
    and batches cannot be set.
    """

    trigger: Trigger | None = field(default=OnChange(), init=False)
    partition_by: tuple[PartitionField, ...] = field(default=(), init=False)
    order_by: tuple[SortField, ...] = field(default=(), init=False)
    properties: Mapping[str, str] = field(default_factory=dict, init=False)
    on_schema_change: SchemaChange = field(default="sync_all_columns", init=False)
    max_dead_letter_ratio: float = field(default=1.0, init=False)
    late: Late = field(default="count", init=False)
    maintenance: Maintenance = field(default_factory=Maintenance, init=False)

    mode: ClassVar[str] = "view"
    reads: ClassVar[ReadsFrom] = "tables"
    is_stored: ClassVar[bool] = False

    def as_stored(self) -> TableConfig:
        """The options of mode `table`, whose table has the same rows."""
        return WholeTable(
            namespace=self.namespace, table=self.table, tags=self.tags, meta=self.meta
        )

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Nothing is written: the view has no rows of its own."""
        return Writing(mode=self.mode)
