"""Mode `append`: its options, and what they mean for the batches and the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, TIMES, TableConfig, read_keys
from lakesql.model.option_effects import NEXT_BATCH, OptionEffect
from lakesql.model.writing import Reads, Writing
from lakesql.project.duration import Duration, parse_duration

PARTITIONED_APPEND_PROPERTIES: Mapping[str, str] = {
    "write.distribution-mode": "hash",
    "write.spark.fanout.enabled": "true",
}
"""The table properties, over lakesql's defaults, for appending to a partitioned table
without a sort order. All rows of a partition go to one task, as otherwise each task
would write a file into each partition; and a task keeps the files of its partitions
open at once, as otherwise it would have to sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(TableConfig):
    """`mode='append'`: every row of the SELECT is inserted, or with `keys` the first
    row of each key."""

    keys: tuple[str, ...] = option(
        "Columns that identify a row, none of which may be NULL: a row whose key is in the table is not inserted. "
        "Every row is inserted if left out; a folder's value is not inherited.",
        default=(),
        read=read_keys,
        is_inherited=False,
    )
    within: Duration | None = option(
        "Maximum distance of two rows with the same key, in the time by which the table is partitioned, at which "
        "they are the same row ('2 days'); older rows are not searched. Unlimited if left out.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )

    @property
    def time_column(self) -> str:
        """The column by whose years, months, days or hours the table is partitioned; ''
        if there is none."""
        return next(
            (field.column for field in self.partition_by if field.transform in TIMES),
            "",
        )

    mode: ClassVar[str] = "append"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"within": NEXT_BATCH}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Batches insert rows; with keys, only those whose key is not in the table."""
        time = (self.time_column,) if self.within and self.time_column else ()
        return Writing(
            mode=self.mode,
            keys=self.keys,
            not_null=(*self.keys, *time),
            compared={"keys": self.keys, "within": time},
            is_positioned=(bool(self.keys) or reads.is_traced)
            and not reads.is_stateful,
            output_mode="append",
        )

    @property
    def default_properties(self) -> Mapping[str, str]:
        """If the table is partitioned and has no sort order, rows are distributed by
        partition (`PARTITIONED_APPEND_PROPERTIES`)."""
        return (
            PARTITIONED_APPEND_PROPERTIES
            if self.partition_by and not self.order_by
            else {}
        )
