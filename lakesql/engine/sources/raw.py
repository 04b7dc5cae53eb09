"""Reading a stream: whatever the connection is, its records arrive in one shape, Kafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakesql.compile.quote import identifier, identifiers, table_name, text
from lakesql.engine.records.finer_times import in_microseconds, with_finer
from lakesql.engine.records.json_text import split_documents
from lakesql.engine.records.parse import JSON_OPTIONS, has_words, read_type
from lakesql.engine.sources.binding import StreamBinding, TableSource, contract_columns, contract_of
from lakesql.engine.sources.broker import Broker, Brokers, Offsets, consumer_options
from lakesql.engine.sources.csv_files import RECORD_SCHEMA, record_options, record_values
from lakesql.engine.sources.globs import local_files, spark_path
from lakesql.errors import ProjectError
from lakesql.model.writing import TASK_RECORDS
from lakesql.names import CORRUPT, ROW
from lakesql.project.catalog import local_folder
from lakesql.project.files import date_by_name
from lakesql.project.profiles import Files, Kafka, Rate, Recorded
from lakesql.source.origin import FilePath, Generated, TopicPattern, Topics
from lakesql.source.pattern import Listing, escape_glob, files_below, listing_of, without_scheme
from lakesql.stream.stream import Format, Stream

RATE_SAMPLE = 1000
"""How many rows a generator has where they are asked for at once."""

RECORD_BYTES = 500
"""What a record in a file is taken to have, where its lines cannot be measured."""

POLL_TIMEOUT_MS = 15_000
"""How long a task waits for the records of a broker that has gone away. A run that is ended waits as long for its last
batch: Spark's own two minutes are too much for that."""

Reader = DataStreamReader | DataFrameReader
"""Spark's two readers, which take the same options."""


def read_raw(
    session: SparkSession, binding: StreamBinding, streaming: bool = True, brokers: Brokers | None = None
) -> DataFrame:
    """The raw records of a stream: as they arrive, or those that are there now, of which `brokers` are asked.

    Columns: `key, value` (binary), `topic, partition, offset, timestamp, headers`, and `_lakesql_row` where the records
    are rows already.
    """
    stream = binding.stream
    reader: Reader = session.readStream if streaming else session.read
    match binding.source:
        case Recorded(path=path):
            return _read_recorded(session, reader, binding, path)
        case Files(path=path):
            if not isinstance(stream.origin, FilePath):
                raise _wrong_origin(stream, "files", "path")
            return _read_files(session, reader, binding, path)
        case Rate(rows_per_second=rows_per_second):
            rows = (
                reader.format("rate").option("rowsPerSecond", rows_per_second).load()
                if streaming
                else session.range(RATE_SAMPLE).selectExpr("current_timestamp() AS timestamp", "id AS value")
            )
            return as_rows(rows, stream.column_names, text("rate"), offset="value", timestamp="timestamp")
        case Kafka() as connection:
            assert streaming == (brokers is None), "what a topic has now is asked of its broker"
            return _read_kafka(session, reader, stream, connection, brokers)
        case TableSource(table=table, since_ms=since_ms):
            if streaming and since_ms is not None:
                reader = reader.option("stream-from-timestamp", since_ms)
            rows = reader.format("iceberg").load(table_name(table))
            return as_rows(rows, rows.columns, text(str(table)))
        case _:
            assert_never(binding.source)


EARLIER_OFFSETS = 20
"""So many offsets are looked at for the record before another one: between them may be marks of transactions."""


def read_before(session: SparkSession, binding: StreamBinding, places: Sequence[tuple[str, int, int]]) -> DataFrame:
    """The last raw records before these places of a topic, each a topic, a partition and an offset, that are there."""
    match binding.source:
        case Kafka() as connection:
            ends: dict[str, dict[str, int]] = {}
            for topic, partition, offset in places:
                ends.setdefault(topic, {})[str(partition)] = offset
            starts = {
                topic: {partition: max(0, offset - EARLIER_OFFSETS) for partition, offset in offsets.items()}
                for topic, offsets in ends.items()
            }
            assigned = {topic: [*map(int, offsets)] for topic, offsets in ends.items()}
            reader = _kafka_reader(session.read, connection).option("failOnDataLoss", False)
            reader = reader.option("assign", json.dumps(assigned))
            reader = reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
            return reader.load().drop("timestampType")
        case _:
            raw = read_raw(session, binding, streaming=False)
            is_near = F.lit(False)
            for topic, partition, offset in places:
                of_partition = (F.col("topic") == topic) & (F.col("partition") == partition)
                is_near |= of_partition & F.col("offset").between(offset - EARLIER_OFFSETS, offset - 1)
            return raw.where(is_near)


_RECORDED_TYPE = (
    "struct<partition:int,offset:bigint,timestamp:bigint,key:string,value:string,headers:array<array<string>>,"
    "key_base64:string,value_base64:string>"
)


def _read_recorded(session: SparkSession, reader: Reader, binding: StreamBinding, base: str) -> DataFrame:
    """Kafka's records from JSON lines, one folder a topic. A line that is no record keeps its text as the value.

    `start: latest` reads all of them: nothing arrives in a recording later.
    """
    stream = binding.stream
    if (folder := local_folder(base)) is not None:
        date_by_name(folder)
    if isinstance(stream.origin, FilePath | Generated):
        raise _wrong_origin(stream, "recorded", "topic")
    lines = _text_lines(session, reader, binding, files_below(base, stream.origin.files))
    topic = file_path(F.element_at(F.split(F.col("_metadata.file_path"), "/"), -2))
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


def _read_files(session: SparkSession, reader: Reader, binding: StreamBinding, base: str) -> DataFrame:
    stream = binding.stream
    glob = files_below(base, stream.origin.files)
    match stream.format:
        case "csv" if stream.multiline or stream.csv.quote:  # or a quoted value's middle lines look like records
            reader = reader.schema(RECORD_SCHEMA).options(**record_options(stream))
            records = _load_files(session, reader, binding, "csv", glob)
            return record_values(records, stream).selectExpr(*_raw_columns(*_FILE, value="value"))
        case "json" if stream.multiline:
            files = _load_files(session, reader.option("wholetext", True), binding, "text", glob)
            return split_documents(files).selectExpr(*_raw_columns(*_FILE, value="value"))
        case "csv" | "string" | "bytes":
            lines = _text_lines(session, reader, binding, glob)
            return lines.selectExpr(*_raw_columns(*_FILE, value="value"))
        case "json" if not binding.has_json:
            lines = _text_lines(session, reader, binding, glob)
            return lines.selectExpr(*_raw_columns(*_FILE, value="value")).where("trim(CAST(value AS string)) != ''")
        case "json" | "parquet" | "avro":
            kind = row_type(binding)
            reader = reader.schema(binding.file_type or kind)
            reader = reader.options(columnNameOfCorruptRecord=CORRUPT, **JSON_OPTIONS)
            if binding.has_json and has_words(contract_of(binding)):
                reader = reader.option("allowNonNumericNumbers", False)
            rows = _load_files(session, reader, binding, stream.format, glob)
            names = kind.names
            if binding.may_have_nanoseconds:
                names = [*names, CORRUPT]
                rows = _in_contract_types(rows, binding, kind)
            return as_rows(with_folder_columns(rows, kind, base), names, *_FILE)
        case _:
            assert_never(stream.format)


def _in_contract_types(rows: DataFrame, binding: StreamBinding, kind: T.StructType) -> DataFrame:
    """The rows of Parquet files in the contract's types, and in `_lakesql_corrupt` each that is to be a dead letter."""
    no_letter = rows.withColumn(CORRUPT, F.lit(None).cast("string"))
    if binding.file_type is None:
        return no_letter
    is_exact = binding.stream.nanoseconds == "dead_letter"
    read = with_finer(rows, binding.file_type, kind) if is_exact else no_letter
    return in_microseconds(read, binding.file_type, kind)


def row_type(binding: StreamBinding) -> T.StructType:
    """The columns that files of rows are read with: the contract's, and for JSON the text that does not fit."""
    if binding.has_json:
        return read_type(contract_of(binding))
    return T.StructType([T.StructField(column.name, column.type) for column in contract_columns(binding.stream)])


def _read_kafka(
    session: SparkSession, reader: Reader, stream: Stream, connection: Kafka, brokers: Brokers | None
) -> DataFrame:
    """The records of topics as they arrive; with `brokers`, those that are there now."""
    reader = _kafka_reader(reader, connection).option("maxRecordsPerPartition", TASK_RECORDS)
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
            if brokers is None:  # a partition without a record that young starts at its end
                reader = reader.option("startingTimestamp", at_ms)
                reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
            else:  # which Spark has no word for
                starts = _offsets_since(brokers.of(session._jvm, connection), stream, at_ms)
                reader = reader.option("startingOffsets", json.dumps(starts))
        case word:
            if brokers is None:  # what is there now is asked for from its beginning
                reader = reader.option("startingOffsets", word)
    if stream.max_per_batch and brokers is None:
        reader = reader.option("maxOffsetsPerTrigger", stream.max_per_batch)
    return reader.load().drop("timestampType")


def _kafka_reader(reader: Reader, connection: Kafka) -> Reader:
    """A reader of a connection's topics, of whichever it is told."""
    reader = reader.format("kafka").option("includeHeaders", True)
    reader = reader.option("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS)
    for key, value in consumer_options(connection).items():
        reader = reader.option(f"kafka.{key}", value)
    if connection.group_id_prefix:
        reader = reader.option("groupIdPrefix", connection.group_id_prefix)
    return reader


def _offsets_since(broker: Broker, stream: Stream, at_ms: int) -> Offsets:
    return broker.offsets_since(broker.find_topics(stream.origin, stream.place).values(), at_ms)


def _text_lines(session: SparkSession, reader: Reader, binding: StreamBinding, glob: str) -> DataFrame:
    """The lines of text files, `value`, with Spark's `_metadata`."""
    return _load_files(session, reader, binding, "text", glob)


def _load_files(
    session: SparkSession, reader: Reader, binding: StreamBinding, format_: Format | str, glob: str
) -> DataFrame:
    """What the files have that a pattern means, each of them once.

    Spark's source hands a batch's files on by their names, and takes those that look like patterns for the whole batch
    (`DataSource.checkAndGlobPathIfNecessary`). It has each file once where folders are looked up to their depth
    (`recursiveFileLookup`); which of them are meant is left to the path of each.
    """
    listing, stream = listing_of(glob), binding.stream
    # Spark passes over a file that is older than this when a newer one has been read: none is to be passed over.
    reader = reader.format(format_).option("maxFileAge", "36500d").option("recursiveFileLookup", True)
    if binding.files:
        assert isinstance(reader, DataFrameReader)
        return reader.load([*map(escape_glob, binding.files)])
    if listing.name:
        reader = reader.option("pathGlobFilter", listing.name)
    if stream.max_per_batch:
        record_bytes = RECORD_BYTES if format_ in ("parquet", "avro") else measure_record(glob)
        reader = reader.option("maxBytesPerTrigger", stream.max_per_batch * record_bytes)
    rows = reader.load(spark_path(session, listing.path)).where(_is_meant(listing))
    return rows.where(~_plain_path().isin(list(binding.set_aside))) if binding.set_aside else rows


def _is_meant(listing: Listing) -> Column:
    """Whether the file of a row is one that the pattern means, by its path alone, so that Spark opens no other.

    Where the paths of all that match are equally long, the length tells of almost every file, and costs less.
    """
    uri = F.col("_metadata.file_path")
    is_meant = _plain_path().rlike(f"\\A(?:{listing.meant})\\z")
    if listing.depth is None:
        return is_meant
    of_local = ~uri.contains("://") & (F.substring_index(uri, "/", listing.depth + 2) == uri)  # file:/a/b
    of_others = F.substring_index(uri, "/", listing.depth + 4) == uri  # s3a://bucket/a/b
    is_short = of_local | (uri.contains("://") & of_others)
    return F.when(is_short, True).otherwise(is_meant)


def _plain_path() -> Column:
    """The path of a row's file, without a scheme and an authority."""
    return F.regexp_replace(file_path(F.col("_metadata.file_path")), r"\A[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", "")


def file_path(uri: Column) -> Column:
    """The path of a file, of its URI: in one, a plus is itself."""
    return F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))


HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What a folder's name has in place of NULL."""


def with_folder_columns(rows: DataFrame, kind: T.StructType, base: str) -> DataFrame:
    """The rows with those columns from the names of their folders (`day=3`) that the files do not have themselves.

    Folders below the connection's own are looked at. A value is escaped there as in a URL, as Hive does it. One that
    the column's type does not take fails the batch.
    """
    uri = F.col("_metadata.file_path")
    fields = (field for field in kind.fields if field.name != CORRUPT and isinstance(field.dataType, T.AtomicType))
    read = {field.name: F.col(identifier(field.name)) for field in fields}
    return rows.withColumns(
        {
            name: F.when(column.isNull() & uri.contains("="), _folder_value(uri, kind[name], base)).otherwise(column)
            for name, column in read.items()
        }
    )


def _folder_value(uri: Column, field: T.StructField, base: str) -> Column:
    """The value of a column in the names of a file's folders; NULL where none has it."""
    above = len([*filter(None, without_scheme(base).split("/"))])
    name = rf"\A(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?:/+[^/]+){{{above}}}/(?:.*/)?(?i:{re.escape(field.name)})="
    path = file_path(uri)
    written = F.regexp_extract(path, f"{name}([^/]*)/", 1)
    text = F.coalesce(F.try_url_decode(F.replace(written, F.lit("+"), F.lit("%2B"))), written)
    value = text.try_cast(field.dataType)
    said = F.concat(path, F.lit(f": the folder's value of {field.name} is no {field.dataType.simpleString()}: "), text)
    checked = F.when(value.isNull(), F.raise_error(said).cast(field.dataType)).otherwise(value)
    return F.when(path.rlike(f"{name}[^/]*/") & (written != HIVE_NULL), checked)


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
