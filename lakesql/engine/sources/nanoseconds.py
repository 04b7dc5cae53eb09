"""Which Parquet files have timestamps in nanoseconds, as pandas and Arrow write them,
and how they are read.

Spark reads such a column only as bigint, and all files of a batch have one schema. So
the driver reads the footer of each file of a batch before the batch is parsed. If some
files have nanoseconds, the stream's files are read again, each with its own types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.counts import count
from lakesql.engine.records.finer_times import is_finer
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.files import row_type
from lakesql.engine.sources.parsed import pack_one
from lakesql.engine.sources.raw import read_raw
from lakesql.engine.sources.scans import scanned_files, united
from lakesql.engine.spark.few_rows import changed_settings
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.internals import as_given, frame_of
from lakesql.errors import RunError
from lakesql.events import Emit, Noted
from lakesql.source.pattern import escape_glob, listing_of, without_scheme

READERS = 8
"""How many footers are read in parallel."""

AS_LONG = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
"""The setting with which Spark reads a column of nanoseconds as bigint; without it
Spark refuses the column."""

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet"


def with_nanoseconds(
    session: SparkSession,
    arrived: DataFrame,
    bindings: Sequence[StreamBinding],
    emit: Emit | None = None,
) -> DataFrame:
    """A batch's raw records, in which the files of each stream that has nanoseconds in
    one of them are read again.

    If no file has nanoseconds, the frame itself. `emit` is told how many
    records lose digits.
    """
    asked = [
        index for index, binding in enumerate(bindings) if binding.may_have_nanoseconds
    ]
    if not asked:
        return arrived
    execution = arrived._jdf.queryExecution()
    others, again = [], list[DataFrame]()
    # streams without records in the batch are not in the union
    for rows in united(execution.toRdd()):
        files = [uri for _, uri in scanned_files(rows)]
        owners = {
            index: kinds
            for index in asked
            if (kinds := _kinds_of(session, bindings[index], files))
        }
        if not any(kind is not None for kinds in owners.values() for kind in kinds):
            others.append(rows)
            continue
        if len(owners) > 1:
            raise _refusal(
                bindings[asked[0]],
                "that reads them by several streams",
                next(iter(files)),
            )
        ((index, kinds),) = owners.items()
        if emit is not None and bindings[index].stream.nanoseconds == "cut":
            _tell_cut(session, bindings[index], kinds, emit)
        again.append(
            pack_one(_read_again(session, bindings[index], kinds), index, len(bindings))
        )
    if not again:
        return arrived
    if len(bindings) == 1:
        return again[0]
    kept = [frame_of(rows, execution.analyzed().output(), arrived) for rows in others]
    return reduce(
        partial(DataFrame.unionByName, allowMissingColumns=True),
        [arrived.limit(0), *kept, *again],
    )


def refuse_nanoseconds(
    session: SparkSession, arrived: DataFrame, bindings: Sequence[StreamBinding]
) -> None:
    """Raise `RunError` if a file of a stateful model's batch has nanoseconds, as its
    query has read the files already."""
    if not any(binding.may_have_nanoseconds for binding in bindings):
        return
    files = [uri for _, uri in scanned_files(arrived._jdf.queryExecution().toRdd())]
    for binding in bindings:
        kinds = (
            _kinds_of(session, binding, files) if binding.may_have_nanoseconds else {}
        )
        for kind, paths in kinds.items():
            if kind is not None:
                raise _refusal(binding, "that keeps state", paths[0])


def _refusal(binding: StreamBinding, of: str, file: str = "") -> RunError:
    """The error about a file with timestamps in nanoseconds, for a model that cannot
    read them."""
    where = file or f"A file of stream '{binding.stream.name}'"
    return RunError.of(
        "file-unreadable",
        f"{where} has timestamps in nanoseconds, which no model reads {of}.",
        why="Spark has no type for them, and the plan of such a model is made before anyone knows its files.",
        fix="Write the files in microseconds, in pandas and Arrow by coerce_timestamps='us'.",
        place=binding.stream.place,
    )


_Kinds = Mapping[T.StructType | None, list[str]]
"""The files of a batch by the types with which they are read; None for the contract's
types."""


def _kinds_of(
    session: SparkSession, binding: StreamBinding, files: Sequence[str]
) -> _Kinds:
    assert binding.glob is not None
    listing = listing_of(binding.glob)
    uris = sorted(
        uri for uri in set(files) if listing.means(without_scheme(_path_of(uri)))
    )
    with ThreadPoolExecutor(READERS) as pool:
        footers = list(pool.map(partial(_read_footer, session), uris))
    wanted = row_type(binding)
    kinds = {
        footer: _kind_of(session, footer, wanted)
        for footer in {str(each) for each in footers}
    }
    found: defaultdict[T.StructType | None, list[str]] = defaultdict(list)
    for uri, footer in zip(uris, footers, strict=True):
        found[kinds[str(footer)]].append(_path_of(uri))
    return found


def _path_of(uri: str) -> str:
    return str(
        java_class("org.apache.hadoop.fs.Path")(
            java_class("java.net.URI")(uri)
        ).toString()
    )


def _read_footer(session: SparkSession, uri: str) -> Any:
    """The Parquet schema of a file; '' if it cannot be read, which Spark reports when
    it reads the file."""
    place = java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))
    settings = session._jsparkSession.sessionState().newHadoopConf()
    no_rows = java_class(
        "org.apache.parquet.format.converter.ParquetMetadataConverter"
    ).SKIP_ROW_GROUPS
    try:
        footer = java_class("org.apache.parquet.hadoop.ParquetFileReader").readFooter(
            settings, place, no_rows
        )
    except Py4JJavaError:
        return ""
    return footer.getFileMetaData().getSchema().toString()


def _kind_of(
    session: SparkSession, footer: str, wanted: T.StructType
) -> T.StructType | None:
    """The types with which a file of this Parquet schema is read; None if the
    contract's types fit."""
    if "NANOS" not in footer:
        return None
    schema = java_class("org.apache.parquet.schema.MessageTypeParser").parseMessageType(
        footer
    )
    with changed_settings(session, AS_LONG):
        settings = session._jsparkSession.sessionState().conf().clone()
    try:
        column = java_class(f"{_PARQUET}.ParquetToSparkSchemaConverter")(
            settings
        ).convertParquetColumn(schema, java_class("scala.Option").empty())
    except Py4JJavaError:  # of a type that Spark does not know, of which it will say so
        return None
    found = _as_read(wanted, column)
    assert isinstance(found, T.StructType)
    return None if found == wanted else found


def _as_read(wanted: T.DataType, column: Any) -> T.DataType:
    """The type with which a Parquet column is read, given the contract's type: bigint
    in place of timestamps in nanoseconds."""
    children = [
        column.children().apply(index) for index in range(column.children().size())
    ]
    match wanted:
        case T.TimestampType() | T.TimestampNTZType() if not children:
            return T.LongType() if _has_nanoseconds(column, wanted) else wanted
        case T.StructType() if str(column.sparkType().typeName()) == "struct":
            named = dict(
                zip(
                    map(str.lower, column.sparkType().fieldNames()),
                    children,
                    strict=True,
                )
            )
            return T.StructType(
                [
                    _field_as_read(field, named.get(field.name.lower()))
                    for field in wanted.fields
                ]
            )
        case T.ArrayType() if len(children) == 1:
            return T.ArrayType(
                _as_read(wanted.elementType, children[0]), wanted.containsNull
            )
        case T.MapType() if len(children) == 2:
            key, value = (
                _as_read(wanted.keyType, children[0]),
                _as_read(wanted.valueType, children[1]),
            )
            return T.MapType(key, value, wanted.valueContainsNull)
    return wanted


def _field_as_read(field: T.StructField, column: Any | None) -> T.StructField:
    return (
        field
        if column is None
        else T.StructField(field.name, _as_read(field.dataType, column), field.nullable)
    )


def _has_nanoseconds(column: Any, wanted: T.DataType) -> bool:
    """Whether a column has nanoseconds that can be read as the wanted timestamp type.
    Those with a time zone are only read as `timestamp`."""
    if not column.descriptor().isDefined():
        return False
    said = str(column.descriptor().get().getPrimitiveType().getLogicalTypeAnnotation())
    of_zone, of_none = "TIMESTAMP(NANOS,true)", "TIMESTAMP(NANOS,false)"
    return said == of_none or (said == of_zone and isinstance(wanted, T.TimestampType))


def _tell_cut(
    session: SparkSession,
    binding: StreamBinding,
    kinds: _Kinds,
    emit: Emit,
) -> None:
    """Report how many records have timestamps whose digits are truncated, if any have.
    Only columns with nanoseconds are read."""
    for kind, paths in kinds.items():
        if kind is None:
            continue
        with changed_settings(session, AS_LONG):
            rows = (
                session.read.schema(kind)
                .option("recursiveFileLookup", True)
                .parquet(*map(escape_glob, paths))
            )
            found = rows.agg(F.count_if(is_finer(kind, row_type(binding)))).collect()[
                0
            ][0]
        if found:
            of = (
                paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
            )
            text = f"stream {binding.stream.name}: {of}: {count(found, 'record')} with digits below a microsecond, cut"
            emit(Noted(text))


def _read_again(
    session: SparkSession, binding: StreamBinding, kinds: _Kinds
) -> DataFrame:
    """The raw records of these files, read with their own types."""
    frames = []
    for kind, paths in kinds.items():
        own = replace(binding, files=tuple(paths), file_type=kind)
        with changed_settings(session, AS_LONG if kind is not None else {}):
            frames.append(as_given(read_raw(session, own, streaming=False)))
    return reduce(DataFrame.unionByName, frames)
