"""What the modes share whose SELECT reads tables alone, to which their table is made
equal when one has changed."""

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
    """Options of the modes that make a table of others.

    There are no records that could be late or bad, and a table of other columns is made
    anew with all of its rows: the options that say what becomes of these have one value
    each.
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
    reads: ClassVar[ReadsFrom] = "tables"
    is_exchanged: ClassVar[bool] = True

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """The rows of the SELECT are those of the table."""
        return Writing(mode=self.mode)
