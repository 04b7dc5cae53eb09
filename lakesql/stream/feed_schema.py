"""The columns of a change feed that declares none: found in the schemas beside its
events, or guessed from a sample. Pure.

A schema is Kafka Connect's, as its JsonConverter writes it: `{"schema": {"fields":
[{"field": "after", "fields": […]}, …]}, "payload": {…}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lakesql.stream.stream import Column
from lakesql.stream.types import SparkType, TypeField, field_name, parse_type, widens

SEPARATOR = "\x01"
"""The separator between the parts of a `FieldSchema` in its text."""


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """What a schema declares for one column: its name and how its values are written. A
    part is '' if the schema does not give it.

    `items` and `fields` are the schemas of an array's items and a struct's fields, as
    JSON.
    """

    field: str
    type: str
    name: str = ""
    scale: str = ""
    precision: str = ""
    items: str = ""
    fields: str = ""

    @property
    def text(self) -> str:
        """The schema as one text, which is unique to it."""
        return SEPARATOR.join(getattr(self, name) for name in FIELD_PARTS)

    @property
    def spark_type(self) -> str | None:
        """The Spark type of its values; None if there is none."""
        return _spark_type(
            {
                "type": self.type,
                "name": self.name,
                "parameters": {
                    "scale": self.scale or "0",
                    _PRECISION: self.precision or "38",
                },
                "items": json.loads(self.items) if self.items else None,
                "fields": json.loads(self.fields) if self.fields else None,
            }
        )


FIELD_PARTS = tuple(field.name for field in fields(FieldSchema))
"""The parts of the text of a `FieldSchema`, in their order."""

_PRECISION = "connect.decimal.precision"


def parse_field(text: str) -> FieldSchema:
    """The schema with this `text`."""
    return FieldSchema(*text.split(SEPARATOR))


def schema_fields(event: Any) -> tuple[FieldSchema, ...]:
    """The fields of the row after the change, from the schema beside a parsed event;
    empty if the event has none."""
    schema = event.get("schema") if isinstance(event, Mapping) else None
    sides = schema.get("fields") if isinstance(schema, Mapping) else None
    for side in sides if isinstance(sides, list) else ():
        if (
            isinstance(side, Mapping)
            and side.get("field") == "after"
            and isinstance(side.get("fields"), list)
        ):
            return tuple(_read_field(field) for field in side["fields"])
    return ()


def _read_field(field: Mapping[str, Any]) -> FieldSchema:
    parameters = field.get("parameters") or {}
    return FieldSchema(
        field=str(field.get("field")),
        type=str(field.get("type")),
        name=field.get("name") or "",
        scale=str(parameters.get("scale", "")),
        precision=str(parameters.get(_PRECISION, "")),
        items=_dump(field.get("items")),
        fields=_dump(field.get("fields")),
    )


def _dump(value: Any) -> str:
    return (
        ""
        if value is None
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    )


_PLAIN = {
    "boolean": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "string",
    "bytes": "binary",
}

_NAMED = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "timestamp_ntz",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "io.debezium.time.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    "org.apache.kafka.connect.data.Time": "string",
    "io.debezium.data.VariableScaleDecimal": "string",
}
"""Types by the name of a schema's meaning. A database's time without a zone has none in
the table either. A time of day, and a decimal of any scale, become texts: Iceberg's
types in Spark have neither."""

_UNTOLD = frozenset({"date", "timestamp", "timestamp_ntz", "binary"})
"""Types whose values as text are not their values in JSON: days and microseconds are
written as numbers, and bytes in base64."""

COUNTED = tuple(name for name, kind in _NAMED.items() if kind in _UNTOLD)
"""The schema names of dates and times, which are counts if they are written as
numbers."""


def _spark_type(schema: Mapping[str, Any]) -> str | None:
    kind, name = schema.get("type"), schema.get("name") or ""
    if name in _NAMED:
        return _NAMED[name]
    if name == "org.apache.kafka.connect.data.Decimal":
        parameters = schema.get("parameters") or {}
        precision, scale = (
            int(parameters.get(_PRECISION, 38)),
            int(parameters.get("scale", 0)),
        )
        return (
            f"decimal({precision},{scale})" if 0 <= scale <= precision <= 38 else None
        )
    match kind:
        case "array":
            item = _spark_type(schema.get("items") or {})
            return item and f"array<{item}>"
        case "map":
            # PostgreSQL's hstore
            item = _spark_type(schema.get("values") or {"type": "string"})
            return item and f"map<string,{item}>"
        case "struct":
            parts = [
                (str(field.get("field")), _spark_type(field))
                for field in schema.get("fields") or ()
            ]
            whole = parts and all(part for _, part in parts)
            return (
                f"struct<{','.join(f'{field_name(name)}:{part}' for name, part in parts)}>"
                if whole
                else None
            )
        case _:
            return _PLAIN.get(str(kind))


# --- one schema after another


@dataclass(frozen=True, slots=True)
class Merged:
    """The columns of a feed after another schema was merged. `clashing` are the columns
    whose types no single type can hold: name, old type, new type."""

    fields: tuple[FieldSchema, ...]
    columns: tuple[Column, ...]
    added: tuple[Column, ...]
    widened: tuple[tuple[Column, str], ...]
    clashing: tuple[tuple[str, str, str], ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """The changes to the columns, in words."""
        return (
            *(f"{column.name} {column.type} is new" for column in self.added),
            *(
                f"{column.name} is {column.type} and was {old}"
                for column, old in self.widened
            ),
            *(f"{name} is {new} and was {old}" for name, old, new in self.clashing),
        )


def merge_fields(known: Sequence[FieldSchema], found: Iterable[FieldSchema]) -> Merged:
    """The columns that hold what the known schemas write and what those found after
    them write.

    A column keeps its type if that holds the new type's values, and gets the new type
    if that holds the old one's. Types that only a text could hold clash, and the column
    stays as it was.
    """
    before, _ = _columns(known)
    schemas = tuple(dict.fromkeys([*known, *found]))
    merged, clashing = _columns(schemas)
    columns = tuple(Column(name, kind) for name, kind in merged.items())
    return Merged(
        fields=schemas,
        columns=columns,
        added=tuple(column for column in columns if column.name not in before),
        widened=tuple(
            (column, before[column.name])
            for column in columns
            if before.get(column.name, column.type) != column.type
        ),
        clashing=tuple(clashing),
    )


def _columns(
    schemas: Iterable[FieldSchema],
) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The type of each column that the schemas name, in the order in which they first
    appear, and the clashes."""
    columns: dict[str, str] = {}
    clashing: list[tuple[str, str, str]] = []
    for schema in schemas:
        new, old = schema.spark_type or "", columns.get(schema.field)
        if old is None:
            columns[schema.field] = new
        elif old == "string" == schema.type:
            pass
        elif merged := _wider(old, new):
            columns[schema.field] = merged
        else:
            clashing.append((schema.field, old, new or schema.name or schema.type))
    return columns, clashing


def _wider(old: str, new: str) -> str | None:
    """The type, as text, that holds the values of both types: one of the two, or for
    structs the one with the fields of both. None if there is none."""
    if old == new:
        return old
    before, after = parse_type(old), parse_type(new)
    if before is None or after is None:
        return None
    found = wider_type(before, after)
    return found.text if found else None


def wider_type(
    old: SparkType, new: SparkType, *, as_text: bool = True
) -> SparkType | None:
    """The type that holds the values of both types: one of the two, or for structs the
    one with the fields of both. None if there is none. With `as_text` a string holds
    any single value whose JSON text is its text."""
    if old == new or widens(new, old):
        return old
    if as_text and old.name == "string" and not new.fields and new.name not in _UNTOLD:
        return old
    if widens(old, new):
        return new
    if old.name != new.name or not old.fields:
        return None
    if old.name == "struct":
        return _wider_struct(old, new, as_text)
    parts = [
        wider_type(a.type, b.type, as_text=as_text)
        for a, b in zip(old.fields, new.fields, strict=True)
    ]
    if not all(parts):
        return None
    return SparkType(
        old.name, fields=tuple(TypeField("", part) for part in parts if part)
    )


def _wider_struct(old: SparkType, new: SparkType, as_text: bool) -> SparkType | None:
    found = {field.name: field.type for field in old.fields}
    for field in new.fields:
        before = found.get(field.name)
        wide = (
            field.type
            if before is None
            else wider_type(before, field.type, as_text=as_text)
        )
        if wide is None:
            return None
        found[field.name] = wide
    return SparkType(
        "struct", fields=tuple(TypeField(name, kind) for name, kind in found.items())
    )


# --- without a schema


def infer_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of sample rows in JSON; one that is NULL in all of them is taken for
    a string."""
    found: dict[str, SparkType | None] = {}
    for row in rows:
        for name, value in row.items():
            found[name] = _common(found.get(name), _type_of(value))
    return tuple(Column(name, (kind or _STRING).text) for name, kind in found.items())


_STRING, _DOUBLE = SparkType("string"), SparkType("double")


def _type_of(value: Any) -> SparkType | None:
    match value:
        case None:
            return None
        case bool():
            return SparkType("boolean")
        case int():
            return SparkType("bigint")
        case float():
            return _DOUBLE
        case list():
            item: SparkType | None = None
            for each in value:
                item = _common(item, _type_of(each))
            return SparkType("array", fields=(TypeField("", item or _STRING),))
        case dict():
            if not value:
                return _STRING
            parts = (
                TypeField(name, _type_of(each) or _STRING)
                for name, each in value.items()
            )
            return SparkType("struct", fields=tuple(parts))
        case _:
            return _STRING


def _common(old: SparkType | None, new: SparkType | None) -> SparkType | None:
    if old is None or new is None:
        return old or new
    if {old.name, new.name} == {"bigint", "double"}:
        return _DOUBLE
    return wider_type(old, new) or wider_type(new, old) or _STRING
