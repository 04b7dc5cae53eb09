"""How the batches of a SELECT write their table in its mode, as one value (`Writing`),
and what a mode must know of the SELECT for that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesql.names import Memory
from lakesql.project.duration import Duration

TASK_RECORDS = 20_000
"""The number of records of a partition that one of Spark's tasks reads, so that a large
batch uses all cores, however few partitions the topic has. Each task writes a file of
its own, so a smaller number would make small files."""

Deletes = Literal["", "soft"]
"""What happens to rows that the source deletes: they are deleted from the table (''),
or stay in it, marked as deleted (`soft`)."""


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that the table has in addition to those of the SELECT, for the given
    `option`. It has a `type`, or the type of the column `like` of `sequence_by`.
    """

    option: str
    name: str
    comment: str
    type: str = ""
    like: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """How the versions of a key are distinguished in a history: by the `tracked`
    columns, or by all if it is empty.

    `are_final`: a version that has ended never changes again. Otherwise a batch
    computes all versions of its keys anew.
    """

    tracked: tuple[str, ...] = ()
    are_final: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """What a mode must know of a SELECT: whether it keeps state between batches,
    whether it reads a change feed, whether that comes from a database's log
    (`has_log`), and whether each row must carry the position of its record whatever the
    mode (`is_traced`).

    `key_columns` has the columns of the SELECT, in lower case, that are columns of the
    record's key, with the names of these; empty if the SELECT does not read exactly one
    topic or lacks one of them.
    """

    is_stateful: bool = False
    has_feed: bool = False
    has_log: bool = False
    key_columns: Mapping[str, str] = field(default_factory=dict)
    is_traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How the batches of a SELECT write their table.

    `mode` is the mode's name. `keys` identify a row: with keys, reading the streams
    again makes no duplicates. `sequence_by` decides which of two rows of a key is
    newer. A row with NULL in one of the columns `not_null` is a dead letter. `compared`
    has the table's columns with which a batch compares its rows, by the option that
    names them. `conditions` has the options that are conditions on a row of the SELECT;
    `match_conditions` has those on that row as `source` and the stored one as `target`.
    `added` are the columns that the table has in addition to those of the SELECT.
    """

    mode: str
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    match_conditions: Mapping[str, str] = field(default_factory=dict)
    added: tuple[AddedColumn, ...] = ()
    memories: Mapping[Memory, Duration] = field(default_factory=dict)
    """What batches remember for later ones (deleted keys, key changes), each in a table
    of its own, and for how long."""
    given: Literal["records", "rows"] = "records"
    """What the SELECT reads: the records of its streams, or the rows that the changes
    of its one change feed leave."""
    unsent: Literal["dead letter", "stored"] = "dead letter"
    """What happens to a change with columns missing in the change event: it is a dead
    letter, or the values are read from the table."""
    is_positioned: bool = False
    """Whether each row carries the position of its record, because arrival decides
    between rows, or because the record may become a dead letter."""
    tombstones: Literal["", "delete"] = ""
    """What a record without a value is: a dead letter, or the delete of the row of its
    key. The latter requires that `keys` are the key of the one topic that is read."""
    mixes_tables: bool = False
    """Whether changes of two database tables with equal keys would be taken for changes
    of one row."""
    deletes: Deletes = ""
    """What happens to rows of the table that the source deletes."""
    output_mode: Literal["append", "update"] = "update"
    """Spark's output mode of a stateful SELECT: `append` returns each row once, when it
    can no longer change, `update` after each change."""

    @property
    def retention(self) -> Duration | None:
        """How long deleted keys are remembered, so that no older row brings one back;
        None if they are not."""
        return self.memories.get("tombstones")


def common(columns: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of the columns that are among the others, compared case-insensitively."""
    lowered = {other.lower() for other in others}
    return [column for column in columns if column.lower() in lowered]
