"""DuckDB's types for Spark's, which types widen to which, and the error for what only
Spark can answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lakesql.stream.types import parse_type

MAX_DIGITS = 38
"""The greatest precision of a decimal, in both engines."""

GUARD = "lakesql needs Spark: "
"""How the message of a guard begins: DuckDB raises it for a value about which only
Spark can answer."""

VOID = "void"
"""Spark's type of NULL."""


class NeedsSparkError(Exception):
    """A test that cannot be answered without Spark. The text says why."""


def quote(name: str) -> str:
    """A name as an identifier in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A string as a literal in DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"


def guarded(condition: str, what: str, text: str) -> str:
    """The expression, guarded: where the condition holds, DuckDB raises an error with
    `what`, as only Spark knows the value."""
    return f"(CASE WHEN {condition} THEN error({text_literal(GUARD + what)}) ELSE {text} END)"


def duck_type(kind: str) -> str:
    """DuckDB's type for a type of Spark. Raises `NeedsSparkError` for a type that tests
    on DuckDB do not support."""
    if decimal_digits(kind):
        return kind.upper()
    if kind in _TYPES:
        return _TYPES[kind]
    parsed = parse_type(kind)
    match (
        parsed.name if parsed is not None else "",
        parsed.fields if parsed is not None else (),
    ):
        case "struct", fields if fields:
            return f"STRUCT({', '.join(f'{quote(it.name)} {duck_type(it.type.text)}' for it in fields)})"
        case "array", (element,):
            return f"{duck_type(element.type.text)}[]"
        case "map", (key, value):
            return f"MAP({duck_type(key.type.text)}, {duck_type(value.type.text)})"
        case _:
            raise NeedsSparkError(
                f"type {kind or 'of a column, which only Spark knows'}"
            )


_TYPES = {
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    VOID: "INTEGER",
}
"""DuckDB's type for each scalar type of Spark besides decimals. DuckDB's timestamps
have no zone; they are in UTC, the time zone of every session of lakesql."""

_COMPARED = frozenset({"int", "bigint", "string", "boolean", "date", "timestamp"})


def is_compared(kind: str) -> bool:
    """Whether both engines agree on which values of a type are equal, and on their
    order. For doubles they do not: zeros may differ by their sign."""
    return kind in _COMPARED or decimal_digits(kind) is not None


def is_flat(kind: str) -> bool:
    """Whether a type is scalar: no struct, array or map."""
    return kind in _TYPES or decimal_digits(kind) is not None


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other type."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


WHOLE_DIGITS = {"int": (10, 0), "bigint": (20, 0)}
"""Precision and scale of the decimals to which Spark converts whole numbers."""


def element_type(kind: str) -> str:
    """The type of an array's elements, or of a map's values; '' for any other type."""
    parsed = parse_type(kind)
    return (
        parsed.fields[-1].type.text
        if parsed is not None and parsed.name in ("array", "map")
        else ""
    )


def key_type(kind: str) -> str:
    """The type of a map's keys; '' for any other type."""
    parsed = parse_type(kind)
    return (
        parsed.fields[0].type.text
        if parsed is not None and parsed.name == "map"
        else ""
    )


def field_of(kind: str, name: str) -> tuple[str, str] | None:
    """The name of a struct's field as the struct spells it, and its type; None if it
    has no such field."""
    parsed = parse_type(kind)
    if parsed is None or parsed.name != "struct":
        return None
    for field in parsed.fields:
        if field.name.lower() == name.lower():
            return field.name, field.type.text
    return None


def can_widen(kind: str, wider: str) -> bool:
    """Whether all values of a type can be cast to the other without a loss, with the
    same result in both engines."""
    digits, wanted = (
        decimal_digits(kind) or WHOLE_DIGITS.get(kind),
        decimal_digits(wider),
    )
    if digits and wanted:
        return wanted[1] >= digits[1] and wanted[0] - wanted[1] >= digits[0] - digits[1]
    return (kind, wider) in {
        ("int", "bigint"),
        ("int", "double"),
        ("bigint", "double"),
        ("date", "timestamp"),
    }


def common_type(kinds: Iterable[str], what: str) -> str:
    """The type that Spark converts values of these types to, if none of them loses
    anything. Raises `NeedsSparkError` if there is none; `what` names the expression in
    its message."""
    known = [kind for kind in dict.fromkeys(kinds) if kind != VOID]
    if not known:
        return VOID
    if len(known) == 1:
        return known[0]
    if any(decimal_digits(kind) for kind in known):
        found = _common_decimal(known)
    else:
        found = next(
            (
                kind
                for kind in known
                if all(other == kind or can_widen(other, kind) for other in known)
            ),
            None,
        )
    if found is None:
        raise NeedsSparkError(f"{what} mixes {' and '.join(sorted(known))}")
    return found


def _common_decimal(kinds: Sequence[str]) -> str | None:
    """The decimal type that holds all values of these decimals and whole numbers; None
    if it would need too many digits, or another type is among them."""
    digits = [decimal_digits(kind) or WHOLE_DIGITS.get(kind) for kind in kinds]
    known = [each for each in digits if each is not None]
    if len(known) < len(digits):
        return None
    scale = max(each[1] for each in known)
    precision = max(each[0] - each[1] for each in known) + scale
    return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else None
