"""A stream: the records that a model reads, where they come from, and the contract on
their columns. Independent of the target's connections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from lakesql.decode import (
    Node,
    decode,
    node_of,
    option,
    read_entries,
    read_filled,
    read_positive,
)
from lakesql.errors import Place, Problem, ProjectError
from lakesql.names import CHANGE_FIELDS, KEY_FIELD, RESCUED, check_column, check_name
from lakesql.project.duration import parse_duration
from lakesql.records.formats.csv import Csv
from lakesql.registry.connection import Wire
from lakesql.registry.registered import Registered
from lakesql.source.notifications import Notifications
from lakesql.source.origin import ORIGIN_OPTIONS, UNSAID, StreamOrigin
from lakesql.source.source import Start
from lakesql.stream.client import find_client_options
from lakesql.stream.event_time import is_column
from lakesql.stream.route import Route
from lakesql.stream.text_encoding import UTF_8, find_encoding
from lakesql.stream.types import TYPE_NAMES, field_name, parse_type, parts_of
from lakesql.words import answer, suggest

if TYPE_CHECKING:
    from lakesql.records.envelope import RecordEnvelope
    from lakesql.records.format import RecordFormat


Format = Literal[
    "json",
    "csv",
    "parquet",
    "orc",
    "avro",
    "string",
    "bytes",
    "json_schema",
    "protobuf",
]
KeyFormat = Literal["json", "json_schema", "avro", "protobuf"]
Envelope = Literal["none", "debezium", "debezium_flat", "dms"]
Unit = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]

_UnitWord = Literal[
    "seconds", "milliseconds", "millis", "microseconds", "micros", "nanoseconds"
]

_UNITS: Mapping[_UnitWord, Unit] = {
    "seconds": "seconds",
    "milliseconds": "milliseconds",
    "millis": "milliseconds",
    "microseconds": "microseconds",
    "micros": "microseconds",
    "nanoseconds": "nanoseconds",
}
Encoding = Literal["base64", "hex"]
Infinity = Literal["dead_letter", "null", "max"]
UnknownFields = Literal["ignore", "dead_letter", "rescue"]
After = Literal["leave", "archive", "delete"]
OrderedBy = Literal["name"]
LateFiles = Literal["read", "refuse"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a stream's contract. `type` is Spark's canonical text of the type.

    `unit` is the unit of a timestamp that records hold as a number since 1970, and of a
    change feed's time of day that is a number since midnight. `encoding` is how a
    change feed writes bytes as text. `from_field` is the name of the field in a record;
    '' if it is `name`. `is_rescued`: the column holds the fields that the contract does
    not know, as JSON. `is_in_key`: the field is read from the record's key, not from
    its value. `sensitive` is whether its values must be hidden; None if the contract
    does not say.
    """

    name: str
    type: str
    required: bool = False
    description: str = ""
    unit: Unit | None = None
    encoding: Encoding | None = None
    from_field: str = ""
    is_rescued: bool = False
    is_in_key: bool = False
    sensitive: bool | None = None

    @property
    def field(self) -> str:
        """The name of the field that holds the column's values in a record. A field of
        the record's key has a prefix, so that it differs from a field of the value."""
        return f"{KEY_FIELD}{self.key_field}" if self.is_in_key else self.key_field

    @property
    def key_field(self) -> str:
        """The name of the field, without the prefix that a field of a key has in
        `field`."""
        return self.from_field or self.name

    @property
    def source(self) -> str:
        """The field that the column is read from, in words for an error."""
        return (
            f"the field '{self.key_field}' of the key"
            if self.is_in_key
            else f"the field '{self.key_field}'"
        )


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late events may be: a row is late if its `column` lies more than `delay`
    behind the newest value seen."""

    column: str = option(
        "Timestamp column of the stream, a field of a struct (`bid.at`), or an expression (`to_timestamp(at)`), by "
        "which a SELECT groups and joins in the same spelling."
    )
    delay: str = option(
        "How far an event may lie behind the newest one before it is late, such as '10 minutes'.",
        read=lambda node: parse_duration(node).text,
    )
    max_ahead: str = option(
        "How far an event may lie ahead of the clock. In a model that keeps state, an event further ahead is a dead "
        "letter (`ahead-of-time`) and does not move the watermark.",
        default="1 day",
        read=lambda node: parse_duration(node).text,
    )

    @property
    def max_ahead_ms(self) -> int:
        """`max_ahead` in milliseconds."""
        return parse_duration(node_of(self.max_ahead, Place(""))).length_ms


def read_columns(node: Node) -> tuple[Column, ...]:
    """The columns of a contract, in the order of the file."""
    if isinstance(node.value, tuple):
        what = "The columns of a stream are a mapping of names to types, not a list."
        fix = "Write `order_id: bigint`, or `order_id: {type: bigint, required: true}`, a line for each column."
        raise ProjectError.of("wrong-type", what, fix=fix, place=node.place)
    return tuple(read_entries(node, partial(_read_column, node.keys)).values())


@dataclass(frozen=True, slots=True)
class _ColumnOptions:
    type: str = option("A Spark SQL type.")
    required: bool = option(
        "Whether a record without a value in the column is a dead letter.",
        default=False,
    )
    description: str = option("Description of the column.", default="")
    unit: _UnitWord | None = option(
        "For a timestamp in JSON, CSV or a change feed: the unit in which a whole number counts since 1970 (`millis` "
        "and `micros` for short). For a string in a change feed: the value is a time of day, counted in this unit.",
        default=None,
    )
    encoding: Encoding | None = option(
        "For bytes in a change feed: how they are written as text; `base64` if left out.",
        default=None,
    )
    from_: str = option(
        "Field of a record from which the column is read, such as `a.b`; the column's name if left out.",
        default="",
        read=read_filled,
    )
    in_: Literal["value", "key"] = option(
        "Whether the field is in the record's value or in its key, which is read as `key_format`.",
        default="value",
    )
    sensitive: bool | None = option(
        "Whether the column's values are hidden: the site of `lakesql docs` shows `•••` for them, and `lakesql "
        "record` tells where it copies them unmasked. Models and tables get them unchanged. If left out, the "
        "column's name decides ([site.md](site.md#what-is-on-it)).",
        default=None,
    )


_UNNAMABLE = "Give the column another name, and say by `from` what records call it: `a_b: {type: string, from: 'a.b'}`."

DECLARE = "Declare the stream's `columns`"
"""The advice for columns that were found in records and that no table can have."""


RESCUED_COLUMN = Column(
    RESCUED,
    "string",
    description="Fields that the contract does not know, as JSON.",
    is_rescued=True,
)
"""The column that `unknown_fields: rescue` adds to the contract."""


def _read_column(places: Mapping[str, Place], name: str, node: Node) -> Column:
    check_column(name, places.get(name, node.place), _UNNAMABLE)
    if isinstance(node.value, str):
        node = Node({"type": node}, node.place)
    options = decode(node, _ColumnOptions, what=f"column '{name}'")
    kind = read_column_type(options.type, node.entries()["type"].place)
    unit = _UNITS[options.unit] if options.unit else None
    return Column(
        name,
        kind,
        options.required,
        options.description,
        unit,
        options.encoding,
        options.from_,
        is_in_key=options.in_ == "key",
        sensitive=options.sensitive,
    )


def read_column_type(text: str, place: Place) -> str:
    """Spark's canonical text of a type that a contract declares. Raises `ProjectError`
    (`unknown-type`)."""
    parsed = parse_type(text)
    if parsed is None:
        what = f"'{text}' is not a type that Spark knows."
        raise ProjectError.of(
            "unknown-type", what, fix=_nearest_type(text), place=place
        )
    if any(part.name in ("char", "varchar") for part in parts_of(parsed)):
        what = f"'{text}' is no type of a contract's column: what reads a record knows no length of a text."
        raise ProjectError.of("unknown-type", what, fix="Write string.", place=place)
    return parsed.text


def _nearest_type(text: str) -> str:
    """A suggestion for a type that Spark does not know: for the whole text, or for the
    first word in it that is no type name. '' if there is none."""
    if said := answer("type", text):
        return said
    names = (
        found[1]
        for found in re.finditer(r"(?<![\w`])([A-Za-z]\w*)(?=\s*(?:[<>(),]|$))", text)
    )
    unknown = next((name for name in names if name.lower() not in TYPE_NAMES), None)
    return suggest("type", unknown, TYPE_NAMES) if unknown else ""


def _read_start(node: Node) -> Start:
    match node.value:
        case "earliest" | "latest":
            return node.value
    try:
        start = datetime.fromisoformat(str(node.value))
    except ValueError:
        raise ProjectError.of(
            "bad-start", f"{node.shown} is no place to start.", place=node.place
        ) from None
    return start if start.tzinfo else start.replace(tzinfo=UTC)


def _read_limit(node: Node) -> int | None:
    if node.value == "unlimited":
        return None
    try:
        return read_positive(node)
    except ProjectError:
        what = f"{node.shown} is neither a positive whole number nor 'unlimited'."
        raise ProjectError.of("wrong-value", what, place=node.place) from None


def _read_text_encoding(node: Node) -> str:
    found = find_encoding(str(node.value))
    if found is None:
        what = f"{node.shown} is no encoding that lakesql reads."
        fix = "Write utf-8, utf-16, or an encoding of one byte a character, such as latin-1 or windows-1252."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)
    return found


@dataclass(frozen=True, slots=True)
class _StreamOptions:
    """The keys of one entry under `streams:`."""

    name: str = option("Name of the stream.", read=check_name)
    description: str = option("Description of the records.", default="")
    connection: str = option(
        "Entry of the target's `connections` through which the stream is read; plain files need none.",
        default="",
    )
    topic: str = option("Name of the topic.", default="")
    topics: tuple[str, ...] = option("Names of several topics.", default=())
    pattern: str = option(
        "Regular expression that must match the names of the topics.", default=""
    )
    path: str = option(
        "Path of plain files, with globs, relative to the connection's `path`.",
        default="",
    )
    format: Format = option("Format of a record's value.", default="json")
    schema: str = option(
        "For Avro in topics: the .avsc file, relative to the project, with the schema by which values are written.",
        default="",
    )
    registry: str = option(
        "For Avro and Protobuf in topics: the connection of type `registry` with the schemas that values name by id.",
        default="",
    )
    wire: Wire = option(
        "With a `registry`: where a value has the id of its schema. `confluent`: in 4 bytes behind a leading byte 0. "
        "`apicurio`: in 8 bytes behind it. `apicurio_headers`: in the record's header `apicurio.value.contentId` or "
        "`apicurio.value.globalId`.",
        default="confluent",
    )
    subject: str = option(
        "With a `registry`: the subject whose newest schema gives the aliases of columns and the defaults of missing "
        "ones; `<topic>-value` if left out.",
        default="",
    )
    message: str = option(
        "For Protobuf: the name of the records' message, such as `shop.Order`, in a schema with several; the first "
        "one of the subject's newest schema if left out.",
        default="",
        read=read_filled,
    )
    envelope: Envelope = option(
        "Format of changes in a record's value: `debezium`, `debezium_flat` (Debezium's ExtractNewRecordState) or "
        "`dms` (AWS DMS). With `none` a record is a row.",
        default="none",
    )
    source_table: tuple[str, ...] = option(
        "For a change feed: the table whose changes are read, as `schema.table`, from a topic with those of several. "
        "`*` stands for any characters; several tables, or those of a `*`, are read as one. Required by envelope "
        "`dms`.",
        default=(),
    )
    add_fields_prefix: str | None = option(
        "For envelope `debezium_flat`: the connector's `add.fields.prefix`, if it is neither `__` nor `_`.",
        default=None,
    )
    key: tuple[str, ...] = option(
        "Columns that identify what a record is about, such as the primary key of a change feed's table.",
        default=(),
    )
    key_format: KeyFormat | None = option(
        "Format of a record's key, if columns are read from it (`in: key`) or a record without a value deletes its "
        "row: `json`, a bare text or number included; `json_schema`, which begins with an id; or `avro` or "
        "`protobuf` by the `registry`, whose subject is `<topic>-key`. If left out, `json_schema` if values are, "
        "else `json`.",
        default=None,
    )
    columns: tuple[Column, ...] = option(
        "Contract of the stream: name to type, or to {type, required, description, …}.",
        default=(),
        read=read_columns,
    )
    watermark: Watermark | None = option(
        "How late events may be; required by aggregates in mode `append`.", default=None
    )
    start: Start = option(
        "Where a new checkpoint starts: `earliest`, `latest` or an ISO 8601 time.",
        default="earliest",
        read=_read_start,
    )
    max_per_batch: int | None = option(
        "Maximum number of records in a batch, or `unlimited`; approximate for files. A run that reads only the "
        "available records spreads a small rest over its batches, which then have up to a tenth more.",
        default=1_000_000,
        read=_read_limit,
    )
    csv: Csv = option("Options of records in CSV.", factory=Csv)
    decimals: Literal["exact", "round"] = option(
        "What happens to a number with more fractional digits than its `decimal` column: `exact` makes its record a "
        "dead letter, `round` rounds it.",
        default="exact",
    )
    invalid_text: Literal["replace", "dead_letter"] = option(
        "What happens to text in a model's rows that is not UTF-8, such as that of `CAST(_record.key AS string)`: "
        "`replace` puts U+FFFD in place of its bytes and counts it, `dead_letter` makes the record a dead letter.",
        default="replace",
    )
    infinity: Infinity = option(
        "For a change feed: what happens to Postgres' `infinity` in a date or timestamp. `dead_letter` makes the "
        "record a dead letter, `null` gives NULL, `max` gives the last value of the year 9999 (for `-infinity` the "
        "first of the year 1).",
        default="dead_letter",
    )
    ignore_corrupt: Literal["refuse", "dead_letter"] = option(
        "For files: what happens to one that cannot be read. `refuse` fails the model; `dead_letter` makes a dead "
        "letter with the file's name, and reads the others.",
        default="refuse",
    )
    unknown_fields: UnknownFields = option(
        "For JSON, also in change feeds: what happens to fields of a record, or of a struct in it, that are no "
        "columns. `ignore` leaves them out; `dead_letter` makes the record a dead letter that names them; `rescue` "
        "writes them to the column `_rescued` as JSON, by their paths, and counts them.",
        default="ignore",
    )
    after: After = option(
        "For files: what happens to one after a commit has its records. `leave` keeps it, `archive` moves it to the "
        "folder `archive`, `delete` deletes it. A file that cannot be read, or has changed since, is kept.",
        default="leave",
    )
    archive: str = option(
        "Folder to which `after: archive` moves files, relative to the connection's `path`; a file keeps its own "
        "path below it.",
        default="",
        read=read_filled,
    )
    ordered_by: OrderedBy | None = option(
        "For files: `name`, if each new file has a larger path than all before it, as with dates or counters. New "
        "files are then found by listing from the last path on, and are read in that order.",
        default=None,
    )
    notifications: Notifications | None = option(
        "For files in object storage: the topic or queue with the events of new files, which are then found without "
        "listing.",
        default=None,
    )
    late_files: LateFiles | None = option(
        "With `ordered_by`: what happens to a file that arrives with a smaller name than the last one read. `read` "
        "reads it with a warning; `refuse` fails the model, which names it. If left out, `refuse` for a change feed, "
        "whose changes are in the order of its files, else `read`.",
        default=None,
    )
    list_all_every: str = option(
        "With `ordered_by` or `notifications`: how often all files are listed, to find late ones and those without "
        "an event. A run lists them if the last listing is older.",
        default="1 hour",
        read=lambda node: parse_duration(node).text,
    )
    nanoseconds: Literal["cut", "dead_letter"] = option(
        "For Parquet: what happens to a timestamp in nanoseconds with digits below a microsecond. `cut` truncates "
        "it, and the run counts such records; `dead_letter` makes the record a dead letter.",
        default="cut",
    )
    multiline: bool | None = option(
        "For JSON and CSV in files: whether a record may span several lines; each file of such JSON is held in "
        "memory by one task. If left out, `true` for CSV and `false` for JSON.",
        default=None,
    )
    encoding: str = option(
        "For JSON and CSV: encoding of text: `utf-8`, an encoding with one byte per character, such as `latin-1` or "
        "`windows-1252`, or `utf-16` for CSV in files.",
        default="utf-8",
        read=_read_text_encoding,
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream, checked. Its columns are the contract's, in the order of the
    file.

    A batch has at most `max_per_batch` of its records; None for no limit. An open
    stream (`is_open`) declares no columns: they are found in the schemas of its
    records, each kept in `schema_fields` as the text of a `FieldSchema`; until its
    records have been looked at there are none. `pulled` is the schema in the project's
    files that gives the columns of a stream with a registry and no declared columns.

    If a change feed does not name the `key` of its records (`names_key` is false), the
    keys of the model that mirrors it are used; the records' own keys must then have
    these columns, except in lines of files, which have no keys. `route` is set for a
    stream that a group makes of one value of a column: it says which records of the
    topic belong to this stream's table.
    """

    name: str
    description: str
    connection: str
    origin: StreamOrigin
    format: Format
    schema: str
    envelope: Envelope
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    watermark: Watermark | None
    start: Start
    max_per_batch: int | None
    csv: Csv
    place: Place
    is_open: bool = False
    names_key: bool = True
    schema_fields: tuple[str, ...] = ()
    pulled: Registered | None = None
    source_table: tuple[str, ...] = ()
    multiline: bool = False
    encoding: str = UTF_8
    decimals: Literal["exact", "round"] = "exact"
    invalid_text: Literal["replace", "dead_letter"] = "replace"
    nanoseconds: Literal["cut", "dead_letter"] = "cut"
    ignore_corrupt: Literal["refuse", "dead_letter"] = "refuse"
    infinity: Infinity = "dead_letter"
    add_fields_prefix: str | None = None
    registry: str = ""
    key_format: KeyFormat = "json"
    wire: Wire = "confluent"
    subject: str = ""
    message: str = ""
    unknown_fields: UnknownFields = "ignore"
    after: After = "leave"
    archive: str = ""
    ordered_by: OrderedBy | None = None
    notifications: Notifications | None = None
    late_files: LateFiles = "read"
    list_all_every: str = "1 hour"
    route: Route | None = None
    has_table_changes: bool = False
    """Whether it is another model's table whose rows change: it is read by the changes
    of its rows, which `key` identifies."""

    @property
    def list_all_every_ms(self) -> int:
        """`list_all_every` in milliseconds."""
        return parse_duration(node_of(self.list_all_every, Place(""))).length_ms

    @property
    def is_feed(self) -> bool:
        """Whether its records are changes of rows."""
        return self.record_envelope.is_feed

    @property
    def record_format(self) -> RecordFormat:
        """The format in which its records are written."""
        # imported here: streams from a cache do not need it
        from lakesql.records.kinds_of_records import FORMATS

        return FORMATS[self.format]

    @property
    def record_envelope(self) -> RecordEnvelope:
        """The envelope of its records: what a record has around its row."""
        if self.has_table_changes:
            from lakesql.records.envelopes.table_changes import TableEnvelope

            return TableEnvelope()
        from lakesql.records.kinds_of_records import ENVELOPES

        return ENVELOPES[self.envelope]

    @property
    def tells_columns(self) -> bool:
        """Whether its changes name their own columns, by schemas in the events or in a
        registry."""
        return _tells_columns(self.record_format, self.record_envelope, self.registry)

    @property
    def value_subject(self) -> str:
        """The registry's subject of the schemas of its values; '' if it has no
        registry, or if it reads several topics and names no subject."""
        return self.subject or self._subject(
            "value" if self.record_format.schema_kind else ""
        )

    @property
    def key_subject(self) -> str:
        """The registry's subject of the schemas of its keys; '' as in
        `value_subject`."""
        return self._subject("key" if self.key_kind else "")

    def _subject(self, side: str) -> str:
        topics = self.origin.find_topics(tuple) if self.registry and side else ()
        return f"{topics[0]}-{side}" if len(topics) == 1 else ""

    @property
    def key_kind(self) -> str:
        """The kind of the schemas that its keys name in a registry; '' if they name
        none, or if keys are not read."""
        return self.key_record_format.schema_kind

    @property
    def key_record_format(self) -> RecordFormat:
        """The format in which the keys of its records are written."""
        from lakesql.records.kinds_of_records import FORMATS

        return FORMATS[self.key_format]

    @property
    def rescues(self) -> bool:
        """Whether a column holds the fields of its records that the contract does not
        know."""
        return self.unknown_fields == "rescue"

    @property
    def reads_several(self) -> bool:
        """Whether it reads, or may read, several topics."""
        return self.origin.may_be_several

    @property
    def takes_several_tables(self) -> bool:
        """Whether it reads the changes of several tables of the database as those of
        one table."""
        return len(self.source_table) > 1 or any(
            "*" in table for table in self.source_table
        )

    @property
    def types(self) -> dict[str, str]:
        """The types of the contract's columns, by name."""
        return {column.name: column.type for column in self.columns}

    @property
    def makes_event_time(self) -> bool:
        """Whether its watermark is on a field of a struct or an expression, rather than
        on a column."""
        return self.watermark is not None and not is_column(
            self.watermark.column, self.types
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the contract's columns."""
        return tuple(column.name for column in self.columns)


def read_stream(node: Node) -> Stream:
    """The stream that one entry of a file's `streams:` declares. Raises `ProjectError`
    with all problems of the entry."""
    clients = find_client_options(node, "a stream")
    problems = list(clients.values())
    try:
        options = decode(
            node,
            _StreamOptions,
            what="a stream",
            words="stream",
            ignore=frozenset(clients),
        )
    except ProjectError as error:
        raise ProjectError([*problems, *error.problems]) from None
    origin = _read_origin(options, node)
    columns = _offered_columns(options, origin, node)
    stream = Stream(
        name=options.name,
        description=options.description,
        connection=options.connection,
        origin=origin,
        format=options.format,
        schema=options.schema,
        envelope=options.envelope,
        key=options.key,
        columns=(*columns, RESCUED_COLUMN)
        if options.unknown_fields == "rescue"
        else columns,
        watermark=options.watermark,
        start=options.start,
        max_per_batch=options.max_per_batch,
        csv=options.csv,
        place=node.key_place("name"),
        is_open=_is_open(columns, options),
        names_key=bool(options.key) or origin.brings == "files",
        source_table=options.source_table,
        multiline=_is_multiline(options, origin),
        encoding=options.encoding,
        decimals=options.decimals,
        invalid_text=options.invalid_text,
        nanoseconds=options.nanoseconds,
        ignore_corrupt=options.ignore_corrupt,
        infinity=options.infinity,
        add_fields_prefix=options.add_fields_prefix,
        registry=options.registry,
        key_format=_key_format(options),
        wire=options.wire,
        subject=options.subject,
        message=options.message,
        unknown_fields=options.unknown_fields,
        after=options.after,
        archive=options.archive.strip("/")
        if options.archive.endswith("/")
        else options.archive,
        ordered_by=options.ordered_by,
        notifications=options.notifications,
        late_files=_late_files(options),
        list_all_every=options.list_all_every,
    )
    # imported here: streams from a cache were checked before
    from lakesql.stream.check_stream import find_stream_problems

    problems.extend(find_stream_problems(stream, node))
    if problems:
        raise ProjectError(problems)
    return stream


def _key_format(options: _StreamOptions) -> KeyFormat:
    """The configured format of keys. The default is `json`, or `json_schema` if values
    are JSON with a schema id before it."""
    if options.key_format is not None:
        return options.key_format
    from lakesql.records.kinds_of_records import FORMATS

    return "json_schema" if FORMATS[options.format].is_framed else "json"


def _late_files(options: _StreamOptions) -> LateFiles:
    """The configured handling of late files. The default is `read`, except for an
    ordered change feed, where the changes of a late file would be applied after later
    ones."""
    if options.late_files is not None or options.ordered_by is None:
        return options.late_files or "read"
    from lakesql.records.kinds_of_records import ENVELOPES

    return "refuse" if ENVELOPES[options.envelope].is_feed else "read"


def _is_multiline(options: _StreamOptions, origin: StreamOrigin) -> bool:
    """Whether a record may span several lines. Only files are split into records at
    line ends."""
    if options.multiline is not None:
        return options.multiline
    from lakesql.records.kinds_of_records import FORMATS

    return FORMATS[options.format].is_multiline and origin.brings == "files"


def _read_origin(options: _StreamOptions, node: Node) -> StreamOrigin:
    given = [key for key in ORIGIN_OPTIONS if getattr(options, key)]
    if len(given) > 1:
        what = f"Stream '{options.name}' says {' and '.join(given)}."
        raise ProjectError.of("stream-origin", what, place=node.key_place(given[1]))
    for key in given:
        return ORIGIN_OPTIONS[key](getattr(options, key), node.entries()[key].place)
    return UNSAID


def _tells_columns(kind: RecordFormat, envelope: RecordEnvelope, registry: str) -> bool:
    """Whether changes name their own columns, by schemas in the events or in a
    registry."""
    has_schemas = kind.is_document or bool(registry)
    return has_schemas and kind.tells_columns and envelope.says_columns


def _is_open(columns: tuple[Column, ...], options: _StreamOptions) -> bool:
    """Whether the columns are found in the schemas of records, as neither the contract
    nor a schema file of the project gives them."""
    from lakesql.records.kinds_of_records import ENVELOPES

    has_pulled = bool(options.registry) and not ENVELOPES[options.envelope].is_feed
    return not columns and not has_pulled


def _offered_columns(
    options: _StreamOptions, origin: StreamOrigin, node: Node
) -> tuple[Column, ...]:
    if options.columns:
        return options.columns
    if origin.columns:
        return tuple(Column(name, kind) for name, kind in origin.columns.items())
    from lakesql.records.kinds_of_records import ENVELOPES, FORMATS

    kind, envelope = FORMATS[options.format], ENVELOPES[options.envelope]
    if kind.column_type:
        return (Column("value", kind.column_type),)
    if origin.brings == "records" and _tells_columns(kind, envelope, options.registry):
        return ()
    if options.registry and kind.schema_kind and not envelope.is_feed:
        return ()  # the project has the subject's schema
    what = f"Stream '{options.name}' lacks 'columns': the contract on what arrives."
    why = "The records of a feed say their columns where its envelope is `debezium`, in JSON, or in Avro by a registry."
    raise ProjectError.of(
        "missing-option", what, why=why if envelope.is_feed else "", place=node.place
    )


def with_columns(
    stream: Stream,
    columns: tuple[Column, ...],
    schema_fields: tuple[str, ...],
    key: tuple[str, ...],
    declare: str = DECLARE,
) -> Stream:
    """The open stream with the columns that were found, and with the key of its records
    if it names none. `declare` is the advice on how to declare the columns instead.

    Raises `ProjectError` if the stream names a column that was not found, or if a
    column has a name or a type that no column can have.
    """
    from lakesql.stream.check_stream import find_reference_problems

    found = replace(
        stream, columns=columns, schema_fields=schema_fields, key=stream.key or key
    )
    named = [("key", name) for name in found.key]
    named += [("watermark", stream.watermark.column)] if stream.watermark else []
    problems: list[Problem] = []
    for option_name, name in named:
        problems.extend(find_reference_problems(found, option_name, name, stream.place))
    seen: set[str] = set()
    for column in columns:
        try:
            check_column(column.name, stream.place, f"{declare}. {_UNNAMABLE}")
        except ProjectError as error:
            problems += error.problems
        if column.name.lower() in seen:
            what = f"'{column.name}' stands twice among the columns of its feed. Capitals make no difference."
            problems.append(
                Problem(
                    "duplicate-column",
                    what,
                    "",
                    f"{declare}, without this one.",
                    stream.place,
                )
            )
        seen.add(column.name.lower())
        if not column.type:
            what = f"Column '{column.name}' of stream '{stream.name}' is written as something that no type reads."
            fix = f"Set decimal.handling.mode=string in the connector, or do this: {declare}."
            problems.append(Problem("unknown-type", what, fix=fix, place=stream.place))
    if problems:
        raise ProjectError(problems)
    return found


def model_stream(
    name: str,
    columns: tuple[Column, ...],
    watermark: Watermark | None,
    place: Place,
    change_keys: tuple[str, ...] = (),
) -> Stream:
    """Another model's table as a stream, so that its readers need no code of their own.
    With `change_keys`, the columns that identify its rows, it is read by the changes of
    its rows."""
    return Stream(
        name,
        "",
        "",
        UNSAID,
        "parquet",
        "",
        "none",
        change_keys,
        columns,
        watermark,
        "earliest",
        None,
        Csv(),
        place,
        has_table_changes=bool(change_keys),
    )


def change_fields(stream: Stream) -> Mapping[str, str]:
    """The fields of a stream's `_change` struct, with their types; empty if the stream
    is no change feed."""
    if not stream.is_feed:
        return {}
    before = ",".join(
        f"{field_name(column.name)}:{column.type}" for column in stream.columns
    )
    fields = {**CHANGE_FIELDS, "before": f"struct<{before}>"}
    return {name: fields[name] for name in stream.record_envelope.change_fields}
