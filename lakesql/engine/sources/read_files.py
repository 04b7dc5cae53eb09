"""How the files that a pattern matches are read, each of them once, in whichever
format."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.globs import spark_path
from lakesql.engine.sources.spark_source import Reader
from lakesql.location import local_folder
from lakesql.source.local_files import local_files
from lakesql.source.pattern import Listing, escape_glob, listing_of
from lakesql.stream.stream import Format

RECORD_BYTES = 500
"""The assumed size of a record in a file whose lines cannot be measured."""


def text_lines(
    session: SparkSession, reader: Reader, binding: StreamBinding
) -> DataFrame:
    """The lines of text files as `value`, with Spark's `_metadata`."""
    return load_files(session, reader, binding, "text")


def load_files(
    session: SparkSession, reader: Reader, binding: StreamBinding, format_: Format | str
) -> DataFrame:
    """The rows of the files that the stream's pattern matches, each file once.

    Spark's source passes a batch's files on by name, and takes names that look like
    patterns for patterns, which may match other files of the batch
    (`DataSource.checkAndGlobPathIfNecessary`). With `recursiveFileLookup` it reads each
    file once. Then the rows of files that the stream's pattern does not match are
    filtered out by their paths.
    """
    stream, glob = binding.stream, binding.glob
    assert glob is not None
    listing = listing_of(glob)
    # Spark ignores files that are older than the newest one by more than this: none is
    # to be ignored.
    reader = (
        reader.format(format_)
        .option("maxFileAge", "36500d")
        .option("recursiveFileLookup", True)
    )
    if binding.files:
        assert isinstance(reader, DataFrameReader)
        return reader.load([*map(escape_glob, binding.files)])
    if listing.name:
        reader = reader.option("pathGlobFilter", listing.name)
    if stream.max_per_batch:
        record_bytes = (
            RECORD_BYTES
            if format_ in ("parquet", "orc", "avro")
            else measure_record(glob)
        )
        reader = reader.option(
            "maxBytesPerTrigger", stream.max_per_batch * record_bytes
        )
    rows = reader.load(spark_path(session, listing.path)).where(_is_meant(listing))
    return (
        rows.where(~_plain_path().isin(list(binding.set_aside)))
        if binding.set_aside
        else rows
    )


def _is_meant(listing: Listing) -> Column:
    """Whether the file of a row matches the stream's pattern. It depends on the path
    alone, so that Spark opens no other files.

    If all matching paths have the same number of parts, almost every file is decided by
    that number, which is cheaper.
    """
    uri = F.col("_metadata.file_path")
    is_meant = _plain_path().rlike(f"\\A(?:{listing.meant})\\z")
    if listing.depth is None:
        return is_meant
    # file:/a/b
    of_local = ~uri.contains("://") & (
        F.substring_index(uri, "/", listing.depth + 2) == uri
    )
    # s3a://bucket/a/b
    of_others = F.substring_index(uri, "/", listing.depth + 4) == uri
    is_short = of_local | (uri.contains("://") & of_others)
    return F.when(is_short, True).otherwise(is_meant)


def _plain_path() -> Column:
    """The path of a row's file, without scheme and authority."""
    return F.regexp_replace(
        file_path(F.col("_metadata.file_path")),
        r"\A[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?",
        "",
    )


def file_path(uri: Column) -> Column:
    """The decoded path of a file's URI; a plus stays a plus."""
    return F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))


def measure_record(glob: str) -> int:
    """The approximate number of bytes of a record in these files, as Spark limits a
    batch of files by bytes, in whole files.

    It is measured on the lines of the first local file that is not empty.
    """
    local = local_folder(glob)
    if local is None:
        return RECORD_BYTES
    try:
        first = next(
            (file for file in local_files(str(local)) if file.stat().st_size), None
        )
    except OSError:  # Spark will say what it cannot read
        return RECORD_BYTES
    return measure_lines(first)


def measure_lines(local: Path | None) -> int:
    """The approximate number of bytes of a line in a local file; `RECORD_BYTES` if
    there is no file."""
    if local is None:
        return RECORD_BYTES
    try:
        with local.open("rb") as file:
            sample = file.read(1 << 20)
    except OSError:  # Spark will say what it cannot read
        return RECORD_BYTES
    return max(1, len(sample) // max(1, sample.count(b"\n")))
