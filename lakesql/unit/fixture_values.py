"""Converts values of fixtures and raw records to the types of a stream's contract or a
table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from lakesql.decode import Node
from lakesql.names import REQUIRED_MISSING, RESCUED, UNDECLARED_FIELD, UNPARSABLE
from lakesql.stream.recording import Digits
from lakesql.stream.stream import Stream
from lakesql.stream.types import parse_type, parts_of
from lakesql.unit.duck_types import (
    NeedsSparkError,
    decimal_digits,
    duck_type,
    element_type,
    quote,
    text_literal,
)

Value: TypeAlias = Any
"""None, or a bool, int, float, str, Decimal, date, datetime (in UTC, without a zone),
or a dict of these by field. The value of an array is a list, that of a map a dict by
key."""

_RANGES = {"int": 2**31, "bigint": 2**63}


class MisfitError(Exception):
    """A value of a fixture that does not fit the type of its column."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that becomes a dead letter, and the reason."""

    reason: str


def is_known(kind: str) -> bool:
    """Whether fixtures of both engines accept values of a type: a scalar type, or a
    struct of these."""
    try:
        duck_type(kind)
    except NeedsSparkError:
        return False
    parsed = parse_type(kind)
    return parsed is not None and all(
        part.name not in ("array", "map") for part in parts_of(parsed)
    )


def fit_nested(node: Node, kind: str) -> Value:
    """A fixture's value as one of a type that DuckDB has, including arrays, and maps
    whose keys are strings.

    Raises `MisfitError` for a value that does not fit, and `NeedsSparkError` for a type
    that tests on DuckDB do not support.
    """
    parsed = parse_type(kind)
    match node.value, parsed.name if parsed is not None else "":
        case tuple() as items, "array" if parsed is not None:
            return [fit_nested(item, parsed.fields[0].type.text) for item in items]
        case Mapping() as entries, "map" if (
            parsed is not None and parsed.fields[0].type.name == "string"
        ):
            return {
                key: fit_nested(entry, parsed.fields[1].type.text)
                for key, entry in entries.items()
            }
        case Mapping() as entries, "struct":
            return _fit_struct(entries, kind, fit_nested)
        case None, _:
            duck_type(kind)
            return None
        case _, "array" | "map":
            duck_type(kind)
            raise MisfitError(f"{node.shown} is not a value of type {kind}")
        case _:
            return fit(node, kind)


def fit(node: Node, kind: str) -> Value:
    """A fixture's value as one of a type. Raises `MisfitError` for a value that does
    not fit, and `NeedsSparkError` for a type that fixtures do not know."""
    if not is_known(kind):
        raise NeedsSparkError(f"type {kind or 'of a column, which only Spark knows'}")
    value = _unquoted(node, kind)
    if value is None:
        return None
    digits = decimal_digits(kind)
    if digits and not isinstance(value, bool) and isinstance(value, int | float | str):
        return _fit_decimal(
            node.written if node.written is not None else str(value),
            digits,
            node.shown,
            kind,
        )
    match kind, value:
        case "boolean", bool():
            return value
        case "int" | "bigint", int() if (
            not isinstance(value, bool) and -_RANGES[kind] <= value < _RANGES[kind]
        ):
            return value
        case "double", float() | int() if not isinstance(value, bool):
            return float(value)
        case "string", str():
            return value
        case "date", str() if re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        case "timestamp", str():
            if (found := read_time(value)) is not None:
                return found
        case _, Mapping() if kind.startswith("struct<"):
            return _fit_struct(value, kind, fit)
    raise MisfitError(f"{node.shown} is not a value of type {kind}")


def _unquoted(node: Node, kind: str) -> Any:
    """The value of a node. If it comes from a CSV file, where all values are strings,
    it is converted to the type if it has its form."""
    text = node.value
    if not isinstance(text, str) or node.written is None:
        return text
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in _RANGES and re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    if kind == "double" and re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d{1,3})?", text):
        return float(text)
    return text


def _fit_decimal(text: str, digits: tuple[int, int], shown: str, kind: str) -> Decimal:
    try:
        number = Decimal(text.replace("_", ""))
    except InvalidOperation:
        raise MisfitError(f"{shown} is not a value of type {kind}") from None
    if (
        not number.is_finite()
        or number != round(number, digits[1])
        or abs(number) >= 10 ** (digits[0] - digits[1])
    ):
        raise MisfitError(f"{shown} is not a value of type {kind}")
    return round(number, digits[1])


def _fit_struct(
    entries: Mapping[str, Node], kind: str, fit_field: Callable[[Node, str], Value]
) -> Value:
    parsed = parse_type(kind)
    fields = {field.name: field.type.text for field in parsed.fields} if parsed else {}
    if unknown := [name for name in entries if name not in fields]:
        raise MisfitError(f"'{unknown[0]}' is no field of {kind}")
    return {
        name: fit_field(entries[name], field) if name in entries else None
        for name, field in fields.items()
    }


def read_time(text: str) -> datetime | None:
    """A time in ISO 8601, as a datetime in UTC without a zone; a text without a zone is
    taken as UTC. None if the text is no time."""
    if not re.fullmatch(
        r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?)?",
        text,
    ):
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError):
        return None


def exact(node: Node) -> Value:
    """The value of a node without the places of its parts. A number with a fraction
    becomes a `Decimal` with the digits that are written."""
    match node.value:
        case tuple():
            return [exact(item) for item in node.value]
        case Mapping():
            return {name: exact(item) for name, item in node.value.items()}
        case float() if node.written is not None:
            try:
                number = Decimal(node.written.replace("_", ""))
            except InvalidOperation:
                return node.value
            return number if number.is_finite() else node.value
        case _:
            return node.value


def json_text(value: Value) -> str:
    """The value as JSON, without a loss: a decimal keeps its digits, and a time is
    written in UTC."""
    match value:
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f'"{value.isoformat()}Z"'
        case date():
            return f'"{value.isoformat()}"'
        case Mapping():
            inner = (
                f"{json.dumps(str(name), ensure_ascii=False)}:{json_text(it)}"
                for name, it in value.items()
            )
            return f"{{{','.join(inner)}}}"
        case list() | tuple():
            return f"[{','.join(map(json_text, value))}]"
        case _:
            raise AssertionError(f"{type(value).__name__} is no value of a fixture")


def sql_literal(value: Value, kind: str) -> str:
    """The value as a literal in DuckDB's SQL, of the DuckDB type that stands for this
    Spark type."""
    wanted = duck_type(kind)
    match value:
        case None:
            return f"CAST(NULL AS {wanted})"
        case bool():
            return "true" if value else "false"
        case list():
            return f"CAST([{', '.join(sql_literal(item, element_type(kind)) for item in value)}] AS {wanted})"
        case dict() if kind.startswith("map<"):
            keys = ", ".join(text_literal(key) for key in value)
            values = ", ".join(
                sql_literal(item, element_type(kind)) for item in value.values()
            )
            return f"CAST(map([{keys}], [{values}]) AS {wanted})"
        case dict():
            parsed = parse_type(kind)
            fields = parsed.fields if parsed else ()
            inner = ", ".join(
                f"{quote(it.name)} := {sql_literal(value[it.name], it.type.text)}"
                for it in fields
            )
            return f"CAST(struct_pack({inner}) AS {wanted})"
        case float():
            return f"CAST('{value!r}' AS {wanted})"
        case _:
            return f"CAST({text_literal(str(value))} AS {wanted})"


def read_raw(text: str, stream: Stream) -> dict[str, Value] | Bad:
    """The columns of a record whose value is this JSON, or why it is a dead letter, as
    Spark would read it.

    Spark's JSON reader accepts more than the grammar of JSON, and converts some values.
    Raises `NeedsSparkError` where it might do so.
    """
    if not text.isprintable() or _LENIENT.search(text):
        raise NeedsSparkError(
            f"the raw record {_short(text)}, which Spark may read otherwise than JSON says"
        )
    try:
        found = json.loads(
            text, object_pairs_hook=_pairs, parse_float=Digits, parse_int=Digits
        )
    except (ValueError, RecursionError):
        return Bad(UNPARSABLE)
    if isinstance(found, list):
        raise NeedsSparkError("a raw record that is an array")
    if not isinstance(found, dict):
        return Bad(UNPARSABLE)
    if any(column.is_in_key for column in stream.columns):
        raise NeedsSparkError("a raw record of a stream that reads columns of keys")
    columns = tuple(column for column in stream.columns if not column.is_rescued)
    spelled = {column.field.lower(): column.field for column in columns}
    if other := [name for name in found if spelled.get(name.lower(), name) != name]:
        raise NeedsSparkError(
            f"a raw record with the field {other[0]}, in other capitals than the contract has"
        )
    row = {
        column.name: _read_value(found.get(column.field), column.type, column.name)
        for column in columns
    }
    if any(isinstance(value, Bad) for value in row.values()):
        return Bad(UNPARSABLE)
    if any(column.required and row[column.name] is None for column in columns):
        return Bad(REQUIRED_MISSING)
    unknown = [name for name in found if name.lower() not in spelled]
    if unknown and stream.unknown_fields == "dead_letter":
        return Bad(UNDECLARED_FIELD)
    if unknown and stream.rescues:
        raise NeedsSparkError(
            f"a raw record with the field {unknown[0]}, which {RESCUED} has"
        )
    return {**row, RESCUED: None} if stream.rescues else row


_LENIENT = re.compile(r"'|NaN|INF|Infinity|\ufeff|\\u[dD]|[eE][-+]?\d{3,}")
"""Texts that Spark's JSON reader accepts beyond the grammar, or reads in its own
way."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NeedsSparkError("a raw record that names a field twice")
    return found


def _read_value(value: Any, kind: str, name: str) -> Value | Bad:
    duck_type(kind)
    digits = decimal_digits(kind)
    match value:
        case None:
            return None
        case bool() if kind == "boolean":
            return value
        case Digits() if kind in _RANGES and re.fullmatch(r"-?\d{1,18}", value):
            if -_RANGES[kind] <= int(value) < _RANGES[kind]:
                return int(value)
        case Digits() if kind == "double":
            return float(value)
        case Digits() if digits and re.fullmatch(r"-?\d+(\.\d+)?", value):
            number = Decimal(value)
            if number == round(number, digits[1]) and abs(number) < 10 ** (
                digits[0] - digits[1]
            ):
                return round(number, digits[1])
        case str() if type(value) is str and kind == "string":
            return value
        case str() if (
            type(value) is str
            and kind == "date"
            and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)
        ):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        case str() if type(value) is str and kind == "timestamp" and len(value) > 10:
            if (found := read_time(value)) is not None:
                return found
        case str() | bool() if (
            type(value) in (str, bool) and value != "" and kind in _RANGES
        ):
            return Bad(UNPARSABLE)
        case str() if type(value) is str and value != "" and kind == "boolean":
            return Bad(UNPARSABLE)
    raise NeedsSparkError(
        f"the value of {name} in a raw record, {_short(str(value))} as {kind}"
    )


def _short(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
