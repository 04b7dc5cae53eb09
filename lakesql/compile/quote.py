"""Identifiers and literals as Spark SQL text: the only way a value enters a statement."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

from lakesql.errors import InternalError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Literal = str | int | bool | Decimal | date | datetime


def identifier(name: str) -> str:
    """A column's or view's name, in backticks where it needs them."""
    if _PLAIN.match(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def identifiers(names: Iterable[str]) -> str:
    """Names, comma-separated."""
    return ", ".join(identifier(name) for name in names)


def column_of(alias: str, name: str) -> str:
    """A column of an aliased relation: `target.order_id`."""
    return f"{alias}.{identifier(name)}"


def text(value: str) -> str:
    """A string literal. Backslashes are escaped: Spark reads them as escapes by default."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def literal(value: Literal) -> str:
    """A literal of the value's own type. Times without a zone and in UTC are both the session's, which is UTC."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}L" if not -(2**31) < value < 2**31 else str(value)
        case Decimal():
            return f"{value:f}BD"
        case str():
            return text(value)
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise InternalError.of("internal", f"A {type(value).__name__} has no literal.")
