"""Reading the files that a pattern means, each of them once, whatever is in them."""

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
"""What a record in a file is taken to have, where its lines cannot be measured."""


def text_lines(
    session: SparkSession, reader: Reader, binding: StreamBinding
) -> DataFrame:
    """The lines of text files, `value`, with Spark's `_metadata`."""
    return load_files(session, reader, binding, "text")


def load_files(
    session: SparkSession, reader: Reader, binding: StreamBinding, format_: Format | str
) -> DataFrame:
    """What the files have that a pattern means, each of them once.

    Spark's source hands a batch's files on by their names, and takes those that look
    like patterns for the whole batch (`DataSource.checkAndGlobPathIfNecessary`). It has
    each file once where folders are looked up to their depth (`recursiveFileLookup`);
    which of them are meant is left to the path of each.
    """
    stream, glob = binding.stream, binding.glob
    assert glob is not None
    listing = listing_of(glob)
    # Spark passes over a file that is older than this when a newer one has been read:
    # none is to be passed over.
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
    """Whether the file of a row is one that the pattern means, by its path alone, so
    that Spark opens no other.

    Where the paths of all that match are equally long, the length tells of almost every
    file, and costs less.
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
    """The path of a row's file, without a scheme and an authority."""
    return F.regexp_replace(
        file_path(F.col("_metadata.file_path")),
        r"\A[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?",
        "",
    )


def file_path(uri: Column) -> Column:
    """The path of a file, of its URI: in one, a plus is itself."""
    return F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))


def measure_record(glob: str) -> int:
    """About how many bytes a record of these files has: Spark bounds a batch of files
    by bytes, in whole files.

    Measured on the lines of the first local file that has any.
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
    """About how many bytes a line of a file of this machine has; what a record is taken
    to have where there is none."""
    if local is None:
        return RECORD_BYTES
    try:
        with local.open("rb") as file:
            sample = file.read(1 << 20)
    except OSError:  # Spark will say what it cannot read
        return RECORD_BYTES
    return max(1, len(sample) // max(1, sample.count(b"\n")))
