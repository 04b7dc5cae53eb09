"""A real PostgreSQL, a real Debezium, a real broker: after whatever happens there, the
table is what a SELECT says."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import ProjectError
from lakesql.events import Retrying
from tests.cdc.feed import ARRIVES_WITHIN_S, JSON, Feed, feeding, run_until, wait_for
from tests.servers.broker import Broker
from tests.servers.postgres import Postgres
from tests.servers.process import LOOPBACK, running
from tests.spark.project import Project, Row

ITEMS = """
CREATE TABLE items (
  id bigint, part text, name text, price numeric(12,2), score double precision, ok boolean, day date,
  at timestamp, seen timestamptz, data bytea, tags int[], doc jsonb, code uuid,
  PRIMARY KEY (id, part) DEFERRABLE INITIALLY DEFERRED
);
ALTER TABLE items REPLICA IDENTITY FULL;
INSERT INTO items (id, part, name, price) SELECT n, 'p', 'first', n FROM generate_series(1, 20) n;
"""
NOTES = """
CREATE TABLE notes (id int PRIMARY KEY, v int, body text);
ALTER TABLE notes ALTER body SET STORAGE EXTERNAL;
INSERT INTO notes SELECT n, 0, repeat(md5(n::text), 200) FROM generate_series(1, 30) n;
"""
"""An update sends no `body` that it does not change."""

COLUMNS: dict[str, Any] = {
    "id": {"type": "bigint", "required": True},
    "part": {"type": "string", "required": True},
    "name": "string",
    "price": "decimal(12,2)",
    "score": "double",
    "ok": "boolean",
    "day": "date",
    "at": {"type": "timestamp_ntz", "unit": "microseconds"},
    "seen": "timestamp",
    "data": "binary",
    "tags": "array<int>",
    "doc": "string",
    "code": "string",
}
SELECT = ", ".join(COLUMNS)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running(Postgres(wal_level="logical")) as postgres:
        yield postgres


def connector_to(
    postgres: Postgres, name: str, more: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a connector, with a slot and a publication of this name."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(postgres.port),
        "database.user": postgres.user,
        "database.password": postgres.password,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.items,public.notes,public.people,public.pgbench_accounts",
        "decimal.handling.mode": "string",
        **more,
    }


@pytest.fixture
def feed(
    postgres: Postgres, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Feed[Postgres]]:
    """Of the tables `items`, `notes`, `people` and `pgbench_accounts`, to topics `<name
    of the test>.public.…`.

    A test's parameter, if it has one, are more settings of the connector.
    """
    name = re.sub(r"\W+", "_", request.node.name).rstrip("_")
    connector = connector_to(postgres, name, getattr(request, "param", {}))
    with feeding(
        name, postgres, broker, tmp_path, "debezium-postgres", connector
    ) as feed:
        yield feed
    with postgres.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
        )
        connection.execute(f"DROP PUBLICATION IF EXISTS {name}")


@pytest.fixture
def project(new_project: Callable[[], Project], broker: Broker) -> Project:
    project = new_project()
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    return project


def plain(value: Any) -> Any:
    """A value of psycopg's or of Arrow's, to be compared."""
    if isinstance(value, float) and value != value:
        return "NaN"
    return bytes(value) if isinstance(value, memoryview) else value


def mirrored(rows: list[Row]) -> list[tuple[Any, ...]]:
    found = [tuple(plain(row[name]) for name in COLUMNS) for row in rows]
    return sorted(found, key=lambda row: (row[0], row[1]))


@pytest.mark.whole
def test_the_mirror_is_what_the_database_says(
    feed: Feed[Postgres], project: Project
) -> None:
    name = "test_the_mirror_is_what_the_database_says"
    topic, passes = f"{name}.public.items", "name IS DISTINCT FROM 'hidden'"
    feed.database.execute(ITEMS, NOTES)
    for each in (topic, f"{name}.public.notes"):
        feed.broker.create_topic(each)
    feed.connect.start()
    options = {"connection": "broker", "topic": topic, "envelope": "debezium"}
    project.stream("s", COLUMNS, key=["id", "part"], **options)
    project.model(
        "m",
        f"SELECT {SELECT} FROM {{s}} WHERE {passes}",
        mode="cdc",
        keys=["id", "part"],
    )
    project.stream(
        "n",
        {"id": "int", "v": "int", "body": "string"},
        connection="broker",
        topic=f"{name}.public.notes",
        envelope="debezium",
        key=["id"],
    )
    kept = "SELECT id, v, body, _change.position AS position FROM {n}"
    project.model("n", kept, mode="cdc", keys="id", sequence_by="_change.position")
    run_until(project, "m", lambda rows: len(rows) == 20)
    run_until(project, "n", lambda rows: len(rows) == 30)
    project.stream(
        "h",
        {"id": "int", "v": "int"},
        connection="broker",
        topic=f"{name}.public.notes",
        envelope="debezium",
        key=["id"],
    )
    versions = "SELECT id, v, _change.position AS position FROM {h}"
    project.model("h", versions, mode="scd2", keys="id", sequence_by="_change.position")
    project.run("h").check()

    def check() -> None:
        """After a mark that is written last, the table is the SELECT."""
        mark = feed.database.rows("SELECT coalesce(max(id), 0) + 1000 FROM items")[0][0]
        feed.database.execute(
            f"INSERT INTO items (id, part, name) VALUES ({mark}, 'mark', 'mark')"
        )
        wait_for(feed, topic, f'"id":{mark},')  # a swap of keys is to be in one batch
        rows = run_until(
            project, "m", lambda rows: any(row["id"] == mark for row in rows)
        )
        casts = SELECT.replace("doc", "doc::text").replace("code", "code::text")
        hidden = "name IS DISTINCT FROM 'hidden'"
        said = feed.database.rows(
            f'SELECT {casts} FROM items WHERE {hidden} ORDER BY id, part COLLATE "C"'
        )
        assert mirrored(rows) == [tuple(map(plain, row)) for row in said]
        assert not project.has("m__dead_letter") or project.reasons("m") == {}

    feed.database.execute(
        "UPDATE items SET price = 12.50, score = 'NaN', ok = true, day = '1969-12-31' WHERE id = 1",
        "UPDATE items SET at = '1900-01-01 00:00:00.000001', seen = '2026-03-01 12:00:00.5+02' WHERE id = 2",
        "UPDATE items SET at = '2300-01-01', score = '-Infinity', data = '\\x00ff', tags = '{1,NULL,3}' WHERE id = 3",
        "UPDATE items SET doc = '{\"a\": [1, 2.50]}', code = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6' WHERE id = 4",
        "UPDATE items SET name = 'hidden' WHERE id IN (5, 6)",
        "UPDATE items SET name = 'seen again' WHERE id = 6",
        "UPDATE items SET part = 'q' WHERE id = 7",
        "UPDATE items SET id = 100 + id WHERE id IN (8, 9)",
        "DELETE FROM items WHERE id = 10",
        "DELETE FROM items WHERE id = 11; INSERT INTO items (id, part, price) VALUES (11, 'p', -0.01)",
        "INSERT INTO items (id, part, name) SELECT 200 + n, 'p', repeat('x', 5000) FROM generate_series(1, 300) n",
        "UPDATE items SET price = 1 WHERE id > 200",
        "UPDATE items SET id = 27 - id WHERE id BETWEEN 12 AND 15",
        "UPDATE items SET id = -1 WHERE id = 16; UPDATE items SET id = 16 WHERE id = 17; "
        "UPDATE items SET id = 17 WHERE id = -1",
        "UPDATE items SET id = id + 1, price = id WHERE id > 200",
        "SELECT pg_logical_emit_message(true, 'note', 'hello')",
    )
    check()
    with feed.database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO items (id, part) VALUES (400, 'before')")
        connection.execute("TRUNCATE items")
        connection.execute(
            "INSERT INTO items (id, part, price) VALUES (401, 'after', 99.99)"
        )
        connection.execute("COMMIT")
    check()
    assert {row["part"] for row in project.rows_without_spark("m")} == {"after", "mark"}

    feed.database.execute(
        "INSERT INTO items (id, part, name) SELECT n, 'k', 'before the kill' FROM generate_series(1, 50) n"
    )
    feed.database.execute(
        "UPDATE notes SET v = id WHERE id < 20",
        "UPDATE notes SET body = repeat('new', 3000) WHERE id IN (1, 2)",
        "UPDATE notes SET v = v + 1 WHERE id < 10",
        "DELETE FROM notes WHERE id = 3",
        "INSERT INTO notes VALUES (3, 0, repeat('again', 3000))",
    )
    feed.connect.kill()
    feed.database.execute(
        "UPDATE notes SET v = v + 1 WHERE id < 30",
        "UPDATE items SET name = 'while it is away' WHERE id <= 25",
        "DELETE FROM items WHERE id > 45 AND id < 60",
    )
    feed.connect.start()
    check()
    assert Decimal("99.99") in {row["price"] for row in project.rows_without_spark("m")}
    feed.database.execute("INSERT INTO notes VALUES (1000, 0, 'mark')")
    notes = run_until(project, "n", lambda rows: any(row["id"] == 1000 for row in rows))
    found = sorted((row["id"], row["v"], row["body"]) for row in notes)
    assert found == feed.database.rows("SELECT id, v, body FROM notes ORDER BY id")
    assert not project.has("n__dead_letter")
    run_until(project, "h", lambda rows: any(row["id"] == 1000 for row in rows))
    assert not project.has("h__dead_letter")
    check_history(project.rows_without_spark("h"))

    feed.database.execute(
        "UPDATE notes SET id = 100 + id WHERE id BETWEEN 20 AND 22",
        "UPDATE notes SET v = 7, id = 200 WHERE id = 23; UPDATE notes SET v = 8 WHERE id = 200; "
        "UPDATE notes SET id = 201 WHERE id = 200; INSERT INTO notes VALUES (23, 9, 'another')",
        "UPDATE notes SET body = repeat('moved', 3000) WHERE id = 24; UPDATE notes SET id = 124 WHERE id = 24",
        "UPDATE notes SET v = v + 1 WHERE id BETWEEN 101 AND 999",
        "INSERT INTO notes VALUES (1001, 0, 'mark')",
    )
    wait_for(feed, f"{name}.public.notes", '"id":1001,')
    notes = run_until(project, "n", lambda rows: any(row["id"] == 1001 for row in rows))
    found = sorted((row["id"], row["v"], row["body"]) for row in notes)
    assert found == feed.database.rows("SELECT id, v, body FROM notes ORDER BY id")
    assert not project.has("n__dead_letter")


def check_history(rows: list[Row]) -> None:
    """Each row of `notes` has the versions that the statements above have made, in
    their order and without gaps."""
    expected = {number: [0] for number in range(1, 31)}
    for number in range(1, 20):
        expected[number].append(number)
    for number in range(1, 10):
        expected[number].append(number + 1)
    expected[3].append(0)  # deleted, and there again
    for number in range(1, 30):
        expected[number].append(expected[number][-1] + 1)
    expected[1000] = [0]
    found: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: list(row["valid_from"])):
        found.setdefault(row["id"], []).append(row)
    assert {
        number: [row["v"] for row in versions] for number, versions in found.items()
    } == expected
    for number, versions in found.items():
        assert [row["is_current"] for row in versions] == [False] * (
            len(versions) - 1
        ) + [True]
        assert versions[-1]["valid_to"] is None
        gaps = [
            older["v"]
            for older, newer in pairwise(versions)
            if older["valid_to"] != newer["valid_from"]
        ]
        assert gaps == ([4] if number == 3 else [])


WITH_SCHEMAS = {
    f"{part}.converter{setting}": value
    for part in ("key", "value")
    for setting, value in (("", JSON), (".schemas.enable", "true"))
}


RESTARTED_BEFORE = 4


@pytest.mark.parametrize("feed", [WITH_SCHEMAS], indirect=True, ids=[""])
def test_the_mirror_follows_a_schema_that_changes_while_it_runs(
    feed: Feed[Postgres], project: Project
) -> None:
    """The stream declares no columns; somebody reads the table all the time, and the
    broker is restarted meanwhile."""
    name = "test_the_mirror_follows_a_schema_that_changes_while_it_runs"
    feed.database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, name text, n int, r real)",
        "INSERT INTO people VALUES (0)",
    )
    feed.broker.create_topic(f"{name}.public.people")
    feed.connect.start()
    project.stream(
        "s", connection="broker", topic=f"{name}.public.people", envelope="debezium"
    )
    project.model("m", "SELECT * FROM {s}", mode="cdc", keys="id", trigger="1 second")
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while not project.has("m"):
        try:
            project.run("m").check()
        except ProjectError as error:  # no record yet, and so no column
            assert time.monotonic() < deadline, error
            time.sleep(0.5)
    done, failures = threading.Event(), list[BaseException]()
    steps = (
        "INSERT INTO people VALUES (1, 'a', 1, 0.5)",
        "ALTER TABLE people ADD note text; INSERT INTO people VALUES (2, 'b', 2, 0.5, 'n2')",
        "ALTER TABLE people ALTER n TYPE bigint; INSERT INTO people VALUES (3, 'c', 1099511627776, 0.5, 'n3')",
        "ALTER TABLE people ALTER r TYPE double precision; INSERT INTO people VALUES (4, 'd', 4, 1e300, 'n4')",
        "ALTER TABLE people RENAME note TO memo; INSERT INTO people VALUES (5, 'e', 5, 0.5, 'm5')",
        "ALTER TABLE people DROP r; DELETE FROM people WHERE id = 2; INSERT INTO people VALUES (6, 'f', 6, 'm6')",
    )

    def change() -> None:
        try:
            for mark, statements in enumerate(steps, 1):
                if mark == RESTARTED_BEFORE:
                    feed.broker.stop()
                    feed.broker.start()
                feed.database.execute(*statements.split("; "))
                deadline = time.monotonic() + ARRIVES_WITHIN_S
                while not (
                    project.has("m")
                    and mark in {row["id"] for row in project.rows_without_spark("m")}
                ):
                    assert time.monotonic() < deadline, f"step {mark} has not arrived"
                    time.sleep(0.2)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=change)
    thread.start()
    ran = project.run("m", continuous=True, until=done.is_set).check()
    thread.join()

    assert not failures
    rows = sorted(project.rows_without_spark("m"), key=lambda row: int(row["id"]))
    said = feed.database.rows("SELECT id, name, n FROM people ORDER BY id")
    assert [(row["id"], row["name"], row["n"]) for row in rows] == said
    others = {row["id"]: (row["r"], row["note"], row["memo"]) for row in rows}
    assert others[3] == (0.5, "n3", None) and others[4] == (1e300, "n4", None)
    assert others[5] == (0.5, None, "m5") and others[6] == (None, None, "m6")
    types = {
        field.name: str(field.field_type)
        for field in project.iceberg("m").schema().fields
    }
    assert types == {
        **dict.fromkeys(("name", "note", "memo"), "string"),
        "id": "int",
        "n": "long",
        "r": "double",
    }
    told = " ".join(
        problem.what + problem.why
        for retried in ran.of(Retrying)
        for problem in retried.problems
    )
    for said_so in (
        "note string is new",
        "n is bigint and was int",
        "r is double and was float",
        "note is not in it",
    ):
        assert said_so in told


def test_a_load_of_pgbench_is_mirrored_while_it_runs(
    feed: Feed[Postgres], project: Project
) -> None:
    name = "test_a_load_of_pgbench_is_mirrored_while_it_runs"
    feed.database.run_pgbench("postgres", "-i", "-q")
    feed.database.execute("ALTER TABLE pgbench_accounts REPLICA IDENTITY FULL")
    topic = f"{name}.public.pgbench_accounts"
    feed.broker.create_topic(topic)
    feed.connect.start()
    columns = {
        "aid": {"type": "int", "required": True},
        "bid": "int",
        "abalance": "int",
        "filler": "string",
    }
    project.stream(
        "s", columns, connection="broker", topic=topic, envelope="debezium", key=["aid"]
    )
    project.model("m", "SELECT aid, bid, abalance FROM {s}", mode="cdc", keys=["aid"])
    for _ in range(3):
        feed.database.run_pgbench("postgres", "-n", "-c", "2", "-t", "200")
        project.run("m").check()
    feed.database.execute("UPDATE pgbench_accounts SET bid = 7 WHERE aid = 1")
    rows = run_until(
        project,
        "m",
        lambda rows: any(row["aid"] == 1 and row["bid"] == 7 for row in rows),
    )
    found = sorted((row["aid"], row["bid"], row["abalance"]) for row in rows)
    assert found == feed.database.rows(
        "SELECT aid, bid, abalance FROM pgbench_accounts ORDER BY aid"
    )
    assert len(found) == 100_000


# --- positions in the log

ACCOUNTS = (
    "DROP TABLE IF EXISTS accounts, debezium_signal",
    "CREATE TABLE accounts (id int PRIMARY KEY, v text)",
    "INSERT INTO accounts SELECT n, 'first' FROM generate_series(1, 5) n",
    "CREATE TABLE debezium_signal (id text PRIMARY KEY, type text NOT NULL, data text)",
)
OF_ACCOUNTS = {"table.include.list": "public.accounts,public.debezium_signal"}
ALWAYS = {**OF_ACCOUNTS, "snapshot.mode": "always"}
BY_SIGNAL = {
    **OF_ACCOUNTS,
    "snapshot.mode": "no_data",
    "signal.data.collection": "public.debezium_signal",
}


@pytest.fixture
def accounts(feed: Feed[Postgres], project: Project) -> str:
    """The topic of a table that model `m` mirrors by the positions of its changes."""
    feed.database.execute(*ACCOUNTS)
    topic = f"{feed.name}.public.accounts"
    feed.broker.create_topic(topic)
    columns = {"id": {"type": "int", "required": True}, "v": "string"}
    project.stream(
        "s", columns, connection="broker", topic=topic, envelope="debezium", key=["id"]
    )
    project.model(
        "m",
        "SELECT id, v, _change.position AS at FROM {s}",
        mode="cdc",
        keys="id",
        sequence_by="_change.position",
    )
    return topic


def check_accounts(feed: Feed[Postgres], project: Project, last: int) -> None:
    """Insert a row, wait for it, and compare."""
    feed.database.execute(f"INSERT INTO accounts VALUES ({last}, 'last')")
    rows = run_until(project, "m", lambda rows: any(row["id"] == last for row in rows))
    assert {row["id"]: row["v"] for row in rows} == dict(
        feed.database.rows("SELECT id, v FROM accounts")
    )
    assert not project.has("m__dead_letter") or project.reasons("m") == {}


@pytest.mark.parametrize("feed", [ALWAYS], indirect=True, ids=[""])
@pytest.mark.parametrize("cuts", [False, True], ids=["at once", "in two runs"])
def test_an_open_transaction_is_newer_than_a_snapshot(
    feed: Feed[Postgres], project: Project, accounts: str, cuts: bool
) -> None:
    """The log has them before the place at which the snapshot was taken, which did not
    see them."""
    feed.connect.start()
    wait_for(feed, accounts, '"id":5')
    feed.connect.stop()
    with feed.database.connect() as open_:
        open_.autocommit = False
        open_.execute("UPDATE accounts SET v = 'late' WHERE id = 1")
        open_.execute("DELETE FROM accounts WHERE id = 2")
        feed.database.execute("INSERT INTO accounts VALUES (6, 'sixth')")
        feed.connect.start()
        wait_for(feed, accounts, '"sixth"')
        if cuts:
            run_until(project, "m", lambda rows: any(row["id"] == 6 for row in rows))
        open_.commit()
    events = wait_for(feed, accounts, '"late"')
    (late,) = [event for event in events if event["op"] == "u"]
    newest = [
        event for event in events if event["op"] == "r" and event["after"]["id"] == 1
    ][-1]
    assert late["source"]["lsn"] < newest["source"]["lsn"], (
        "it is not the situation that is meant"
    )
    check_accounts(feed, project, 7)


@pytest.mark.parametrize("feed", [BY_SIGNAL], indirect=True, ids=[""])
@pytest.mark.parametrize("cuts", [False, True], ids=["at once", "in two runs"])
def test_an_incremental_snapshot_is_older(
    feed: Feed[Postgres], project: Project, accounts: str, cuts: bool
) -> None:
    """They have no place in the log."""
    feed.connect.start()
    slot = (
        f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{feed.name}' AND active"
    )
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while not feed.database.rows(slot):
        assert time.monotonic() < deadline, "the connector does not begin"
        time.sleep(0.5)
    feed.database.execute("UPDATE accounts SET v = 'second' WHERE id = 1")
    wait_for(feed, accounts, '"second"')
    what = '{"data-collections": ["public.accounts"], "type": "incremental"}'
    feed.database.execute(
        f"INSERT INTO debezium_signal VALUES ('one', 'execute-snapshot', '{what}')"
    )
    events = wait_for(feed, accounts, '"id":5')
    assert {event["source"]["lsn"] for event in events if event["op"] == "r"} == {
        None
    }, "it is not what is meant"
    if cuts:
        run_until(project, "m", lambda rows: len(rows) == 5)
    feed.database.execute(
        "UPDATE accounts SET v = 'third' WHERE id = 2",
        "DELETE FROM accounts WHERE id = 3",
    )
    check_accounts(feed, project, 6)


@pytest.mark.parametrize("feed", [OF_ACCOUNTS], indirect=True, ids=[""])
def test_a_restored_server_stops_the_mirror(
    feed: Feed[Postgres],
    broker: Broker,
    project: Project,
    accounts: str,
    tmp_path: Path,
) -> None:
    for number in range(30):
        # 16 MB of the log each
        feed.database.rows(f"SELECT pg_switch_wal(), txid_current(), {number}")
    feed.connect.start()
    wait_for(feed, accounts, '"id":5')
    check_accounts(feed, project, 6)
    feed.connect.stop()
    with running(Postgres(wal_level="logical")) as restored:
        restored.execute(
            *ACCOUNTS, "INSERT INTO accounts VALUES (50, 'of the snapshot')"
        )
        connector = connector_to(restored, feed.name, OF_ACCOUNTS)
        directory = tmp_path / "restored"
        with feeding(
            feed.name, restored, broker, directory, "debezium-postgres", connector
        ) as second:
            second.connect.start()
            wait_for(second, accounts, '"of the snapshot"')
            restored.execute("UPDATE accounts SET v = 'restored' WHERE id = 1")
            wait_for(second, accounts, '"restored"')
            rows = project.rows_without_spark("m")
            assert project.run("m").conditions("m") == ["log-restarted"]
            assert project.rows_without_spark("m") == rows
