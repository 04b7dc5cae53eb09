"""How plain files are read by the stream's format, from text lines to the rows of
Parquet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.finer_times import in_microseconds, with_finer
from lakesql.engine.records.json_text import split_arrays, split_documents
from lakesql.engine.sources.binding import StreamBinding, contract_columns
from lakesql.engine.sources.csv_files import (
    RECORD_SCHEMA,
    record_options,
    record_values,
)
from lakesql.engine.sources.folder_columns import with_folder_columns
from lakesql.engine.sources.found_files import SparkFolder, seed_seen
from lakesql.engine.sources.globs import list_files
from lakesql.engine.sources.read_files import load_files, text_lines
from lakesql.engine.sources.spark_source import Reader, as_rows, raw_columns
from lakesql.names import CORRUPT
from lakesql.source.files import Files
from lakesql.source.stream_state import Position, SeededSource, SeenFile

FILE = ("_metadata.file_path", "_metadata.file_modification_time")
"""The SQL for the topic and the timestamp of a file's records."""


class SparkFiles(SparkFolder):
    """Plain files."""

    kind: ClassVar[str] = Files.kind

    def records(
        self, session: SparkSession, reader: Reader, binding: StreamBinding
    ) -> DataFrame:
        """The raw records of the files, read by the stream's format."""
        return _read(session, reader, binding)

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The files that were read; or, for a start time, the files that are older."""
        if position is not None and seen is not None:
            return seed_seen(position, seen)
        if start_ms is None or binding.glob is None:
            return SeededSource()
        files = list_files(session, binding.glob)
        return SeededSource.of([file for file in files if file.modified_ms < start_ms])


def _read(session: SparkSession, reader: Reader, binding: StreamBinding) -> DataFrame:
    stream = binding.stream
    match stream.format:
        # otherwise the middle lines of a quoted value would be taken for records
        case "csv" if stream.multiline or stream.csv.quote:
            reader = reader.schema(RECORD_SCHEMA).options(**record_options(stream))
            records = load_files(session, reader, binding, "csv")
            return record_values(records, stream).selectExpr(
                *raw_columns(*FILE, value="value")
            )
        case "json" if stream.multiline:
            files = load_files(
                session, reader.option("wholetext", True), binding, "text"
            )
            return split_documents(files).selectExpr(*raw_columns(*FILE, value="value"))
        case "csv" | "string" | "bytes":
            lines = text_lines(session, reader, binding)
            return lines.selectExpr(*raw_columns(*FILE, value="value"))
        case "json" | "json_schema":
            # not by Spark's reader of JSON lines, which ignores what follows the first
            # value of a line
            lines = text_lines(session, reader, binding).where(
                "trim(CAST(value AS string)) != ''"
            )
            records = lines if binding.has_changes else split_arrays(lines)
            return records.selectExpr(*raw_columns(*FILE, value="value"))
        case "parquet" | "orc" | "avro":
            kind = row_type(binding)
            rows = load_files(
                session,
                reader.schema(binding.file_type or kind),
                binding,
                stream.format,
            )
            names = kind.names
            if binding.may_have_nanoseconds:
                names = [*names, CORRUPT]
                rows = _in_contract_types(rows, binding, kind)
            return as_rows(
                with_folder_columns(rows, kind, binding.source.places[0]), names, *FILE
            )
        case "protobuf":
            raise AssertionError("a stream of Protobuf reads no files")
        case _:
            assert_never(stream.format)


def _in_contract_types(
    rows: DataFrame, binding: StreamBinding, kind: T.StructType
) -> DataFrame:
    """The rows of Parquet files with the contract's types, and `_lakesql_corrupt`,
    which is not NULL on rows that become dead letters."""
    no_letter = rows.withColumn(CORRUPT, F.lit(None).cast("string"))
    if binding.file_type is None:
        return no_letter
    is_exact = binding.stream.nanoseconds == "dead_letter"
    read = with_finer(rows, binding.file_type, kind) if is_exact else no_letter
    return in_microseconds(read, binding.file_type, kind)


def row_type(binding: StreamBinding) -> T.StructType:
    """The type with which files of typed rows are read: the columns of the contract."""
    return T.StructType(
        [
            T.StructField(column.name, column.type)
            for column in contract_columns(binding.stream)
        ]
    )
