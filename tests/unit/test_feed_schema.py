"""Which type a schema beside an event gives a column."""

from __future__ import annotations

from typing import Any

from lakesql.stream.feed_schema import schema_fields
from tests.cases import each_of

TIME, DATA = "io.debezium.time.", "io.debezium.data."


@each_of(
    ("schema", "kind"),
    [
        ({"type": "int32", "name": f"{TIME}Time"}, "string"),
        ({"type": "int64", "name": f"{TIME}MicroTime"}, "string"),
        ({"type": "int64", "name": f"{TIME}NanoTime"}, "string"),
        ({"type": "string", "name": f"{TIME}ZonedTime"}, "string"),
        ({"type": "int32", "name": f"{TIME}Year"}, "int"),
        ({"type": "int64", "name": f"{TIME}MicroDuration"}, "bigint"),
        ({"type": "string", "name": f"{TIME}Interval"}, "string"),
        ({"type": "string", "name": f"{TIME}IsoDate"}, "date"),
        (
            {"type": "string", "name": f"{DATA}Enum", "parameters": {"allowed": "a,b"}},
            "string",
        ),
        ({"type": "string", "name": f"{DATA}EnumSet"}, "string"),
        ({"type": "string", "name": f"{DATA}Uuid"}, "string"),
        (
            {"type": "bytes", "name": f"{DATA}Bits", "parameters": {"length": "10"}},
            "binary",
        ),
        (
            {"type": "struct", "name": f"{DATA}VariableScaleDecimal", "fields": []},
            "string",
        ),
        (
            {"type": "array", "items": {"type": "int64", "name": f"{TIME}MicroTime"}},
            "array<string>",
        ),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
            "map<string,string>",
        ),
        (
            {
                "type": "struct",
                "name": f"{DATA}geometry.Geometry",
                "fields": [
                    {"field": "wkb", "type": "bytes"},
                    {"field": "srid", "type": "int32"},
                ],
            },
            "struct<wkb:binary,srid:int>",
        ),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "39"},
            },
            None,
        ),
    ],
)
def test_a_column_has_the_type_of_what_its_schema_means(
    schema: dict[str, Any], kind: str | None
) -> None:
    event = {
        "schema": {"fields": [{"field": "after", "fields": [{"field": "c", **schema}]}]}
    }
    (field,) = schema_fields(event)
    assert field.spark_type == kind
