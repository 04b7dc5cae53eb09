"""A stream as one target reads it, and its contract with Spark's types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from lakesql.model.table_name import TableName
from lakesql.registry.connection import Registry
from lakesql.registry.schemas import StreamSchemas
from lakesql.source.pattern import without_scheme
from lakesql.source.source import Source
from lakesql.stream.stream import Stream
from lakesql.stream.text_encoding import UTF_8, is_wide

if TYPE_CHECKING:
    from pyspark.sql import types as T

    from lakesql.engine.records.parse import Contract, ContractColumn
    from lakesql.engine.sources.csv_headers import FileHeaders


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """A stream as one target reads it: through a connection, or from another model's
    table.

    `schema` is the Avro schema of a topic's values, as JSON. `table` is the table of
    the project that is read, if any; its columns are the stream's. `registry` has the
    schemas that a topic's values name, `schemas` are the known ones of these,
    `key_schemas` those that its keys name, and `schemas_folder` is where they are
    stored. `events_folder` has the messages of a queue that announce files. `query` is
    the name of the query that reads the stream, the same in each run. `is_bounded`: the
    query reads up to the present end of the stream.

    For change feeds: `sequence` are the columns and `_change` fields that each change
    must have if a mirror is ordered by them. `kept` are the columns that may be missing
    in an update, as the table has their values, and `unused` those that may be missing
    in any change, as nothing reads them. `moves`: `_lakesql_half` and `_lakesql_move`
    are wanted. `is_mirrored`: rows are found by the feed's key. `needs_past`: the
    model's table also depends on rows that the table it reads no longer has.
    `has_one_table`: all changes must be of the same database table.

    `tombstones`: whether a record without a value deletes the row of its key.
    `is_replayed`: the records are dead letters that are read again, as bytes. No
    tombstone among them deletes, as the table may have newer rows.

    For files: `headers` are those of a batch's CSV files. `files` are the only ones to
    be read, if not all are, and `file_type` is the type with which Spark reads them, if
    it is not the contract's. `set_aside` are the paths of files that are left out, as
    they could not be read. `file_order` are the files of a batch of a change feed: the
    changes of one precede those of the next.
    """

    stream: Stream
    source: Source
    schema: str = ""
    sequence: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    tombstones: Literal["", "delete"] = ""
    moves: bool = False
    is_mirrored: bool = False
    needs_past: bool = False
    has_one_table: bool = False
    is_replayed: bool = False
    headers: FileHeaders | None = None
    files: tuple[str, ...] = ()
    file_type: T.StructType | None = None
    set_aside: tuple[str, ...] = ()
    file_order: tuple[str, ...] = ()
    table: TableName | None = None
    registry: Registry | None = None
    schemas: StreamSchemas | None = None
    key_schemas: StreamSchemas | None = None
    schemas_folder: str = ""
    events_folder: str = ""
    query: str = ""
    is_bounded: bool = False

    @property
    def glob(self) -> str | None:
        """The pattern of the files that are read; None if the source has no files."""
        return self.source.files(self.stream.origin)

    @property
    def is_in_files(self) -> bool:
        """Whether the records are in files of the stream's own format."""
        return self.source.brings == "files"

    @property
    def sets_aside(self) -> bool:
        """Whether files of the stream that cannot be read become dead letters and are
        left out."""
        return self.stream.ignore_corrupt == "dead_letter" and self.is_in_files

    @property
    def takes_away(self) -> bool:
        """Whether files of the stream are moved or deleted after they were read."""
        return (
            self.stream.after != "leave" and self.is_in_files and not self.is_replayed
        )

    def is_set_aside(self, path: str) -> bool:
        """Whether the file with this path is left out."""
        return without_scheme(path) in self.set_aside

    @property
    def has_rows(self) -> bool:
        """Whether the records arrive as typed rows, not as bytes that lakesql
        parses."""
        has_typed_rows = (
            self.stream.record_format.has_typed_rows or self.source.brings == "rows"
        )
        return has_typed_rows and not (self.schema or self.registry)

    @property
    def never_null(self) -> tuple[str, ...]:
        """The columns that may not be NULL in typed rows, by their field names:
        required columns, and for a mirror those of the key and of the sequence."""
        needed = {*self.stream.key, *self.sequence} if self.is_mirrored else {*()}
        folded = {name.lower() for name in needed}
        found = (
            it for it in self.stream.columns if it.required or it.name.lower() in folded
        )
        return tuple(column.field for column in found)

    @property
    def has_changes(self) -> bool:
        """Whether the records are the events of a change feed."""
        return self.stream.is_feed and not self.stream.has_table_changes

    @property
    def is_feed_in_files(self) -> bool:
        """Whether the records are a change feed in files, whose lines are in the order
        of the changes."""
        return self.has_changes and self.is_in_files and not self.is_replayed

    @property
    def may_have_folders(self) -> bool:
        """Whether the names of folders may give columns of the records, which are
        JSON."""
        return (
            self.is_in_files
            and self.stream.record_format.is_document
            and not self.has_changes
        )

    @property
    def may_have_nanoseconds(self) -> bool:
        """Whether the files may have timestamps in nanoseconds, which Spark reads only
        as numbers."""
        is_parquet = self.stream.record_format.has_nanoseconds and self.is_in_files
        return is_parquet and any(
            "timestamp" in column.type for column in self.stream.columns
        )

    @property
    def is_csv_in_files(self) -> bool:
        """Whether the records are CSV from files, directly or as dead letters of these,
        so that headers and folders may give columns."""
        return self.stream.record_format.is_separated and self.is_in_files

    @property
    def has_csv_headers(self) -> bool:
        """Whether the records are CSV from files whose first record names the columns,
        directly or as dead letters of these."""
        return (
            self.stream.record_format.has_headers(self.stream.csv) and self.is_in_files
        )


def contract_of(binding: StreamBinding) -> Contract:
    """The contract of a declared stream, with Spark's types and the field names that
    its records have."""
    # only here, as finding connections must not need pyspark
    from lakesql.engine.records.parse import Contract

    stream = binding.stream
    is_framed = stream.record_format.is_framed
    kind = "json" if is_framed or binding.has_changes else stream.format
    assert kind in ("json", "csv", "avro", "protobuf", "string", "bytes"), (
        "rows with types are not parsed"
    )
    names = {name.lower() for name in stream.key}
    key = tuple(
        column.field for column in stream.columns if column.name.lower() in names
    )
    fields = {column.name: column.field for column in stream.columns}
    return Contract(
        contract_columns(stream),
        kind,
        stream.csv,
        binding.schema,
        key,
        stream.envelope,
        tuple(fields.get(name, name) for name in binding.sequence),
        tuple(fields[name] for name in binding.kept),
        binding.moves,
        stream.schema_fields,
        binding.is_mirrored,
        stream.names_key,
        source_table=stream.source_table,
        has_one_table=binding.has_one_table,
        tombstones="" if binding.is_replayed else binding.tombstones,
        unused=tuple(fields[name] for name in binding.unused),
        headers=tuple(header for header, _ in binding.headers.files)
        if binding.headers
        else (),
        is_one_line=binding.is_in_files
        and not stream.multiline
        and not binding.is_replayed,
        encoding=UTF_8 if is_wide(stream.encoding) else stream.encoding,
        invalid_text=stream.invalid_text,
        is_replayed=binding.is_replayed,
        add_fields_prefix=stream.add_fields_prefix,
        schemas=binding.schemas,
        unknown_fields=stream.unknown_fields,
        has_folders=binding.may_have_folders,
        frame=stream.wire if is_framed else None,
        order=tuple(fields.values()),
        key_columns=contract_columns(stream, in_key=True),
        key_schemas=binding.key_schemas,
        key_frame=stream.wire if stream.key_record_format.is_framed else None,
    )


def contract_columns(
    stream: Stream, in_key: bool = False
) -> tuple[ContractColumn, ...]:
    """The columns of a declared stream that are read from values, or with `in_key` from
    keys; with Spark's types and the field names that the records have."""
    from lakesql.engine.records.parse import ContractColumn

    return tuple(
        ContractColumn(
            column.field,
            _parse_type(column.type),
            column.required,
            column.unit,
            column.encoding,
            stream.decimals,
            stream.infinity,
        )
        for column in stream.columns
        if not column.is_rescued and column.is_in_key == in_key
    )


@cache
def _parse_type(text: str) -> T.DataType:
    """The Spark type of this text. It is cached, as Spark's parser takes a
    millisecond."""
    from pyspark.sql import types as T

    return T._parse_datatype_string(text)
