"""Identifiers and literals as Spark SQL text: the only way in which a value enters a
statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from lakesql.errors import InternalError
from lakesql.identifiers import identifier as identifier
from lakesql.identifiers import identifiers as identifiers
from lakesql.model.table_name import TableName
from lakesql.stream.stream import Stream


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time, in microseconds since the epoch, independent of time zone and
    calendar."""

    epoch_us: int


@dataclass(frozen=True, slots=True, order=True)
class EpochDay:
    """A date, in days since the epoch, of any year."""

    epoch_days: int


Literal = str | int | bool | Decimal | Instant | EpochDay


def event_time(stream: Stream) -> str:
    """The SQL of the event time that a stream's watermark is on: a column, a field or
    an expression over columns."""
    assert stream.watermark is not None
    column = stream.watermark.column
    if not stream.makes_event_time:
        return identifier(column)
    path = column.split(".")
    is_field = all(part.isidentifier() for part in path)
    return ".".join(map(identifier, path)) if is_field else f"({column})"


def table_name(table: TableName) -> str:
    """The qualified name of a table: `lake.shop.orders`."""
    return whole_name((table.catalog, table.namespace, table.name))


def whole_name(parts: Iterable[str]) -> str:
    """The qualified name of a table from its parts; a namespace may have several."""
    return ".".join(map(identifier, parts))


def field_path(path: str) -> str:
    """A column, or a field of a struct by its path: `s.t`. No column name contains a
    dot."""
    return ".".join(map(identifier, path.split(".")))


def column_of(alias: str, name: str) -> str:
    """A column of an aliased relation: `target.order_id`."""
    return f"{alias}.{identifier(name)}"


def text(value: str) -> str:
    """A string literal. Backslashes are escaped, as Spark reads them as escapes by
    default."""
    escaped = (
        value.replace("\\", "\\\\")
        .replace("'", "\\'")
        .replace("\n", "\\n")
        .replace("\r", "\\r")
    )
    return f"'{escaped}'"


def literal(value: Literal) -> str:
    """A literal of the value's own type; for times and dates, an expression that Spark
    folds into one."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}L" if not -(2**31) < value < 2**31 else str(value)
        case Decimal():
            return f"{value:f}BD"
        case str():
            return text(value)
        case Instant(epoch_us):
            return f"timestamp_micros({epoch_us})"
        case EpochDay(epoch_days):
            return f"date_from_unix_date({epoch_days})"
        case _:
            raise InternalError.of(
                "internal", f"A {type(value).__name__} has no literal."
            )


def timestamp(at: datetime) -> str:
    """A time as a literal that means the same in every time zone."""
    return f"TIMESTAMP '{at.astimezone(UTC).isoformat(' ', 'milliseconds').replace('+00:00', 'Z')}'"
