"""The commits of several tables as one, in each catalog: all of them or none, where the
catalog can do that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakesql.catalog.snapshot_list import list_of, read_list
from lakesql.engine.ledger.commit import (
    Publication,
    Replacement,
    begin_commit,
    replacement_of,
    stage,
)
from lakesql.engine.ledger.commit_together import (
    CommitRefusedError,
    CommitTogether,
    commit_of,
    publish_together,
)
from lakesql.engine.ledger.snapshots import load_table
from lakesql.errors import ProfileError
from lakesql.ledger.entry import Entry
from lakesql.model.table_name import TableName
from lakesql.project.profiles import Catalog
from tests.catalogs.places import Place, add_catalog
from tests.catalogs.unreliable import Unreliable
from tests.kafka.bank import TABLES, Bank, mirror
from tests.servers.broker import Broker
from tests.servers.process import running
from tests.servers.rest import RestCatalogServer
from tests.spark.project import Lake, Project
from tests.spark.test_rewind import lakesql

NAMES = ("first", "second")


@pytest.fixture
def session(place: Place) -> SparkSession:
    return place.lake.session


@pytest.fixture
def together(place: Place, session: SparkSession) -> CommitTogether:
    return commit_of(place.lake.catalog, session)


@pytest.fixture
def tables(
    place: Place, session: SparkSession, request: pytest.FixtureRequest
) -> Iterator[dict[str, TableName]]:
    catalog = place.lake.catalog.profile.name
    namespace = f"together_{request.function.__name__[5:30]}"
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.{namespace}")
    found = {name: TableName(catalog, namespace, name) for name in NAMES}
    for table in found.values():
        session.sql(f"CREATE TABLE {table} (id bigint) USING iceberg")
        # Nessie checks no commit to a table without a snapshot
        session.sql(f"INSERT INTO {table} VALUES (0)")
    yield found
    for table in found.values():
        session.sql(f"DROP TABLE {table}")


def staged(session: SparkSession, table: TableName, number: int) -> Publication:
    """An INSERT that nobody sees yet."""
    statement = f"INSERT INTO {table} VALUES ({number})"
    made = stage(session, begin_commit(load_table(session, table)), statement)
    return Publication(
        made,
        Entry(model=table.name, checkpoint="c", batch=number, offsets="{}", query="q"),
        table,
    )


def ids(session: SparkSession, table: TableName) -> list[int]:
    return sorted(row["id"] for row in session.sql(f"SELECT id FROM {table}").collect())


def replaced(publication: Publication) -> Replacement:
    found = replacement_of(publication, is_again=False)
    assert isinstance(found, Replacement)
    return found


def test_both_tables_are_committed(
    session: SparkSession, together: CommitTogether, tables: dict[str, TableName]
) -> None:
    for number in (1, 2):
        publications = {
            name: staged(session, table, number) for name, table in tables.items()
        }
        published = publish_together(publications, together)
        assert published.heads.keys() == tables.keys() and not published.moved
        for name, table in tables.items():
            assert ids(session, table) == [*range(number + 1)]
            head = load_table(session, table).currentSnapshot()
            assert head.snapshotId() == published.heads[name].id
            assert head.summary().get("lakesql.batch") == str(number)


def test_none_is_committed_where_one_was_changed_meanwhile(
    session: SparkSession, together: CommitTogether, tables: dict[str, TableName]
) -> None:
    replacements = [replaced(staged(session, table, 1)) for table in tables.values()]
    session.sql(f"INSERT INTO {tables['second']} VALUES (7)")
    with pytest.raises(CommitRefusedError):
        together.commit(replacements)
    assert ids(session, tables["second"]) == [0, 7]
    assert ids(session, tables["first"]) == ([0] if together.is_atomic else [0, 1])


def test_one_that_must_be_staged_again_holds_the_other_back(
    session: SparkSession, together: CommitTogether, tables: dict[str, TableName]
) -> None:
    publications = {name: staged(session, table, 1) for name, table in tables.items()}
    session.sql(f"INSERT INTO {tables['second']} VALUES (7)")
    found = publish_together(publications, together)
    assert found.moved == {"second"} and found.waiting is not None
    assert [ids(session, tables[name]) for name in NAMES] == [[0], [0, 7]]
    again = {**found.waiting, "second": staged(session, tables["second"], 1)}
    assert publish_together(again, together).heads.keys() == tables.keys()
    assert [ids(session, tables[name]) for name in NAMES] == [[0, 1], [0, 1, 7]]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_rest_catalog_that_commits_one_table_at_a_time_is_refused(
    lake: Lake, rest_server: RestCatalogServer, status: int
) -> None:
    def commits_all(method: str, path: str) -> str:
        return "all" if path.endswith("/transactions/commit") else ""

    with running(Unreliable(rest_server.uri, commits_all, passes_on=False)) as proxy:
        proxy.judge = lambda subject, before: status
        session, name = lake.session, f"lacking{status}"
        catalog = add_catalog(lake, Catalog(name, "rest", proxy.uri)).catalog
        session.sql(f"CREATE NAMESPACE {name}.{name}")
        found = {each: TableName(name, name, each) for each in NAMES}
        for table in found.values():
            session.sql(f"CREATE TABLE {table} (id bigint) USING iceberg")
        publications = {
            each: staged(session, table, 1) for each, table in found.items()
        }
        with pytest.raises(ProfileError) as caught:
            publish_together(publications, commit_of(catalog, session))
        assert [problem.condition for problem in caught.value.problems] == [
            "catalog-not-atomic"
        ]
        assert [ids(session, table) for table in found.values()] == [[], []]


def rows_of(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def newest_batch(project: Project, table: str) -> int:
    """The last snapshot that a batch has made: maintenance may have made others
    since."""
    snapshots = project.iceberg(table).metadata.snapshots
    return int(
        [
            each.snapshot_id
            for each in snapshots
            if "lakesql.batch" in each.summary.additional_properties
        ][-1]
    )


def test_a_catalog_without_transactions_gets_a_list_of_what_belongs_together(
    hive_in_folder: Place, broker: Broker, tmp_path: Path
) -> None:
    project = Project(hive_in_folder.lake, tmp_path, "listed")
    project.connections = {
        "broker": {"type": "kafka", "bootstrap_servers": broker.servers}
    }
    bank = Bank(broker, "listed")
    bank.open_accounts()
    mirror(project, "listed")
    for _ in range(2):
        bank.transfer(count=2)
        project.run(asks=True).check()
    opened = hive_in_folder.lake.catalog
    listed = read_list(opened, list_of(opened.profile.name, "listed", "bank"))
    assert listed == {
        f"listed.public_{it}": newest_batch(project, f"public_{it}") for it in TABLES
    }
    foreign = project.table("public_savings")
    project.sql(f"DELETE FROM {foreign} WHERE id = 0")
    shown = lakesql(
        project, "show", "bank.public_savings", "--at", "consistent", "--output", "json"
    )
    assert shown.returncode == 0, shown.stderr
    assert {
        row["id"]: row["balance"] for row in rows_of(shown.stdout)
    } == bank.balances["savings"]
    now = lakesql(project, "show", "bank.public_savings", "--output", "json")
    assert len(rows_of(now.stdout)) == len(bank.balances["savings"]) - 1
