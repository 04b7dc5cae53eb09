"""Tables and checkpoints that somebody changes under a model: each refusal names what
it is, and its advice helps."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesql.engine.ledger.snapshots import load_table, read_json
from lakesql.engine.spark.gateway import java_class
from lakesql.errors import RunError
from lakesql.events import BatchCommitted, Event
from lakesql.model.table_name import TableName
from tests.spark.project import Project
from tests.spark.test_ledger import rewind

pytestmark = pytest.mark.long

HOUR_MS = 3_600_000


@pytest.fixture
def read(project: Project) -> Project:
    """Model `b` has streamed two batches of the table of model `a`."""
    project.stream("s", {"id": "int"}, max_per_batch=1)
    project.model("a", "SELECT id FROM {s}", mode="append")
    project.model("b", "SELECT id FROM {a}", mode="append")
    for number in (1, 2):
        project.record("s", [{"id": number}])
        project.run().check()
    return project


def ids(project: Project, name: str) -> list[int]:
    return sorted(row["id"] for row in project.rows(name))


def roll_back(project: Project, name: str) -> int:
    first, last = project.snapshot_ids(name)[0], project.snapshot_ids(name)[-1]
    project.sql(
        f"CALL lake.system.rollback_to_snapshot('{project.namespace}.{name}', {first})"
    )
    return last


@pytest.mark.parametrize("expires", [False, True])
def test_a_streamed_table_that_was_rolled_back_is_named_and_what_is_said_helps(
    read: Project, expires: bool
) -> None:
    roll_back(read, "a")
    if expires:
        read.sql(f"ALTER TABLE {read.table('a')} DROP TAG lakesql_ledger_a")
        read.sql(
            f"CALL lake.system.expire_snapshots(table => '{read.namespace}.a', older_than => "
            f"TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        )
    condition = "upstream-expired" if expires else "upstream-rolled-back"
    ran = read.run("b")
    assert ran.conditions("b") == [condition]
    assert "lakesql rebuild b" in ran.finished("b").problems[0].fix
    with pytest.raises(RunError) as refused:
        rewind(read, "lakesql rewind b")
    assert refused.value.problems[0].condition == condition
    assert read.run("b").conditions("b") == [condition], "rewind has changed nothing"
    read.rebuild("b").check()
    assert ids(read, "b") == [1]
    read.run("b").check()


def test_a_table_that_is_set_forward_again_is_read_on(read: Project) -> None:
    last = roll_back(read, "a")
    assert read.run("b").conditions("b") == ["upstream-rolled-back"]
    read.sql(f"CALL lake.system.set_current_snapshot('{read.namespace}.a', {last})")
    read.record("s", [{"id": 3}])
    read.run().check()
    assert ids(read, "b") == [1, 2, 3]


@pytest.mark.parametrize("change", ["rebuild", "roll back"])
def test_a_table_that_changes_while_it_is_read_ends_its_reader_with_the_name_of_that(
    read: Project, change: str
) -> None:
    """The reader's batch is committed, and then the table is another one before it
    looks for more."""
    done: list[str] = []

    def meet(event: Event) -> None:
        if isinstance(event, BatchCommitted) and event.model == "b" and not done:
            done.append(change)
            if change == "rebuild":
                read.rebuild("a").check()
            else:
                read.sql(
                    f"CALL lake.system.rollback_to_snapshot('{read.namespace}.a', {read.snapshot_ids('a')[0]})"
                )

    read.record("s", [{"id": 3}])
    read.run("a").check()
    ran = read.run("b", continuous=True, meet=meet, until=lambda: False)
    assert done
    assert ran.conditions("b") == [
        "upstream-rebuilt" if change == "rebuild" else "upstream-rolled-back"
    ]


def test_a_snapshot_that_is_still_to_come_is_named_with_its_time(read: Project) -> None:
    table: Any = load_table(read.lake.session, TableName("lake", read.namespace, "a"))
    base = table.operations().current()
    ahead = json.loads(read_json(table))
    for each in (ahead["snapshots"][-1], ahead["snapshot-log"][-1]):
        each["timestamp-ms"] += HOUR_MS
    ahead["last-updated-ms"] += HOUR_MS
    parse = java_class("org.apache.iceberg.TableMetadataParser").fromJson
    table.operations().commit(base, parse(json.dumps(ahead)))
    read.record("s", [{"id": 3}])
    ran = read.run("a")
    assert ran.conditions("a") == ["table-ahead"]
    at = datetime.fromtimestamp(ahead["snapshots"][-1]["timestamp-ms"] / 1000, UTC)
    assert at.isoformat(timespec="seconds") in ran.finished("a").problems[0].what
    assert ids(read, "a") == [1, 2]


@pytest.mark.parametrize("step", ["look-up", "stage", "finish"])
@pytest.mark.parametrize("gone", ["", "offsets", "metadata"])
def test_a_checkpoint_that_is_removed_under_a_living_run_is_no_defect(
    project: Project, gone: str, step: str
) -> None:
    project.stream("s", {"id": "int"}, max_per_batch=1)
    project.model("m", "SELECT id FROM {s}", mode="append")
    for number in range(4):
        project.record("s", [{"id": number}, "broken"])
    reached_at: list[str] = []

    def reached(model: str, at: str) -> None:
        reached_at.append(at)
        if at == step and reached_at.count(step) == 2:
            folder = project.directory / "checkpoints" / "m" / gone
            folder.unlink() if folder.is_file() else shutil.rmtree(folder)

    ran = project.run(reached=reached)
    assert reached_at.count(step) > 1
    assert not {"internal", "batch-failed"} & set(ran.conditions("m")), ran.finished(
        "m"
    ).problems
    if not ran.succeeded or not project.run().succeeded:
        rewind(project, "lakesql rewind m")
    project.run().check()
    assert ids(project, "m") == [0, 1, 2, 3]
    assert project.reasons("m").total() == 4
