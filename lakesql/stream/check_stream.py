"""Whether the options of a stream are compatible: with its origin, its format, its
envelope and with one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesql.decode import Node
from lakesql.errors import Place, Problem, did_you_mean
from lakesql.names import RESCUED, is_reserved
from lakesql.source.notifications import check_notifications
from lakesql.source.origin import ORIGIN_OPTIONS, archive_problems
from lakesql.stream.event_time import find_unnamed, is_column
from lakesql.stream.record_keys import find_key_problems
from lakesql.stream.text_encoding import is_wide

if TYPE_CHECKING:
    from lakesql.stream.stream import Column, Stream


def find_stream_problems(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of a stream whose options are each valid by themselves. `node` is its
    entry in the file."""
    yield from _check_origin(stream, node)
    yield from _check_references(stream, node)
    yield from _check_columns(stream, node)
    yield from _check_fields(stream, node)
    yield from _check_only_column(stream, node)
    yield from _check_format(stream, node)
    yield from _check_registry(stream, node)
    yield from _check_text(stream, node)
    yield from _check_numbers(stream, node)
    yield from _check_dead_letters(stream, node)
    yield from _check_wide_text(stream, node)
    yield from _check_envelope(stream, node)
    yield from _check_source_table(stream, node)
    yield from _check_field_prefix(stream, node)
    yield from _check_written_values(stream, node)
    yield from _check_after(stream, node)
    yield from _check_order(stream, node)
    yield from find_key_problems(stream, node)


def _only_asked_of(
    stream: Stream, node: Node, option: str, what: str, why: str = ""
) -> Problem:
    """The problem of an option that does not apply to this stream, only to `what`."""
    said = f"Stream '{stream.name}' says '{option}', which is asked of {what}."
    return Problem("wrong-value", said, why, place=node.entries()[option].place)


def _check_origin(stream: Stream, node: Node) -> Iterator[Problem]:
    given = next(filter(None, map(node.get, ORIGIN_OPTIONS)), None)
    if given is not None:
        yield from stream.origin.problems(given.place)


def _check_references(stream: Stream, node: Node) -> Iterator[Problem]:
    if not stream.columns:
        return
    entries = node.entries()
    for name in stream.key:
        yield from find_reference_problems(stream, "key", name, entries["key"].place)
    if stream.watermark:
        place = entries["watermark"].entries()["column"].place
        yield from find_reference_problems(
            stream, "watermark", stream.watermark.column, place
        )


def find_reference_problems(
    stream: Stream, option: str, name: str, place: Place
) -> Iterator[Problem]:
    """Problems of a name in `key` or `watermark` that is to be a column of the
    stream."""
    if name == RESCUED and stream.rescues:
        yield Problem(
            "wrong-value",
            f"'{name}' in '{option}' is no field of a record.",
            place=place,
        )
        return
    if option == "watermark":
        yield from find_unnamed(name, stream.types, f"stream '{stream.name}'", place)
    elif not is_column(name, stream.types):
        what = f"'{name}' in '{option}' is not a column of stream '{stream.name}'."
        yield Problem(
            "unknown-column",
            what,
            fix=did_you_mean(name, stream.column_names),
            place=place,
        )


# --- columns


def _check_columns(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of duplicate column names, and of types that the format cannot hold."""
    columns = node.get("columns") or node
    seen: set[str] = set()
    for column in stream.columns:
        place = columns.keys.get(column.name, node.place)
        if column.is_rescued and column.name in seen:
            what = f"'{column.name}' is the column that `unknown_fields: rescue` adds."
            fix = "Give the contract's own another name, and say by `from` what records call it."
            yield Problem("duplicate-column", what, "", fix, place)
        elif column.name.lower() in seen:
            what = f"'{column.name}' stands twice. Capitals make no difference."
            yield Problem("duplicate-column", what, "", "Keep one of the two.", place)
        seen.add(column.name.lower())
        if not stream.record_format.holds(column.type):
            what = f"'{column.name}' is {column.type}, which a CSV value cannot be."
            fix = "Declare it as string, and take it apart in the SELECT: split(…), from_json(…)."
            yield Problem("wrong-type", what, "", fix, place)


def _check_fields(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of `from`: fields that a column cannot be read from, or that two columns
    are read from."""
    columns = node.get("columns") or node
    read: dict[str, str] = {}
    for column in stream.columns:
        other = read.setdefault(column.field.lower(), column.name)
        if not column.from_field:
            continue
        place = columns.entries()[column.name].entries()["from"].place
        if not _has_field_name(stream, column):
            what = f"'{column.name}' is read from a field, and the records of stream '{stream.name}' name none."
            why = "Those of JSON, Avro, Parquet and ORC do, and those of CSV with a header."
            yield Problem("wrong-value", what, why, place=place)
        elif is_reserved(column.from_field) or not column.from_field.isprintable():
            what = f"{column.from_field!r} is no field that a column can be read from."
            yield Problem("wrong-value", what, place=place)
        elif other != column.name:
            what = f"'{other}' and '{column.name}' are read from one field, '{column.from_field}'."
            why = "Capitals make no difference."
            fix = "Keep one of the two; a SELECT may name a column twice."
            yield Problem("duplicate-column", what, why, fix, place)


def _has_field_name(stream: Stream, column: Column) -> bool:
    """Whether the records of the stream, or their keys, name the field that the column
    is read from."""
    if stream.origin.brings == "rows":
        return False
    return column.is_in_key or stream.record_format.names_fields(stream.csv)


def _check_only_column(stream: Stream, node: Node) -> Iterator[Problem]:
    """A problem if the format has exactly one column and the contract declares
    others."""
    offered = stream.record_format.column_type
    if not offered:
        return
    types = []
    for column in stream.columns:
        if not (column.is_rescued or column.is_in_key):
            types.append(column.type.lower())
    if types != [offered]:
        what = f"Format '{stream.format}' offers one column of type {offered}."
        yield Problem("wrong-value", what, place=(node.get("columns") or node).place)


# --- the format, and the schemas that values are written by


def _check_format(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of a format that does not fit the origin, and of Avro and Protobuf in
    topics without a schema."""
    kind, in_topics = stream.record_format, stream.origin.brings == "records"
    place = (node.get("schema") or node.get("format") or node).place
    if in_topics and not kind.is_for_records:
        what = f"Stream '{stream.name}' has format '{stream.format}', and a topic holds no files."
        yield Problem("format-needs-files", what, place=place)
        return
    if in_topics and kind.schema_kind and not (stream.schema or stream.registry):
        yield _missing_schema(stream, place)
        return
    if not stream.schema:
        return
    if not (in_topics and kind.takes_schema_file):
        what = f"Stream '{stream.name}' has a 'schema', which only topics of format 'avro' have."
        yield Problem("wrong-value", what, place=place)
    elif _leaves_project(stream.schema):
        yield Problem(
            "outside-project",
            f"The path '{stream.schema}' leaves the project.",
            place=place,
        )


def _missing_schema(stream: Stream, place: Place) -> Problem:
    if not stream.record_format.takes_schema_file:
        what = f"Stream '{stream.name}' lacks the 'registry' that has the schemas which its values name."
        why = "A value in Protobuf does not say how it is written."
        return Problem("missing-option", what, why, place=place)
    what = (
        f"Stream '{stream.name}' lacks 'schema', the .avsc file with the schema of the topic's values, or the "
        "'registry' that has the schemas which they name."
    )
    why = "A value in Avro does not say how it is written; files in Avro do."
    return Problem("missing-option", what, why, place=place)


def _leaves_project(path: str) -> bool:
    is_absolute = path.startswith(("/", "~")) or "://" in path
    return is_absolute or ".." in path.split("/")


def _check_registry(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of registry options that do not fit the format or the origin, or that
    are set without a registry."""
    kind = stream.record_format
    in_topics = stream.origin.brings == "records"
    if not in_topics and not _may_be_in_files(stream):
        what = f"Stream '{stream.name}' has format '{stream.format}', which values of topics have."
        fix = (
            "Write `json`."
            if kind.is_framed
            else "Write the format that the files have."
        )
        yield Problem(
            "wrong-value", what, fix=fix, place=node.entries()["format"].place
        )
        return
    if stream.message and not kind.has_messages:
        yield _only_asked_of(stream, node, "message", "Protobuf")
    if not stream.registry:
        yield from _check_without_registry(stream, node)
        return
    place = node.entries()["registry"].place
    names_schemas = bool(kind.schema_kind or stream.key_kind)
    if not (in_topics and names_schemas):
        what = f"Stream '{stream.name}' has a 'registry', which only topics of format 'avro' or 'protobuf' have."
        yield Problem("wrong-value", what, place=place)
    elif stream.schema:
        what = f"Stream '{stream.name}' has a 'schema' and a 'registry'."
        why = "Values are either all written with one schema, or each names its own."
        yield Problem("wrong-value", what, why, "Keep one of the two.", place)


def _may_be_in_files(stream: Stream) -> bool:
    """Whether files can have the format, which is then not limited to values that name
    their schemas in a registry."""
    kind = stream.record_format
    if kind.is_framed:
        return False
    return not kind.schema_kind or kind.takes_schema_file


def _check_without_registry(stream: Stream, node: Node) -> Iterator[Problem]:
    options = ("subject",) if stream.record_format.is_framed else ("wire", "subject")
    for option in options:
        if option in node.entries():
            what = f"Stream '{stream.name}' says '{option}', and no 'registry' that its values name schemas of."
            yield Problem("wrong-value", what, place=node.key_place(option))


# --- the text and the values of records


def _check_text(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of options on the records' text that do not fit their format or
    origin."""
    kind = stream.record_format
    multiline, encoding = node.get("multiline"), node.get("encoding")
    may_span_lines = kind.may_span_lines and stream.origin.brings == "files"
    if multiline is not None and not may_span_lines:
        yield _only_asked_of(stream, node, "multiline", "JSON and CSV in files")
    has_encoding = kind.is_text and not stream.is_feed
    if encoding is not None and not has_encoding:
        what = f"Stream '{stream.name}' says 'encoding', which only JSON and CSV have that are no change feed."
        yield Problem("wrong-value", what, place=encoding.place)


def _check_numbers(stream: Stream, node: Node) -> Iterator[Problem]:
    if stream.csv.thousands == stream.csv.decimal:
        what = f"Numbers of stream '{stream.name}' have '{stream.csv.decimal}' before their fraction and in thousands."
        yield Problem(
            "wrong-value", what, place=node.entries()["csv"].key_place("thousands")
        )
    if stream.decimals == "round" and not stream.record_format.is_text:
        what = (
            f"Stream '{stream.name}' rounds decimals, which is done for JSON and CSV."
        )
        yield Problem("wrong-value", what, place=node.entries()["decimals"].place)


def _check_dead_letters(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of `dead_letter` options for faults that records of this format and
    origin cannot have."""
    if stream.ignore_corrupt == "dead_letter" and stream.origin.brings != "files":
        yield _only_asked_of(stream, node, "ignore_corrupt", "files")
    if stream.unknown_fields != "ignore" and not _may_have_unknown_fields(stream):
        yield _only_asked_of(
            stream,
            node,
            "unknown_fields",
            "JSON with declared columns",
            _WHY_NO_UNKNOWN,
        )
    if stream.nanoseconds == "dead_letter" and not stream.record_format.has_nanoseconds:
        yield _only_asked_of(stream, node, "nanoseconds", "Parquet")


_WHY_NO_UNKNOWN = (
    "A record of CSV, Avro, Parquet and ORC is read by its header or schema, a text or bytes have no fields, and "
    "`on_schema_change` judges a feed whose columns are those of schemas, beside its events or in a registry."
)


def _may_have_unknown_fields(stream: Stream) -> bool:
    """Whether a record of the stream is a document that may have fields besides the
    declared columns."""
    if not stream.record_format.is_document or stream.origin.brings == "rows":
        return False
    if not stream.is_feed:
        return True
    declares_columns = any(not column.is_rescued for column in stream.columns)
    return declares_columns and not stream.registry


def _check_wide_text(stream: Stream, node: Node) -> Iterator[Problem]:
    """A problem if an encoding with several bytes a character is used where records are
    split at line ends, which are searched for byte by byte."""
    encoding = node.get("encoding")
    if encoding is None or not is_wide(stream.encoding):
        return
    in_one_piece = stream.multiline and stream.origin.brings == "files"
    if not (stream.record_format.reads_wide_text and in_one_piece):
        what = f"Stream '{stream.name}' is read in {stream.encoding}, which is done for CSV in files alone."
        yield Problem(
            "wrong-value", what, "It is not read line by line.", place=encoding.place
        )


# --- change feeds


def _check_envelope(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of an envelope that records of this origin and format cannot have."""
    if stream.is_feed and not _may_have_envelope(stream):
        yield _misplaced_envelope(stream, node.entries()["envelope"].place)
    if stream.infinity != "dead_letter" and not stream.is_feed:
        yield _only_asked_of(stream, node, "infinity", "change feeds")


def _may_have_envelope(stream: Stream) -> bool:
    """Whether the records can be in an envelope: they are documents themselves, or
    become so by the schemas of a registry."""
    if stream.origin.brings == "rows":
        return False
    kind, envelope = stream.record_format, stream.record_envelope
    has_schemas = kind.takes_schema_file and bool(stream.registry)
    return kind.is_document or (has_schemas and envelope.may_be_registered)


def _misplaced_envelope(stream: Stream, place: Place) -> Problem:
    what = f"Stream '{stream.name}' has envelope '{stream.envelope}', which topics and files of format 'json' have."
    fix = why = ""
    if stream.record_envelope.may_be_registered:
        if stream.record_format.schema_kind:
            fix = "In topics of format 'avro' it has a `registry`."
        if stream.record_format.has_messages:
            why = (
                "In Protobuf the converters of Kafka Connect write NULL as 0 or '' unless they are told otherwise, and "
                "no event says whether they were: the table would have other values than the database."
            )
            fix = "Let the connector write Avro or JSON: `value.converter` and `key.converter`. Avro has a `registry`."
    if stream.origin.brings == "files":
        fix = (
            "Read the rows of other files without an envelope, with the column that says what happened, in mode "
            "`upsert`: `columns: {Op: string, …}` and `delete_when=\"Op = 'D'\"`."
        )
    return Problem("wrong-value", what, why, fix, place)


def _check_source_table(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of `source_table`: missing, set on a stream that is no change feed, or
    not named as the feed's events name tables."""
    envelope = stream.record_envelope
    if envelope.needs_source_table and not stream.source_table:
        what = f"Stream '{stream.name}' lacks 'source_table': whose changes it takes, as `schema.table`."
        why = "DMS writes the changes of all tables to one topic, unless it is told otherwise."
        yield Problem("missing-option", what, why, place=node.place)
    if not stream.source_table:
        return
    place = node.entries()["source_table"].place
    if not stream.is_feed:
        what = f"Stream '{stream.name}' has a 'source_table', which only change feeds have."
        yield Problem("wrong-value", what, place=place)
    for table in stream.source_table:
        if not envelope.source_table.fullmatch(table):
            what = f"'{table}' in 'source_table' of stream '{stream.name}' is no table of a schema."
            fix = "Write it as `schema.table`; where the database has no schemas, as `database.table`."
            yield Problem("wrong-value", what, fix=fix, place=place)


def _check_field_prefix(stream: Stream, node: Node) -> Iterator[Problem]:
    if (
        stream.add_fields_prefix is not None
        and not stream.record_envelope.has_field_prefix
    ):
        what = f"Stream '{stream.name}' has an 'add_fields_prefix', which only a feed of envelope 'debezium_flat' has."
        yield Problem(
            "wrong-value", what, place=node.entries()["add_fields_prefix"].place
        )


def _check_written_values(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of columns with a `unit` or an `encoding` whose values cannot be written
    that way."""
    columns = node.get("columns") or node
    for column in stream.columns:
        place = columns.keys.get(column.name, node.place)
        if column.unit and not _may_be_counted(stream, column):
            what = f"'{column.name}' has a unit, which timestamps of JSON and CSV have, and strings of a feed."
            yield Problem("wrong-value", what, place=place)
        has_encoded_bytes = stream.is_feed and "binary" in column.type
        if column.encoding and not has_encoded_bytes:
            what = f"'{column.name}' has an encoding, which only bytes in a change feed have."
            yield Problem("wrong-value", what, place=place)


def _may_be_counted(stream: Stream, column: Column) -> bool:
    """Whether values of the column may be numbers that count time units."""
    if column.type == "string":
        return stream.is_feed
    if stream.origin.brings == "rows":
        return False
    if column.is_in_key:
        return False
    is_time = column.type in ("timestamp", "timestamp_ntz")
    return is_time and stream.record_format.may_count_times(stream.csv)


# --- files


def _check_after(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of `after` and `archive`: set for other origins than files, incomplete,
    or an archive inside the folders that are read."""
    after, archive = node.get("after") or node, node.get("archive")
    if stream.after != "leave" and stream.origin.brings != "files":
        yield _only_asked_of(stream, node, "after", "files")
        return
    if stream.after == "archive" and archive is None:
        what = f"Stream '{stream.name}' lacks 'archive': the folder that its files are moved to."
        yield Problem("missing-option", what, place=after.place)
    if archive is None:
        return
    if stream.after != "archive":
        what = f"Stream '{stream.name}' has an 'archive', and moves no files."
        yield Problem(
            "wrong-value",
            what,
            fix="Write `after: archive` beside it.",
            place=archive.place,
        )
    elif stream.origin.files is not None:
        yield from archive_problems(stream.archive, stream.origin.files, archive.place)


def _check_order(stream: Stream, node: Node) -> Iterator[Problem]:
    """Problems of `ordered_by` and `notifications`: set for other origins than files,
    both set, or combined with an `after` that removes files."""
    said = [
        option
        for option in ("ordered_by", "notifications")
        if node.get(option) is not None
    ]
    yield from _check_dependents(stream, node, said)
    if not said:
        return
    if stream.notifications is not None:
        yield from check_notifications(
            stream.notifications, node.entries()["notifications"], stream.name
        )
    if stream.origin.brings != "files":
        why = "The records of topics and tables have an order of their own."
        yield _only_asked_of(stream, node, said[0], "files", why)
    elif len(said) > 1:
        what = f"Stream '{stream.name}' says 'ordered_by' and 'notifications': each finds new files in its own way."
        fix = "Where names grow, `ordered_by: name` needs no events; where they do not, keep `notifications`."
        yield Problem(
            "contradictory-options", what, "", fix, node.entries()[said[1]].place
        )
    elif stream.after != "leave":
        what = f"Stream '{stream.name}' says '{said[0]}', and its files go once they are read (`after`)."
        why = "Which files went is looked up in lists that such a stream does without."
        fix = "Leave out one of the two: a folder from which files go is soon listed."
        yield Problem(
            "contradictory-options", what, why, fix, node.entries()[said[0]].place
        )


_ASKED_WITH = {
    "late_files": ("ordered_by",),
    "list_all_every": ("ordered_by", "notifications"),
}
"""Options that only apply beside one of these other options."""


def _check_dependents(stream: Stream, node: Node, said: list[str]) -> Iterator[Problem]:
    for option, others in _ASKED_WITH.items():
        if option not in node.entries():
            continue
        if not any(other in said for other in others):
            what = f"Stream '{stream.name}' says '{option}', and not {' or '.join(others)}, with which it is asked."
            yield Problem("wrong-value", what, place=node.key_place(option))
