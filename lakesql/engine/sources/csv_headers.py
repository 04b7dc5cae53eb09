"""The headers of CSV in files: which columns each file of a batch has, and in which
order.

Spark reads a column by its position. So the driver looks at the first record of each
file of a batch, before the batch is parsed: where it names the columns in another order
than the contract, each record of the file gets it as a prefix.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.records.csv_text import (
    CsvHeader,
    is_separator_line,
    read_header,
    with_folders,
)
from lakesql.engine.records.encodings import encoded
from lakesql.engine.records.folded import any_of
from lakesql.engine.records.parse import with_each
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.csv_files import read_first_record
from lakesql.engine.sources.folder_columns import columns_of_folders, folder_text
from lakesql.engine.sources.scans import scanned_files
from lakesql.stream.stream import Stream
from lakesql.stream.text_encoding import UTF_8, is_wide

_HEADER = "_lakesql_header"
_OWN = "_lakesql_own"
_ADDED = "_lakesql_added"

READERS = 8
"""How many files' headers are read in parallel."""


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
            partial(read_first_record, session, stream),
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
