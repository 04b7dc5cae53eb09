"""Every name that lakesql reserves: columns, summary keys, table suffixes, views."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from lakesql.decode import (
    Node,
)
from lakesql.errors import Place, ProjectError

RESERVED_PREFIX = "_lakesql_"
"""No column of a model or a stream may start with this."""

RECORD = "_record"
"""The struct `topic, partition, offset, timestamp, key, headers` that every stream
offers."""

VIEW_MODEL = "lakesql.model"
"""The property of a view that says which model it is."""

CHANGE = "_change"
"""The struct that a stream with an `envelope` offers: what happened to the row."""

RECORD_FIELDS: Mapping[str, str] = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The fields of the `_record` struct and their types, as Kafka has them."""

CHANGE_FIELDS: Mapping[str, str] = {
    "op": "string",
    "ts": "timestamp",
    "position": "array<bigint>",
    "tx": "string",
    "snapshot": "boolean",
    "source_db": "string",
    "source_schema": "string",
    "source_table": "string",
}
"""The fields of the `_change` struct and their types, without `before`, which is a
struct of the stream's columns."""

MARKED_AT = "_deleted_at"
"""The column of a mirror that keeps what its source deletes: when that was; NULL on the
rows that are there."""

MARK = "_lakesql_mark"
"""The same of a key in a batch: when the source has deleted its row; NULL where it has
the row."""

ONLY_MARKS = "_lakesql_only_marks"
"""Whether a row of a batch marks the stored row and says nothing else of it."""

LATEST = "_lakesql_latest"
"""A struct of a feed's columns as the newest change of a key brings them that has a
row; NULL where none has."""

COMMIT_NUMBER = "_lakesql_commit_number"
"""Internal column: the number, in its batch, of the commit of another model's table
that a change is of."""

POSITION = "_lakesql_position"
"""The source position of a row, carried through the author's SELECT: a struct that
orders rows by arrival."""

EVENT_TIME = "_lakesql_event_time"
"""The event time of a row, or the window around it, by which it is grouped."""


def event_column(stream: str) -> str:
    """The column with the event time that a stream's watermark makes of a field or an
    expression."""
    return f"{EVENT_TIME}_{stream}"


def timed_view(stream: str) -> str:
    """The view of a stream that has `event_column` beside its columns."""
    return f"_lakesql_timed_{stream}"


REPLACED = "\ufffd"
"""What stands in a text for bytes that are no UTF-8."""

SOURCE_TABLE = "_lakesql_source_table"
"""The table of the database whose change a record is, where all changes must be of one;
NULL where it names none."""

TABLE = "_lakesql_table"
"""The table that a record is of, among those of a group that reads a topic once; ''
where it is of none of these, and NULL where it may be of any."""

UNKNOWN_TABLE = "_lakesql_unknown_table"
"""The value of a route that a record has, where nobody knows a table of it; else
NULL."""

IGNORED = "_lakesql_ignored"
"""Whether a record of a change feed is no change: a tombstone, or a message; or one of
a route is of another table."""

UNSENT = "_lakesql_unsent"
"""The columns whose values an update has not sent, as it left them alone; '' among
them: they are of no stored row."""

HALF = "_lakesql_half"
"""The key change that a record is a half of: the same text in both halves, NULL
elsewhere."""

MOVE = "_lakesql_move"
"""What a change does to the rows of its key: a struct of `added` and `removed`, hashes
of the columns that are no key, of the row after and before it, NULL where the event has
none."""

MOVE_TYPE = "struct<added:array<bigint>,removed:array<bigint>>"
"""The type of `_lakesql_move`."""

COMPARED = "_lakesql_compared"
"""What of a change is compared with others of its transaction."""

OCCUPIED = "_lakesql_occupied"
"""Whether the table had a row of the key of a change before its transaction."""

OP_BEFORE = "_lakesql_op_before"
"""What a batch has said last of the key of a change before its transaction; NULL where
it has said nothing."""

PAIR = "_lakesql_pair"
"""The `_lakesql_half` of the key change by which a row came to its key, where values
stand under the former one."""

FROM = "_lakesql_from"
"""The key under which the table has the values that a change has not sent; NULL where
it is the row's own."""

NEW_FIELDS = "_lakesql_new_fields"
"""A struct of how the columns of a change differ from those of its stream: `fields`
that it has beside them, and those that are `gone`. NULL where they do not. Of an open
stream the `fields` are texts of `FieldSchema`, else names."""

KNOWN = "_lakesql_known"
"""A struct of the values of these columns that the changes of the batch have sent
last."""

UNKNOWN = "_lakesql_unknown"
"""Whether such values are nowhere to be found."""

TOMBSTONE = "_lakesql_tombstone"
"""The key of a record without a value, which deletes its row, as a struct of the
stream's columns; else NULL."""

REJECTED = "_lakesql_rejected"
"""On a record that cannot be used: a struct of the reason and of the record's raw
fields; NULL on the good ones."""

RAW = "_lakesql_raw"
"""A record's raw fields, where a good record may yet become a dead letter: its row's
key may be NULL."""

ROW = "_lakesql_row"
"""A record as a struct of columns: as a format that has them gave it, or as it was
parsed."""

KEY = "_lakesql_key"
"""What was read of a record's key: a struct of the `row`, of the `reason` why it is
bad, and of the `detail`."""

KEY_FIELD = "_lakesql_key_"
"""Stands before a field of a record's key, where those of its value have names of their
own."""

DELETE = "_lakesql_delete"
"""Whether a row of a keyed batch deletes its key (`delete_when`)."""

FOLDERS = "_lakesql_folders"
"""A struct of the columns that the folders of a record's file name, of records that
arrive as texts."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What stands in the name of a folder for NULL."""

CORRUPT = "_lakesql_corrupt"
"""The field of what is read that is NULL unless the record does not fit the contract:
its text, or why (Avro)."""

RESCUED = "_rescued"
"""The column of a stream with the fields of a record that its contract does not know,
as JSON, where it keeps them."""

UNKNOWN_FIELDS = "_lakesql_unknown_fields"
"""These fields, each with its path and its JSON; NULL where there are none."""

UNPARSABLE = "unparsable"
REQUIRED_MISSING = "required-missing"
NO_VALUE = "tombstone"
KEY_MISSING = "key-missing"
SEQUENCE_MISSING = "sequence-missing"
LATE = "late"
AHEAD = "ahead-of-time"
NOT_AS_EXPECTED = "expectation-failed"
FILE_UNREADABLE = "file-unreadable"
UNDECLARED_FIELD = "undeclared-field"
"""Why a record, or a row of the SELECT, is a dead letter: its `reason`. A watermark has
dropped what is `late`, and was not moved by what is ahead of time. A file that is
unreadable is a dead letter as a whole."""

REASONS = (
    UNPARSABLE,
    REQUIRED_MISSING,
    NO_VALUE,
    KEY_MISSING,
    SEQUENCE_MISSING,
    LATE,
    AHEAD,
    NOT_AS_EXPECTED,
    FILE_UNREADABLE,
    UNDECLARED_FIELD,
)
"""All that `reason` may say."""

RANK = "_lakesql_rank"
"""1 on the newest row of its key in a batch."""

OUTDATED = "_lakesql_outdated"
"""Whether a newer row of its key arrived before a row of a batch."""

DELETES = "_lakesql_deletes"
"""How many deletes of its key are in a batch from a row on: 0 on the rows after the
last one."""

DELETED = "_lakesql_deleted"
"""The `sequence_by` of the last delete of a key in a batch, true where there is no
`sequence_by`."""

FIRST = "_lakesql_first"
"""A struct of the columns that updates leave alone, as the first row of a key in a
batch has them."""

LAST = "_lakesql_last"
"""A struct of each column's last value in a batch that is not NULL, and the
`sequence_by` of the row that has it."""

FAILED = "_lakesql_failed"
"""The names of the expectations that a row of a batch fails: an array, empty where it
fails none."""

MADE_VIEW = "_lakesql_made"
"""The view of the rows that a model's SELECT makes of a batch, where something is
expected of them."""

CHECKED_VIEW = "_lakesql_checked"
"""The view of these rows, each with what it fails."""

ROWS_VIEW = "_lakesql_rows"
"""The view of the rows that a model's SELECT makes of a batch, without those that are
set aside."""

CHANGES_VIEW = "_lakesql_changes"
"""The view of a batch's changes of a feed that is mirrored."""

ALONE_VIEW = "_lakesql_changes_alone"
CLOSING_VIEW = "_lakesql_changes_closing"
PLACED_VIEW = "_lakesql_changes_placed"
TOLD_APART_VIEW = "_lakesql_changes_told_apart"
"""The views of the changes that stand for that one: in batches with tombstones, a
snapshot's rows, changes of keys."""

EARLIER_VIEW = "_lakesql_earlier"
"""What stands in the topic of a change feed before a batch, as far as that needs it."""

NEWEST_VIEW = "_lakesql_newest"
"""The view of the newest change of each key of the feed, and of its truncates."""

KNOWN_VIEW = "_lakesql_newest_known"
MOVED_ON_VIEW = "_lakesql_newest_moved_on"
"""The views that stand for that one in batches whose changes have not sent all
values."""

CHANGED_VIEW = "_lakesql_changed"
"""The view of the newest changes that no truncate comes after, without the
truncates."""

NOT_EMPTIED_VIEW = "_lakesql_changed_not_emptied"
"""The view that stands for that one in batches with a truncate."""

MOVED_VIEW = "_lakesql_moved"
"""The view of what earlier batches have remembered of changes of keys."""

CUT_VIEW = "_lakesql_cut"
"""The view of the changes of a batch of whose transactions another one may have a
part."""

HISTORY_VIEW = "_lakesql_history"
"""The view of all changes of the keys of a batch, those that the table has among them:
what a history's MERGE reads."""

ORIGIN = "_lakesql_origin"
"""Where a change of a history is from: 0 the batch, 1 the table, 2 what the tombstones
remember."""

VERSION = "_lakesql_version"
"""Whether a change makes a version of its row."""

UNTIL = "_lakesql_until"
"""Where a version ends: the sequence of the next one, or of the delete."""

ENDED = "_lakesql_ended"
"""Where a change of a history ended, as the table has it; NULL where it is no version,
or the current one."""

ENDS = "_lakesql_ends"
"""Whether a change of a history is a version of the table, or a delete: what ends the
version before it."""

NEXT = "_lakesql_next"
"""Where the next change begins that ends a version."""

END = "_lakesql_end"
"""0 on the changes of a history. On an end that the table has, and whose delete is
forgotten, what it comes before (-1) or after (1) among the changes of that moment."""

SEQUENCE = "_lakesql_sequence"
"""A struct of the `sequence_by` of the newest row of a key that was read until a row of
a batch."""

TOMBSTONES_VIEW = "_lakesql_tombstones"
"""The view of the keys of a batch's records without a value, each with its position."""

TOMBSTONED_VIEW = "_lakesql_tombstoned"
"""The view of the rows of a batch and of these keys, which are rows that delete."""

ADJUSTED_VIEW = "_lakesql_adjusted"
"""The groups of a view that have changed, as they are by what was added to them and
taken from them."""

ANEW_ROWS_VIEW = "_lakesql_touched_rows"
"""The rows of a view, of the keys that a change can reach, as they are now."""

ANEW_VIEW = "_lakesql_anew"
"""The same, and the keys whose former rows leave."""

LEAVES = "_lakesql_leaves"
"""Which of these are keys whose rows leave."""

BATCH_VIEW = "_lakesql_batch"
"""The view of the newest row of each key of a batch: what the MERGE reads."""

FILLED_VIEW = "_lakesql_batch_filled"
ACCEPTED_VIEW = "_lakesql_batch_checked"
"""The views that stand for that one where values were not sent, and where something is
expected of rows."""

COMPILED_FROM = "compiled by lakesql from "
"""What stands before the model's path at the end of a compiled file's first line: by
this lakesql knows its own."""

DEAD_LETTER_SUFFIX = "__dead_letter"
"""The dead-letter table of `t` is `t__dead_letter`, in the same namespace."""

Memory = Literal["tombstones", "moves"]
"""What batches of a model remember for those after them: the keys that they delete, and
the changes of keys that they have cut."""

RefreshChoice = Literal["", "incremental", "full"]
"""How a view is to be kept: by what has changed, by computing all of it, or as lakesql
chooses."""

MEMORY_SUFFIXES: Mapping[Memory, str] = {
    "tombstones": "__tombstones",
    "moves": "__moves",
}
"""The memories of `t` are `t__tombstones` and `t__moves`, in the same namespace."""

STORED = "_lakesql_stored"
REMEMBERED = "_lakesql_remembered"
"""What statements call the table, and the memory of it, where a sub-query names it from
within: any other alias may be the name of a column of what the sub-query reads, and
Spark takes that first."""

NOW = "_lakesql_now"
"""What statements call the rows of a SELECT beside those that are stored."""

TIME_VIEW = "_lakesql_time"
"""The view of one row: when the versions begin that a refresh opens."""

AT = "_lakesql_at"
"""Its column."""

DIFFERENCES_VIEW = "_lakesql_differences"
"""The view of the keys of a history whose row is another one than that of their current
version."""

DELETED_AT = "_lakesql_deleted_at"
"""When the batch was written that has brought a row of a memory."""

FAILURES_SUFFIX = "__failures"
"""The failing rows of a data test `t` that stores them are in `t__failures`, in the
namespace of the tested model."""

SNAPSHOTS_SUFFIX = "__snapshots"
"""Of a group's name: the table that says which snapshots of its tables belong
together."""

REPLAY_SUFFIX = "__replay"
"""A replay of the dead letters of `m` has its ledger entry in the table of `m` under
the name `m__replay`."""

LEASE_SUFFIX = ".lease"
"""What the name of a lease's folder has behind that of the checkpoint."""

REBUILD_SUFFIX = "__rebuild"
"""`lakesql rebuild` fills `t__rebuild` beside `t`, with a checkpoint of that name."""

REBUILD_PROPERTY = "lakesql.rebuild"
"""The property of such a table that says of which version of its model it is."""

LEDGER_MODEL = "lakesql.model"
LEDGER_CHECKPOINT = "lakesql.checkpoint"
LEDGER_BATCH = "lakesql.batch"
LEDGER_OFFSETS = "lakesql.offsets"
LEDGER_QUERY = "lakesql.query"
LEDGER_STATE = "lakesql.state"
LEDGER_LATE = "lakesql.late"
LEDGER_VIOLATIONS = "lakesql.violations"
LEDGER_REMEMBERED = "lakesql.remembered"
LEDGER_OLDER = "lakesql.older"
LEDGER_RESCUED = "lakesql.rescued"
LEDGER_PLACE = "lakesql.newest-place"
LEDGER_SOURCE_TABLE = "lakesql.source-table"
LEDGER_MODE = "lakesql.mode"
LEDGER_KEYS = "lakesql.keys"
LEDGER_DELETES = "lakesql.deletes"
LEDGER_EVENT_TIME = "lakesql.event-time"
LEDGER_BACKLOG = "lakesql.backlog"
LEDGER_TOPICS = "lakesql.topics"
LEDGER_ACCEPTED = "lakesql.accepted-loss"
LEDGER_INPUTS = "lakesql.inputs"
LEDGER_REBUILD = "lakesql.rebuild"
LEDGER_REBUILD_VERSION = "lakesql.rebuild-version"
"""Keys of a ledger entry in the summary of the snapshot that holds the batch
(docs/architecture.md, the ledger)."""

CARRIED_PROPERTY = "lakesql.ledger"
"""The property of a table that carries its newest ledger entries, where its catalog
shows the newest snapshot alone."""

MAINTENANCE_PROPERTY = "lakesql.maintenance"
"""The property of a table that says which maintenance was done when."""

MAINTAINED_PROPERTY = "lakesql.maintenance.enabled"
"""The property of a table that is `false` where somebody else maintains it."""

FORMER_PROPERTY = "lakesql.former-models"
"""The property of a table whose model was renamed: the names that it had before, with
commas between them."""

SEED_PROPERTY = "lakesql.seed"
"""The property of the table of a seed that says whose it is: the project's name, a dot,
and the seed's."""

SEED_VERSION = "lakesql.seed-version"
"""In the summary of the snapshot that has filled it: what tells its file, contract and
time zone from any others."""

TAG_PREFIX = "lakesql_ledger_"
"""The tag of a model's newest ledger entry is this and the model's name: no expiry
removes the snapshot."""


def is_reserved(column: str) -> bool:
    """Whether a column of this name belongs to lakesql and so never lands in a table by
    `SELECT *`."""
    lowered = column.lower()
    return lowered in (RECORD, CHANGE) or lowered.startswith(RESERVED_PREFIX)


KEPT_BY_ICEBERG = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_row_id",
        "_last_updated_sequence_number",
    }
    | {"_change_type", "_change_ordinal", "_commit_snapshot_id", "icezvalue"}
)
"""The columns that Iceberg adds to every table, to its changes, and to the rows that it
sorts by zorder()."""

KEPT_BY_MERGE = frozenset(
    {"__row_operation", "__row_from_source", "__row_from_target", "__row_id"}
)
_MERGED_ROW_ID = "__original_row_id_"
"""The columns that Spark adds to the rows of a MERGE (RowDeltaUtils,
RewriteMergeIntoTable)."""


def keeper_of(column: str) -> str:
    """Who has a column of this name beside those of a table, so that no table can have
    it: '' for nobody.

    Spark compares names without regard to capitals, so a name in any spelling is kept.
    Fields of structs are not.
    """
    lowered = column.lower()
    if lowered in KEPT_BY_ICEBERG:
        return "Iceberg"
    if lowered in KEPT_BY_MERGE or lowered.startswith(_MERGED_ROW_ID):
        return "Spark's MERGE"
    return ""


def say_kept(column: str, keeper: str) -> tuple[str, str, str]:
    """What is wrong with a column of a table that its `keeper` has, why, and what to
    do."""
    renamed = column.strip("_") or "renamed"
    return (
        f"No table can have a column '{column}'.",
        f"{keeper} has a column of that name beside those of the table, and would take one for the other.",
        f"Give it another name in the SELECT: `{column} AS {renamed}`, and `* EXCEPT ({column})` where a * brings it.",
    )


LONGEST_NAME = 200
"""How many characters the name of a model may have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_name(node: Node) -> str:
    """The name of a project, model, stream, namespace or connection: ASCII letters,
    digits and `_`.

    Such a name is a table, a folder, a topic's folder and a word of the selector
    grammar at once, so it holds nothing that one of them would have to quote. Raises
    `ProjectError` (`bad-name`).
    """
    if isinstance(node.value, str) and len(node.value) > LONGEST_NAME:
        raise ProjectError.of(
            "bad-name",
            f"'{node.value[:30]}…' has {len(node.value)} characters, and a name has {LONGEST_NAME} at most.",
            why="It names files and folders too, with a word behind it, and file systems take 255.",
            fix="Use a shorter name.",
            place=node.place,
        )
    if (
        isinstance(node.value, str)
        and _NAME.match(node.value)
        and not is_reserved(node.value)
    ):
        return node.value
    raise ProjectError.of("bad-name", f"{node.shown} is not a name.", place=node.place)


def check_model_name(node: Node) -> str:
    """The name of a model: one as `check_name` has it, or that of a group, a dot, and
    that of one of its models."""
    if not isinstance(node.value, str) or "." not in node.value:
        return check_name(node)
    group, _, name = node.value.partition(".")
    for part in (group, name):
        check_name(Node(part, node.place))
    return node.value


def check_landing(name: str, place: Place | None) -> None:
    """A name that an option gives a column of a table: one that `check_column` takes
    and nobody else has.

    Raises `ProjectError` (`bad-column-name`, `reserved-column`).
    """
    check_column(name, place, "Give it another name.")
    if keeper := keeper_of(name):
        what, why, _ = say_kept(name, keeper)
        raise ProjectError.of(
            "reserved-column", what, why=why, fix="Give it another name.", place=place
        )


def check_column(name: str, place: Place | None, fix: str = "") -> None:
    """A column's name: anything but a dot, a backtick, a control character, or a name
    of lakesql's own.

    Iceberg reads a dot in a column's name as a path into a struct, and Spark's readers
    of nested schemas lose a backtick; blanks, quotes and letters of any script work
    everywhere and are quoted. Raises `ProjectError` (`bad-column-name`,
    `reserved-column`), with `fix`.
    """
    if is_reserved(name):
        raise ProjectError.of(
            "reserved-column",
            f"'{name}' is a name of lakesql's own.",
            fix=fix,
            place=place,
        )
    if not name.strip() or any(
        character in "`." or not character.isprintable() for character in name
    ):
        raise ProjectError.of(
            "bad-column-name",
            f"{name!r} cannot name a column.",
            why="Dots, backticks and control characters do not survive in every engine that reads the table.",
            fix=fix,
            place=place,
        )
