"""How CSV files are read: the records of each file, and the headers of a batch's files.

Spark reads columns by position. So the driver reads the first record of each file of a
batch before the batch is parsed. If it names the columns in another order than the
contract, it is put before each record of the file as a prefix.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.records.csv_text import (
    SEPARATOR_LINE,
    CsvHeader,
    is_separator_line,
    read_header,
    split_lines,
    with_folders,
)
from lakesql.engine.records.encodings import encoded
from lakesql.engine.records.folded import any_of
from lakesql.engine.records.parse import with_each
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.folder_columns import columns_of_folders, folder_text
from lakesql.engine.sources.scans import scanned_files
from lakesql.engine.spark.failure import find_transient, read_cause
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.names import CORRUPT
from lakesql.records.formats.csv import Csv
from lakesql.stream.stream import Stream
from lakesql.stream.text_encoding import UTF_8, is_wide, java_name

BYTES = "ISO-8859-1"
"""An encoding in which each byte is a character, so that no byte is lost."""

_ONE = "_lakesql_one"
"""The column in which Spark's CSV reader returns a record that has only one value."""

_HEADER = "_lakesql_header"
_OWN = "_lakesql_own"
_ADDED = "_lakesql_added"

READERS = 8
"""How many files' headers are read in parallel."""

HEADER_LINES = 100
"""How many more lines a header may have if its names contain line breaks."""


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


@dataclass(frozen=True, slots=True)
class FileHeaders:
    """The headers of a batch's files that have other columns than the contract, or
    another order, each with the paths of its files. `is_of_all`: all files of the batch
    have the same header."""

    files: tuple[tuple[CsvHeader, tuple[str, ...]], ...] = ()
    is_of_all: bool = False


def with_headers(
    session: SparkSession, arrived: DataFrame, bindings: tuple[StreamBinding, ...]
) -> tuple[StreamBinding, ...]:
    """The bindings with the headers of a batch's CSV files that differ from the
    contract, and with the columns that their folders give."""
    asked = [binding for binding in bindings if binding.is_csv_in_files]
    if not asked:
        return bindings
    rows = arrived._jdf.queryExecution().toRdd()
    paths = dict(sorted(scanned_files(rows)))
    return tuple(
        replace(binding, headers=_find(session, paths, binding))
        if binding.is_csv_in_files
        else binding
        for binding in bindings
    )


def with_letters_headers(letters: DataFrame, binding: StreamBinding) -> StreamBinding:
    """The binding of replayed dead letters of CSV files, with the headers that precede
    the records.

    `letters` are the dead letters as raw records.
    """
    if not binding.is_csv_in_files:
        return binding
    first = F.substring_index(F.col("value").cast("string"), "\n", 1)
    lines = (
        letters.where(F.contains("value", F.lit(b"\n")))
        .select(first.alias("line"))
        .distinct()
        .collect()
    )
    names = _names(binding.stream)
    found = (read_header(str(row["line"]), names, binding.stream.csv) for row in lines)
    headers = tuple(
        (header, tuple[str, ...]())
        for header in found
        if header is not None
        and (header.folders or (binding.has_csv_headers and header.columns))
    )
    return replace(binding, headers=FileHeaders(headers))


def _names(stream: Stream) -> list[tuple[str, bool]]:
    return [(column.field, column.type == "string") for column in stream.columns]


def _find(
    session: SparkSession, paths: Mapping[str, str], binding: StreamBinding
) -> FileHeaders | None:
    stream, names = binding.stream, _names(binding.stream)
    columns, base = [name for name, _ in names], binding.source.places[0]
    given = {
        path: columns_of_folders(uri, columns, base) for path, uri in paths.items()
    }
    asked = [path for path in paths if binding.has_csv_headers or given[path]]
    if not asked:
        return None
    with ThreadPoolExecutor(READERS) as pool:
        lines = pool.map(
            partial(_read_first_record, session, stream),
            (paths[path] for path in asked),
        )
        firsts = dict(zip(asked, lines, strict=True))
    found: defaultdict[CsvHeader, list[str]] = defaultdict(list)
    headers: dict[tuple[str, tuple[str, ...]], CsvHeader | None] = {}
    for path, line in firsts.items():
        key = line, given[path]
        if key not in headers:
            headers[key] = _header_of(line, names, stream, given[path])
        header = headers[key]
        if line and header is not None:
            found[header].append(path)
    is_of_all = len(found) == 1 and len(next(iter(found.values()))) == len(paths)
    return FileHeaders(
        tuple((header, tuple(files)) for header, files in found.items()), is_of_all
    )


def _header_of(
    line: str, names: list[tuple[str, bool]], stream: Stream, folders: tuple[str, ...]
) -> CsvHeader | None:
    """The header of a file with this first line, whose folders give these columns."""
    if folders:
        return with_folders(line, names, stream.csv, folders)
    return read_header(line, names, stream.csv)


def _read_first_record(session: SparkSession, stream: Stream, path: str) -> str:
    """The first record of a file. Raises `RunError` (`file-unreadable`) if the file
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


def with_prefixes(raw: DataFrame, binding: StreamBinding) -> DataFrame:
    """The raw records without the header lines of the batch's files, each with the
    header of its file as a prefix."""
    headers = binding.headers
    # replayed dead letters have the header already
    if headers is None or not headers.files or binding.is_replayed:
        return raw
    encoding = UTF_8 if is_wide(binding.stream.encoding) else binding.stream.encoding
    line = own = added = F.lit(None).cast("binary")
    for header, paths in headers.files:
        is_of_file = (
            F.lit(True) if headers.is_of_all else F.col("topic").isin(list(paths))
        )
        line = F.when(
            is_of_file, F.lit(header.line.encode(encoding, errors="replace"))
        ).otherwise(line)
        written = header.line if header.own is None else header.own
        own = F.when(
            is_of_file, F.lit(written.encode(encoding, errors="replace"))
        ).otherwise(own)
        if header.folders:
            added = F.when(
                is_of_file, _folder_values(header.folders, binding, encoding)
            ).otherwise(added)
    marked = with_each(raw, {_HEADER: line, _OWN: own, _ADDED: added})
    value, header_line = F.col("value"), F.col(_HEADER)
    is_blank = F.trim(value.cast("string")) == ""
    ended = F.when(F.col(_ADDED).isNull() | is_blank, value).otherwise(
        F.concat(value, F.col(_ADDED))
    )
    prefixed = F.when(header_line.isNull(), value).otherwise(
        F.concat(header_line, F.lit(b"\n"), ended)
    )
    is_header = F.coalesce((value == F.col(_OWN)) & (F.length(_OWN) > 0), F.lit(False))
    is_header |= is_separator_line(value.cast("string"), binding.stream.csv)
    return (
        marked.where(~is_header)
        .withColumn("value", prefixed)
        .drop(_HEADER, _OWN, _ADDED)
    )


def _folder_values(
    folders: tuple[str, ...], binding: StreamBinding, encoding: str
) -> Column:
    """The text that is appended to the records of a file: the values from its folders,
    each after a delimiter."""
    options = binding.stream.csv
    quote, escape = options.quote, options.escape or options.quote
    pieces = []
    for name in folders:
        text = folder_text(F.col("topic"), name, binding.source.places[0])
        if quote:
            escaped = F.replace(text, F.lit(quote), F.lit(escape + quote))
            text = F.concat(F.lit(quote), escaped, F.lit(quote))
        pieces += [F.lit(options.delimiter), F.coalesce(text, F.lit(""))]
    return encoded(F.concat(*pieces), encoding)


def refuse_other_headers(raw: DataFrame, binding: StreamBinding) -> DataFrame:
    """The raw records of a stateful model, which are parsed by position, as the files
    of a batch are not known before.

    A line with most of the contract's names in another order fails the query.
    """
    if not binding.is_csv_in_files:
        return raw
    raw = _refuse_folders(raw, binding)
    if not binding.has_csv_headers:
        return raw
    names = [column.field.strip().lower() for column in binding.stream.columns]
    text = F.lower(F.ltrim(F.col("value").cast("string"), F.lit("\ufeff")))
    values = F.transform(
        F.split(text, re.escape(binding.stream.csv.delimiter)),
        lambda value: F.trim(F.translate(value, binding.stream.csv.quote, "")),
    )
    wanted = F.array(*map(F.lit, names))
    is_header = F.size(F.array_intersect(values, wanted)) * 2 > len(names)
    said = F.concat(
        F.lit(f"stream {binding.stream.name}: the columns of "),
        F.col("topic"),
        F.lit(
            " are not those of the contract in its order, and a model that keeps state reads CSV by position: "
        ),
        text,
    )
    is_other = F.coalesce(is_header & (values != wanted), F.lit(False))
    return raw.where(
        F.when(is_other, F.raise_error(said).cast("boolean")).otherwise(True)
    )


def _refuse_folders(raw: DataFrame, binding: StreamBinding) -> DataFrame:
    """The raw records; one whose file has a column of the contract in the name of a
    folder fails the query."""
    said = F.concat(
        F.lit(f"stream {binding.stream.name}: a folder of "),
        F.col("topic"),
        F.lit(
            " gives a column of the contract, and a model that keeps state reads CSV by position"
        ),
    )
    base = binding.source.places[0]
    texts = [
        folder_text(F.col("topic"), column.field, base).isNotNull()
        for column in binding.stream.columns
    ]
    is_given = F.col("topic").contains("=") & any_of(texts)
    return raw.where(
        F.when(is_given, F.raise_error(said).cast("boolean")).otherwise(True)
    )
