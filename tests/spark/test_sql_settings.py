"""A target's settings of Spark's SQL: tables, and what becomes of bad records, are what
they are without them. The time zone of a session is that of texts without a zone, and
changes these."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakesql.events import ModelFinished
from tests.spark.project import Fields, Project, in_bytes, target_settings
from tests.spark.test_views import Changes, add_views

pytestmark = [pytest.mark.spark, pytest.mark.long]

SETTINGS = {
    "dialect": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.orderByOrdinal": "false",
        "spark.sql.groupByOrdinal": "false",
        "spark.sql.groupByAliases": "false",
        "spark.sql.legacy.setopsPrecedence.enabled": "true",
        "spark.sql.legacy.ctePrecedencePolicy": "LEGACY",
        "spark.sql.legacy.inlineCTEInCommands": "true",
    },
    "values": {
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.legacy.charVarcharAsString": "true",
        "spark.sql.legacy.castComplexTypesToString.enabled": "true",
        "spark.sql.legacy.createEmptyCollectionUsingStringType": "true",
        "spark.sql.legacy.negativeIndexInArrayInsert": "true",
        "spark.sql.legacy.followThreeValuedLogicInArrayExists": "false",
        "spark.sql.legacy.nullInEmptyListBehavior": "true",
        "spark.sql.legacy.duplicateBetweenInput": "true",
    },
    "reading and planning": {
        "spark.sql.jsonGenerator.ignoreNullFields": "false",
        "spark.sql.json.enablePartialResults": "false",
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        "spark.sql.legacy.csv.enableDateTimeParsingFallback": "true",
        "spark.sql.legacy.json.enableDateTimeParsingFallback": "true",
        "spark.sql.legacy.json.allowEmptyString.enabled": "true",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.optimizer.maxIterations": "20",
        "spark.sql.crossJoin.enabled": "false",
    },
}
ORDERS = {
    "id": "int",
    "customer": "int",
    "amount": "decimal(10,2)",
    "seq": "int",
    "gone": "boolean",
}
CUSTOMERS = {"id": "int", "country": "string", "seq": "int", "gone": "boolean"}
FEED = {
    "id": "int",
    "at": {"type": "timestamp", "unit": "microseconds"},
    "t": "string",
    "price": "decimal(9,2)",
}
TYPES = {
    "id": "int",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "price": "decimal(9,2)",
    "t": "string",
}
TYPES |= {
    "d": "double",
    "tags": "map<string,string>",
    "list": "array<struct<a: int, b: string>>",
}
VALUES: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "at": "2026-03-08T07:30:00Z",
        "local": "2026-03-08T02:30:00",
        "day": "2026-03-08",
        "price": "1.50",
    },
    {
        "id": 2,
        "at": "2026-11-01T01:30:00+02:00",
        "local": "2026-11-01 01:30:00",
        "day": "1582-10-10",
        "price": 2,
    },
    {
        "id": 3,
        "at": "1883-01-01T00:00:00Z",
        "day": "0001-01-01",
        "t": 'a "quoted" \\ text',
        "d": 1e300,
    },
    {"id": 4, "at": 1772400000000, "price": "1.005", "t": ""},
    {"id": 5, "at": "12:30", "t": "no time"},
    {"id": 2147483648, "t": "too large"},
    {"id": "7", "d": "NaN", "t": "NaN", "day": "20260101"},
    {"id": 8, "day": "2026-02-30", "t": "no day"},
    {
        "id": 9,
        "list": [{"a": 1, "b": "x"}, {"a": "2", "b": None}, None],
        "tags": {"a": "1", "B": None},
    },
    {"id": 10, "list": [{"a": "x"}], "t": "no number within"},
    {"id": 11, "at": "2026-03-08T02:30:00", "t": "a time without a zone"},
    {"ID": 12, "t": "another case"},
    {
        "id": 13,
        "at": "2026-03-08",
        "day": "2026-03-08T23:59:59Z",
        "t": "dates and times",
    },
    {
        "id": 14,
        "at": "2026/03/08 10:11:12",
        "day": "8.3.2026",
        "t": "as no parser but the old one takes it",
    },
    {"id": 15, "price": "12,5", "d": "1,5", "t": "commas"},
    {"id": 16, "price": 99999999.99, "d": "1d", "t": "java"},
)
CSV = (
    'id;t;at;price\n1;"a;""b""";2026-03-08 07:30:00;1.50\n2;;2026-03-08;\n3;x;12:30;1\n4;x\n5;"open;1;2\n'
    "6;y;2026/03/08;1e2\n7;z;2026-11-01T05:30:00Z;0.001\n"
)


def events() -> Iterator[Fields]:
    """The changes of a table, among them bad ones, those of keys, and some that come
    late."""
    kinds = (*("c", "u", "u", "d", "c", "u", "x", "r"), "t")
    for number, kind in enumerate(kinds * 4):
        if kind == "t" and number < 30:
            continue
        row = {
            "id": number % 5,
            "at": 1772400000000000 + number,
            "t": f"v{number}",
            "price": f"{number}.5",
        }
        source = {
            "connector": "postgresql",
            "ts_ms": 1772400000000 + number,
            "snapshot": "false",
            "lsn": 100 + number,
        }
        before, after = (
            (row, None) if kind == "d" else (None, None if kind == "t" else row)
        )
        if number % 7 == 3 and after:
            after = {**after, "t": "__debezium_unavailable_value"}
        event = {
            "before": before,
            "after": after,
            "source": source,
            "op": kind,
            "ts_ms": 1772400000500 + number,
        }
        key = None if kind == "t" else json.dumps({"id": number % 5}).encode()
        yield in_bytes(json.dumps(event).encode(), key)


def build(project: Project) -> None:
    """Every mode, over records, files and changes, with views of their tables."""
    project.stream("order_states", ORDERS)
    project.stream("customer_states", CUSTOMERS)
    project.stream("page_views", {"customer": "int", "page": "string"})
    keyed = {
        "mode": "upsert",
        "keys": "id",
        "sequence_by": "seq",
        "delete_when": "gone",
    }
    project.model("orders", "SELECT * FROM {order_states}", **keyed)
    project.model("customers", "SELECT * FROM {customer_states}", **keyed)
    project.model("clicks", "SELECT * FROM {page_views}", mode="append")
    add_views(project)
    project.stream(
        "values", {**TYPES, "at": {"type": "timestamp", "unit": "milliseconds"}}
    )
    some = "SELECT id, at, local, day, price, t FROM {values}"
    project.model(
        "all_values",
        "SELECT *, _record.offset AS o FROM {values}",
        mode="append",
        partition_by="days(at)",
    )
    project.model("newest_values", some, mode="upsert", keys="id", sequence_by="t")
    project.model(
        "versions",
        "SELECT id, at, price, t FROM {values}",
        mode="scd2",
        keys="id",
        sequence_by="at",
    )
    columns = {"id": "int", "t": "string", "at": "timestamp", "price": "decimal(9,2)"}
    csv = {"header": True, "delimiter": ";"}
    project.stream("lines", columns, path="files/*.csv", format="csv", csv=csv)
    project.model("of_lines", "SELECT * FROM {lines}", mode="append")
    project.stream("feed", FEED, envelope="debezium", key=["id"])
    project.model("mirror", "SELECT * FROM {feed}", mode="cdc", keys="id")
    project.model(
        "soft", "SELECT * FROM {feed}", mode="cdc", keys="id", apply_deletes="soft"
    )
    said = "_change.op AS op, _change.ts AS ts, _change.before AS was"
    project.model("changes", f"SELECT *, {said} FROM {{feed}}", mode="append")
    changes = Changes(5)
    for topic, make in (
        ("order_states", changes.order),
        ("customer_states", changes.customer),
    ):
        project.record(topic, [make() for _ in range(20)])
    project.record(
        "page_views", [{"customer": 1, "page": "/"}, {"customer": None, "page": "/a"}]
    )
    project.record("values", VALUES)
    os.utime(project.write("files/a.csv", CSV), (1_772_400_000, 1_772_400_000))
    project.record("feed", events())


def again(project: Project) -> None:
    """What comes later."""
    changes = Changes(6)
    changes.seq = 100
    for topic, make in (
        ("order_states", changes.order),
        ("customer_states", changes.customer),
    ):
        project.record(topic, [make() for _ in range(6)])
    later = {"id": 1, "at": "2026-03-09T07:30:00Z", "t": "zz"}
    project.record("values", [later, {"id": 9, "at": "2026-01-01T00:00:00Z"}])
    project.record("feed", [*events()][:12])


Made = dict[str, list[str]]


def made_with(project: Project, settings: dict[str, str]) -> Made:
    """All tables that two runs make, as pyiceberg reads them, and how the models have
    ended."""
    with target_settings(project.lake.session, settings):
        build(project)
        first = project.run()
        again(project)
        second = project.run()
    found = {
        name: sorted(map(told, project.rows_without_spark(name)))
        for name in project.table_names()
    }
    ended = (finished for ran in (first, second) for finished in ran.of(ModelFinished))
    return {
        **found,
        "models": sorted(f"{it.model} {it.status} {[*it.problems]}" for it in ended),
    }


OF_THE_RUN = ("rejected_at", "_lakesql_deleted_at", "topic", "_deleted_at", "detail")
"""Columns of what a run says of its own time, or of the folder of its project; and
which of a dead letter's faults is named, where it has several."""


def told(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name not in OF_THE_RUN})


_usual: list[Made] = []


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_of_sql_change_no_row(
    new_project: Callable[[], Project], settings: str
) -> None:
    if not _usual:
        _usual.append(made_with(new_project(), {}))
        assert not [line for line in _usual[0]["models"] if " success " not in line]
    made = made_with(new_project(), SETTINGS[settings])
    assert made["models"] == _usual[0]["models"]
    assert made == _usual[0]
