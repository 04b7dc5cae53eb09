"""CSV in files: the records of each file as they stand there, and the first one alone,
which may be a header."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.records.csv_text import (
    SEPARATOR_LINE,
    split_lines,
)
from lakesql.engine.records.parse import with_each
from lakesql.engine.spark.failure import find_transient, read_cause
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.names import CORRUPT
from lakesql.records.formats.csv import Csv
from lakesql.stream.stream import Stream
from lakesql.stream.text_encoding import is_wide, java_name

BYTES = "ISO-8859-1"
"""An encoding in which each byte is a character, so that no byte is lost."""

_ONE = "_lakesql_one"
"""The column in which Spark's CSV reader returns a record that has only one value."""


def charset_of(stream: Stream) -> str:
    """The encoding in which Java reads a stream's files: the stream's own if it has
    several bytes per character, such as UTF-16; else `BYTES`."""
    return java_name(stream.encoding) if is_wide(stream.encoding) else BYTES


def record_options(stream: Stream) -> dict[str, str]:
    """The options with which Spark's CSV reader splits a file into records, with line
    breaks in quotes allowed."""
    return {
        "multiLine": "true",
        "lineSep": "\n",
        "encoding": charset_of(stream),
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        "sep": stream.csv.delimiter,
        "quote": stream.csv.quote,
        "escape": stream.csv.escape,
        "maxColumns": "1000000",
    }


RECORD_SCHEMA = f"{_ONE} string, {CORRUPT} string"
"""The schema given to Spark's CSV reader: one value. A record with more values does not
fit it, and so its whole text is returned in `_lakesql_corrupt`."""


def record_values(rows: DataFrame, stream: Stream) -> DataFrame:
    """The rows read with `record_options` as `value`: the bytes of each record, without
    its line end."""
    mark = "\ufeff" if is_wide(stream.encoding) else b"\xef\xbb\xbf".decode(BYTES)
    value = F.col("value")
    stages = (
        F.coalesce(F.col(CORRUPT), _as_written(F.col(_ONE), stream.csv)),
        F.when(value.endswith("\r"), F.rtrim(value, F.lit("\r"))).otherwise(value),
        F.when(
            value.startswith(mark), F.substring(value, len(mark) + 1, 2**31 - 1)
        ).otherwise(value),
    )
    for stage in stages:  # projections of their own, in which each is worked out once
        rows = with_each(rows, {"value": stage})
    each = rows.withColumn("value", F.explode(split_lines(value, stream.csv)))
    return each.withColumn(
        "value", F.encode("value", "UTF-8" if is_wide(stream.encoding) else BYTES)
    )


def _as_written(one: Column, options: Csv) -> Column:
    """The text of a record of one value, in quotes if it needs them."""
    quote = options.quote
    if not quote:
        return one
    quoted = F.concat(
        F.lit(quote),
        F.replace(one, F.lit(quote), F.lit((options.escape or quote) + quote)),
        F.lit(quote),
    )
    needs_quotes = (
        one.contains(quote) | one.contains(options.delimiter) | one.contains("\n")
    )
    return (
        F.when(one.isNull(), F.lit(quote * 2)).when(needs_quotes, quoted).otherwise(one)
    )


HEADER_LINES = 100
"""How many more lines a header may have if its names contain line breaks."""


def read_first_record(session: SparkSession, stream: Stream, path: str) -> str:
    """The first record of a file. Raises `RunError` (`file-unreadable`) where the file
    cannot be read."""
    try:
        return _first_record(session, stream, path)
    except Py4JJavaError as error:
        if next(find_transient(error), None) is not None:
            raise
        what = f"{unquote(path)} cannot be read: {': '.join(read_cause(error))}"
        raise RunError.of("file-unreadable", what, place=stream.place) from None


def _first_record(session: SparkSession, stream: Stream, path: str) -> str:
    """The first record of a file that is neither blank nor `sep=;`, as written; '' if
    there is none."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(path))
    settings = session._jsparkSession.sessionState().newHadoopConf()
    codec = java_class("org.apache.hadoop.io.compress.CompressionCodecFactory")(
        settings
    ).getCodec(place)
    opened = place.getFileSystem(settings).open(place)
    bytes_ = opened if codec is None else codec.createInputStream(opened)
    text = java_class("java.io.InputStreamReader")(bytes_, charset_of(stream))
    with closing(java_class("java.io.BufferedReader")(text)) as reader:
        line = reader.readLine()
        while line is not None and _says_nothing(line):
            line = reader.readLine()
        for _ in range(HEADER_LINES):
            following = (
                reader.readLine() if line and _is_open(line, stream.csv.quote) else None
            )
            if following is None:
                break
            line = f"{line}\n{following}"
    found = line or ""
    if not is_wide(stream.encoding):
        found = found.encode(BYTES).decode(stream.encoding, errors="replace")
    return found.removeprefix("\ufeff")


def _says_nothing(line: str) -> bool:
    """Whether a line is blank, or only declares the delimiter. A byte order mark may
    have been read as three characters."""
    text = line.removeprefix(_MARK).strip("\ufeff\r\n ")
    return not text or SEPARATOR_LINE.fullmatch(text) is not None


_MARK = b"\xef\xbb\xbf".decode(BYTES)


def _is_open(text: str, quote: str) -> bool:
    return bool(quote) and text.count(quote) % 2 == 1
