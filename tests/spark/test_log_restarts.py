"""A database's log that counts anew, and changes that are older than what the table
has."""

from __future__ import annotations

import pytest

from lakesql.events import BatchCommitted
from tests.spark.project import Fields, Project
from tests.spark.test_rewind import lakesql

pytestmark = pytest.mark.long

COLUMNS = {"id": {"type": "int", "required": True}, "v": "string"}
SELECT = "SELECT id, v, _change.position AS at FROM {s}"

Sent = tuple[str, int, str, int, int]
"""Op, key and value, and where the change is in the log: the number of its file, and
the place in it."""


def send(project: Project, topic: str, *changes: Sent) -> None:
    events = []
    for op, id_, v, file, pos in changes:
        row = {"id": id_, "v": v}
        sides = (
            {"before": row, "after": None}
            if op == "d"
            else {"before": None, "after": row}
        )
        source = {
            "file": f"bin.{file:06}",
            "pos": pos,
            "row": 0,
            "snapshot": "true" if op == "r" else "false",
        }
        events.append(
            Fields(key={"id": id_}, value={"op": op, **sides, "source": source})
        )
    project.record(topic, events)


def mirror(project: Project, **stream: str) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], **stream)
    project.model("m", SELECT, mode="cdc", keys="id", sequence_by="_change.position")


def values(project: Project) -> dict[int, str]:
    return {row["id"]: row["v"] for row in project.rows("m")}


def test_a_log_that_counts_anew_is_refused_until_the_model_is_built_from_the_new_snapshot(
    project: Project,
) -> None:
    mirror(project)
    send(project, "s", ("c", 1, "a", 900, 100), ("c", 2, "b", 900, 200))
    project.run().check()
    new = [("u", 1, "a2", 3, 100), ("d", 2, "", 3, 300), ("c", 3, "c", 3, 400)]
    send(project, "s", *new)
    for _ in range(2):
        assert project.run().conditions("m") == ["log-restarted"]
    assert values(project) == {1: "a", 2: "b"}
    send(project, "new", ("r", 1, "a", 3, 50), ("r", 2, "b", 3, 50), *new)
    mirror(project, topic="new")
    project.rebuild("m").check()
    assert values(project) == {1: "a2", 3: "c"}


def test_a_snapshot_of_a_log_that_counts_anew_is_noticed_before_its_first_change(
    project: Project,
) -> None:
    mirror(project)
    send(project, "s", ("c", 1, "a", 900, 100), ("c", 2, "b", 900, 200))
    project.run().check()
    # the same server's, asked for again
    send(project, "s", ("r", 1, "a", 900, 250), ("r", 2, "b", 900, 250))
    project.run().check()
    send(project, "s", ("r", 1, "old", 3, 50), ("r", 3, "c", 3, 50))
    assert project.run().conditions("m") == ["log-restarted"]
    assert values(project) == {1: "a", 2: "b"}


def test_what_a_connector_sends_again_is_counted_and_not_refused(
    project: Project,
) -> None:
    mirror(project)
    send(
        project,
        "s",
        ("c", 1, "a", 8, 100),
        ("u", 1, "b", 9, 100),
        ("c", 2, "x", 9, 200),
        ("d", 2, "", 9, 300),
    )
    project.run().check()
    send(project, "s", ("c", 1, "a", 8, 100), ("c", 2, "x", 9, 200))
    ran = project.run().check()
    assert values(project) == {1: "b"}
    assert (
        [event.older for event in ran.of(BatchCommitted)]
        == [ran.finished("m").older]
        == [2]
    )
    assert [summary.get("lakesql.older") for summary in project.summaries("m")] == [
        None,
        "2",
    ]
    send(project, "s", ("u", 1, "c", 10, 100))
    assert project.run().check().finished("m").older == 0
    assert values(project) == {1: "c"}


def test_what_is_read_again_is_not_refused(project: Project) -> None:
    """After a rewind a batch at the beginning of the topic has places far below the
    newest."""
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], max_per_batch=1)
    project.model("m", SELECT, mode="cdc", keys="id", sequence_by="_change.position")
    send(project, "s", ("c", 1, "a", 1, 100))
    send(project, "s", ("u", 1, "b", 900, 100))
    project.run().check()
    assert lakesql(project, "rewind", "m", "--to", "start").returncode == 0
    ran = project.run().check()
    assert (ran.finished("m").batches, ran.finished("m").older, values(project)) == (
        2,
        1,
        {1: "b"},
    )
