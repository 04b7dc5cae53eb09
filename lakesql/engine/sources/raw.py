"""Reading a stream: whatever the connection is, its records arrive in one shape, Kafka's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakesql.compile.quote import identifiers, table_name, text
from lakesql.engine.records.json_text import split_documents
from lakesql.engine.records.parse import JSON_OPTIONS, read_type
from lakesql.engine.sources.binding import StreamBinding, TableSource, contract_columns, contract_of
from lakesql.engine.sources.broker import Offsets, consumer_options, open_broker
from lakesql.engine.sources.csv_files import RECORD_SCHEMA, record_options, record_values
from lakesql.engine.sources.globs import as_pattern, files_of, local_files
from lakesql.errors import ProjectError
from lakesql.model.writing import TASK_RECORDS
from lakesql.names import CORRUPT, ROW
from lakesql.project.catalog import local_folder
from lakesql.project.files import date_by_name
from lakesql.project.profiles import Files, Kafka, Rate, Recorded
from lakesql.stream.stream import FilePath, Format, Generated, Stream, TopicPattern, Topics

RATE_SAMPLE = 1000
"""How many rows a generator has where they are asked for at once."""

RECORD_BYTES = 500
"""What a record in a file is taken to have, where its lines cannot be measured."""

POLL_TIMEOUT_MS = 15_000
"""How long a task waits for the records of a broker that has gone away. A run that is ended waits as long for its last
batch: Spark's own two minutes are too much for that."""

Reader = DataStreamReader | DataFrameReader
"""Spark's two readers, which take the same options."""


def read_raw(session: SparkSession, binding: StreamBinding, streaming: bool = True) -> DataFrame:
    """The raw records of a stream: as they arrive, or those that are there now.

    Columns: `key, value` (binary), `topic, partition, offset, timestamp, headers`, and `_lakesql_row` where the records
    are rows already.
    """
    stream = binding.stream
    reader: Reader = session.readStream if streaming else session.read
    match binding.source:
        case Recorded(path=path):
            return _read_recorded(reader, stream, path)
        case Files(path=path):
            if not isinstance(stream.origin, FilePath):
                raise _wrong_origin(stream, "files", "path")
            glob = files_of(stream, path)
            pattern = as_pattern(session, glob)
            rows = _read_files(reader, binding, pattern)
            return rows if pattern == glob else rows.where(_fails_in_column_folders(glob))
        case Rate(rows_per_second=rows_per_second):
            rows = (
                reader.format("rate").option("rowsPerSecond", rows_per_second).load()
                if streaming
                else session.range(RATE_SAMPLE).selectExpr("current_timestamp() AS timestamp", "id AS value")
            )
            return as_rows(rows, stream.column_names, text("rate"), offset="value", timestamp="timestamp")
        case Kafka() as connection:
            return _read_kafka(session, reader, stream, connection, streaming)
        case TableSource(table=table, since_ms=since_ms):
            if streaming and since_ms is not None:
                reader = reader.option("stream-from-timestamp", since_ms)
            rows = reader.format("iceberg").load(table_name(table))
            return as_rows(rows, rows.columns, text(str(table)))
        case _:
            assert_never(binding.source)


_RECORDED_TYPE = (
    "struct<partition:int,offset:bigint,timestamp:bigint,key:string,value:string,headers:array<array<string>>,"
    "key_base64:string,value_base64:string>"
)


def _read_recorded(reader: Reader, stream: Stream, base: str) -> DataFrame:
    """Kafka's records from JSON lines, one folder a topic. A line that is no record keeps its text as the value.

    `start: latest` reads all of them: nothing arrives in a recording later.
    """
    if (folder := local_folder(base)) is not None:
        date_by_name(folder)
    if isinstance(stream.origin, FilePath | Generated):
        raise _wrong_origin(stream, "recorded", "topic")
    glob = files_of(stream, base)
    lines = _text_lines(reader, stream, glob)
    topic = F.url_decode(F.element_at(F.split(F.col("_metadata.file_path"), "/"), -2))
    record = F.from_json("value", _RECORDED_TYPE).alias("r")
    rows = lines.select("value", topic.alias("topic"), record)
    if isinstance(stream.origin, TopicPattern):
        rows = rows.where(F.col("topic").rlike(f"^(?:{stream.origin.pattern})$"))
    is_record = F.col("r.partition").isNotNull()
    if isinstance(stream.start, datetime):
        first_ms = round(stream.start.timestamp() * 1000)
        rows = rows.where(~is_record | (F.col("r.timestamp") >= first_ms))
    header = F.transform(
        "r.headers", lambda pair: F.struct(pair[0].alias("key"), _bytes(pair[1], F.get(pair, F.lit(2))).alias("value"))
    )
    value = _bytes(F.col("r.value"), F.col("r.value_base64"))
    return rows.select(
        _bytes(F.col("r.key"), F.col("r.key_base64")).alias("key"),
        F.when(is_record, value).otherwise(F.col("value").cast("binary")).alias("value"),
        "topic",
        F.col("r.partition").alias("partition"),
        F.col("r.offset").alias("offset"),
        F.timestamp_millis("r.timestamp").alias("timestamp"),
        header.alias("headers"),
    )


def _bytes(text: Column, in_base64: Column) -> Column:
    """What a recorded line has as text, or in base64 where it is no text."""
    return F.coalesce(text.cast("binary"), F.unbase64(in_base64))


def _read_files(reader: Reader, binding: StreamBinding, glob: str) -> DataFrame:
    stream = binding.stream
    match stream.format:
        case "csv" if stream.multiline:
            records = _file_reader(reader, stream, "csv", glob).schema(RECORD_SCHEMA).options(**record_options(stream))
            return record_values(records.load(glob), stream).selectExpr(*_raw_columns(*_FILE, value="value"))
        case "json" if stream.multiline:
            files = _file_reader(reader, stream, "text", glob).option("wholetext", True)
            return split_documents(files.load(glob)).selectExpr(*_raw_columns(*_FILE, value="value"))
        case "csv" | "string" | "bytes":
            lines = _text_lines(reader, stream, glob)
            return lines.selectExpr(*_raw_columns(*_FILE, value="value"))
        case "json" if not binding.has_json:
            lines = _text_lines(reader, stream, glob)
            return lines.selectExpr(*_raw_columns(*_FILE, value="value")).where("trim(CAST(value AS string)) != ''")
        case "json" | "parquet" | "avro":
            kind = _row_type(binding)
            reader = _file_reader(reader, stream, stream.format, glob).schema(kind)
            rows = reader.options(columnNameOfCorruptRecord=CORRUPT, **JSON_OPTIONS).load(glob)
            return as_rows(rows, kind.names, *_FILE)
        case _:
            assert_never(stream.format)


def _fails_in_column_folders(path: str) -> Column:
    """True, but for files in folders whose names are columns (`day=3`), of which Spark takes none by a pattern."""
    said = f"{path} has appeared since the run began, with folders whose names are columns."
    return F.when(F.col("topic").rlike("/[^/]+=[^/]*/"), F.raise_error(F.lit(said)).cast("boolean")).otherwise(True)


def _row_type(binding: StreamBinding) -> T.StructType:
    """The columns that files of rows are read with: the contract's, and for JSON the text that does not fit."""
    if binding.has_json:
        return read_type(contract_of(binding))
    return T.StructType([T.StructField(column.name, column.type) for column in contract_columns(binding.stream)])


def _read_kafka(session: SparkSession, reader: Reader, stream: Stream, connection: Kafka, streaming: bool) -> DataFrame:
    reader = reader.format("kafka").option("includeHeaders", True).option("maxRecordsPerPartition", TASK_RECORDS)
    reader = reader.option("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS)
    for key, value in consumer_options(connection).items():
        reader = reader.option(f"kafka.{key}", value)
    if connection.group_id_prefix:
        reader = reader.option("groupIdPrefix", connection.group_id_prefix)
    match stream.origin:
        case Topics(names=names):
            reader = reader.option("subscribe", ",".join(names))
        case TopicPattern(pattern=pattern):
            reader = reader.option("subscribePattern", f"^(?:{pattern})$")  # or Spark looks for it within a name
        case FilePath() | Generated():
            raise _wrong_origin(stream, "kafka", "topic")
    match stream.start:
        case datetime() as start:
            at_ms = round(start.timestamp() * 1000)
            if streaming:  # a partition without a record that young starts at its end
                reader = reader.option("startingTimestamp", at_ms)
                reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
            else:  # which Spark has no word for
                reader = reader.option(
                    "startingOffsets", json.dumps(_offsets_since(session, connection, stream, at_ms))
                )
        case word:
            if streaming:  # what is there now is asked for from its beginning
                reader = reader.option("startingOffsets", word)
    if stream.max_per_batch and streaming:
        reader = reader.option("maxOffsetsPerTrigger", stream.max_per_batch)
    return reader.load().drop("timestampType")


def _offsets_since(session: SparkSession, connection: Kafka, stream: Stream, at_ms: int) -> Offsets:
    with open_broker(session._jvm, connection) as broker:
        return broker.offsets_since(broker.find_topics(stream.origin, stream.place).values(), at_ms)


def _text_lines(reader: Reader, stream: Stream, glob: str) -> DataFrame:
    """The lines of text files, `value`, with Spark's `_metadata`."""
    return _file_reader(reader, stream, "text", glob).load(glob)


def _file_reader(reader: Reader, stream: Stream, format_: Format | str, glob: str) -> Reader:
    # Spark passes over a file that is older than this when a newer one has been read: none is to be passed over.
    reader = reader.format(format_).option("maxFileAge", "36500d")
    if stream.max_per_batch:
        record_bytes = RECORD_BYTES if format_ in ("parquet", "avro") else measure_record(glob)
        reader = reader.option("maxBytesPerTrigger", stream.max_per_batch * record_bytes)
    return reader


_FILE = ("_metadata.file_path", "_metadata.file_modification_time")
"""The topic and the time of a file's records."""


def as_rows(
    rows: DataFrame, columns: Sequence[str], topic: str, timestamp: str = "NULL", offset: str = "NULL"
) -> DataFrame:
    """Rows of a structured source in the shape of raw records: the row itself stands in one struct."""
    row = f"struct({identifiers(columns)}) AS {ROW}"
    return rows.selectExpr(*_raw_columns(topic, timestamp, offset), row)


def _raw_columns(topic: str, timestamp: str, offset: str = "NULL", value: str = "NULL") -> tuple[str, ...]:
    """The columns of raw records that have no key, no partition and no headers. Everything is SQL."""
    return (
        "CAST(NULL AS binary) AS key",
        f"CAST({value} AS binary) AS value",
        f"CAST({topic} AS string) AS topic",
        "0 AS partition",
        f"CAST({offset} AS bigint) AS offset",
        f"CAST({timestamp} AS timestamp) AS timestamp",
        "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers",
    )


def _wrong_origin(stream: Stream, connection: str, wanted: str) -> ProjectError:
    return ProjectError.of(
        "stream-origin",
        f"Stream '{stream.name}' is read through connection '{stream.connection}' of type {connection}, which needs a "
        f"{wanted}.",
        place=stream.place,
    )


def measure_record(glob: str) -> int:
    """About how many bytes a record of these files has: Spark bounds a batch of files by bytes, in whole files.

    Measured on the lines of the first local file that has any.
    """
    local = local_folder(glob)
    if local is None:
        return RECORD_BYTES
    try:
        first = next((file for file in local_files(str(local)) if file.stat().st_size), None)
        if first is None:
            return RECORD_BYTES
        with first.open("rb") as file:
            sample = file.read(1 << 20)
    except OSError:  # Spark will say what it cannot read
        return RECORD_BYTES
    return max(1, len(sample) // max(1, sample.count(b"\n")))
