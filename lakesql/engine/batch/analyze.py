"""Which columns a model's SELECT has, by Spark's analyzer, before any record is
read."""

from __future__ import annotations

from collections import Counter

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    StringType,
    StructType,
)

from lakesql.compile.checks import Check, find_unacceptable
from lakesql.compile.select import Select
from lakesql.compile.table import TableColumn
from lakesql.engine.batch.stream_views import view_stream
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import empty_records
from lakesql.engine.spark.internals import replace_view
from lakesql.errors import RunError
from lakesql.model.properties import ModelProperties
from lakesql.names import MADE_VIEW, is_reserved, keeper_of, say_kept
from lakesql.stream.types import field_name, parse_type


def analyze_select(
    session: SparkSession, select: Select, bindings: tuple[StreamBinding, ...]
) -> StructType:
    """The schema of the SELECT's rows, analysed over streams without records. `session`
    is the model's own.

    Tables that it reads must exist. Raises pyspark's `AnalysisException`, and
    `RunError`: `duplicate-column`, and `bad-expression` and `wrong-type` for
    expectations.
    """
    for binding in bindings:
        records = empty_records(session, binding, select)
        view_stream(records, binding.stream, select)
    rows: DataFrame = session.sql(select.text)
    names = Counter(name.lower() for name in rows.columns)
    if twice := [name for name in rows.columns if names[name.lower()] > 1]:
        raise RunError.of(
            "duplicate-column",
            f"The SELECT of model '{select.model.name}' has two columns '{twice[0]}'. Capitals make no difference.",
            why="A * brings all columns of a table, also those that another part of the SELECT has.",
            fix=f"Name the columns, or leave one out: * EXCEPT ({twice[0]}).",
            place=select.model.place,
        )
    if select.checks:
        replace_view(rows, MADE_VIEW)
    for check in select.checks:
        _check_values(rows.schema, check)
        _analyze_check(session, check)
    return rows.schema


def _check_values(schema: StructType, check: Check) -> None:
    """Raise `RunError` (`wrong-type`) if an expectation accepts values of another type
    than its column."""
    kinds = (
        parse_type(type_text(field.dataType))
        for field in schema
        if field.name.lower() == check.column.lower()
    )
    if problems := [
        problem for kind in kinds if kind for problem in find_unacceptable(check, kind)
    ]:
        raise RunError(problems)


def _analyze_check(session: SparkSession, check: Check) -> None:
    """Raise `RunError` (`bad-expression`) if Spark's analyzer refuses the condition of
    an expectation, or it is not boolean."""
    said = (
        f"'{check.name}' ({check.condition})"
        if check.name != check.condition
        else f"'{check.name}'"
    )
    try:
        kind = (
            session.sql(f"SELECT ({check.condition}) FROM {MADE_VIEW}")
            .schema.fields[0]
            .dataType
        )
    except AnalysisException as error:
        raise RunError.of(
            "bad-expression", f"{said}: {error.getMessage()}", place=check.place
        ) from None
    if not isinstance(kind, BooleanType):
        what = f"{said} is of type {type_text(kind)}, and neither true nor false."
        raise RunError.of("bad-expression", what, place=check.place)


def landing_columns(
    schema: StructType, properties: ModelProperties
) -> tuple[TableColumn, ...]:
    """The columns of a table for rows of this schema, without lakesql's own columns.

    Raises `RunError` (`reserved-column`) if there is one that no table can have, as a
    `*` may select.
    """
    landing = [field for field in schema.fields if not is_reserved(field.name)]
    for field in landing:
        if keeper := keeper_of(field.name):
            what, why, fix = say_kept(field.name, keeper)
            raise RunError.of("reserved-column", what, why=why, fix=fix)
    return tuple(
        TableColumn(
            field.name, type_text(field.dataType), properties.description_of(field.name)
        )
        for field in landing
    )


def type_text(kind: DataType) -> str:
    """A type in SQL. pyspark's own text does not quote the names of fields."""
    match kind:
        case StructType(fields=fields):
            return f"struct<{','.join(f'{field_name(field.name)}:{type_text(field.dataType)}' for field in fields)}>"
        case ArrayType(elementType=element):
            return f"array<{type_text(element)}>"
        case MapType(keyType=key, valueType=value):
            return f"map<{type_text(key)},{type_text(value)}>"
        case StringType():
            return "string"  # a table keeps no collation
        case _:
            return kind.simpleString()
