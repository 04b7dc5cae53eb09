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
"""What goes over the table's defaults where rows are appended to partitions in no
order. Each partition's rows go to one task, or each task would write a file into each
partition; and a task holds its files open side by side, or it would sort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(TableConfig):
    """`mode='append'`: every row of the SELECT is inserted, or with `keys` the first
    one of each key."""

    keys: tuple[str, ...] = option(
        "Columns that identify a row, none of which may be NULL: a row whose key is in the table is not inserted. They "
        "are no default of a folder. Every row is inserted, if left out.",
        default=(),
        read=read_keys,
        is_inherited=False,
    )
    within: Duration | None = option(
        "How far two rows of a key lie apart at most, in the time by which the table is partitioned, to be the same "
        "row ('2 days'); no older rows are looked at. However far, if left out.",
        default=None,
        read=parse_duration,
        is_inherited=False,
    )

    @property
    def time_column(self) -> str:
        """The column by whose time the table is partitioned; '' where it is not."""
        return next(
            (field.column for field in self.partition_by if field.transform in TIMES),
            "",
        )

    mode: ClassVar[str] = "append"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"within": NEXT_BATCH}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Rows are added, those alone whose key is not there where there are keys."""
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
        """Rows that come in no order are brought together by their partitions, if there
        are any."""
        return (
            PARTITIONED_APPEND_PROPERTIES
            if self.partition_by and not self.order_by
            else {}
        )
