"""What the modes share that change rows of the table: options, properties, and what
their tables need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakesql.decode import option
from lakesql.model.config import MAINTAINED, SortField, TableConfig
from lakesql.project.procedures import (
    Maintenance,
    changing_maintenance,
    read_changing_maintenance,
)

PARTITIONED_MERGE_PROPERTIES: Mapping[str, str] = {
    "write.merge.distribution-mode": "hash",
}
"""What goes over the table's defaults where rows are merged into partitions: each
partition's rows go to one task, or each task would write a file into each partition.
They are sorted by their key anyway."""

REPLACED = 0.5
"""The share of a batch's rows that are assumed to replace rows of the table, where no
table says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingConfig(TableConfig):
    """Options of the modes that change rows."""

    maintenance: Maintenance = option(
        MAINTAINED,
        factory=partial(changing_maintenance, Maintenance()),
        read=read_changing_maintenance,
    )

    @property
    def default_properties(self) -> Mapping[str, str]:
        """Rows are brought together by their partitions, if there are any."""
        return PARTITIONED_MERGE_PROPERTIES if self.partition_by else {}

    @property
    def usual_maintenance(self) -> Maintenance:
        """Deletes beside the data are rewritten too."""
        return changing_maintenance(Maintenance())

    @property
    def replaced_ratio(self) -> float:
        """Some rows are new."""
        return REPLACED

    @property
    def changes_rows(self) -> bool:
        """Rows are updated and deleted."""
        return True

    def order_by_key(self, *columns: str) -> tuple[SortField, ...]:
        """How files of a keyed table are ordered, so that what looks for some keys
        reads few of them. Those that a MERGE writes anew are not: it would sort all
        rows of each, for a batch that changes some."""
        return () if self.rewrites_files else tuple(map(SortField, columns))
