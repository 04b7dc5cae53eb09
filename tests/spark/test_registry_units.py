"""Unit tests of models over streams of a registry: on either engine, and nobody is
asked for a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakesql.unit.outcomes import Failed
from lakesql.unit.run import run_tests
from tests.spark.project import Lake
from tests.spark.test_unit_tests_of_models import load, run_on, told

STREAMS = """
streams:
  - name: orders
    topic: shop.orders
    connection: kafka
    format: avro
    registry: schemas
  - name: paid
    topic: shop.paid
    connection: kafka
    format: protobuf
    registry: schemas
    key_format: avro
    key: [region]
    columns: {region: {type: string, in: key, from: r, required: true}, cents: bigint}
"""
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}'
MODELS = {
    "landed": "{{ config(mode='append') }}\nSELECT id, upper(s) AS s FROM {{ stream('orders') }}",
    "newest": "{{ config(mode='upsert', keys='region') }}\nSELECT region, cents FROM {{ stream('paid') }}",
}
ROWS: list[dict[str, Any]] = [
    {"region": "eu", "cents": 1},
    {"region": "us", "cents": 2},
    {"region": "eu", "cents": 3},
]


def made(
    name: str, model: str, stream: str, rows: list[Any], expect: list[Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "model": model,
        "given": [{"stream": stream, "batches": [rows]}],
        "expect": {"rows": expect},
    }


def test_streams_of_a_registry_are_given_as_rows(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "streams/schemas").mkdir(parents=True)
    (tmp_path / "streams/schemas/shop.orders-value.avsc").write_text(SCHEMA)
    tests = [
        made(
            "pulled", "landed", "orders", [{"id": 1, "s": "a"}], [{"id": 1, "s": "A"}]
        ),
        made("keys", "newest", "paid", ROWS, [ROWS[1], ROWS[2]]),
        made("wrong", "newest", "paid", ROWS, [ROWS[0], ROWS[2]]),
    ]
    manifest = load(tmp_path, MODELS, tests, STREAMS)
    for results in (run_tests(manifest, manifest.unit_tests), run_on(lake, manifest)):
        assert {*told(results)} == {"wrong"}
        assert [isinstance(result.outcome, Failed) for result in results] == [
            False,
            False,
            True,
        ]
