"""Mode `scd2` over streams: its options, and what they mean for the batches and the
table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, SortField, read_keys
from lakesql.model.option_effects import NEXT_BATCH, OF_SEQUENCE, OptionEffect
from lakesql.model.writing import Reads, Versions, Writing
from lakesql.modes.changing import ChangingConfig
from lakesql.modes.version_columns import (
    is_current_option,
    valid_from_option,
    valid_to_option,
    version_columns,
)
from lakesql.names import Memory
from lakesql.project.duration import Duration, parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2(ChangingConfig):
    """`mode='scd2'`: the history of each key of a stream, with a row for each
    version."""

    keys: tuple[str, ...] = option(
        "Columns that identify the row whose versions are kept; none of them may be NULL.",
        read=read_keys,
    )
    sequence_by: tuple[str, ...] = option(
        "Columns that order the changes of a key: the first one is the time from which a version is valid, further "
        "ones order changes that are equal in it. Of a change feed, '_change.ts' and '_change.position' too; the "
        "SELECT must have them.",
        read=read_keys,
    )
    track_columns: tuple[str, ...] = option(
        "Columns whose changes make a new version; all, if left out.",
        default=(),
    )
    valid_from: str = valid_from_option()
    valid_to: str = valid_to_option()
    is_current: str = is_current_option()
    tombstone_retention: Duration = option(
        "How long changes that make no version of their own, such as deletes, are remembered, so that a late change "
        "splits the history at the right place.",
        default=Duration("7 days", 604_800_000),
        read=parse_duration,
    )

    mode: ClassVar[str] = "scd2"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {
        "sequence_by": OF_SEQUENCE,
        "track_columns": OptionEffect("rebuild", "history-changed", "columns"),
        **dict.fromkeys(
            ("valid_from", "valid_to", "is_current"),
            OptionEffect("rebuild", "history-changed", "columns in order"),
        ),
        "tombstone_retention": NEXT_BATCH,
    }

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Batches keep a version for each change of a key: of the SELECT's rows, or of
        the source's rows if a change feed is read."""
        compared = {"keys": self.keys, "track_columns": self.track_columns}
        return Writing(
            mode=self.mode,
            keys=self.keys,
            sequence_by=self.sequence_by,
            not_null=() if reads.has_feed else (*self.keys, *self.sequence_by),
            compared=compared
            if reads.has_feed
            else {**compared, "sequence_by": self.sequence_by},
            added=version_columns(
                self.valid_from,
                self.valid_to,
                self.is_current,
                like=self.sequence_by[0],
            ),
            memories=self.memories,
            given="rows" if reads.has_feed else "records",
            is_positioned=not reads.has_feed,
            mixes_tables=reads.has_log,
        )

    @property
    def memories(self) -> Mapping[Memory, Duration]:
        """Deletes and changes that make no version are remembered, as a late change may
        split the history there."""
        return {"tombstones": self.tombstone_retention}

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys and the start of each version, unless a MERGE rewrites whole
        files (`order_by_key`)."""
        return self.order_by_key(*self.keys, self.valid_from)

    @property
    def versions(self) -> Versions | None:
        """The columns in which versions are distinguished; a batch computes all
        versions of its keys anew."""
        return Versions(self.track_columns)
