"""What the modes over tables have in common: their table is refreshed when a table that
the SELECT reads has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import (
    NOTHING_KNOWN,
    Late,
    OnChange,
    ReadsFrom,
    SchemaChange,
    Trigger,
    read_refresh_trigger,
)
from lakesql.model.writing import Reads, Writing
from lakesql.modes.changing import ChangingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed(ChangingConfig):
    """The options of the modes over tables.

    No record can be late or bad, and a table whose columns change is computed anew with
    all rows: so the options about these cannot be set.
    """

    trigger: Trigger | None = option(
        "When a continuous run refreshes the table: 'on change', as soon as a table that it reads has changed, or an "
        "interval at which changes are looked for ('10 minutes'). `available_now`: the model is refreshed once and "
        "ends.",
        default=OnChange(),
        read=read_refresh_trigger,
        is_inherited=False,
    )
    on_schema_change: SchemaChange = field(default="sync_all_columns", init=False)
    max_dead_letter_ratio: float = field(default=1.0, init=False)
    late: Late = field(default="count", init=False)
    reads: ClassVar[ReadsFrom] = "tables"
    is_exchanged: ClassVar[bool] = True

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Refreshes keep the table equal to the SELECT."""
        return Writing(mode=self.mode)
