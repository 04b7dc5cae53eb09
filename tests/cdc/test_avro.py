"""A real PostgreSQL by a real Debezium, whose events are in Avro by schemas of a real
registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cdc.feed import feeding, run_until
from tests.cdc.test_postgres import connector_to
from tests.servers.apicurio import Apicurio
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import running
from tests.spark.project import Project

PEOPLE = """
CREATE TABLE people (id bigint PRIMARY KEY, name text, paid numeric(12,2), day date, at timestamp, ok boolean);
ALTER TABLE people REPLICA IDENTITY FULL;
INSERT INTO people SELECT n, 'first', n, DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.123456', true
FROM generate_series(1, 20) n;
"""
COLUMNS = {
    "id": {"type": "bigint", "required": True},
    "name": "string",
    "paid": "decimal(12,2)",
    "day": "date",
    "at": "timestamp_ntz",
    "ok": "boolean",
}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Apicurio]:
    with running(Apicurio(tmp_path / "registry")) as found:
        yield found


def converter(side: str, registry: Apicurio) -> dict[str, str]:
    url = registry.url.replace("/ccompat/v7", "/registry/v2")
    settings = {
        "url": url,
        "auto-register": "true",
        "find-latest": "true",
        "as-confluent": "true",
    }
    settings |= {"use-id": "contentId", "headers.enabled": "false"}
    names = {
        f"{side}.converter.apicurio.registry.{name}": value
        for name, value in settings.items()
    }
    return {
        f"{side}.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        **names,
    }


def test_the_mirror_is_what_the_database_says(
    new_project: Callable[[], Project],
    broker: Broker,
    registry: Apicurio,
    tmp_path: Path,
) -> None:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers},
        "schemas": {"type": "registry", "url": registry.url},
    }
    more = {"schema.name.adjustment.mode": "avro", "decimal.handling.mode": "precise"}
    more |= {**converter("key", registry), **converter("value", registry)}
    with running(Postgres(wal_level="logical")) as postgres:
        connector = connector_to(postgres, "avro", more)
        with (
            postgres.connect() as connection,
            feeding(
                "avro", postgres, broker, tmp_path, "debezium-postgres-avro", connector
            ) as feed,
        ):
            connection.execute(PEOPLE)
            broker.create_topic("avro.public.people")
            feed.connect.start()
            options = {
                "connection": "broker",
                "topic": "avro.public.people",
                "format": "avro",
                "registry": "schemas",
            }
            project.stream(
                "people", COLUMNS, envelope="debezium", key=["id"], **options
            )
            project.model("mirror", "SELECT * FROM {people}", mode="cdc", keys="id")
            run_until(project, "mirror", lambda rows: len(rows) == 20)
            connection.execute(
                "UPDATE people SET name = 'later', paid = -0.01 WHERE id <= 5"
            )
            connection.execute("DELETE FROM people WHERE id = 7")
            connection.execute("ALTER TABLE people ADD COLUMN more text")
            connection.execute(
                "INSERT INTO people VALUES (21, 'é', NULL, NULL, NULL, NULL, 'x')"
            )
            run_until(
                project, "mirror", lambda rows: any(row["id"] == 21 for row in rows)
            )
            stored = connection.execute(
                "SELECT id, name, paid, day, at, ok FROM people ORDER BY id"
            ).fetchall()
    found = [
        tuple(row[name] for name in COLUMNS) for row in project.rows("mirror", "id")
    ]
    assert found == [tuple(row) for row in stored]
    first = (
        1,
        "later",
        Decimal("-0.01"),
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, 4, 5, 123456),
        True,
    )
    assert found[0] == first
    assert not project.has("mirror__dead_letter")
    avro = {
        "connection": "broker",
        "format": "avro",
        "registry": "schemas",
        "envelope": "debezium",
    }
    project.stream("all", pattern=r"avro\.public\..*", **avro)
    project.model("every", "SELECT * FROM {all}", mode="cdc", tables={})
    project.run(asks=True).check()
    of_group = project.rows("public_people", "id")
    assert [tuple(row[name] for name in COLUMNS) for row in of_group] == [
        tuple(row) for row in stored
    ]
    assert [row["id"] for row in of_group if row["more"] is not None] == [21]
    assert not project.has("public_people__dead_letter")
