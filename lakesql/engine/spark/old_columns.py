"""How rows of an earlier snapshot get the columns that the table has now, as Iceberg
reads its old files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from lakesql.compile.quote import identifier, text
from lakesql.engine.spark.gateway import java_class
from lakesql.table.iceberg_schema import spark_type

Fields = Sequence[Mapping[str, Any]]
"""Fields of a struct in Iceberg's JSON."""


def select_as_now(rows: DataFrame, table: Any, snapshot: int) -> DataFrame:
    """The rows of a snapshot, which have the columns of its time, with the current
    columns of its `org.apache.iceberg.Table`.

    Columns are matched by field id: they may have another name, another place and a
    wider type. A column that did not exist then has its field's initial default, or
    NULL.
    """
    before, now = (
        _fields(each) for each in (_schema_at(table, snapshot), table.schema())
    )
    if before == now:
        return rows
    names = {each["id"]: identifier(each["name"]) for each in before}
    kinds = {each["id"]: each["type"] for each in before}
    columns = []
    for each in now:
        value = (
            _value(names[each["id"]], kinds[each["id"]], each["type"])
            if each["id"] in names
            else _missing(each)
        )
        columns.append(f"{value} AS {identifier(each['name'])}")
    return rows.selectExpr(*columns)


def _schema_at(table: Any, snapshot: int) -> Any:
    id_ = table.snapshot(snapshot).schemaId()
    return table.schema() if id_ is None else table.schemas().get(id_)


def _fields(schema: Any) -> Fields:
    found: Fields = json.loads(
        java_class("org.apache.iceberg.SchemaParser").toJson(schema)
    )["fields"]
    return found


def _value(value: str, before: Any, now: Any) -> str:
    """The SQL for a value of the former type as one of the field's current type."""
    if before == now:
        return value
    if isinstance(now, str):
        return f"CAST({value} AS {spark_type(now)})"
    match now["type"]:
        case "struct":
            inner = {each["id"]: each for each in before["fields"]}
            fields = []
            for each in now["fields"]:
                old = inner.get(each["id"])
                if old is None:
                    fields.append(f"{text(each['name'])}, {_missing(each)}")
                else:
                    part = f"{value}.{identifier(old['name'])}"
                    fields.append(
                        f"{text(each['name'])}, {_value(part, old['type'], each['type'])}"
                    )
            return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"
        case "list":
            each = f"e{now['element-id']}"
            return f"transform({value}, {each} -> {_value(each, before['element'], now['element'])})"
        case "map":
            each = f"e{now['value-id']}"
            key, inner_value = (
                _value(f"{each}.{part}", before[part], now[part])
                for part in ("key", "value")
            )
            return f"map_from_entries(transform(map_entries({value}), {each} -> struct({key}, {inner_value})))"
        case other:
            raise AssertionError(f"{other} is no type that has parts")


def _missing(field: Mapping[str, Any]) -> str:
    """The SQL for the value of a field in rows that were written before the table had
    it."""
    kind, default = spark_type(field["type"]), field.get("initial-default")
    if default is None:
        return f"CAST(NULL AS {kind})"
    if kind == "binary":
        return f"unhex({text(str(default))})"
    return f"CAST({text(json.dumps(default) if isinstance(default, bool) else str(default))} AS {kind})"
