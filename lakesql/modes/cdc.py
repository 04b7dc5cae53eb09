"""Mode `cdc`: its options, and what they mean for the batches and the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

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
from lakesql.model.option_effects import NEXT_BATCH, OF_SEQUENCE, OptionEffect
from lakesql.model.writing import AddedColumn, Reads, Writing
from lakesql.modes.changing import ChangingConfig
from lakesql.names import MARKED_AT, Memory
from lakesql.project.duration import Duration, parse_duration

_MARKED_AT = AddedColumn(
    "apply_deletes",
    MARKED_AT,
    "When the source deleted the row; NULL while it has it.",
    "timestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdc(ChangingConfig):
    """`mode='cdc'`: the SELECT over the rows that a database's table has now, kept up
    to date by its change feed."""

    keys: tuple[str, ...] = option(
        "The columns of the SELECT that are the stream's `key`.", read=read_keys
    )
    sequence_by: tuple[str, ...] = option(
        "What decides which of two changes is newer: '_change.position', the position in the database's log, or "
        "columns of the feed; the SELECT must have them. Order of arrival if left out.",
        default=(),
        read=read_columns,
    )
    tombstone_retention: Duration = option(
        f"{TOMBSTONE_RETENTION} A change of a key whose transaction continues in a later batch is remembered as long.",
        default=Duration("7 days", 604_800_000),
        read=parse_duration,
    )
    max_delete_ratio: float = option(MAX_DELETE_RATIO, default=1.0, read=read_ratio)
    apply_deletes: Literal["hard", "soft"] = option(
        "What happens to a row that the source deletes: `hard` deletes it from the table; `soft` keeps it, with the "
        "time of the delete in the column `_deleted_at`, which is NULL in all other rows.",
        default="hard",
    )
    on_truncate: Literal["apply", "fail"] = option(
        "What a truncate of the source table does: `apply` empties the table, `fail` stops the model before that "
        "batch.",
        default="apply",
    )

    mode: ClassVar[str] = "cdc"
    needs_changes: ClassVar[bool] = True
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {
        "sequence_by": OF_SEQUENCE,
        **dict.fromkeys(
            ("tombstone_retention", "max_delete_ratio", "apply_deletes", "on_truncate"),
            NEXT_BATCH,
        ),
    }

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Batches keep the table equal to the SELECT over the source's rows: a key for
        which it makes no row is deleted, or marked as deleted."""
        return Writing(
            mode=self.mode,
            keys=self.keys,
            sequence_by=self.sequence_by,
            compared={"keys": self.keys},
            added=(_MARKED_AT,) if self.marks else (),
            memories=self.memories if reads.has_log else self._tombstones,
            given="rows",
            unsent="stored" if reads.has_log else "dead letter",
            mixes_tables=reads.has_log,
            deletes="soft" if self.marks else "",
        )

    @property
    def marks(self) -> bool:
        """Whether a row that the source deletes stays, marked as deleted."""
        return self.apply_deletes == "soft"

    @property
    def memories(self) -> Mapping[Memory, Duration]:
        """Key changes whose transactions may continue in a later batch are remembered,
        and, if `sequence_by` tells which changes are older, deleted keys."""
        return {**self._tombstones, "moves": self.tombstone_retention}

    @property
    def _tombstones(self) -> Mapping[Memory, Duration]:
        return {"tombstones": self.tombstone_retention} if self.sequence_by else {}

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys, unless a MERGE rewrites whole files (`order_by_key`)."""
        return self.order_by_key(*self.keys)
