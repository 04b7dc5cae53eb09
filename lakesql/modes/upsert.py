"""Mode `upsert`: its options, and what they mean for the batches and the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import (
    MAX_DELETE_RATIO,
    NOTHING_KNOWN,
    TOMBSTONE_RETENTION,
    SortField,
    read_columns,
    read_keys,
    read_ratio,
)
from lakesql.model.option_effects import (
    NEXT_BATCH,
    OF_COLUMNS,
    OF_CONDITION,
    OF_SEQUENCE,
    OptionEffect,
)
from lakesql.model.writing import Reads, Writing
from lakesql.modes.changing import ChangingConfig
from lakesql.names import Memory
from lakesql.project.duration import Duration, parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(ChangingConfig):
    """`mode='upsert'`: one row a key, the newest."""

    keys: tuple[str, ...] = option(
        "Columns that identify a row; none of them may be NULL.", read=read_keys
    )
    sequence_by: tuple[str, ...] = option(
        "Columns that decide which of two rows of a key is newer; order of arrival if left out.",
        default=(),
        read=read_columns,
    )
    delete_when: str = option(
        "Condition on a row, in SQL; a row for which it is true deletes its key.",
        default="",
    )
    tombstone_retention: Duration = option(
        TOMBSTONE_RETENTION,
        default=Duration("7 days", 604_800_000),
        read=parse_duration,
    )
    max_delete_ratio: float = option(MAX_DELETE_RATIO, default=1.0, read=read_ratio)
    update_columns: tuple[str, ...] | None = option(
        "Columns that an update of a stored row sets; they must include those of `sequence_by`. All, if left out; an "
        "inserted row always gets all.",
        default=None,
    )
    exclude_columns: tuple[str, ...] = option(
        "Columns that an update of a stored row does not set; refused beside `update_columns`.",
        default=(),
    )
    when_matched: str = option(
        "Condition on `source` (the arriving row) and `target` (the stored row): the stored row is updated only if "
        "it is true. It does not affect inserts and deletes.",
        default="",
    )
    ignore_null_updates: bool = option(
        "Whether a NULL in an arriving row leaves the stored value as it is.",
        default=False,
    )

    mode: ClassVar[str] = "upsert"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {
        "sequence_by": OF_SEQUENCE,
        **dict.fromkeys(
            ("tombstone_retention", "max_delete_ratio", "ignore_null_updates"),
            NEXT_BATCH,
        ),
        **dict.fromkeys(("update_columns", "exclude_columns"), OF_COLUMNS),
        **dict.fromkeys(("delete_when", "when_matched"), OF_CONDITION),
    }

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Batches update or insert the newest row of each key, or delete its key."""
        takes_tombstones = self._finds_rows_by(reads)
        deletes = bool(self.delete_when) or takes_tombstones
        return Writing(
            mode=self.mode,
            keys=self.keys,
            sequence_by=self.sequence_by,
            not_null=(*self.keys, *self.sequence_by),
            compared={"keys": self.keys, "sequence_by": self.sequence_by},
            conditions={"delete_when": self.delete_when} if self.delete_when else {},
            match_conditions={"when_matched": self.when_matched}
            if self.when_matched
            else {},
            memories=self.memories if deletes else {},
            is_positioned=not reads.is_stateful,
            tombstones="delete" if takes_tombstones else "",
            mixes_tables=reads.has_log and not reads.is_stateful,
        )

    def _finds_rows_by(self, reads: Reads) -> bool:
        """Whether `keys` are the key of the records, so that a record without a value
        identifies the row that it deletes."""
        if reads.is_stateful or not reads.key_columns:
            return False
        by_key = sorted(reads.key_columns.get(key.lower(), "") for key in self.keys)
        return by_key == sorted({*reads.key_columns.values()})

    @property
    def memories(self) -> Mapping[Memory, Duration]:
        """Deleted keys are remembered if `sequence_by` tells which rows are older."""
        return {"tombstones": self.tombstone_retention} if self.sequence_by else {}

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys, unless a MERGE rewrites whole files (`order_by_key`)."""
        return self.order_by_key(*self.keys)
