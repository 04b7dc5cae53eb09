"""How recorded topics are read: files of JSON lines with Kafka's records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.clock import epoch_ms
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.found_files import SparkFolder, seed_seen
from lakesql.engine.sources.globs import list_files
from lakesql.engine.sources.read_files import file_path, text_lines
from lakesql.engine.sources.spark_source import Reader
from lakesql.project.files import date_by_name
from lakesql.source.origin import recorded_folder
from lakesql.source.pattern import escape_glob
from lakesql.source.recorded import Recorded
from lakesql.source.stream_state import THROUGH, Position, SeededSource, SeenFile

_RECORDED_TYPE = (
    "struct<partition:int,offset:bigint,timestamp:bigint,key:string,value:string,headers:array<array<string>>,"
    "key_base64:string,value_base64:string,topic:string>"
)


class SparkRecorded(SparkFolder):
    """Recorded topics. `start: latest` reads all of them, as nothing arrives in a
    recording later."""

    kind: ClassVar[str] = Recorded.kind

    def records(
        self, session: SparkSession, reader: Reader, binding: StreamBinding
    ) -> DataFrame:
        """Kafka's records from JSON lines."""
        return _read(session, reader, binding)

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The files up to the last one that was read of each topic, as the files of a
        topic are read in the order of their names."""
        if position is None or THROUGH not in position:
            return seed_seen(position, seen)
        files = [
            file
            for base in binding.source.places
            for topic, last in position[THROUGH].items()
            for file in list_files(
                session, f"{escape_glob(base)}/{escape_glob(topic)}/*.jsonl"
            )
            if file.name <= last
        ]
        return SeededSource.of(files)


def _read(session: SparkSession, reader: Reader, binding: StreamBinding) -> DataFrame:
    """Kafka's records from JSON lines, with one folder per topic. A line that is no
    record becomes the value of one."""
    if (folder := binding.source.recording) is not None:
        date_by_name(folder)
    stream = binding.stream
    lines = text_lines(session, reader, binding)
    topic = file_path(F.element_at(F.split(F.col("_metadata.file_path"), "/"), -2))
    if any(recorded_folder(name) != name for name in stream.origin.find_topics(tuple)):
        topic = F.url_decode(topic)
    record = F.from_json("value", _RECORDED_TYPE).alias("r")
    rows = lines.select("value", topic.alias("topic"), record)
    if stream.origin.topic_regex is not None:
        rows = rows.where(F.col("topic").rlike(stream.origin.topic_regex))
    is_record = F.col("r.partition").isNotNull()
    if isinstance(stream.start, datetime):
        first_ms = epoch_ms(stream.start)
        rows = rows.where(~is_record | (F.col("r.timestamp") >= first_ms))
    header = F.transform(
        "r.headers",
        lambda pair: F.struct(
            pair[0].alias("key"), _bytes(pair[1], F.get(pair, F.lit(2))).alias("value")
        ),
    )
    value = _bytes(F.col("r.value"), F.col("r.value_base64"))
    return rows.select(
        _bytes(F.col("r.key"), F.col("r.key_base64")).alias("key"),
        F.when(is_record, value)
        .otherwise(F.col("value").cast("binary"))
        .alias("value"),
        F.coalesce(F.col("r.topic"), F.col("topic")).alias("topic"),
        F.col("r.partition").alias("partition"),
        F.col("r.offset").alias("offset"),
        F.timestamp_millis("r.timestamp").alias("timestamp"),
        header.alias("headers"),
    )


def _bytes(text: Column, in_base64: Column) -> Column:
    """The bytes of a field that a recorded line has as text, or in base64 if it is no
    text."""
    return F.coalesce(text.cast("binary"), F.unbase64(in_base64))
