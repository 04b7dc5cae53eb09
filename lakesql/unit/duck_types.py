"""DuckDB's types for Spark's, which types widen to which, and the error of what only
Spark answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lakesql.stream.types import parse_type

MAX_DIGITS = 38
"""The most digits of a decimal, in both."""

GUARD = "lakesql needs Spark: "
"""What the message of a guard starts with that a value has run into."""

VOID = "void"
"""The type of NULL."""


class NeedsSparkError(Exception):
    """A test cannot be answered without Spark; the text says why."""


def quote(name: str) -> str:
    """A name as DuckDB's identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text as DuckDB's literal."""
    return "'" + value.replace("'", "''") + "'"


def guarded(condition: str, what: str, text: str) -> str:
    """The text, which raises where the condition holds: then only Spark knows the
    value."""
    return f"(CASE WHEN {condition} THEN error({text_literal(GUARD + what)}) ELSE {text} END)"


def duck_type(kind: str) -> str:
    """DuckDB's type for a type of Spark's that tests know. Raises `NeedsSparkError` for
    any other."""
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
"""Times have no zone in DuckDB, and are those of UTC: the zone of every session of
lakesql's."""

_COMPARED = frozenset({"int", "bigint", "string", "boolean", "date", "timestamp"})


def is_compared(kind: str) -> bool:
    """Whether both engines find the same values of a type equal, and order them alike:
    of a double two may differ by the sign of zero."""
    return kind in _COMPARED or decimal_digits(kind) is not None


def is_flat(kind: str) -> bool:
    """Whether a type is one value, and no struct, array or map."""
    return kind in _TYPES or decimal_digits(kind) is not None


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None of any other type."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


WHOLE_DIGITS = {"int": (10, 0), "bigint": (20, 0)}
"""The decimals that Spark makes of whole numbers."""


def element_type(kind: str) -> str:
    """The type of an array's elements, or of a map's values; '' of any other type."""
    parsed = parse_type(kind)
    return (
        parsed.fields[-1].type.text
        if parsed is not None and parsed.name in ("array", "map")
        else ""
    )


def key_type(kind: str) -> str:
    """The type of a map's keys; '' of any other type."""
    parsed = parse_type(kind)
    return (
        parsed.fields[0].type.text
        if parsed is not None and parsed.name == "map"
        else ""
    )


def field_of(kind: str, name: str) -> tuple[str, str] | None:
    """A struct's field as it is spelled there, and its type; None where there is
    none."""
    parsed = parse_type(kind)
    if parsed is None or parsed.name != "struct":
        return None
    for field in parsed.fields:
        if field.name.lower() == name.lower():
            return field.name, field.type.text
    return None


def can_widen(kind: str, wider: str) -> bool:
    """Whether each value of a type is one of the other, and both engines make the same
    of it."""
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
    """The type that Spark makes of values of these, where all become it without a loss.
    Raises `NeedsSparkError`."""
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
    """The decimal that holds all values of decimals and whole numbers; None where there
    is none."""
    digits = [decimal_digits(kind) or WHOLE_DIGITS.get(kind) for kind in kinds]
    known = [each for each in digits if each is not None]
    if len(known) < len(digits):
        return None
    scale = max(each[1] for each in known)
    precision = max(each[0] - each[1] for each in known) + scale
    return f"decimal({precision},{scale})" if precision <= MAX_DIGITS else None
