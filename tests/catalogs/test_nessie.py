"""The ledger where a catalog shows the newest snapshot alone: it is carried on by all
commits, whoever makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.catalog.table_facts import read_facts
from lakesql.catalog.tables import load_table_state
from lakesql.events import BatchCommitted, BatchSkipped
from lakesql.model.table_name import TableName
from tests.catalogs.places import Place, forget
from tests.spark.project import Project

COLUMNS = {"id": "bigint", "at": "timestamp"}
REWRITE = "CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"


def records(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"id": number, "at": f"2026-03-01T10:{number:02d}:00Z"}
        for number in range(first, first + count)
    ]


@pytest.fixture
def project(
    nessie_on_s3: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> Project:
    made = Project(nessie_on_s3.lake, tmp_path, request.function.__name__)
    made.stream("s", COLUMNS)
    made.model(
        "m", "SELECT id, at FROM {s}", mode="upsert", keys=["id"], sequence_by="at"
    )
    made.record("s", [*records(0, 4), "unreadable"])
    return made


def foreign_commits(project: Project) -> dict[str, str]:
    """Statements that hide the newest entry, by what they are."""
    name = project.table("m")
    return {
        "a rewrite": REWRITE.format(catalog="nessie", table=f"{project.namespace}.m"),
        "somebody else's rows": f"INSERT INTO {name} VALUES (50, TIMESTAMP '2026-03-01 00:00:00')",
        "a DELETE": f"DELETE FROM {name} WHERE id = 50",
        "a property": f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = 'b')",
    }


def test_a_run_goes_on_behind_every_kind_of_commit(project: Project) -> None:
    project.run().check()
    sent = 4
    for statement in foreign_commits(project).values():
        project.sql(statement)
        shown = project.iceberg("m").metadata.snapshots
        assert len(shown) == 1  # else this shows nothing
        project.record("s", records(sent, 2))
        sent += 2
        ran = project.run().check()
        assert [event.rows for event in ran.of(BatchCommitted)] == [2]
    assert sorted(row["id"] for row in project.rows("m")) == list(range(sent))


def test_a_batch_behind_a_rewrite_is_known(project: Project) -> None:
    ran = project.run().check()
    project.sql(REWRITE.format(catalog="nessie", table=f"{project.namespace}.m"))
    forget(project, ran, ["m"])
    again = project.run().check()
    assert [event.model for event in again.of(BatchSkipped)] == ["m"]
    assert not again.of(BatchCommitted)
    assert project.reasons("m") == {"unparsable": 1}
    assert len(project.rows("m")) == 4


def test_a_carried_entry_is_one_batch(project: Project) -> None:
    """What reads ledgers without Spark finds the batch behind a rewrite, once, and not
    as a commit of the rewrite."""
    project.run().check()
    table = TableName("nessie", project.namespace, "m")
    before = read_facts(project.lake.catalog, table)
    project.sql(REWRITE.format(catalog="nessie", table=f"{project.namespace}.m"))
    after = read_facts(project.lake.catalog, table)
    assert before is not None and after is not None
    assert after.is_ours and after.commits == before.commits and len(after.commits) == 1
    state = load_table_state(project.lake.catalog, table)
    assert state is not None and state.ledger_models == {"m"}


def test_a_stream_of_such_a_table_begins_with_its_first_snapshot_or_not_at_all(
    project: Project,
) -> None:
    """Its newest snapshot gives the rows of the last batch alone."""
    project.model("a", "SELECT id, at FROM {s}", mode="append")
    project.run("a").check()
    project.record("s", records(4, 2))
    project.run("a").check()
    project.model("b", "SELECT id FROM {a}", mode="append")
    assert project.run("b").conditions("b") == ["upstream-expired"]
