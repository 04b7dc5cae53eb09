"""Feeds in Avro whose tables and columns are those of the schemas that their events
name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Fields, Project, in_bytes, use_schema_folder
from tests.spark.test_registry_feed import FIELDS, KEY, envelope, framed, row

pytestmark = pytest.mark.long

USERS = [
    {"name": "login", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "height", "type": ["null", "double"], "default": None},
]


@dataclass
class Registry:
    """A registry that is a folder of the project: each schema has an id of its own."""

    project: Project
    ids: dict[str, int] = field(default_factory=dict)

    def id_of(self, schema: dict[str, Any]) -> int:
        text = json.dumps(schema)
        id_ = self.ids.setdefault(text, len(self.ids) + 1)
        self.project.write(f"schemas/{id_}.avsc", text)
        return id_


@dataclass
class Feed:
    """Writes events of tables, each with the next place in the log."""

    project: Project
    registry: Registry
    place: int = 0

    def send(
        self,
        table: str,
        op: str,
        *rows: dict[str, Any],
        fields: list[Any] = FIELDS,
        key: str = "id",
    ) -> None:
        self.project.record(
            f"shop.public.{table}",
            [self._event(table, op, each, fields, key) for each in rows],
        )

    def _event(
        self, table: str, op: str, row: dict[str, Any], fields: list[Any], key: str
    ) -> Fields:
        self.place += 1
        source = {
            "connector": "postgresql",
            "lsn": self.place,
            "schema": "public",
            "table": table,
        }
        sides = (
            {"before": row, "after": None}
            if op == "d"
            else {"before": None, "after": row}
        )
        event = {
            **sides,
            "source": source,
            "op": op,
            "ts_ms": 1_772_400_000_000 + self.place,
        }
        kind = next(each["type"] for each in fields if each["name"] == key)
        keys = {**KEY, "fields": [{"name": key, "type": kind}]}
        value = framed(self.registry.id_of(envelope(fields)), envelope(fields), event)
        return in_bytes(value, framed(self.registry.id_of(keys), keys, {key: row[key]}))


@pytest.fixture
def feed(new_project: Callable[[], Project]) -> Feed:
    project = new_project()
    use_schema_folder(project)
    avro = {"format": "avro", "registry": "schemas", "envelope": "debezium"}
    project.stream("shop", pattern=r"shop\.public\..*", **avro)
    return Feed(project, Registry(project))


def test_each_table_has_the_key_and_the_columns_of_its_schemas(feed: Feed) -> None:
    project = feed.project
    project.model(
        "mirror",
        "SELECT * FROM {shop}",
        mode="cdc",
        tables={"columns": {"*.name": "mask_null"}},
    )
    feed.send("items", "c", row(1, "a", "12.50", 20_000), row(2, "b", "-0.01"))
    feed.send(
        "users",
        "c",
        {"login": "é", "tags": ["x", "y"], "height": 1.5},
        fields=USERS,
        key="login",
    )
    models = project.manifest().models
    assert sorted(models) == ["mirror.public_items", "mirror.public_users"]
    kinds = {
        name: {it.name: it.type for it in project.manifest().streams[name].columns}
        for name in project.manifest().streams
    }
    assert kinds["shop__public_items"] == {
        "id": "bigint",
        "name": "string",
        "price": "decimal(12,2)",
        "day": "date",
    }
    assert kinds["shop__public_users"] == {
        "login": "string",
        "tags": "array<string>",
        "height": "double",
    }
    project.run().check()
    feed.send("items", "d", row(2, "b", "-0.01"))
    feed.send("items", "u", row(1, "z", "99.99", 20_001))
    project.run().check()
    (found,) = project.rows("public_items", "id")
    assert (found["id"], found["name"], found["price"], str(found["day"])) == (
        1,
        None,
        Decimal("99.99"),
        "2024-10-05",
    )
    assert [tuple(it.values()) for it in project.rows("public_users")] == [
        ("é", ["x", "y"], 1.5)
    ]
    assert not project.has("public_items__dead_letter")


def test_a_new_column_and_a_new_table_are_followed(feed: Feed) -> None:
    project = feed.project
    project.model("mirror", "SELECT * FROM {shop}", mode="cdc", tables={})
    feed.send("items", "c", row(1, "a"))
    project.run().check()
    wider = [*FIELDS, {"name": "more", "type": ["null", "string"], "default": None}]
    feed.send("items", "c", row(2, "b"))
    feed.send("items", "u", {**row(1, "a"), "more": "x"}, fields=wider)
    feed.send(
        "users",
        "c",
        {"login": "n", "tags": [], "height": None},
        fields=USERS,
        key="login",
    )
    project.run().check()
    assert [(it["id"], it["more"]) for it in project.rows("public_items", "id")] == [
        (1, "x"),
        (2, None),
    ]
    assert [it["login"] for it in project.rows("public_users")] == ["n"]


def test_a_stream_alone_may_leave_its_columns_to_its_schemas(feed: Feed) -> None:
    project = feed.project
    avro = {"format": "avro", "registry": "schemas", "envelope": "debezium"}
    project.stream("items", topic="shop.public.items", **avro)
    project.model("mirror", "SELECT id, price FROM {items}", mode="cdc", keys="id")
    with pytest.raises(ProjectError) as refused:
        project.run()
    assert {it.condition for it in refused.value.problems} == {"no-columns"}
    feed.send("items", "c", row(1, "a", "12.50"), row(2, "b", "1.00"))
    feed.send("items", "d", row(2, "b", "1.00"))
    project.run().check()
    assert [(it["id"], it["price"]) for it in project.rows("mirror")] == [
        (1, Decimal("12.50"))
    ]


def test_an_event_of_a_schema_that_is_not_there_names_no_table(feed: Feed) -> None:
    project = feed.project
    project.model("mirror", "SELECT * FROM {shop}", mode="cdc", tables={})
    feed.send("items", "c", row(1, "a"))
    feed.send(
        "others",
        "c",
        row(1, "a"),
        fields=[*FIELDS, {"name": "x", "type": "long", "default": 0}],
    )
    gone = feed.registry.ids[
        json.dumps(envelope([*FIELDS, {"name": "x", "type": "long", "default": 0}]))
    ]
    (project.directory / f"schemas/{gone}.avsc").unlink()
    assert [*project.manifest().models] == ["mirror.public_items"]


def test_schemas_of_a_recording_are_asked_of_no_server(feed: Feed) -> None:
    project = feed.project
    project.connections["schemas"] = {"type": "registry", "url": "http://127.0.0.1:9"}
    project.model("mirror", "SELECT * FROM {shop}", mode="cdc", tables={})
    feed.send("items", "c", row(1, "a"))
    with pytest.raises(ProjectError) as refused:
        project.manifest()
    assert {it.condition for it in refused.value.problems} == {"registry-options"}
