"""What a mode means: everything that the rest of lakesql asks of it, as one value. Pure.

`build_writing` is the one place that decides it. Besides, a mode has its statements, in `compile/batch.py`. No other
module asks which mode a model has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, assert_never

from lakesql.model.config import Append, Cdc, Config, Scd2, SortField, Upsert
from lakesql.names import MARKED_AT, Memory
from lakesql.project.duration import Duration

TASK_RECORDS = 20_000
"""How many records are worth a task of their own, which writes a file of its own: so many of a topic's partition are
read in one piece, and the pieces of a large batch are spread over all cores, however few partitions the topic has."""

PARTITIONED_APPEND_PROPERTIES: Mapping[str, str] = {
    "write.distribution-mode": "hash",
    "write.spark.fanout.enabled": "true",
}
"""What goes over the table's defaults where rows are appended to partitions in no order. Each partition's rows go to
one task, or each task would write a file into each partition; and a task holds its files open side by side, or it would
sort."""

PARTITIONED_UPSERT_PROPERTIES: Mapping[str, str] = {
    "write.merge.distribution-mode": "hash",
}
"""The same where rows are merged, which are sorted by their key anyway."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An option that does not go with another one, and what is wrong."""

    option: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that the table has beside those of the SELECT: of a type, or of that of a word of `sequence_by`.

    `option` is the one for which it is there.
    """

    option: str
    name: str
    comment: str
    type: str = ""
    like: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How a model's batches change its table.

    `mode` is its word. `keys` identify a row, and `sequence_by` says which of two rows of a key is newer; both are
    empty where rows are not told apart. `not_null` are the columns without which a row is a dead letter. `compared`
    are the table's columns that a batch compares its rows with, by the option that names them; `conditions` the
    options that are conditions on a row of the SELECT, and `match_conditions` those on it as `source` and on the stored
    row as `target`. `updated` are the columns that an update of a row sets or leaves, by the option that names them;
    `needs_columns` is the option for which the SELECT's columns must be known, '' if none is. `contradictions` say what
    is wrong between options, and `update_notes` what a reviewer must know of updates. `order_by` and `properties` are
    the table's where its model says nothing else.
    """

    mode: str
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    match_conditions: Mapping[str, str] = field(default_factory=dict)
    updated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_columns: str = ""
    contradictions: tuple[Contradiction, ...] = ()
    update_notes: tuple[str, ...] = ()
    order_by: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    is_positioned: bool
    """Whether each row carries the position of the record it comes from: where arrival decides between rows, or its
    record may become a dead letter."""
    keeps_first: bool = False
    """Whether the first row of a key stays as it is, and no other one is added."""
    is_mirror: bool = False
    """Whether the SELECT is given the rows that a change feed leaves, and a key for which it makes none is deleted."""
    mixes_tables: bool = False
    """Whether changes of two tables of a database that have one key would be taken for those of one row."""
    is_history: bool = False
    """Whether each version of a row is a row of the table. Changes of a key are told apart by `sequence_by`."""
    tracks_all: bool = False
    """Whether any column of the SELECT that differs makes a version."""
    added: tuple[AddedColumn, ...] = ()
    memories: Mapping[Memory, Duration] = field(default_factory=dict)
    """What batches remember for those after them, each in a table of its own, and for how long."""
    marks_deletes: bool = False
    """Whether a row of a mirror that its source deletes stays, marked."""
    max_delete_ratio: float = 1.0
    """The share of the table's rows that a batch may delete."""
    takes_tombstones: bool = False
    """Whether a record without a value deletes the row of its key: where `keys` are the key of the one topic read."""
    takes_truncates: bool = True
    """Whether a truncate of what is mirrored empties the table; otherwise it fails the batch."""
    output_mode: Literal["append", "update"]
    """Spark's output mode of a stateful SELECT: each row once, when it cannot change any more, or at each change."""
    can_replay: bool
    """Whether a staged batch may be published on top of a foreign commit without computing it again."""
    is_idempotent: bool
    """Whether reading the streams again leaves each row once."""
    can_be_streamed: bool
    """Whether other models may read the table as a stream: Iceberg streams the snapshots that only append."""
    empty_when: Literal["no rows added", "no rows arrived"]
    """How a staged batch that changed nothing is known. One that updates or deletes adds no rows either."""

    @property
    def retention(self) -> Duration | None:
        """How long deleted keys are remembered, so that an older row does not bring one back; None where none are."""
        return self.memories.get("tombstones")

    @property
    def is_changing(self) -> bool:
        """Whether a batch changes rows that are in the table."""
        return bool(self.keys) and not self.keeps_first

    @property
    def has_positions(self) -> bool:
        """Whether the records are told apart by their arrival."""
        return self.is_positioned or self.is_mirror


def build_writing(
    config: Config,
    is_stateful: bool = False,
    reads_feed: bool = False,
    key_columns: Mapping[str, str] = MappingProxyType({}),
    is_traced: bool = False,
) -> Writing:
    """What the mode of `config` means for a SELECT that keeps state between batches, or does not, and that reads a
    change feed, or does not. `key_columns` are those of the SELECT, in small letters, that are columns of the key of
    the one topic that it reads; none where it has not all of these. `is_traced`: the record behind a row must be found,
    whatever the mode."""
    match config:
        case Append(keys=keys):
            spreads = config.partition_by and not config.order_by
            time = (config.time_column,) if config.within and config.time_column else ()
            return Writing(
                mode="append",
                keys=keys,
                not_null=(*keys, *time),
                compared={"keys": keys, "within": time},
                contradictions=tuple(_find_unbounded(config)),
                update_notes=(_note_first(config),) if keys else (),
                properties=PARTITIONED_APPEND_PROPERTIES if spreads else {},
                is_positioned=(bool(keys) or is_traced) and not is_stateful,
                keeps_first=bool(keys),
                output_mode="append",
                can_replay=not keys,
                is_idempotent=bool(keys),
                can_be_streamed=True,
                empty_when="no rows added",
            )
        case Upsert(keys=keys, sequence_by=sequence_by, delete_when=delete_when):
            by_key = sorted(key_columns.get(key.lower(), "") for key in keys)
            takes_tombstones = not is_stateful and bool(key_columns) and by_key == sorted({*key_columns.values()})
            deletes = bool(delete_when) or takes_tombstones
            updated = {"update_columns": config.update_columns or (), "exclude_columns": config.exclude_columns}
            by_column = {
                "update_columns": config.update_columns is not None,
                "exclude_columns": bool(config.exclude_columns),
                "ignore_null_updates": config.ignore_null_updates,
            }
            return Writing(
                mode="upsert",
                keys=keys,
                sequence_by=sequence_by,
                not_null=(*keys, *sequence_by),
                compared={"keys": keys, "sequence_by": sequence_by},
                conditions={"delete_when": delete_when} if delete_when else {},
                match_conditions={"when_matched": config.when_matched} if config.when_matched else {},
                updated=updated,
                needs_columns=next((option for option, is_given in by_column.items() if is_given), ""),
                contradictions=tuple(_find_contradictions(config, deletes)),
                update_notes=tuple(_note_updates(config)),
                order_by=_order(config, *keys),
                properties=PARTITIONED_UPSERT_PROPERTIES if config.partition_by else {},
                is_positioned=not is_stateful,
                takes_tombstones=takes_tombstones,
                mixes_tables=reads_feed and not is_stateful,
                max_delete_ratio=config.max_delete_ratio if deletes else 1.0,
                memories=memories_of(config) if deletes else {},
                output_mode="update",
                can_replay=False,
                is_idempotent=True,
                can_be_streamed=False,
                empty_when="no rows arrived",
            )
        case Cdc(keys=keys, sequence_by=sequence_by, on_truncate=on_truncate):
            marks_deletes = config.apply_deletes == "soft"
            marked_at = AddedColumn(
                "apply_deletes", MARKED_AT, "When the source deleted the row; NULL while it has it.", "timestamp"
            )
            return Writing(
                mode="cdc",
                keys=keys,
                sequence_by=sequence_by,
                compared={"keys": keys},
                contradictions=tuple(_find_keys_in_sequence(config)),
                order_by=_order(config, *keys),
                properties=PARTITIONED_UPSERT_PROPERTIES if config.partition_by else {},
                is_positioned=False,
                is_mirror=True,
                mixes_tables=True,
                added=(marked_at,) if marks_deletes else (),
                memories=memories_of(config),
                marks_deletes=marks_deletes,
                max_delete_ratio=config.max_delete_ratio,
                takes_truncates=on_truncate == "apply",
                output_mode="update",
                can_replay=False,
                is_idempotent=True,
                can_be_streamed=False,
                empty_when="no rows arrived",
            )
        case Scd2(keys=keys, sequence_by=sequence_by):
            compared = {"keys": keys, "track_columns": config.track_columns}
            return Writing(
                mode="scd2",
                keys=keys,
                sequence_by=sequence_by,
                not_null=() if reads_feed else (*keys, *sequence_by),
                compared=compared if reads_feed else {**compared, "sequence_by": sequence_by},
                needs_columns="mode",
                contradictions=tuple(_find_keys_in_sequence(config)),
                added=(
                    AddedColumn(
                        "valid_from", config.valid_from, "From when this version is valid.", like=sequence_by[0]
                    ),
                    AddedColumn(
                        "valid_to",
                        config.valid_to,
                        "Until when it was valid, exclusively; NULL while it is.",
                        like=sequence_by[0],
                    ),
                    AddedColumn("is_current", config.is_current, "Whether it still is valid.", "boolean"),
                ),
                order_by=_order(config, *keys, config.valid_from),
                properties=PARTITIONED_UPSERT_PROPERTIES if config.partition_by else {},
                is_positioned=not reads_feed,
                is_mirror=reads_feed,
                mixes_tables=reads_feed,
                is_history=True,
                tracks_all=not config.track_columns,
                memories=memories_of(config),
                takes_truncates=False,
                output_mode="update",
                can_replay=False,
                is_idempotent=True,
                can_be_streamed=False,
                empty_when="no rows arrived",
            )
        case _:
            assert_never(config)


def _order(config: Config, *columns: str) -> tuple[SortField, ...]:
    """How files of a keyed table are ordered, so that what looks for some keys reads few of them. Those that a MERGE
    writes anew are not: it would sort all rows of each, for a batch that changes some."""
    return () if config.rewrites_files else tuple(map(SortField, columns))


def memories_of(config: Config) -> Mapping[Memory, Duration]:
    """What batches of such a model may remember, and for how long: an upsert if it deletes, as its SELECT tells too."""
    match config:
        case Upsert(sequence_by=sequence_by, tombstone_retention=retention):
            return {"tombstones": retention} if sequence_by else {}
        case Cdc(sequence_by=sequence_by, tombstone_retention=retention):
            return {"tombstones": retention, "moves": retention} if sequence_by else {"moves": retention}
        case Scd2(tombstone_retention=retention):
            return {"tombstones": retention}
        case _:
            return {}


def _find_unbounded(config: Append) -> Iterator[Contradiction]:
    if config.within and not config.keys:
        yield Contradiction("within", "within is given, and no keys.", "Without keys every row is added.")
    if config.within and not config.time_column:
        what = "within is given, and the table is not partitioned by a time."
        yield Contradiction("within", what, "It bounds by this time which of the table's rows are looked at.")


def _note_first(config: Append) -> str:
    """What becomes of a row whose key is in the table."""
    near = f", within {config.within.text} of its {config.time_column}" if config.within else ""
    return f"none; a row whose key is in the table{near} is not inserted"


def _find_contradictions(config: Upsert, deletes: bool) -> Iterator[Contradiction]:
    if config.max_delete_ratio < 1 and not deletes:
        what = "max_delete_ratio is given, and nothing is deleted."
        why = "There is no delete_when, and the keys are not the key of one topic, whose tombstones would delete."
        yield Contradiction("max_delete_ratio", what, why)
    if config.update_columns is not None and config.exclude_columns:
        what = "update_columns and exclude_columns are both given."
        yield Contradiction("exclude_columns", what, "Each says which columns are updated, one by naming the others.")
    for key in _common(config.keys, config.update_columns or ()):
        what = f"'{key}' is in keys and in update_columns."
        yield Contradiction("update_columns", what, "A row is found by its keys: they are equal already.")
    yield from _find_keys_in_sequence(config)
    option = "update_columns" if config.update_columns is not None else "exclude_columns"
    for column in config.sequence_by:
        if _common((column,), config.keys) or is_updated(config, column):
            continue
        yield Contradiction(
            option,
            f"'{column}' is in sequence_by, and {option} leaves it as it is stored.",
            "An update by a newer row would keep the older row's place in the sequence, and older rows win later.",
        )


def _find_keys_in_sequence(config: Upsert | Cdc | Scd2) -> Iterator[Contradiction]:
    for key in _common(config.keys, config.sequence_by):
        what = f"'{key}' is in keys and in sequence_by."
        yield Contradiction("sequence_by", what, "All changes of a row have the same key: it orders none of them.")


def is_updated(config: Upsert, column: str) -> bool:
    """Whether an update of a stored row sets this column. Capitals make no difference."""
    if _common((column,), (*config.keys, *config.exclude_columns)):
        return False
    return config.update_columns is None or bool(_common((column,), config.update_columns))


def _common(columns: Iterable[str], others: Iterable[str]) -> list[str]:
    lowered = {other.lower() for other in others}
    return [column for column in columns if column.lower() in lowered]


def _note_updates(config: Upsert) -> Iterator[str]:
    """What an update of a stored row does besides setting each of its columns."""
    if config.update_columns is not None:
        columns = ", ".join(config.update_columns)
        yield f"a stored row gets {columns}" if columns else "none; a row whose key is in the table changes nothing"
    if config.exclude_columns:
        yield f"a stored row keeps {', '.join(config.exclude_columns)}"
    if config.ignore_null_updates:
        yield "a NULL leaves the stored value"
    if config.when_matched:
        yield (
            "a stored row is updated only where when_matched holds for it and the newest row of a batch, so that rows "
            "may depend on where a batch ends"
        )
