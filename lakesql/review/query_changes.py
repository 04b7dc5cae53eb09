"""What a changed SELECT, or a changed contract of the streams it reads, means for the
rows of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from lakesql.decode import node_of
from lakesql.errors import Place
from lakesql.graph.manifest import reads_model
from lakesql.modes.batches.all_batches import batches_of
from lakesql.project.duration import parse_duration
from lakesql.review.causes import (
    ModelVersions,
    connection_place,
    properties_place,
    sql_place,
    stream_place,
)
from lakesql.review.verdicts import Reason
from lakesql.select.column_order import is_moved
from lakesql.select.differences import SelectDifference, find_differences
from lakesql.stream.stream import Column, Stream, UnknownFields, Watermark
from lakesql.stream.types import find_growth, parse_type


def find_query_changes(change: ModelVersions) -> Iterator[Reason]:
    """A reason for each part of the SELECT that differs, with what becomes of the rows
    that are already in the table."""
    for difference in find_differences(change.before.query.sql, change.after.query.sql):
        yield _judge(change, difference)


def _judge(change: ModelVersions, difference: SelectDifference) -> Reason:
    name = change.model.name
    place = sql_place(change, difference.offset)
    fix = f"lakesql rebuild {name}"
    condition, what = _say(difference)
    if follows := _tell_apart(change, difference):
        return Reason(
            "rebuild",
            condition,
            f"{what} {follows}",
            place,
            f"To fill the table again: {fix}",
        )
    stored = batches_of(change.after).stored_rows()
    do = f"{stored.do} {name}" if stored.do else ""
    return Reason(stored.verdict, condition, f"{what} {stored.what}", place, do)


def _tell_apart(change: ModelVersions, difference: SelectDifference) -> str:
    """The consequence of a changed column by which batches compare their rows with the
    table's (`keys`, `sequence_by`, `within`), as stored rows have its former values. ''
    if batches do not compare by it."""
    if change.model.config.reads == "tables":
        return ""  # all rows are there to be compared, and not those alone that arrive
    named = {
        option
        for select in (change.before, change.after)
        for option, columns in select.compared.items()
        if difference.kind == "column" and difference.name in map(str.lower, columns)
    }
    if "keys" in named:
        return (
            "It is one of the keys, and rows that are in the table have the former values in it: a row that changes "
            "finds them no more, and stands there a second time, and a delete leaves them."
        )
    if "sequence_by" in named:
        return (
            "It says which of two rows is newer (sequence_by), and rows that are in the table have the former values "
            "in it: a newer row whose value is lower changes nothing, and an older one whose value is higher wins."
        )
    if "within" in named:
        return (
            "Rows are looked for by this time (within), and those that are in the table have the former values in it: "
            "a row that is there may be inserted a second time."
        )
    return ""


def _say(difference: SelectDifference) -> tuple[str, str]:
    match difference.kind:
        case "column":
            return (
                "expression-changed",
                f"Column '{difference.name}' is worked out in another way.",
            )
        case "filter":
            return "filter-changed", f"{difference.name} lets other rows pass."
        case "source":
            return (
                "source-changed",
                "FROM reads something else, or joins it in another way.",
            )
        case "rest":
            return "statement-changed", f"The SELECT differs in {difference.name}."


def find_contract_changes(
    change: ModelVersions, told: Collection[str]
) -> Iterator[Reason]:
    """A reason for each difference in the declared streams that the SELECT reads.
    Changes of the columns `told` are left out if the table's own changes already
    describe them."""
    yield from _watermark_changes(change)
    for name in change.after.query.streams_read:
        before = change.old.manifest.streams.get(name)
        after = change.new.manifest.streams.get(name)
        if (
            before is not None
            and after is not None
            and name in change.before.query.streams_read
        ):
            yield from _column_changes(
                change, before, after, {it.lower() for it in told}
            )
            yield from _place_changes(change, before, after)
            yield from _option_changes(change, before, after)
            yield from _connection_changes(change, before, after)


def _column_changes(
    change: ModelVersions, before: Stream, after: Stream, told: set[str]
) -> Iterator[Reason]:
    old = {column.name.lower(): column for column in before.columns}
    new = {column.name.lower(): column for column in after.columns}
    for key in (*new, *(key for key in old if key not in new)):
        was, now = old.get(key), new.get(key)
        if any(column is not None and column.is_rescued for column in (was, now)):
            continue  # what `unknown_fields` says of it
        if was == now or (key in told and _is_told(was, now)):
            continue
        column = now or was
        assert column is not None
        place = stream_place(change.new, after, "columns", column.name)
        if was is not None and now is not None and _as_read(was) == _as_read(now):
            what = f"What is said of column '{column.name}' of stream '{after.name}' is other than before."
            yield Reason("docs", "description-changed", what, place)
            continue
        what = f"Stream '{after.name}': {_say_column(was, now)}. Records are held to it from the next batch on."
        do = "Records that do not fit it are dead letters; `lakesql replay` reads those again that do now."
        if was is not None and now is not None and was.field != now.field:
            rebuild = f"`lakesql rebuild {change.model.name}`."
            do = f"Rows keep what the former field had until the table is filled again: {rebuild}"
        yield Reason("next-batch", "contract-changed", what, place, do)


def _place_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """The change of the positions of columns, for formats such as CSV in which a value
    belongs to a column by its position in the record."""
    if not (_is_by_place(before) and _is_by_place(after)):
        return
    places = [_placed_columns(stream) for stream in (before, after)]
    if not is_moved(*places):
        return
    former = {name.lower(): place for place, name in enumerate(places[0])}
    moved = next(
        name
        for place, name in enumerate(places[1])
        if former.get(name.lower(), place) != place
    )
    what = f"Stream '{after.name}': '{moved}' is another column of a record, and is read so from the next batch on."
    do = f"Rows keep what the former place had until the table is filled again: `lakesql rebuild {change.model.name}`."
    yield Reason(
        "next-batch",
        "contract-changed",
        what,
        stream_place(change.new, after, "columns", moved),
        do,
    )


def _is_by_place(stream: Stream) -> bool:
    """Whether records have their values in the order of the contract's columns, named
    neither in the record nor in a header."""
    has_headers = stream.origin.brings == "files" and stream.record_format.has_headers(
        stream.csv
    )
    return stream.record_format.is_separated and not has_headers


def _placed_columns(stream: Stream) -> list[str]:
    return [
        column.name
        for column in stream.columns
        if not (column.is_in_key or column.is_rescued)
    ]


def _as_read(column: Column) -> Column:
    """A column without the attributes that do not affect how it is read: its
    description, and whether it is sensitive."""
    return replace(column, description="", sensitive=None)


def _is_told(was: Column | None, now: Column | None) -> bool:
    """Whether the change of the table's column fully describes the change of the
    contract: the column is added or dropped, or its type is widened."""
    if was is None or now is None:
        return True
    if was.field != now.field:
        return False
    types = parse_type(was.type), parse_type(now.type)
    if types[0] is None or types[1] is None or types[0] == types[1]:
        return False
    return find_growth(types[1], types[0], ()) == ()


def _say_column(was: Column | None, now: Column | None) -> str:
    if was is None and now is not None:
        return f"column '{now.name}' {now.type} is new"
    if now is None and was is not None:
        return f"column '{was.name}' is not read any more"
    assert was is not None
    assert now is not None
    if was.field != now.field:
        return f"column '{now.name}' is read from {now.source}, and was read from {was.source}"
    if was.type != now.type:
        return f"column '{now.name}' is {now.type}, and was {was.type}"
    if was.required != now.required:
        return f"column '{now.name}' is {'required now' if now.required else 'required no longer'}"
    return f"column '{now.name}' is read in another way"


def _watermark_changes(change: ModelVersions) -> Iterator[Reason]:
    """The changes of watermarks in a stateful SELECT, whose state was built with the
    former column and delay."""
    if not (change.before.query.stateful and change.after.query.stateful):
        return
    for name in change.after.query.streams_read:
        if name in change.before.query.streams_read:
            yield from _watermark_change(
                change, change.before.streams[name], change.after.streams[name]
            )


def _watermark_change(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    was, now, name = before.watermark, after.watermark, change.model.name
    if _seen(was) == _seen(now):
        return
    read = reads_model(change.new.manifest, after.name)
    if read is not None:
        place = properties_place(change.new, read, "watermark")
    else:
        place = stream_place(change.new, after, "watermark")
    if was is not None and now is not None and was.column.lower() == now.column.lower():
        what = f"Stream '{after.name}' waits {now.delay} for late events, and not {was.delay}."
        do = "Groups that were finished stay so. A longer delay keeps more state."
        yield Reason("next-batch", "watermark-changed", what, place, do)
        return
    what = f"Stream '{after.name}' has {_say_watermark(now)}, and the checkpoint was made by {_say_watermark(was)}."
    do = (
        f"To fill the table again from what the streams have: `lakesql rebuild {name}`. Continued as it is, events "
        "would be held against the former watermark, and dropped as late."
    )
    yield Reason("breaks", "watermark-changed", what, place, do)


def _seen(watermark: Watermark | None) -> tuple[str, int] | None:
    if watermark is None:
        return None
    return _spelled(watermark.column), parse_duration(
        node_of(watermark.delay, Place(""))
    ).length_ms


def _spelled(column: str) -> str:
    """The column of a watermark in lowercase, as names of columns are
    case-insensitive; an expression unchanged."""
    return (
        column.lower()
        if all(part.isidentifier() for part in column.split("."))
        else column
    )


def _say_watermark(watermark: Watermark | None) -> str:
    return f"a watermark on {watermark.column}" if watermark else "no watermark"


_READ = (
    *("format", "schema", "registry", "wire", "subject", "message"),
    *("envelope", "key", "key_format", "csv", "source_table", "add_fields_prefix"),
    *(
        "decimals",
        "invalid_text",
        "infinity",
        "ignore_corrupt",
        "nanoseconds",
        "multiline",
        "encoding",
    ),
)
"""The options of a stream that define how its records are read."""

_UNKNOWN_FIELDS: Mapping[UnknownFields, tuple[str, str]] = {
    "ignore": (
        "Fields that the contract of stream '{}' does not know are ignored from the next batch on.",
        "Rows that are in the table keep what they have.",
    ),
    "dead_letter": (
        "Records of stream '{}' with fields that its contract does not know are dead letters from the next batch on.",
        "Declare the fields, and `lakesql replay` reads such records again.",
    ),
    "rescue": (
        "Fields that the contract of stream '{}' does not know are in its column `_rescued` from the next batch on.",
        "Rows that are in the table have none: to read them again, `lakesql rebuild` the model.",
    ),
}
"""For each value of `unknown_fields`: what changing to it means, and what to do."""


def _option_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """The differences in a stream's options, apart from its columns, its watermark and
    its connection."""
    yield from _reading_changes(change, before, after)
    yield from _unknown_fields_changes(change, before, after)
    yield from _schema_changes(change, before, after)
    yield from _file_changes(change, before, after)
    yield from _batch_changes(change, before, after)


def _reading_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    uses_key = change.before.finds_by_key or change.after.finds_by_key
    for option in _READ:
        if option == "key" and not uses_key:
            continue
        if getattr(before, option) == getattr(after, option):
            continue
        what = f"Stream '{after.name}': {option} is other than before, and records are read so from the next batch on."
        yield Reason(
            "next-batch",
            "contract-changed",
            what,
            stream_place(change.new, after, option),
        )


def _unknown_fields_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    if before.unknown_fields == after.unknown_fields:
        return
    what, do = _UNKNOWN_FIELDS[after.unknown_fields]
    place = stream_place(change.new, after, "unknown_fields")
    yield Reason("next-batch", "contract-changed", what.format(after.name), place, do)


def _schema_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """The change of a schema file's content. If another file is named,
    `_reading_changes` reports it."""
    is_same_file = bool(after.schema) and before.schema == after.schema
    if not is_same_file or change.old.schemas.get(
        after.schema
    ) == change.new.schemas.get(after.schema):
        return
    what = f"Stream '{after.name}': values are read by another schema from the next batch on."
    yield Reason("next-batch", "contract-changed", what, Place(after.schema))


def _file_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """Changes of how a stream's files are found, and of what happens to them after they
    are read."""

    def changed(option: str, what: str, do: str = "") -> Reason:
        return Reason(
            "next-batch",
            "option-changed",
            what,
            stream_place(change.new, after, option),
            do,
        )

    if (before.after, before.archive) != (after.after, after.archive):
        do = (
            ""
            if after.after == "leave"
            else "So it is with those that were read before, too."
        )
        yield changed(
            "after",
            f"Files of stream '{after.name}' {_say_after(after)} from the next run on.",
            do,
        )
    if after.ordered_by and before.late_files != after.late_files:
        said = (
            "are read, and the run says so"
            if after.late_files == "read"
            else "end the model, and are named"
        )
        what = f"Files of stream '{after.name}' that come late {said}, from the next run on."
        yield changed("late_files", what)
    if before.notifications != after.notifications:
        told_by = after.notifications.place if after.notifications else ""
        said = f"found by the events of {told_by}" if told_by else "not found by events"
        yield changed(
            "notifications",
            f"Files of stream '{after.name}' are {said} from the next run on.",
        )
    lists_all_now_and_then = bool(after.ordered_by or after.notifications)
    if lists_all_now_and_then and before.list_all_every != after.list_all_every:
        what = f"All files of stream '{after.name}' are listed every {after.list_all_every}."
        yield changed("list_all_every", what)


def _batch_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """Changes of the maximal size of a batch, of where a new checkpoint begins, and of
    the stream's description."""
    if before.max_per_batch != after.max_per_batch:
        what = f"A batch takes {_limit(after)} of stream '{after.name}', and not {_limit(before)}."
        yield Reason(
            "next-batch",
            "option-changed",
            what,
            stream_place(change.new, after, "max_per_batch"),
        )
    if before.start != after.start:
        what = f"Stream '{after.name}' has another `start`. It counts for a new checkpoint; this one goes on."
        yield Reason(
            "none", "start-changed", what, stream_place(change.new, after, "start")
        )
    if before.description != after.description:
        what = f"The description of stream '{after.name}' is another one."
        yield Reason(
            "docs",
            "description-changed",
            what,
            stream_place(change.new, after, "description"),
        )


def _say_after(stream: Stream) -> str:
    """What happens to the files of a stream after they are read, as the end of a
    sentence."""
    match stream.after:
        case "leave":
            return "stay where they are"
        case "archive":
            return f"go to '{stream.archive}' once they are read"
        case "delete":
            return "are deleted once they are read"


def _limit(stream: Stream) -> str:
    return (
        f"{stream.max_per_batch:,} records at most"
        if stream.max_per_batch
        else "all records"
    )


def _connection_changes(
    change: ModelVersions, before: Stream, after: Stream
) -> Iterator[Reason]:
    """The change of a connection to another one of the same type, which may lead
    elsewhere: a checkpoint's positions do not show that."""
    was = change.old.manifest.target.connections.get(before.connection)
    now = change.new.manifest.target.connections.get(after.connection)
    if was == now or type(was) is not type(now):
        return
    is_other = before.connection != after.connection
    place = (
        stream_place(change.new, after, "connection")
        if is_other
        else connection_place(change.new, after.connection)
    )
    what = f"Stream '{after.name}' is read through another connection, or the same one with other options."
    do = (
        "If it leads to the same records, the checkpoint goes on. If it leads to others, the next run refuses "
        "(topic-recreated, data-lost, files-moved), and says what to do."
    )
    yield Reason("next-batch", "connection-changed", what, place, do)
