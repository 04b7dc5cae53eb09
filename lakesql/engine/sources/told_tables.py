"""Which table of a group each record of a topic belongs to, found from a small part of
the record before it is parsed."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakesql.compile.quote import field_path
from lakesql.engine.records.debezium import READ, which_of, with_source
from lakesql.engine.records.parse import with_column_of
from lakesql.engine.records.routed import has_name, is_settled
from lakesql.engine.sources.binding import StreamBinding, contract_of
from lakesql.names import TABLE
from lakesql.stream.route import Route
from lakesql.stream.route_values import read_of
from lakesql.stream.stream import Stream

_ROUTE = "_lakesql_route"


def table_of(stream: Stream) -> str:
    """The only table, or the only value of a `route`, whose records a stream reads from
    its topics. '' if it reads all, or if `with_tables` cannot find the table of its
    records: their schemas in a registry would be needed, and a batch may be the first
    to name one."""
    if stream.registry:
        return ""
    if stream.route is not None:
        return stream.route.value
    if len(stream.source_table) != 1 or not stream.tells_columns:
        return ""
    return stream.source_table[0] if "*" not in stream.source_table[0] else ""


def with_tables(
    raw: DataFrame, binding: StreamBinding, tables: Sequence[str]
) -> DataFrame:
    """The raw records with `_lakesql_table`: which of these tables, as returned by
    `table_of`, each belongs to.

    It is '' if a record certainly belongs to none of them, so that all would ignore it,
    and NULL if it may belong to any, which parsing decides. `binding` is that of any of
    their streams, which differ only by their tables.
    """
    route = binding.stream.route
    if route is not None:
        return _by_route(raw, binding, route, tables)
    told = with_source(raw).withColumn(TABLE, which_of(F.col(READ), tables))
    return told.drop(READ)


def _by_route(
    raw: DataFrame, binding: StreamBinding, route: Route, tables: Sequence[str]
) -> DataFrame:
    column, fields = read_of(route.column, binding.stream)
    read = with_column_of(raw, contract_of(binding), column.field, _ROUTE)
    value = F.expr(field_path(".".join((_ROUTE, *fields))))
    return read.withColumn(TABLE, _table_of(value, route, tables)).drop(_ROUTE)


def _table_of(value: Column, route: Route, tables: Sequence[str]) -> Column:
    """The table of a value; '' if it is none of `tables`. NULL for a value about which
    the project has not decided, as each model of the group has to report it."""
    own = F.when(value.isin([*tables]), value).otherwise(F.lit(""))
    return F.when(has_name(value) & is_settled(value, route), own)
