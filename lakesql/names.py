"""Every name that lakesql reserves: columns, views, suffixes of tables, properties of
tables, and keys of snapshot summaries."""

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
"""The property of an Iceberg view that has the name of its model."""

CHANGE = "_change"
"""The struct that a stream with an `envelope` offers: what happened to the row, when,
and where that stands in the database's log."""

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
"""The column of a mirror that keeps the rows which its source deletes: the time of the
delete; NULL if the source has the row."""

MARK = "_lakesql_mark"
"""The time when the source deleted the row of a key in a batch; NULL if the source has
the row."""

ONLY_MARKS = "_lakesql_only_marks"
"""Whether a row of a batch only marks the stored row as deleted, and has no values for
it."""

LATEST = "_lakesql_latest"
"""A struct of a feed's columns, from the newest change of a key in the batch that is no
delete; NULL if there is none."""

COMMIT_NUMBER = "_lakesql_commit_number"
"""On a change of another model's table: the number of its commit, counted within the
batch."""

POSITION = "_lakesql_position"
"""The source position of a row, carried through the author's SELECT: a struct that
orders rows by arrival."""

EVENT_TIME = "_lakesql_event_time"
"""The event time, or the window around it, by which a SELECT groups a row."""


def event_column(stream: str) -> str:
    """The column with the event time of a stream whose watermark is on a nested field
    or an expression."""
    return f"{EVENT_TIME}_{stream}"


def timed_view(stream: str) -> str:
    """The view of a stream's columns and its `event_column`."""
    return f"_lakesql_timed_{stream}"


REPLACED = "\ufffd"
"""U+FFFD, which replaces bytes of a text that are no UTF-8."""

SOURCE_TABLE = "_lakesql_source_table"
"""The database table that a change is of, read where all changes must be of one table;
NULL if the record names none."""

TABLE = "_lakesql_table"
"""The table that a record is of, among those of a group that reads a topic once; '' if
it is of none of them, NULL if it may be of any."""

UNKNOWN_TABLE = "_lakesql_unknown_table"
"""A record's value in the column of a group's `route`, if the group knows no table for
it; else NULL."""

IGNORED = "_lakesql_ignored"
"""Whether a record is skipped: in a change feed, one that is no change, such as a
tombstone or a message; with a `route`, one of another table."""

UNSENT = "_lakesql_unsent"
"""An array of the columns that are missing in a change event, as the update left them
alone. With '' among them, no stored row has their values."""

HALF = "_lakesql_half"
"""The id of the key change that a record belongs to: one text for the delete of the old
key and the insert of the new one; NULL on other records."""

MOVE = "_lakesql_move"
"""A struct of hashes of a change's row images without the key: `added` has one for each
column of the row after the change, `removed` of the row before; each NULL if the event
lacks that image."""

MOVE_TYPE = "struct<added:array<bigint>,removed:array<bigint>>"
"""The type of `_lakesql_move`."""

COMPARED = "_lakesql_compared"
"""A helper column of the queries on key changes: the hashes by which a change is
compared with others of its transaction, or the rank of a record in its key change."""

OCCUPIED = "_lakesql_occupied"
"""Whether the table had a row of a change's key before the change's transaction."""

OP_BEFORE = "_lakesql_op_before"
"""The operation of the last change of the key in the batch before a change's
transaction; NULL if there is none."""

PAIR = "_lakesql_pair"
"""The `_lakesql_half` of the key change that gave a row its key, if values of the row
must be read under its former key; else NULL."""

FROM = "_lakesql_from"
"""The key under which the table has the values that are missing in a change event; NULL
if it is the row's own key."""

NEW_FIELDS = "_lakesql_new_fields"
"""A struct of how the columns of a change differ from those of its stream: the `fields`
that it has in addition, and the columns that are `gone`. NULL if they do not differ.
For a stream that declares no columns, `fields` are texts of `FieldSchema`; else
names."""

KNOWN = "_lakesql_known"
"""A struct of the columns that may be missing in change events: for each, where its
last value in the batch comes from, and that value."""

UNKNOWN = "_lakesql_unknown"
"""Whether values of a row are missing in its change events and in the table."""

TOMBSTONE = "_lakesql_tombstone"
"""The key of a record without a value, which deletes the row of that key, as a struct
of the stream's columns; NULL on other records."""

REJECTED = "_lakesql_rejected"
"""On a record that cannot be used: a struct of the reason and of the record's raw
fields; NULL on the good ones."""

RAW = "_lakesql_raw"
"""A record's raw fields, kept where a good record may still become a dead letter, as
when the key of its row is NULL."""

ROW = "_lakesql_row"
"""A record as a struct of columns, as its format delivers it or as it was parsed."""

KEY = "_lakesql_key"
"""The parsed key of a record: a struct of the `row`, of the `reason` why it is bad, and
of the `detail`."""

KEY_FIELD = "_lakesql_key_"
"""The prefix of a column that is read from a record's key and not from its value."""

DELETE = "_lakesql_delete"
"""Whether a row of a batch deletes its key (`delete_when`, a tombstone or a delete of a
feed)."""

FOLDERS = "_lakesql_folders"
"""On records that arrive as texts: a struct of the columns whose values are in the
names of the file's folders, as in `year=2026`."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value for NULL in the name of a partition's folder."""

CORRUPT = "_lakesql_corrupt"
"""The field of a parsed record that is NULL unless the record does not fit the
contract: its text, or in Avro the reason."""

RESCUED = "_rescued"
"""The column of a stream that has, as JSON, the fields of a record that the contract
does not know, where the stream is to keep them."""

UNKNOWN_FIELDS = "_lakesql_unknown_fields"
"""The fields of a record that the contract does not know, each with its path and its
JSON; NULL if there are none."""

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
"""The values of `reason` in a dead-letter table: why a record, or a row of the SELECT,
is a dead letter. `late`: a watermark has dropped it. `ahead-of-time`: its event time is
so far in the future that it was not to move the watermark. `file-unreadable`: the dead
letter is a whole file."""

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
"""All values of `reason`."""

RANK = "_lakesql_rank"
"""1 on the newest row of its key in a batch."""

OUTDATED = "_lakesql_outdated"
"""Whether a newer row of the same key arrived before this row of a batch."""

DELETES = "_lakesql_deletes"
"""The number of deletes among a row of a batch and the newer rows of its key: 0 on the
rows after the last delete."""

DELETED = "_lakesql_deleted"
"""The `sequence_by` of the last delete of a key in a batch; without `sequence_by`,
whether there is one."""

FIRST = "_lakesql_first"
"""A struct of the columns that no update sets, from the first row of a key in a
batch, after its last delete."""

LAST = "_lakesql_last"
"""A struct with, for each column, its last non-NULL value in a batch and the
`sequence_by` of the row that has it."""

FAILED = "_lakesql_failed"
"""An array of the names of the expectations that a row of a batch fails; empty if it
fails none."""

MADE_VIEW = "_lakesql_made"
"""The view of all rows that the SELECT of a model with expectations makes of a
batch."""

CHECKED_VIEW = "_lakesql_checked"
"""The view of the rows of `_lakesql_made`, each with the expectations that it fails."""

ROWS_VIEW = "_lakesql_rows"
"""The view of the rows that a model's SELECT makes of a batch, without those that
expectations turn into dead letters."""

CHANGES_VIEW = "_lakesql_changes"
"""The view of a batch's changes of the change feed that a model mirrors."""

ALONE_VIEW = "_lakesql_changes_alone"
CLOSING_VIEW = "_lakesql_changes_closing"
PLACED_VIEW = "_lakesql_changes_placed"
TOLD_APART_VIEW = "_lakesql_changes_told_apart"
"""The views that replace `_lakesql_changes` in some batches: those with tombstones
(`alone`, and `closing` for a history), with a snapshot's rows (`placed`), and with key
changes (`told_apart`)."""

EARLIER_VIEW = "_lakesql_earlier"
"""The view of those records of a change feed that precede a batch in the topic and that
the batch needs."""

NEWEST_VIEW = "_lakesql_newest"
"""The view of the newest change of each key of the feed, and of the newest truncate of
each partition."""

KNOWN_VIEW = "_lakesql_newest_known"
MOVED_ON_VIEW = "_lakesql_newest_moved_on"
"""The views that replace `_lakesql_newest` in batches with columns missing in change
events: filled from earlier changes of the key, and from the key that a row had
before."""

CHANGED_VIEW = "_lakesql_changed"
"""The view of the newest changes that no truncate follows, without the truncates."""

NOT_EMPTIED_VIEW = "_lakesql_changed_not_emptied"
"""The view that replaces `_lakesql_changed` in batches with a truncate."""

MOVED_VIEW = "_lakesql_moved"
"""The view of the key changes that earlier batches have remembered."""

CUT_VIEW = "_lakesql_cut"
"""The view of the changes of a batch whose transactions may continue in another
batch."""

HISTORY_VIEW = "_lakesql_history"
"""The view that a history's MERGE reads: all changes of the keys of a batch, from the
batch, the table and the tombstones."""

ORIGIN = "_lakesql_origin"
"""The source of a change of a history: 0 the batch, 1 the table, 2 the tombstones."""

VERSION = "_lakesql_version"
"""Whether a change begins a version of its row."""

UNTIL = "_lakesql_until"
"""The end of a version: the sequence of the next version or of the delete; NULL if it
is current."""

ENDED = "_lakesql_ended"
"""The end that the table has for a version of a history; NULL if the change is no
version of the table, or the current one."""

ENDS = "_lakesql_ends"
"""Whether a change of a history ends the version before it: it is a version of the
table, or a remembered delete."""

NEXT = "_lakesql_next"
"""The start of the next change that ends a version."""

END = "_lakesql_end"
"""0 on the changes of a history. Else the row is an end that only the table has, as its
delete is no longer remembered: it comes before (-1) or after (1) the changes at the
same time."""

SEQUENCE = "_lakesql_sequence"
"""A struct of the greatest `sequence_by` of a key among the rows read up to a row of a
batch."""

TOMBSTONES_VIEW = "_lakesql_tombstones"
"""The view of the keys of a batch's records without a value, each with its position."""

TOMBSTONED_VIEW = "_lakesql_tombstoned"
"""The view of the rows of a batch and, as rows that delete, the keys of
`_lakesql_tombstones`."""

ADJUSTED_VIEW = "_lakesql_adjusted"
"""The changed groups of a materialized view, computed from their stored values by
adding new input rows and subtracting removed ones."""

ANEW_ROWS_VIEW = "_lakesql_touched_rows"
"""The current rows of a materialized view, computed for the keys that changes of its
inputs can affect."""

ANEW_VIEW = "_lakesql_anew"
"""The rows of `_lakesql_touched_rows`, and the keys whose stored rows are deleted."""

LEAVES = "_lakesql_leaves"
"""In `_lakesql_anew`: whether this is a key whose stored row is deleted."""

BATCH_VIEW = "_lakesql_batch"
"""The view of the newest row of each key of a batch, which the MERGE reads."""

FILLED_VIEW = "_lakesql_batch_filled"
ACCEPTED_VIEW = "_lakesql_batch_checked"
"""The views that replace `_lakesql_batch`: the first where values are missing in change
events, the second where the model has expectations."""

COMPILED_FROM = "compiled by lakesql from "
"""The text before the model's path at the end of a compiled file's first line, by which
lakesql recognizes its own files."""

DEAD_LETTER_SUFFIX = "__dead_letter"
"""The dead-letter table of `t` is `t__dead_letter`, in the same namespace."""

Memory = Literal["tombstones", "moves"]
"""What batches of a model store in tables beside the model's for later batches: the
keys that they delete, and key changes whose transaction may continue in one of them."""

RefreshChoice = Literal["", "incremental", "full"]
"""How a materialized view is refreshed: `incremental` by what has changed, `full` by
computing all rows, '' as lakesql chooses."""

MEMORY_SUFFIXES: Mapping[Memory, str] = {
    "tombstones": "__tombstones",
    "moves": "__moves",
}
"""The suffixes of the tables with such memories: those of `t` are `t__tombstones` and
`t__moves`, in the same namespace."""

STORED = "_lakesql_stored"
REMEMBERED = "_lakesql_remembered"
"""The aliases of the table and of its tombstones in statements with a correlated
sub-query. A plainer alias might be the name of a column that the sub-query reads, and
Spark would resolve it as that."""

NOW = "_lakesql_now"
"""The alias of the rows of a SELECT in statements that compare them with the stored
rows."""

TIME_VIEW = "_lakesql_time"
"""The view of one row with the start of the versions that a refresh opens."""

AT = "_lakesql_at"
"""The column of `_lakesql_time`."""

DIFFERENCES_VIEW = "_lakesql_differences"
"""The view of the keys of a history whose current version differs from their row."""

DELETED_AT = "_lakesql_deleted_at"
"""The time at which a batch stored a row among the tombstones or the remembered key
changes."""

FAILURES_SUFFIX = "__failures"
"""The failing rows of a data test `t` that stores them are in `t__failures`, in the
namespace of the tested model."""

SNAPSHOTS_SUFFIX = "__snapshots"
"""The suffix, after a group's name, of the table that lists which snapshots of the
group's tables belong together."""

REPLAY_SUFFIX = "__replay"
"""A replay of the dead letters of `m` has its ledger entry in the table of `m` under
the name `m__replay`."""

LEASE_SUFFIX = ".lease"
"""The suffix, after the checkpoint's name, of the folder of a model's lease."""

REBUILD_SUFFIX = "__rebuild"
"""`lakesql rebuild` fills `t__rebuild` beside `t`, with a checkpoint of that name."""

REBUILD_PROPERTY = "lakesql.rebuild"
"""The property of a rebuild's table that identifies the version of the model which it
is filled by."""

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
"""The property of a table that has its newest ledger entries, for catalogs that show
only the newest snapshot (Nessie)."""

MAINTENANCE_PROPERTY = "lakesql.maintenance"
"""The property of a table that records which maintenance was done when."""

MAINTAINED_PROPERTY = "lakesql.maintenance.enabled"
"""The property of a table that is `false` if another engine maintains it."""

FORMER_PROPERTY = "lakesql.former-models"
"""The property of a table whose model was renamed: the model's former names, separated
by commas."""

SEED_PROPERTY = "lakesql.seed"
"""The property of a seed's table that identifies its owner: the project's name, a dot,
and the seed's name."""

SEED_VERSION = "lakesql.seed-version"
"""The key in the summary of the snapshot that filled a seed's table: a hash of the
seed's file, contract and time zone."""

TAG_PREFIX = "lakesql_ledger_"
"""The prefix, before the model's name, of the tag on the snapshot with the model's
newest ledger entry, which keeps the snapshot from being expired."""


def is_reserved(column: str) -> bool:
    """Whether a column of this name is lakesql's own, so that `SELECT *` does not bring
    it into a table."""
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
"""The columns that Iceberg adds to every table, to its changelogs, and to the rows that
it sorts by zorder()."""

KEPT_BY_MERGE = frozenset(
    {"__row_operation", "__row_from_source", "__row_from_target", "__row_id"}
)
_MERGED_ROW_ID = "__original_row_id_"
"""The columns that Spark adds to the rows of a MERGE (RowDeltaUtils,
RewriteMergeIntoTable)."""


def keeper_of(column: str) -> str:
    """The engine that reserves a column name, so that no table can have such a column;
    '' if none does.

    Names are compared case-insensitively, as Spark does. Fields of structs may have
    these names.
    """
    lowered = column.lower()
    if lowered in KEPT_BY_ICEBERG:
        return "Iceberg"
    if lowered in KEPT_BY_MERGE or lowered.startswith(_MERGED_ROW_ID):
        return "Spark's MERGE"
    return ""


def say_kept(column: str, keeper: str) -> tuple[str, str, str]:
    """The parts of an error about a column name that `keeper` reserves: what is wrong,
    why, and what to do."""
    renamed = column.strip("_") or "renamed"
    return (
        f"No table can have a column '{column}'.",
        f"{keeper} has a column of that name beside those of the table, and would take one for the other.",
        f"Give it another name in the SELECT: `{column} AS {renamed}`, and `* EXCEPT ({column})` where a * brings it.",
    )


LONGEST_NAME = 200
"""The most characters that a name may have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_name(node: Node) -> str:
    """The checked name of a project, model, stream, namespace or connection: ASCII
    letters, digits and `_`.

    The same name is used for a table, for folders and in selectors, so it has no
    character that one of them would have to quote. Raises `ProjectError` (`bad-name`).
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
    """The checked name of a model: a name as in `check_name`, or `group.model` for a
    model of a group. Raises `ProjectError` (`bad-name`)."""
    if not isinstance(node.value, str) or "." not in node.value:
        return check_name(node)
    group, _, name = node.value.partition(".")
    for part in (group, name):
        check_name(Node(part, node.place))
    return node.value


def check_landing(name: str, place: Place | None) -> None:
    """Check a name that an option gives to a column of a table: `check_column` accepts
    it, and neither Iceberg nor Spark reserves it.

    Raises `ProjectError` (`bad-column-name`, `reserved-column`).
    """
    check_column(name, place, "Give it another name.")
    if keeper := keeper_of(name):
        what, why, _ = say_kept(name, keeper)
        raise ProjectError.of(
            "reserved-column", what, why=why, fix="Give it another name.", place=place
        )


def check_column(name: str, place: Place | None, fix: str = "") -> None:
    """Check a column's name: it is not blank, has no dot, backtick or control
    character, and is not reserved by lakesql.

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
