"""What the modes that change rows have in common: options, table properties, sort order
and maintenance."""

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
"""The table properties, over lakesql's defaults, for merging into a partitioned table:
all rows of a partition go to one task, as otherwise each task would write a file into
each partition. The rows are sorted by their key anyway."""

REPLACED = 0.5
"""The share of a batch's rows that are assumed to replace rows of the table, if there
is no table to measure it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingConfig(TableConfig):
    """The options of the modes that change rows."""

    maintenance: Maintenance = option(
        MAINTAINED,
        factory=partial(changing_maintenance, Maintenance()),
        read=read_changing_maintenance,
    )

    @property
    def default_properties(self) -> Mapping[str, str]:
        """If the table is partitioned, rows are distributed by partition
        (`PARTITIONED_MERGE_PROPERTIES`)."""
        return PARTITIONED_MERGE_PROPERTIES if self.partition_by else {}

    @property
    def usual_maintenance(self) -> Maintenance:
        """Rewrites are due at fewer small files than in other modes."""
        return changing_maintenance(Maintenance())

    @property
    def replaced_ratio(self) -> float:
        """The assumed share of rows that replace stored ones; the others are new."""
        return REPLACED

    @property
    def changes_rows(self) -> bool:
        """Rows are updated and deleted."""
        return True

    def order_by_key(self, *columns: str) -> tuple[SortField, ...]:
        """The sort order by these columns, so that a search for some keys reads few
        files. None if a MERGE rewrites whole files, as it would sort all rows of each
        file for a batch that changes a few."""
        return () if self.rewrites_files else tuple(map(SortField, columns))
