"""A stream as one target reads it, and its contract in Spark's types."""

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
    from lakesql.engine.sources.csv_files import FileHeaders


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """A stream as one target reads it: through a connection, or from another model's
    table.

    `schema` is the Avro schema of a topic's values, as JSON. `sequence` is what every
    change of a feed must have where a mirror is ordered by it: columns, and fields of
    `_change`. `kept` are the columns that an update of a feed may leave out, as the
    table has their values, and `unused` those that it may leave out, as nothing reads
    them. `moves`: what its changes do to the keys of rows is asked for. `tombstones`:
    whether a record without a value deletes the row of its key. `is_mirrored`: rows are
    found by the feed's key. `needs_past`: what a table that is read has now is not all
    that the model's table is made of. `has_one_table`: its changes must be of one table
    of a database. `is_replayed`: its records are dead letters that are read again, as
    bytes. No tombstone among them
    deletes: the table may have rows that came after it. `headers` are those of a
    batch's CSV files. `files` are those that are read, where not all are, and
    `file_type` is what Spark reads them with, where it is not the contract. `set_aside`
    are the paths of files that are left out. `file_order` are the files of a batch of a
    change feed, in which the changes of one come before those of the next. `table` is
    the table of the project that is read, if one is: its columns are the stream's.
    `registry` has the schemas that a topic's values name, `schemas` are those that are
    known, `key_schemas` those that its keys name, and `schemas_folder` is where these
    are kept. `events_folder` has the messages of a queue that tell of files. `query` is
    the name of the query that reads it, the same in each run, and `is_bounded`: it
    reads up to what is there as it begins.
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
        """The pattern of the files that are read; None where none are."""
        return self.source.files(self.stream.origin)

    @property
    def is_in_files(self) -> bool:
        """Whether the records stand in files of the stream's own format."""
        return self.source.brings == "files"

    @property
    def sets_aside(self) -> bool:
        """Whether files of the stream that cannot be read are set aside."""
        return self.stream.ignore_corrupt == "dead_letter" and self.is_in_files

    @property
    def takes_away(self) -> bool:
        """Whether files of the stream are moved or deleted once they are read."""
        return (
            self.stream.after != "leave" and self.is_in_files and not self.is_replayed
        )

    def is_set_aside(self, path: str) -> bool:
        """Whether the file of this path is left out."""
        return without_scheme(path) in self.set_aside

    @property
    def has_rows(self) -> bool:
        """Whether the records arrive as rows with columns, not as bytes that lakesql
        parses."""
        has_typed_rows = (
            self.stream.record_format.has_typed_rows or self.source.brings == "rows"
        )
        return has_typed_rows and not (self.schema or self.registry)

    @property
    def never_null(self) -> tuple[str, ...]:
        """The columns that a row of a structured source must have a value of, by the
        names that its rows have for them: those that are required, and what finds and
        orders rows of a mirror."""
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
        """Whether the records are the lines of files, which are in the order of the
        changes."""
        return self.has_changes and self.is_in_files and not self.is_replayed

    @property
    def may_have_folders(self) -> bool:
        """Whether the names of its files' folders may say what columns of a JSON text
        are."""
        return (
            self.is_in_files
            and self.stream.record_format.is_document
            and not self.has_changes
        )

    @property
    def may_have_nanoseconds(self) -> bool:
        """Whether timestamps of its files may be in nanoseconds, which Spark reads as
        numbers alone."""
        is_parquet = self.stream.record_format.has_nanoseconds and self.is_in_files
        return is_parquet and any(
            "timestamp" in column.type for column in self.stream.columns
        )

    @property
    def is_csv_in_files(self) -> bool:
        """Whether its files, or the dead letters of these, are CSV, whose headers and
        folders may name columns."""
        return self.stream.record_format.is_separated and self.is_in_files

    @property
    def has_csv_headers(self) -> bool:
        """Whether its files, or the dead letters of these, are CSV whose first record
        names the columns."""
        return (
            self.stream.record_format.has_headers(self.stream.csv) and self.is_in_files
        )


def contract_of(binding: StreamBinding) -> Contract:
    """A declared stream's contract in Spark's types, with the names that records have
    for its columns."""
    # only here: what finds connections needs no pyspark
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
    """The columns of a declared stream that records have in their values, in Spark's
    types, by the names that these have for them; or those that they have in their
    keys."""
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
    """The type, of which Spark's parser is asked once: that takes a millisecond."""
    from pyspark.sql import types as T

    return T._parse_datatype_string(text)
