"""Which files have types that Spark would silently misread as those of the contract.

Spark's ORC reader makes NULL of a bigint that is no int, and 1 of 1.5, without an
error. It takes columns by position if Hive named them `_col0`. Its Parquet reader takes
unsigned numbers for signed ones of as many bits (`parquet_schema.py`), its Avro reader
rounds decimals and takes numbers for times (`avro_file_schema.py`). So the driver reads
the schema of each file of a batch before the batch is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.sources.avro_file_schema import is_avro_kept, read_avro_schema
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parquet_schema import is_parquet_kept, read_parquet_schema
from lakesql.engine.sources.scans import scanned_files
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.source.pattern import listing_of, without_scheme
from lakesql.stream.types import SparkType, parse_type, struct_of, widens

READERS = 8
"""How many schemas are read in parallel."""

ZONED = "timestamp with local time zone"
"""ORC's name for an instant, a type that Spark does not have."""


def check_file_types(
    session: SparkSession, arrived: DataFrame, bindings: Sequence[StreamBinding]
) -> None:
    """Raise `RunError` (`file-unreadable`) for the first file of a batch whose values
    would be misread."""
    asked = [
        each
        for each in bindings
        if each.stream.record_format.is_converted and each.is_in_files
    ]
    if not asked:
        return
    files = sorted(
        {uri for _, uri in scanned_files(arrived._jdf.queryExecution().toRdd())}
    )
    for binding in asked:
        assert binding.glob is not None
        listing = listing_of(binding.glob)
        own = [uri for uri in files if listing.means(without_scheme(_path_of(uri)))]
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(partial(find_misfit, session, binding), own)
            for uri, why in zip(own, found, strict=True):
                if why:
                    what = f"{unquote(uri)} cannot be read: {why}"
                    raise RunError.of(
                        "file-unreadable", what, fix=_FIX, place=binding.stream.place
                    )


_FIX = (
    "Declare the column as the type that the files have, or a larger one; or write the file anew under another name. "
    "With `ignore_corrupt: dead_letter` of the stream it is set aside."
)


def find_misfit(session: SparkSession, binding: StreamBinding, uri: str) -> str:
    """A text about why a file's values would be misread; '' if they would not, or if
    Spark itself reports the file."""
    record_format = binding.stream.record_format
    if not record_format.is_converted:
        return ""
    wanted = struct_of((it.field, parse_type(it.type)) for it in binding.stream.columns)
    if record_format.has_nanoseconds:
        return _misfit_of_parquet(session, wanted, uri)
    if record_format.rounds_decimals:
        found = parse_type(read_avro_schema(session, uri))
        return (
            next(_misfits(found, wanted, (), is_avro_kept), "")
            if found is not None
            else ""
        )
    return _misfit_of_orc(session, wanted, uri)


def _misfit_of_parquet(session: SparkSession, wanted: SparkType, uri: str) -> str:
    schema, unknown = read_parquet_schema(session, uri)
    asked = {field.name.lower() for field in wanted.fields}
    if foreign := next((name for name in unknown if name.lower() in asked), ""):
        return f"its column {foreign} has a type that Spark does not know"
    found = parse_type(schema)
    return (
        next(_misfits(found, wanted, (), is_parquet_kept), "")
        if found is not None
        else ""
    )


def _misfit_of_orc(session: SparkSession, wanted: SparkType, uri: str) -> str:
    schema = _read_schema(session, uri)
    if not schema:
        return ""
    if ZONED in schema:
        return f"it has a column of type {ZONED}, which Spark does not know"
    found = parse_type(schema)
    if found is None or found.name != "struct":
        return f"its schema is {schema[:SHOWN]}, which Spark does not know"
    if found.fields and all(field.name.startswith("_col") for field in found.fields):
        return "its columns have no names (`_col0`), so that they would be taken by their position"
    wrong = next(_misfits(found, wanted, (), _is_read_as), None)
    if wrong is not None:
        return wrong
    if _holds(found, wanted) and not _is_in_utc():
        return "it has timestamps, which are read in the time zone of Java, and that is not UTC: set TZ=UTC"
    return ""


SHOWN = 300
"""How many characters of a schema an error shows."""


def _read_schema(session: SparkSession, uri: str) -> str:
    """The schema of a file as ORC writes it; '' if it cannot be read, which Spark
    reports."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    settings = session._jsparkSession.sessionState().newHadoopConf()
    orc = java_class("org.apache.orc.OrcFile")
    try:
        reader = orc.createReader(place, orc.readerOptions(settings))
    except Py4JJavaError:
        return ""
    try:
        return str(reader.getSchema().toString())
    finally:
        reader.close()


def _path_of(uri: str) -> str:
    return str(
        java_class("org.apache.hadoop.fs.Path")(
            java_class("java.net.URI")(uri)
        ).toString()
    )


def _misfits(
    found: SparkType,
    wanted: SparkType,
    path: tuple[str, ...],
    is_kept: Callable[[SparkType, SparkType], bool],
) -> Iterator[str]:
    """A text for each part of a file's type that would be misread as the wanted
    type."""
    if found.name == wanted.name == "struct":
        for field in wanted.fields:
            named = [
                each for each in found.fields if each.name.lower() == field.name.lower()
            ]
            if len(named) > 1:
                yield f"{'.'.join((*path, field.name))} stands twice in it: capitals make no difference"
            elif named:
                yield from _misfits(
                    named[0].type, field.type, (*path, field.name), is_kept
                )
    elif found.name == wanted.name and found.fields:
        for mine, other in zip(found.fields, wanted.fields, strict=True):
            yield from _misfits(mine.type, other.type, path, is_kept)
    elif not is_kept(found, wanted):
        yield f"{'.'.join(path)} is {found.text} in it, and {wanted.text} in the contract"


def _is_read_as(found: SparkType, wanted: SparkType) -> bool:
    """Whether Spark reads each value of the found type as the same value of the wanted
    one."""
    if wanted.name == "timestamp_ntz":
        return False  # what Spark refuses of files that others have written
    if found.name == "varchar":
        return wanted.name == "string"
    return found == wanted or widens(found, wanted)


def _holds(found: SparkType, wanted: SparkType) -> bool:
    """Whether the file has timestamps and the contract reads some."""
    return (
        re.search(r"\btimestamp\b", wanted.text) is not None
        and "timestamp" in found.text
    )


def _is_in_utc() -> bool:
    zone = java_class("java.util.TimeZone").getDefault()
    return int(zone.getRawOffset()) == 0 and not zone.useDaylightTime()
