"""Records of AWS DMS: which changes they are, and what of them is none."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Fields, Project, Row

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {
    "id": "int",
    "name": "string",
    "price": "decimal(9,2)",
    "at": "timestamp",
    "data": {"type": "binary", "encoding": "hex"},
}
EMPTY = dict.fromkeys(COLUMNS)


def native(
    operation: str,
    row: Row | None,
    /,
    kind: str = "data",
    table: str = "foo",
    **more: Any,
) -> Fields:
    """A record as DMS writes it to Kafka."""
    before = {"before-image": more.pop("before")} if "before" in more else {}
    metadata = {
        "timestamp": "2024-07-29T00:58:17.983670Z",
        "record-type": kind,
        "operation": operation,
        "partition-key-type": "schema-table",
        "schema-name": "public",
        "table-name": table,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    content = {"control": {}} if row is None else {"data": {**EMPTY, **row}}
    return Fields(key="public.foo.1", value={**content, **before, "metadata": metadata})


def placed(transaction: int, number: int, position: str) -> dict[str, Any]:
    """What `IncludeTransactionDetails` adds."""
    return {
        "transaction_id": transaction,
        "transaction_record_id": number,
        "commit_timestamp": "2024-07-29T00:58:44.886717Z",
        "stream_position": position,
    }


def feed(project: Project) -> None:
    project.stream("s", COLUMNS, envelope="dms", source_table="public.foo", key=["id"])


def test_records_of_dms_are_changes(project: Project) -> None:
    feed(project)
    fields = ", ".join(
        f"_change.{name} AS {name}"
        for name in ("op", "ts", "position", "tx", "snapshot", "before")
    )
    project.model(
        "m", f"SELECT id, name, price, at, data, {fields} FROM {{s}}", mode="append"
    )
    project.model("c", "SELECT id, name FROM {s}", mode="cdc", keys=["id"])
    project.model(
        "h",
        "SELECT id, name, _change.ts AS at FROM {s}",
        mode="scd2",
        keys=["id"],
        sequence_by="_change.ts",
    )
    first = {
        "id": 1,
        "name": "a",
        "price": 12.5,
        "at": "2020-01-09T04:13:38Z",
        "data": "0x00FF",
    }
    lsn, binlog = (
        "00000002/7C007328.2.00000002/7C007328",
        "mysql-bin.000010:1975:-1:2002:6778:mysql-bin.000010:1876",
    )
    records = [
        native("drop-table", None, kind="control"),
        native("create-table", None, kind="control", table="awsdms_apply_exceptions"),
        native("load", first, partition_key_type="primary-key"),
        native("load", {"id": 2, "name": "b"}),
        native("insert", {"id": 3, "name": "c"}, **placed(1139, 1, lsn)),
        native("insert", {"id": 3, "name": "of another table"}, table="bar"),
        native(
            "update",
            {"id": 2, "name": "b2"},
            before={"id": 2, "name": "b"},
            **placed(1140, 2, binlog),
        ),
        native("update", {"id": 3, "name": "c2"}, before={}),
        native("delete", {"id": 1}, **placed(1141, 1, lsn)),
        native("load", {"id": 5, "name": "e"}),
        native(
            "update", {"id": 6, "name": "e2"}, before={"id": 5}, **placed(1142, 1, lsn)
        ),
        Fields(key=None, value={"Op": "I", **first, "id": 4}),
        Fields(key=None, value={"Op": "U", **EMPTY, "id": 4, "name": "d"}),
        Fields(key=None, value={"Op": "D", **EMPTY, "id": 3}),
    ]
    bad = [
        ("unknown op: operation merge", native("merge", {"id": 1})),
        ("unknown op: record-type other", native("insert", {"id": 1}, kind="other")),
        ("unknown op: Op X", Fields(key=None, value={"Op": "X", "id": 1})),
        (
            "no JSON object with DMS's `metadata` or an `Op`",
            Fields(key=None, value={"id": 1}),
        ),
        (
            "no JSON object with DMS's `metadata` or an `Op`",
            Fields(key=None, value="text"),
        ),
        (
            "no JSON object with DMS's `metadata` or an `Op`",
            Fields(key=None, value=None),
        ),
        ("no `after`", native("insert", None)),
        ("id", native("delete", {"name": "no key"})),
        ("price: not a decimal(9,2)", native("insert", {"id": 1, "price": "12.345"})),
        (
            "id: the row's former key is not a int",
            native("update", {"id": 5}, before={"id": "x"}),
        ),
        (
            "price: not a decimal(9,2)",
            native("update", {"id": 7, "price": "x"}, before={"id": 2}),
        ),
    ]
    project.record("s", [*records, *(record for _, record in bad)])

    project.run().check()

    rows = project.rows_without_spark("m")
    found = [
        (row["op"], row["id"], row["name"], row["position"], row["tx"], row["snapshot"])
        for row in rows
    ]
    at = 2 * 2**32 + 0x7C007328
    expected = [
        ("r", 1, "a", None, None, True),
        ("r", 2, "b", None, None, True),
        ("c", 3, "c", [at, 1], "1139", False),
        ("u", 2, "b2", [10, 1975, 2], "1140", False),
        ("u", 3, "c2", None, None, False),
        ("d", 1, None, [at, 1], "1141", False),
        ("r", 5, "e", None, None, True),
        ("d", 5, "e2", [at, 1], "1142", False),
        ("c", 6, "e2", [at, 1], "1142", False),
        ("c", 4, "a", None, None, False),
        ("u", 4, "d", None, None, False),
        ("d", 3, None, None, None, False),
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    loaded = next(row for row in rows if row["op"] == "r" and row["id"] == 1)
    assert (loaded["price"], loaded["data"]) == (Decimal("12.50"), b"\x00\xff")
    assert loaded["at"] == datetime(2020, 1, 9, 4, 13, 38, tzinfo=UTC)
    assert loaded["ts"] == datetime(2024, 7, 29, 0, 58, 17, 983000, UTC)
    updated = next(row for row in rows if row["name"] == "b2")
    assert updated["ts"] == datetime(2024, 7, 29, 0, 58, 44, 886000, UTC)
    assert updated["before"]["name"] == "b"
    assert project.rows("c", "id") == [
        {"id": 2, "name": "b2"},
        {"id": 4, "name": "d"},
        {"id": 6, "name": "e2"},
    ]
    # the flat ones have no time
    assert {row["id"] for row in project.rows("h") if row["is_current"]} == {2, 3, 6}
    letters = project.rows("m__dead_letter", "offset")
    assert [
        said
        for (said, _), letter in zip(bad, letters, strict=True)
        if said not in letter["detail"]
    ] == []

    project.record("s", [native("truncate-table", None, kind="control", table="bar")])
    project.run("c").check()
    assert len(project.rows("c")) == 3
    project.record(
        "s",
        [
            native("truncate-table", None, kind="control"),
            native("insert", {"id": 9, "name": "z"}),
        ],
    )
    project.run("c").check()
    assert project.rows("c") == [{"id": 9, "name": "z"}]


@pytest.mark.parametrize(
    ("of_table", "condition"),
    [({}, "missing-option"), ({"source_table": "foo"}, "wrong-value")],
)
def test_a_feed_of_dms_says_its_table(
    project: Project, of_table: dict[str, Any], condition: str
) -> None:
    project.stream("s", COLUMNS, key=["id"], envelope="dms", **of_table)
    project.model("m", "SELECT id FROM {s}", mode="append")
    with pytest.raises(ProjectError) as raised:
        project.manifest()
    assert [problem.condition for problem in raised.value.problems] == [condition]
