"""What a mode means for the batches of a SELECT, and for the table that they write.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesql.names import Memory
from lakesql.project.duration import Duration

TASK_RECORDS = 20_000
"""How many records are worth a task of their own, which writes a file of its own: so
many of a topic's partition are read in one piece, and the pieces of a large batch are
spread over all cores, however few partitions the topic has."""

Deletes = Literal["", "soft"]
"""What becomes of rows that the source deletes: they leave the table, or stay there,
marked."""


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that the table has beside those of the SELECT: of a type, or of that of
    a word of `sequence_by`.

    `option` is the one for which it is there.
    """

    option: str
    name: str
    comment: str
    type: str = ""
    like: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """A table of versions of keys: `tracked` are the columns of which a change makes
    one; all, if it names none.

    `are_final`: one that has ended is not looked at again. Otherwise the versions of a
    key that changes are made anew.
    """

    tracked: tuple[str, ...] = ()
    are_final: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """What a mode must know of a SELECT: whether it keeps state between batches,
    whether it reads a change feed, whether that comes from a database's log
    (`has_log`), and whether the record behind a row must be found in any mode
    (`is_traced`).

    `key_columns` are those of the SELECT, in small letters, that are columns of the key
    of the one topic that it reads; none where it has not all of these.
    """

    is_stateful: bool = False
    has_feed: bool = False
    has_log: bool = False
    key_columns: Mapping[str, str] = field(default_factory=dict)
    is_traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How the batches of a SELECT change their table: what the engine asks while it
    writes one.

    `mode` is the mode's word. `keys` identify a row, and reading the streams again
    leaves each row once where there are any; `sequence_by` says which of two rows of a
    key is newer. `not_null` are the columns without which a row is a dead letter.
    `compared` are the table's columns that a batch compares its rows with, by the
    option that names them. `conditions` are the options that are conditions on a row of
    the SELECT, and `match_conditions` those on it as `source` and on the stored row as
    `target`. `added` are the columns that the table has beside those of the SELECT.
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
    """What batches remember for those after them, each in a table of its own, and for
    how long."""
    given: Literal["records", "rows"] = "records"
    """What the SELECT is given: the records of its streams, or the rows that the
    changes of the one feed leave."""
    unsent: Literal["dead letter", "stored"] = "dead letter"
    """What becomes of a change of a feed that has not sent all values: they are taken
    from the table, or it is a dead letter."""
    is_positioned: bool = False
    """Whether each row carries the position of the record it comes from: where arrival
    decides between rows, or its record may become a dead letter."""
    tombstones: Literal["", "delete"] = ""
    """What a record without a value is: a dead letter, or the delete of the row of its
    key, by which `keys` are the key of the one topic read."""
    mixes_tables: bool = False
    """Whether changes of two tables of a database that have one key would be taken for
    those of one row."""
    deletes: Deletes = ""
    """What becomes of rows of the table that the source deletes."""
    output_mode: Literal["append", "update"] = "update"
    """Spark's output mode of a stateful SELECT: each row once, when it cannot change
    any more, or at each change."""

    @property
    def retention(self) -> Duration | None:
        """How long deleted keys are remembered, so that an older row does not bring one
        back; None where none are."""
        return self.memories.get("tombstones")


def common(columns: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of the columns that are among the others. Capitals make no difference."""
    lowered = {other.lower() for other in others}
    return [column for column in columns if column.lower() in lowered]
