"""Mode `scd2` over tables: its options, and what they mean for the refreshes and the
table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, SchemaChange, SortField, read_keys
from lakesql.model.option_effects import NEXT_BATCH, OF_COLUMNS, OptionEffect
from lakesql.model.writing import Reads, Versions, Writing
from lakesql.modes.refreshed import Refreshed
from lakesql.modes.version_columns import (
    is_current_option,
    valid_from_option,
    valid_to_option,
    version_columns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2OfTables(Refreshed):
    """`mode='scd2'`: the history of each row of a SELECT over tables, with a row for
    each version.

    The former states of the tables are stored nowhere else, so the history's rows are
    never computed anew: columns are added and dropped as in the table of a stream.
    """

    keys: tuple[str, ...] = option(
        "Columns of the SELECT that identify the row whose versions are kept; they may be NULL.",
        read=read_keys,
    )
    track_columns: tuple[str, ...] = option(
        "Columns whose changes make a new version; all, if left out.",
        default=(),
    )
    valid_from: str = valid_from_option()
    valid_to: str = valid_to_option()
    is_current: str = is_current_option()
    on_schema_change: SchemaChange = option(
        "What happens if the columns of the SELECT and of the table differ: `append_new_columns` adds and widens "
        "columns, `sync_all_columns` also drops those that the SELECT lacks, `ignore` leaves the table as it is, "
        "`fail` is an error.",
        default="append_new_columns",
    )

    mode: ClassVar[str] = "scd2"
    is_exchanged: ClassVar[bool] = False
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {
        "track_columns": OF_COLUMNS,
        **dict.fromkeys(("valid_from", "valid_to", "is_current"), NEXT_BATCH),
    }

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Refreshes add a version for each row that differs from the current version of
        its key."""
        return Writing(
            mode=self.mode,
            keys=self.keys,
            compared={"keys": self.keys, "track_columns": self.track_columns},
            added=version_columns(
                self.valid_from, self.valid_to, self.is_current, time_type="timestamp"
            ),
        )

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys and the start of each version, unless a MERGE rewrites whole
        files (`order_by_key`)."""
        return self.order_by_key(*self.keys, self.valid_from)

    @property
    def versions(self) -> Versions | None:
        """The columns in which versions are distinguished; a version that has ended
        never changes."""
        return Versions(self.track_columns, are_final=True)
