"""Fields that records call otherwise than the contract: the tables are those of a feed
that calls them alike."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes, with_change_detail
from lakesql.engine.records.parse import (
    Contract,
    ContractColumn,
    parse_records,
    with_detail,
)
from lakesql.stream.stream import Envelope
from tests.spark.project import Fields, Project, Row

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
pytestmark = [pytest.mark.spark, pytest.mark.long]

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "n": "decimal(12,3)",
    "s": "struct<a:int,b:string>",
    "big": "string",
}
Names = Mapping[str, str]
"""What a feed calls each column."""

MARKS = (
    " ",
    ".",
    "-",
    "'",
    "$",
    "é",
    ":",
    "/",
    "%",
    "[0]",
    "(",
    "#",
    "?",
    "*",
    "^",
    "|",
    "ß",
)


def other_words(chance: random.Random) -> Names:
    """Names with the characters that no column has, or that a pattern or a path
    reads."""
    return {
        column: f"{column[0]}{''.join(chance.sample(MARKS, 3))}{at}"
        for at, column in enumerate(COLUMNS)
    }


def renamed(row: Row | None, names: Names) -> Row | None:
    return row and {names[name]: value for name, value in row.items()}


ROWS: list[Row] = [
    {"id": 1, "name": "a", "n": 1.5, "s": {"a": 1, "b": "x"}, "big": "B" * 20},
    {"id": 2, "name": None, "n": None, "s": None, "big": None},
    {"id": 3, "name": "c", "n": 1.125, "s": {"a": None, "b": "1.10"}, "big": "C"},
]
CHANGED: Row = {
    "id": 1,
    "name": "a2",
    "n": -2,
    "s": {"a": 5, "b": "y"},
    "big": "__debezium_unavailable_value",
}


def as_json(names: Names) -> list[Fields]:
    lone = f'{{"{names["id"]}": 4, "{names["n"]}": 12345678.901}}'
    return [*(Fields(value=renamed(row, names)) for row in ROWS), Fields(value=lone)]


def schema(names: Names) -> dict[str, Any]:
    """The schema beside an event, of which `n` counts in bytes."""
    kinds = {
        "id": {"type": "int64"},
        "name": {"type": "string"},
        "n": {"type": "int32"},
        "big": {"type": "string"},
    }
    kinds["s"] = {
        "type": "struct",
        "fields": [{"type": "int32", "field": "a"}, {"type": "string", "field": "b"}],
    }
    fields = [
        {**kind, "optional": True, "field": names[name]} for name, kind in kinds.items()
    ]
    return {
        "type": "struct",
        "fields": [{"type": "struct", "fields": fields, "field": "after"}],
    }


def as_debezium(names: Names, wrap: Callable[[Row], Row]) -> list[Fields]:
    def event(op: str, lsn: int, before: Row | None, after: Row | None) -> Fields:
        source = {
            "connector": "postgresql",
            "name": "s",
            "lsn": lsn,
            "snapshot": "false",
            "table": "t",
        }
        key = json.dumps({names["id"]: (after or before or {})["id"]})
        rows = {"before": renamed(before, names), "after": renamed(after, names)}
        return Fields(
            key=key,
            value=wrap(
                {**rows, "op": op, "source": source, "ts_ms": 1_772_400_000_000}
            ),
        )

    def gone(number: int) -> Fields:
        return Fields(key=json.dumps({names["id"]: number}), value=None)

    return [
        *(event("c", 100 + at, None, row) for at, row in enumerate(ROWS)),
        event("u", 200, ROWS[0], CHANGED),
        event("d", 210, ROWS[1], None),
        gone(2),
        event("c", 220, None, {**ROWS[1], "id": 5}),
        gone(5),
        event("c", 230, None, {**ROWS[2], "id": 6}),
    ]


def as_flat(names: Names) -> list[Fields]:
    said = ({**row, "id": at} for at, row in enumerate(ROWS))
    first = [
        Fields(value={**(renamed(row, names) or {}), "__op": "c", "__lsn": 5})
        for row in said
    ]
    gone = {
        **(renamed(ROWS[0], names) or {}),
        "__op": "d",
        "__deleted": "true",
        "__lsn": 9,
    }
    return [
        *first,
        Fields(value=gone),
        Fields(key=json.dumps({names["id"]: 0}), value=None),
    ]


def as_dms(names: Names) -> list[Fields]:
    def native(operation: str, row: Row, before: Row | None = None) -> Fields:
        metadata = {
            "record-type": "data",
            "operation": operation,
            "schema-name": "public",
            "table-name": "foo",
        }
        image = {"before-image": renamed(before, names)} if before else {}
        return Fields(
            key="k", value={"data": renamed(row, names), **image, "metadata": metadata}
        )

    flat = {**(renamed(ROWS[2], names) or {}), "Op": "I", names["id"]: 8}
    return [
        *(native("insert", row) for row in ROWS),
        native("update", {**ROWS[0], "id": 7}, {"id": 1}),
        native("delete", ROWS[2]),
        Fields(value=flat),
    ]


def write_files(
    project: Project, spark: SparkSession, which: str, names: Names, kinds: Names
) -> None:
    lines = "".join(json.dumps(renamed(row, names)) + "\n" for row in ROWS)
    project.write(f"files/{which}_json/1.json", lines)
    text = io.StringIO()
    plain = [{name: row[name] for name in ("id", "name", "n")} for row in ROWS]
    writer = csv.writer(text)
    writer.writerow([names[name] for name in plain[0]])
    writer.writerows(row.values() for row in plain)
    project.write(f"files/{which}_csv/1.csv", text.getvalue())
    types = pa.schema(
        [
            (names["id"], pa.int64()),
            (names["name"], pa.string()),
            (names["big"], pa.string()),
        ]
    )
    rows = [{names[name]: row[name] for name in ("id", "name", "big")} for row in ROWS]
    file = project.write(f"files/{which}_parquet/1.parquet", b"")
    pq.write_table(pa.Table.from_pylist(rows, types), file)


def contract(names: Names, of: tuple[str, ...] = tuple(COLUMNS)) -> dict[str, Any]:
    """The columns of those names, read from the fields that records have."""
    return {name: {"type": COLUMNS[name], "from": names[name]} for name in of}


PLAIN: Names = {name: name for name in COLUMNS}
CHANGE = (
    "_change.op AS op, _change.before.name AS was, to_json(_change.before) AS before"
)


def streams(
    project: Project, spark: SparkSession, which: str, names: Names, declared: Names
) -> dict[str, str]:
    """The streams of one way to name fields, recorded and declared, each with what the
    models read of it."""
    key = {"key": ["id"]}
    for name, values, options in (
        ("json", as_json(names), {}),
        (
            "bare",
            as_debezium(names, lambda event: event),
            {"envelope": "debezium", **key},
        ),
        (
            "wrapped",
            as_debezium(
                names, lambda event: {"schema": schema(names), "payload": event}
            ),
            {"envelope": "debezium", **key},
        ),
        ("flat", as_flat(names), {"envelope": "debezium_flat", **key}),
        (
            "dms",
            as_dms(names),
            {"envelope": "dms", "source_table": "public.foo", **key},
        ),
    ):
        project.stream(f"{which}_{name}", contract(declared), **options)
        project.record(f"{which}_{name}", values)
    write_files(project, spark, which, names, declared)
    files = {
        "json": tuple(COLUMNS),
        "csv": ("id", "name", "n"),
        "parquet": ("id", "name", "big"),
    }
    for kind, of in files.items():
        options = {"csv": {"header": True}} if kind == "csv" else {}
        path = f"files/{which}_{kind}/*.{kind}"
        project.stream(
            f"{which}_{kind}_files",
            contract(declared, of),
            path=path,
            format=kind,
            **options,
        )
    keyed = {"mode": "cdc", "keys": ["id"]}
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "json": ("SELECT * FROM {x}", {"mode": "append"}),
        **{
            f"{kind}_files": ("SELECT * FROM {x}", {"mode": "append"}) for kind in files
        },
        **dict.fromkeys(
            ("bare", "wrapped", "flat", "dms"), ("SELECT * FROM {x}", keyed)
        ),
        "placed": (
            "SELECT id, name AS title, big, _change.position AS place FROM {bare}",
            {**keyed, "sequence_by": "_change.position"},
        ),
        "events": (f"SELECT id, n, s.b, {CHANGE} FROM {{bare}}", {"mode": "append"}),
    }
    for name, (select, config) in models.items():
        read = select.replace("{x}", f"{{{which}_{name}}}").replace(
            "{bare}", f"{{{which}_bare}}"
        )
        project.model(f"{which}_{name}", read, **config)
    return dict.fromkeys(models, "")


def compare(project: Project, others: list[str]) -> None:
    for name in others:
        rows = project.rows(f"plain_{name}")
        assert rows, name
        assert project.rows(f"other_{name}") == rows, name
        assert (
            project.reasons(f"other_{name}") == project.reasons(f"plain_{name}") == {}
        ), name


def test_a_column_is_read_from_the_field_that_it_names(
    project: Project, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    names = other_words(random.Random(request.config.getoption("--seed")))
    streams(project, spark, "plain", PLAIN, PLAIN)
    models = streams(project, spark, "other", names, names)
    ran = project.run()
    ran.check()
    compare(project, [*models])


@pytest.mark.parametrize("envelope", ["none", "debezium"])
def test_a_dead_letter_says_how_a_record_spells_the_field_that_it_lacks(
    spark: SparkSession, envelope: Envelope
) -> None:
    contract = Contract(
        (ContractColumn("id", T.LongType(), True),), key=("id",), envelope=envelope
    )
    rows = ['{"ID":1}', '{"id":null}', '{"id":null,"Id":2}', '{"idx":3}', '{"id":4}']
    values = (
        rows
        if envelope == "none"
        else [f'{{"op":"c","after":{row},"before":null}}' for row in rows]
    )
    raw = spark.createDataFrame(
        [(None, value.encode(), "t", 0, 0, None, None) for value in values], RAW
    ).coalesce(1)
    if envelope == "none":
        found = parse_records(raw, contract, frozenset())
    else:
        found = parse_changes(raw, contract, frozenset(), frozenset())
    rejected = found.where("_lakesql_rejected IS NOT NULL").select(
        "_lakesql_rejected.*"
    )
    said = (
        with_detail(rejected, contract)
        if envelope == "none"
        else with_change_detail(rejected, contract)
    )
    hint = "id: the record has {0}, which a column reads by `from: {0}`"
    assert {row.value.decode(): row.detail for row in said.collect()} == dict(
        zip(values, [hint.format("ID"), "id", hint.format("Id"), "id"], strict=False)
    )
