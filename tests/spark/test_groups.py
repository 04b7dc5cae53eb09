"""One file that mirrors many tables: each a model of its own, made of what the feed
says."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Fields, Project, Row
from tests.spark.test_open_feed import INT, LONG, TEXT, struct

pytestmark = pytest.mark.long

KINDS = {"id": LONG, "email": TEXT, "total": INT}


def change(
    table: str, op: str, row: Row, kinds: dict[str, Any] | None = None, key: str = "id"
) -> Fields:
    """A change of a table, with the schema of its row beside it."""
    kinds = kinds or KINDS
    sides = [
        {"field": side, "optional": True, **struct(**kinds)}
        for side in ("before", "after")
    ]
    schema, _, name = table.rpartition(".")
    source = {
        "connector": "postgresql",
        "ts_ms": 1_772_366_400_000,
        "schema": schema,
        "table": name,
        "db": "shop",
    }
    payload = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "op": op,
        "source": {**source, "snapshot": "false", "lsn": 100},
    }
    fields = [*sides, {"field": "op", "optional": False, "type": "string"}]
    return Fields(
        key={"schema": struct(**{key: kinds[key]}), "payload": {key: row[key]}},
        value={"schema": {"type": "struct", "fields": fields}, "payload": payload},
    )


def rows(*numbers: int) -> list[Row]:
    return [
        {"id": each, "email": f"a{each}@b.c", "total": each * 10} for each in numbers
    ]


def group(
    project: Project, select: str = "SELECT * FROM {shop}", **options: Any
) -> None:
    config = {"mode": "cdc", "tables": {}, **options}
    project.stream("shop", envelope="debezium", pattern=r"shop\.public\..*")
    project.model("mirror", select, **config)


def send(
    project: Project,
    table: str,
    op: str,
    *sent: Row,
    kinds: dict[str, Any] | None = None,
) -> None:
    project.record(f"shop.{table}", [change(table, op, row, kinds) for row in sent])


def test_each_table_of_a_feed_is_a_model_of_its_own(project: Project) -> None:
    group(project)
    send(project, "public.orders", "c", *rows(1, 2, 3))
    send(project, "public.users", "c", *rows(7, 8))
    assert sorted(project.manifest().models) == [
        "mirror.public_orders",
        "mirror.public_users",
    ]
    project.run().check()
    send(project, "public.orders", "d", *rows(2))
    send(project, "public.users", "u", {"id": 7, "email": "new", "total": 1})
    project.run().check()
    assert project.rows("public_orders", "id") == rows(1, 3)
    assert project.rows("public_users", "id") == [
        {"id": 7, "email": "new", "total": 1},
        *rows(8),
    ]


def test_a_table_that_appears_is_made_by_the_next_run(project: Project) -> None:
    group(project)
    send(project, "public.orders", "c", *rows(1))
    project.run().check()
    send(project, "public.late", "c", *rows(5))
    project.run().check()
    assert project.rows("public_late", "id") == rows(5)


def test_columns_are_masked_cast_and_left_out(project: Project) -> None:
    rules = {
        "*.email": "mask_hash",
        "public.orders.total": "cast(string)",
        "public.users.total": "drop",
    }
    group(project, tables={"columns": rules})
    send(project, "public.orders", "c", *rows(1))
    send(project, "public.users", "c", *rows(2))
    project.run().check()
    hashed = [
        hashlib.sha256(f"a{number}@b.c".encode()).hexdigest() for number in (1, 2)
    ]
    assert project.rows("public_orders") == [
        {"id": 1, "email": hashed[0], "total": "10"}
    ]
    assert project.rows("public_users") == [{"id": 2, "email": hashed[1]}]
    send(project, "public.orders", "d", *rows(1))
    project.run().check()
    assert project.rows("public_orders") == []


@pytest.mark.parametrize(
    "rule", ["mask_hash", "mask_null", "mask_truncate(1)", "cast(string)", "drop"]
)
def test_a_rule_never_changes_a_key(project: Project, rule: str) -> None:
    group(project, tables={"columns": {"*.id": rule}})
    send(project, "public.orders", "c", *rows(1))
    with pytest.raises(ProjectError) as caught:
        project.run()
    assert [problem.condition for problem in caught.value.problems] == ["group-column"]


def test_a_file_of_its_own_takes_a_table_out_of_the_group(project: Project) -> None:
    group(project)
    own = "SELECT id, total * 2 AS twice FROM {shop} WHERE total > 10"
    project.model("mirror.public_orders", own, mode="cdc", keys="id")
    send(project, "public.orders", "c", *rows(1, 2))
    send(project, "public.users", "c", *rows(7))
    project.run().check()
    assert project.rows("public_orders") == [{"id": 2, "twice": 40}]
    assert project.rows("public_users") == rows(7)


def test_tables_of_one_topic_are_told_apart(project: Project) -> None:
    project.stream("shop", envelope="debezium", topic="all")
    project.model(
        "mirror",
        "SELECT * FROM {shop}",
        mode="cdc",
        tables={"exclude": ["public.audit"]},
    )
    sent = [
        ("orders", rows(1)),
        ("users", rows(1, 2)),
        ("audit", rows(9)),
        ("orders", rows(3)),
    ]
    project.record(
        "all",
        [change(f"public.{table}", "c", row) for table, found in sent for row in found],
    )
    project.run().check()
    assert project.rows("public_orders", "id") == rows(1, 3)
    assert project.rows("public_users", "id") == rows(1, 2)
    assert not project.has("public_audit")


def test_a_new_column_is_followed_in_its_table_alone(project: Project) -> None:
    group(project)
    send(project, "public.orders", "c", *rows(1))
    send(project, "public.users", "c", *rows(1))
    project.run().check()
    send(
        project,
        "public.orders",
        "c",
        {"id": 2, "note": "x"},
        kinds={"id": LONG, "note": TEXT},
    )
    project.run().check()
    found = project.rows("public_orders", "id")
    assert [(row["id"], row["note"]) for row in found] == [(1, None), (2, "x")]
    assert project.rows("public_users") == rows(1)


def test_the_history_of_each_table_is_kept(project: Project) -> None:
    select = "SELECT *, _change.position AS at FROM {shop}"
    group(project, select, mode="scd2", sequence_by="_change.position")
    send(project, "public.orders", "c", *rows(1))
    send(project, "public.users", "c", *rows(2))
    project.run().check()
    assert [row["id"] for row in project.rows("public_orders")] == [1]
    assert [row["id"] for row in project.rows("public_users")] == [2]


def test_a_table_that_fails_does_not_stop_the_others(project: Project) -> None:
    group(project, on_schema_change="fail")
    send(project, "public.orders", "c", *rows(1))
    send(project, "public.users", "c", *rows(1))
    project.run().check()
    send(
        project,
        "public.orders",
        "c",
        {"id": 2, "note": "x"},
        kinds={"id": LONG, "note": TEXT},
    )
    send(project, "public.users", "c", *rows(2))
    ran = project.run()
    assert not ran.succeeded
    assert ran.finished("mirror.public_orders").status == "error"
    assert project.rows("public_users", "id") == rows(1, 2)
    group(project)
    project.run().check()
    assert [row["id"] for row in project.rows("public_orders", "id")] == [1, 2]


def test_tables_that_share_a_topic_are_kept_apart(project: Project) -> None:
    """Debezium writes `_` for what no topic's name may have, so that `größe` and
    `gräße` have one topic."""
    group(project)
    project.record(
        "shop.public.gr__e",
        [change(f"public.{table}", "c", *rows(1)) for table in ("größe",)],
    )
    project.run().check()
    project.record(
        "shop.public.gr__e",
        [change("public.größe", "c", *rows(2)), change("public.gräße", "c", *rows(3))],
    )
    tables = {
        "rename": {
            "public.größe": "sizes",
            "public.gräße": "more.sizes".replace(".", "_"),
        }
    }
    ran = project.run()
    assert not ran.succeeded or project.manifest().lacks_tables(
        project.manifest().models
    )
    project.model("mirror", "SELECT * FROM {shop}", mode="cdc", tables=tables)
    project.run().check()
    assert project.rows("sizes", "id") == rows(1, 2)
    assert project.rows("more_sizes", "id") == rows(3)


def test_a_table_with_a_dot_in_its_name_is_one_of_a_topic(project: Project) -> None:
    project.stream("shop", envelope="debezium", topic="all")
    project.model(
        "mirror", "SELECT * FROM {shop}", mode="cdc", tables={"name": "{table}"}
    )
    events = [
        change("public.plain", "c", *rows(1)),
        change("public.plain", "c", *rows(2)),
    ]
    for event in events[1:]:
        event["value"]["payload"]["source"]["table"] = "with.dot"
    project.record("all", events)
    project.run().check()
    assert (project.rows("plain", "id"), project.rows("dot", "id")) == (
        rows(1),
        rows(2),
    )
