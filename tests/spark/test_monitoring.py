"""The figures of a table that Spark wrote: by `lakesql status`, and by the SQL of
docs/monitoring.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pytest

from lakesql.catalog.table_facts import read_facts
from lakesql.clock import now_ms
from lakesql.model.table_name import TableName
from lakesql.observe.tally import RunTally, count_event
from lakesql.plan.health import Figures, Judged, TableFacts, measure
from lakesql.plan.run_health import measure_run
from tests.spark.project import Lake, Project, Ran

DOCS = Path(__file__).parents[2] / "docs"
QUERIES: dict[str, str] = dict(
    re.findall(
        r"<!-- query: ([a-z ]+) -->\n```sql\n(.*?)```",
        (DOCS / "monitoring.md").read_text(),
        re.DOTALL,
    )
)
COLUMNS = {"id": "bigint", "day": "date", "at": "timestamp"}
BATCHES = 7


@pytest.fixture(scope="module")
def ran(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    """A table of two partitions, in seven batches of which each updates rows of the one
    before; with bad records."""
    project = Project(lake, tmp_path_factory.mktemp("monitoring"), "monitoring")
    project.stream("orders", COLUMNS, max_per_batch=1)
    options: dict[str, Any] = {
        "sequence_by": "at",
        "partition_by": ["day"],
        "maintenance": False,
    }
    project.model(
        "orders",
        "SELECT id, day, at FROM {orders}",
        mode="upsert",
        keys=["id"],
        **options,
    )
    for batch in range(BATCHES):
        rows: list[dict[str, Any]] = [
            {
                "id": number,
                "day": f"2026-03-0{1 + number % 2}",
                "at": f"2026-03-01T1{batch}:00:00Z",
            }
            for number in range(batch, batch + 4)
        ]
        project.record("orders", [*rows, {"day": "2026-03-01"}])
    return project, project.run().check()


@pytest.fixture(scope="module")
def project(ran: tuple[Project, Ran]) -> Project:
    return ran[0]


def read(project: Project, lake: Lake, table: str) -> TableFacts:
    found = read_facts(
        lake.catalog, TableName(lake.catalog.profile.name, project.namespace, table)
    )
    assert found is not None
    return found


@pytest.fixture(scope="module")
def facts(project: Project, lake: Lake) -> TableFacts:
    return read(project, lake, "orders")


@pytest.fixture(scope="module")
def figures(facts: TableFacts) -> Figures:
    return measure(facts, now_ms())


def ask_spark(project: Project, query: str, table: str = "orders") -> dict[str, Any]:
    """The one row of a query of the page, for a table of this test."""
    text = QUERIES[f"spark {query}"].replace("lake.shop.orders", project.table(table))
    (row,) = project.sql(text)
    return row


@pytest.fixture(scope="module")
def duck(project: Project) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            (file,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        place = project.iceberg("orders").metadata_location.removeprefix("file:")
        connection.execute(f"SET VARIABLE metadata = '{place}'")
        yield connection


def ask_duckdb(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    found = connection.execute(QUERIES[f"duckdb {query}"])
    (row,) = found.fetchall()
    return dict(
        zip((column[0] for column in found.description or ()), row, strict=True)
    )


def test_the_files_are_those_that_pyiceberg_lists(
    project: Project, facts: TableFacts
) -> None:
    listed = project.iceberg("orders").inspect.files().to_pylist()
    assert sorted(
        (each.is_delete, each.size_bytes, each.rows) for each in facts.files
    ) == sorted(
        (each["content"] > 0, each["file_size_in_bytes"], each["record_count"])
        for each in listed
    )
    days = {(each["partition"]["day"] - date(1970, 1, 1)).days for each in listed}
    assert {each.partition[1] for each in facts.files} == days  # type: ignore[index]
    assert {each.written_ms for each in facts.files} <= {
        commit.at_ms for commit in facts.commits
    }


def test_each_batch_is_a_commit_with_its_newest_event(
    project: Project, facts: TableFacts
) -> None:
    assert [commit.rows for commit in facts.commits] == [4] * BATCHES
    # The first one is appended to an empty table before its newest event is known: the
    # next one says it.
    assert all(commit.latency_ms is not None for commit in facts.commits)
    assert sum(count for _, count in facts.dead_letters) == BATCHES


def test_the_run_knows_of_the_table_what_its_metadata_says(
    ran: tuple[Project, Ran], facts: TableFacts
) -> None:
    """But for when its files were written, and what is in its manifests."""
    tally = reduce(count_event, ran[1].events, RunTally()).models["orders"]
    now = now_ms()
    by_run, by_table = measure_run(tally.known, None, now), measure(facts, now)
    same = {field.name for field in fields(Judged)} - LESS
    assert {name: getattr(by_run, name) for name in same} == {
        name: getattr(by_table, name) for name in same
    }
    assert (by_run.delete_files, by_run.dead_letters_last_hour, by_run.is_by_event) > (
        0,
        0,
        False,
    )
    assert all(getattr(by_run, name) <= getattr(by_table, name) for name in LESS)
    assert abs(by_run.compaction_lag_ms - by_table.compaction_lag_ms) < 600_000


LESS = {
    "average_small_files",
    "uncompacted_files",
    "uncompacted_bytes",
    "metadata_bytes",
    "compaction_lag_ms",
}


def test_spark_finds_the_same(project: Project, figures: Figures) -> None:
    commits = ask_spark(project, "commits")
    assert commits["commits_last_hour"] == figures.commits_last_hour == BATCHES
    assert (commits["latency_ms"], commits["latency_p95_ms"]) == (
        figures.latency_ms,
        figures.latency_p95_ms,
    )
    assert 0 <= commits["age_ms"] - (figures.age_ms or 0) < 600_000
    files = ask_spark(project, "files")
    assert files == {
        "data_files": figures.data_files,
        "data_bytes": figures.data_bytes,
        "file_bytes_average": pytest.approx(figures.file_bytes_average, abs=1),
        "file_bytes_p10_p50_p90": [
            figures.file_bytes_p10,
            figures.file_bytes_p50,
            figures.file_bytes_p90,
        ],
        "small_file_ratio": figures.small_file_ratio,
        "rows": figures.rows,
    }
    deletes = ask_spark(project, "deletes")
    assert deletes["delete_files"] == figures.delete_files > 0
    assert deletes["deleted_rows"] / files["rows"] == pytest.approx(
        figures.delete_ratio
    )
    compaction = ask_spark(project, "compaction")
    assert compaction["uncompacted_bytes"] == figures.uncompacted_bytes > 0
    assert 0 <= compaction["compaction_lag_ms"] - figures.compaction_lag_ms < 600_000
    assert ask_spark(project, "letters") == {
        "dead_letters_last_hour": figures.dead_letters_last_hour
    }


def test_what_a_compaction_wrote_is_compacted_without_its_snapshot_too(
    project: Project, lake: Lake
) -> None:
    """And a small file without its snapshot is as old as the oldest that there is."""
    table = project.table("compacted")
    project.sql(
        f"CREATE TABLE {table} (id bigint, day date) USING iceberg PARTITIONED BY (day)"
    )
    for day in (1, 2):
        for _ in range(6):
            project.sql(f"INSERT INTO {table} VALUES (1, DATE '2026-03-0{day}')")
        if day == 1:
            name = f"{project.namespace}.compacted"
            project.sql(
                f"CALL {lake.catalog.profile.name}.system.rewrite_data_files(table => '{name}')"
            )
    project.iceberg("compacted").maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in project.iceberg("compacted").snapshots()[:-1]]
    ).commit()
    facts = read(project, lake, "compacted")
    figures = measure(facts, now_ms())
    assert figures.uncompacted_bytes == sum(
        each.size_bytes for each in facts.files if not each.is_compacted
    )
    assert sum(each.is_compacted for each in facts.files) == 1 < len(facts.files)
    found = ask_spark(project, "compaction", "compacted")
    assert found["uncompacted_bytes"] == figures.uncompacted_bytes
    assert 0 <= found["compaction_lag_ms"] - figures.compaction_lag_ms < 600_000


def test_a_deletion_vector_has_its_own_size(project: Project, lake: Lake) -> None:
    """Those of a commit are parts of one file."""
    table = project.table("vectors")
    properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    project.sql(
        f"CREATE TABLE {table} (id bigint, part int) USING iceberg TBLPROPERTIES ({properties})"
    )
    for part in (1, 2):
        project.sql(
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, {part} FROM range(9)"
        )
    project.sql(f"DELETE FROM {table} WHERE id = 4")
    listed = project.sql(
        f"SELECT file_path, file_size_in_bytes, content_size_in_bytes FROM {table}.delete_files"
    )
    assert (len(listed), len({row["file_path"] for row in listed})) == (2, 1)
    sizes = [
        each.size_bytes
        for each in read(project, lake, "vectors").files
        if each.is_delete
    ]
    assert sizes == [row["content_size_in_bytes"] for row in listed]
    assert sum(sizes) < listed[0]["file_size_in_bytes"]


def test_duckdb_finds_the_same(
    duck: duckdb.DuckDBPyConnection, figures: Figures
) -> None:
    commits = ask_duckdb(duck, "commits")
    assert commits["commits_last_hour"] == BATCHES
    assert (commits["latency_ms"], commits["latency_p95_ms"]) == (
        figures.latency_ms,
        figures.latency_p95_ms,
    )
    duck.execute(QUERIES["duckdb manifests"])
    files = ask_duckdb(duck, "files")
    assert files == {
        "data_files": figures.data_files,
        "file_bytes_average": pytest.approx(figures.file_bytes_average, abs=1),
        "file_bytes_p10_p50_p90": [
            figures.file_bytes_p10,
            figures.file_bytes_p50,
            figures.file_bytes_p90,
        ],
        "delete_files": figures.delete_files,
        "deleted_rows": pytest.approx(figures.delete_ratio * figures.rows),
    }


def test_every_query_of_the_page_is_run() -> None:
    used = set(
        re.findall(
            r'(?:ask_spark\(project|ask_duckdb\(duck), "(\w+)"',
            Path(__file__).read_text(),
        )
    )
    assert {name.split()[1] for name in QUERIES} == used | {"manifests"}
