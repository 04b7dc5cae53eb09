"""What the modes share whose SELECT reads tables alone, to which their table is made equal when one has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from lakesql.decode import option
from lakesql.model.config import (
    MAINTAINED,
    NOTHING_KNOWN,
    Late,
    OnChange,
    SchemaChange,
    TableConfig,
    Trigger,
    read_refresh_trigger,
)
from lakesql.model.writing import Reads, Writing
from lakesql.modes.changing import PARTITIONED_MERGE_PROPERTIES
from lakesql.project.procedures import Maintenance, changing_maintenance, read_changing_maintenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed(TableConfig):
    """Options of the modes that make a table of others.

    There are no records that could be late or bad, and a table of other columns is made anew with all of its rows: the
    options that say what becomes of these have one value each.
    """

    trigger: Trigger | None = option(
        "When a continuous run refreshes the table: 'on change', as soon as a table that it reads has changed, or how "
        "often it looks whether one has ('10 minutes'). `available_now`: once, and ends.",
        default=OnChange(),
        read=read_refresh_trigger,
        is_inherited=False,
    )
    on_schema_change: SchemaChange = field(default="sync_all_columns", init=False)
    max_dead_letter_ratio: float = field(default=1.0, init=False)
    late: Late = field(default="count", init=False)
    maintenance: Maintenance = option(
        MAINTAINED, factory=partial(changing_maintenance, Maintenance()), read=read_changing_maintenance
    )

    reads: ClassVar[Literal["streams", "tables"]] = "tables"

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """The rows of the SELECT are those of the table."""
        return Writing(mode=self.mode)

    @property
    def default_properties(self) -> Mapping[str, str]:
        """Rows are brought together by their partitions, if there are any."""
        return PARTITIONED_MERGE_PROPERTIES if self.partition_by else {}

    @property
    def usual_maintenance(self) -> Maintenance:
        """Deletes beside the data are rewritten too."""
        return changing_maintenance(Maintenance())

    @property
    def why_not_streamed(self) -> str:
        """A refresh changes rows."""
        return "a refresh updates and deletes rows"
