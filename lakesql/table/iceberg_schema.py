"""The columns, partitions and sort order of a table, read from Iceberg's JSON and named
as Spark and lakesql name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakesql.model.config import PartitionField, SortField
from lakesql.stream.types import field_name
from lakesql.table.table_state import StateColumn

DROPPED = "void"
"""The transform of a dropped partition field, which stays in a table of format version
1."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table, its partitioning and its sort order.

    `was_partitioned_by` are the columns of all partition specs that it has had,
    `lost_partitions` the partition fields among them whose columns no longer exist.
    `id` is the id of the current schema.
    """

    columns: tuple[StateColumn, ...] = ()
    partition_by: tuple[PartitionField, ...] = ()
    order_by: tuple[SortField, ...] = ()
    was_partitioned_by: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    id: int | None = None


def read_schema(metadata: Mapping[str, Any]) -> TableSchema:
    """The current schema, partition spec and sort order in a table's metadata."""
    schema = (
        _newest(metadata, "schemas", "current-schema-id", "schema-id")
        or metadata.get("schema")
        or {}
    )
    spec = _newest(metadata, "partition-specs", "default-spec-id", "spec-id")
    order = _newest(metadata, "sort-orders", "default-sort-order-id", "order-id")
    fields = schema.get("fields", ())
    names = dict(_names(fields))
    sources = {
        field["name"]: _source(field)
        for each in metadata.get("partition-specs") or ()
        for field in each["fields"]
        if field["transform"] != DROPPED
    }
    return TableSchema(
        columns=tuple(
            StateColumn(each["name"], spark_type(each["type"]), each["required"])
            for each in fields
        ),
        partition_by=tuple(
            _partition_field(field, names)
            for field in spec.get("fields", ())
            if field["transform"] != DROPPED
        ),
        order_by=tuple(_sort_field(field, names) for field in order.get("fields", ())),
        was_partitioned_by=tuple(
            sorted({names[id_] for id_ in sources.values() if id_ in names})
        ),
        lost_partitions=tuple(
            name for name, id_ in sources.items() if id_ not in names
        ),
        id=metadata.get("current-schema-id"),
    )


def spark_type(kind: str | Mapping[str, Any]) -> str:
    """Spark's text of a type in Iceberg's JSON, in the spelling of
    `stream.types.stored_type`.

    A type that Spark does not have keeps Iceberg's name.
    """
    if isinstance(kind, str):
        return _plain_type(kind)
    match kind["type"]:
        case "struct":
            fields = (
                f"{field_name(field['name'])}:{spark_type(field['type'])}"
                for field in kind["fields"]
            )
            return f"struct<{','.join(fields)}>"
        case "list":
            return f"array<{spark_type(kind['element'])}>"
        case "map":
            return f"map<{spark_type(kind['key'])},{spark_type(kind['value'])}>"
        case other:
            return _plain_type(str(other))


_SPARK_NAMES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "unknown": "void",
    "uuid": "string",
}


def _plain_type(text: str) -> str:
    if text.startswith("decimal"):
        return text.replace(" ", "")
    if text.startswith("fixed"):
        return "binary"
    return _SPARK_NAMES.get(text, text)


def _newest(
    metadata: Mapping[str, Any], name: str, current: str, key: str
) -> Mapping[str, Any]:
    """The current one of the schemas, specs or orders that a table has had; empty if
    there is none."""
    wanted = metadata.get(current, 0)
    for each in metadata.get(name) or ():
        if each.get(key, 0) == wanted:
            return dict(each)
    return {}


def _names(fields: Any, prefix: str = "") -> Iterator[tuple[int, str]]:
    """The ids of all fields, nested ones too, with their paths from the column on."""
    for field in fields:
        name = f"{prefix}{field['name']}"
        yield field["id"], name
        yield from _inner_names(field["type"], name)


def _inner_names(kind: str | Mapping[str, Any], name: str) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        return
    match kind["type"]:
        case "struct":
            yield from _names(kind["fields"], f"{name}.")
        case "list":
            yield kind["element-id"], f"{name}.element"
            yield from _inner_names(kind["element"], f"{name}.element")
        case "map":
            for part in ("key", "value"):
                yield kind[f"{part}-id"], f"{name}.{part}"
                yield from _inner_names(kind[part], f"{name}.{part}")


def _source(field: Mapping[str, Any]) -> int:
    found = field["source-id"] if "source-id" in field else field["source-ids"][0]
    return int(found)


def _column(field: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """The column of a field, or `#` and its id if it was dropped, as one of an old
    partition spec may be."""
    return names.get(_source(field)) or f"#{_source(field)}"


def _partition_field(
    field: Mapping[str, Any], names: Mapping[int, str]
) -> PartitionField:
    word, width = _transform(field["transform"])
    return PartitionField(word, _column(field, names), width)


def _sort_field(field: Mapping[str, Any], names: Mapping[int, str]) -> SortField:
    word, width = _transform(field["transform"])
    column = _column(field, names)
    if word != "identity":
        column = f"{word}({'' if width is None else f'{width}, '}{column})"
    return SortField(
        column, field["direction"] == "desc", field["null-order"] == "nulls-first"
    )


_TIME_TRANSFORMS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_TRANSFORM = re.compile(r"(\w+)(?:\[(\d+)\])?")


def _transform(text: str) -> tuple[str, int | None]:
    """The name of a transform in models, and its width: `bucket[16]` is `bucket` and
    16."""
    found = _TRANSFORM.match(text)
    if found is None:
        return text, None
    return _TIME_TRANSFORMS.get(found[1], found[1]), int(found[2]) if found[2] else None
