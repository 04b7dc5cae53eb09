"""The changes of a table whose rows are updated and deleted, logged by a model that
streams it: beside plain Python."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.spark.project import Project

REPOSITORY = Path(__file__).parents[2]
LOG = "SELECT id, n, _change.op AS op, _change.before.n AS n_before, _change.ts AS at FROM {m}"

Change = tuple[str, Any, Any, Any]
"""What was done, to which id, with which value now and before."""


class Mirror:
    """A table that changes by chance, with what each of its commits has changed."""

    def __init__(self, project: Project, seed: int, **config: Any) -> None:
        self.project, self.random = project, Random(seed)
        self.rows: dict[int, Any] = {}
        self.expected: list[Change] = []
        project.stream("s", {"id": "int", "n": "int"}, key=["id"], envelope="debezium")
        project.model("m", "SELECT id, n FROM {s}", mode="cdc", keys="id", **config)
        project.model("log", LOG, mode="append")

    def note(self, rows: dict[int, Any]) -> None:
        """The table has these rows now, by one commit."""
        for id_ in sorted(self.rows.keys() | rows.keys()):
            if id_ not in self.rows:
                self.expected.append(("c", id_, rows[id_], None))
            elif id_ not in rows:
                self.expected.append(("d", id_, self.rows[id_], self.rows[id_]))
            elif rows[id_] != self.rows[id_]:
                self.expected.append(("u", id_, rows[id_], self.rows[id_]))
        self.rows = rows

    def batch(self) -> None:
        """One batch of changes."""
        rows, events = dict(self.rows), []
        for _ in range(self.random.randrange(1, 8)):
            id_ = self.random.randrange(12)
            before = {"id": id_, "n": rows[id_]} if id_ in rows else None
            after = {"id": id_, "n": self.random.choice((1, 2, 3, None))}
            if before is not None and self.random.random() < 0.4:
                events.append(event("d", before, None))
                del rows[id_]
            else:
                events.append(event("c" if before is None else "u", before, after))
                rows[id_] = after["n"]
        if self.random.random() < 0.1:
            events, rows = [*events, {"op": "t", "before": None, "after": None}], {}
        self.project.record("s", events)
        self.project.run("m").check()
        self.note(rows)

    def foreign(self) -> None:
        """Another engine's DELETE, and a compaction of its own."""
        if not self.project.has("m") or not self.rows:
            return
        gone = self.random.choice(sorted(self.rows))
        self.project.sql(f"DELETE FROM {self.project.table('m')} WHERE id = {gone}")
        self.note({id_: n for id_, n in self.rows.items() if id_ != gone})

    def compact(self) -> None:
        """The rows are moved."""
        if self.project.has("m"):
            where = f"'{self.project.namespace}.m'"
            self.project.sql(
                f"CALL lake.system.rewrite_data_files({where}, options => map('rewrite-all', 'true'))"
            )

    def check(self) -> None:
        """That the log has each change once, in the order of the commits."""
        rows = self.project.rows("log", "at")
        found = [(row["op"], row["id"], row["n"], row["n_before"]) for row in rows]
        assert Counter(found) == Counter(self.expected)
        by_id = {id_: [each for each in found if each[1] == id_] for id_ in range(12)}
        assert by_id == {
            id_: [each for each in self.expected if each[1] == id_] for id_ in range(12)
        }


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after}


def kill_at(project: Project, step: str, model: str = "log") -> None:
    """Run the models until one reaches a step of its next batch, and kill Python and
    Java there."""
    order = {
        "project": str(project.directory),
        "model": model,
        "step": step,
        "fate": "kill-both",
    }
    line = [sys.executable, "-m", "tests.crash.runner", str(project.directory)]
    given = f"{json.dumps(order)}\n"
    done = subprocess.run(
        line, cwd=REPOSITORY, input=given, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


@pytest.mark.parametrize("version", ["2", "3"])
def test_the_log_of_a_table_has_each_change_of_it_once(
    project: Project, version: str
) -> None:
    mirror = Mirror(project, int(version), properties={"format-version": version})
    mirror.batch()
    project.run("log").check()
    mirror.check()
    assert project.run_without_java("log") != [], "nothing is new"
    steps = (mirror.batch, mirror.batch, mirror.batch, mirror.foreign, mirror.compact)
    for _ in range(4):
        for _ in range(mirror.random.randrange(4)):
            mirror.random.choice(steps)()
        project.run("log").check()
        mirror.check()
    mirror.compact()
    assert project.run_without_java("log") != [], "rows that are moved are no change"
    assert project.run("log").check().succeeded
    mirror.check()


FOLLOWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mirror": ("SELECT id, n FROM {m} WHERE n IS NULL OR n < 3", {"mode": "cdc"}),
    "placed": (
        "SELECT id, n, _change.ts AS at FROM {m}",
        {"mode": "cdc", "sequence_by": "_change.ts"},
    ),
    "marked": ("SELECT id, n FROM {m}", {"mode": "cdc", "apply_deletes": "soft"}),
    "history": (
        "SELECT id, n, _change.ts AS at FROM {m}",
        {"mode": "scd2", "sequence_by": "_change.ts"},
    ),
    "merged": (
        "SELECT id, n, _change.op AS op FROM {m}",
        {"mode": "upsert", "delete_when": "op = 'd'"},
    ),
}
"""Models that keep rows by the changes of `m`, as projects have them: SELECT and
options."""


def check_followers(project: Project, mirror: Mirror) -> None:
    """That each of them has the rows that plain Python makes of the changes."""
    rows = mirror.rows
    assert {row["id"]: row["n"] for row in project.rows("mirror")} == {
        id_: n for id_, n in rows.items() if n is None or n < 3
    }
    for name in ("placed", "merged"):
        assert {row["id"]: row["n"] for row in project.rows(name)} == rows, name
    seen = {id_ for _, id_, _, _ in mirror.expected}
    marked = {
        row["id"]: (row["n"], row["_deleted_at"] is None)
        for row in project.rows("marked")
    }
    assert marked.keys() == seen
    assert {id_: n for id_, (n, is_there) in marked.items() if is_there} == rows
    versions: dict[int, list[tuple[Any, bool]]] = {}
    for op, id_, n, _ in mirror.expected:
        known = versions.setdefault(id_, [])
        if known:
            known[-1] = (known[-1][0], False)
        if op != "d":
            known.append((n, True))
    found: dict[int, list[tuple[Any, bool]]] = {id_: [] for id_ in seen}
    for row in project.rows("history", "valid_from"):
        found[row["id"]].append((row["n"], row["is_current"]))
    assert found == versions


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))]
)
def test_models_that_keep_rows_follow_a_table_by_its_changes(
    project: Project, seed: int
) -> None:
    mirror = Mirror(project, seed)
    for name, (select, config) in FOLLOWERS.items():
        project.model(name, select, keys="id", **config)
    mirror.batch()
    project.run(*FOLLOWERS).check()
    check_followers(project, mirror)
    assert [name for name in FOLLOWERS if not project.run_without_java(name)] == [], (
        "nothing is new"
    )
    steps = (mirror.batch, mirror.batch, mirror.batch, mirror.foreign, mirror.compact)
    for killed in mirror.random.sample([*FOLLOWERS], 2):
        known = len(mirror.expected)
        while len(mirror.expected) == known or mirror.random.random() < 0.5:
            mirror.random.choice(steps)()
        kill_at(project, mirror.random.choice(("view", "publish", "finish")), killed)
        project.run(*FOLLOWERS).check()
        check_followers(project, mirror)


def test_a_log_that_is_killed_goes_on_where_it_was(project: Project) -> None:
    mirror = Mirror(project, 1)
    mirror.batch()
    for step in ("view", "publish", "finish"):
        kill_at(project, step)
        mirror.batch()
        mirror.batch()
    project.run("log").check()
    mirror.check()


def test_the_log_of_a_history_has_what_becomes_of_each_version(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "n": "int", "at": "timestamp"})
    project.model(
        "h", "SELECT id, n, at FROM {s}", mode="scd2", keys="id", sequence_by="at"
    )
    select = "SELECT id, n, is_current, _change.op AS op, _change.before.is_current AS was_current FROM {h}"
    project.model("log", select, mode="append")
    for n, day in ((1, 1), (2, 2)):
        project.record("s", [{"id": 7, "n": n, "at": f"2026-01-0{day}T00:00:00Z"}])
        project.run("h").check()
        project.run("log").check()
    found = [
        (row["op"], row["n"], row["is_current"], row["was_current"])
        for row in project.rows("log")
    ]
    assert Counter(found) == Counter(
        [("c", 1, True, None), ("u", 1, False, True), ("c", 2, True, None)]
    )


def test_a_table_that_was_rolled_back_or_whose_snapshot_is_gone_is_refused_until_a_rebuild(
    project: Project,
) -> None:
    mirror = Mirror(project, 5)
    mirror.batch()
    project.run("log").check()
    mirror.foreign()
    project.run("log").check()
    first, second = project.snapshot_ids("m")[-2:]
    table = f"'{project.namespace}.m'"
    project.sql(f"CALL lake.system.rollback_to_snapshot({table}, {first})")
    assert project.run("log").conditions("log") == ["upstream-rolled-back"]
    project.sql(f"CALL lake.system.set_current_snapshot({table}, {second})")
    project.run("log").check()
    mirror.check()

    mirror.foreign()
    mirror.foreign()
    project.sql(
        f"CALL lake.system.expire_snapshots(table => {table}, snapshot_ids => array({second}))"
    )
    assert project.run("log").conditions("log") == ["upstream-expired"]
    assert project.rebuild("log").conditions("log") == ["data-lost"], (
        "the log has what the table has no more"
    )
    project.rebuild("log", accept_data_loss=True).check()
    found = [
        (row["op"], row["id"], row["n"], row["n_before"]) for row in project.rows("log")
    ]
    assert Counter(found) == Counter(
        ("c", id_, n, None) for id_, n in mirror.rows.items()
    )


def test_a_table_is_followed_as_it_is_rebuilt_and_a_reader_goes_on(
    project: Project,
) -> None:
    mirror = Mirror(project, 9)
    mirror.batch()
    project.run("log").check()
    mirror.batch()
    mirror.foreign()
    project.run(
        "log", continuous=True, until=lambda: len(project.snapshot_ids("log")) == 2
    ).check()
    mirror.check()
    # the row that another engine has deleted is there again
    project.rebuild("m").check()
    project.run("log").check()
    rows = {row["id"]: row["n"] for row in project.rows("m")}
    mirror.note(rows)
    mirror.check()


def test_a_log_of_a_view_has_no_change_where_only_a_count_of_lakesqls_is_another(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "city": "string", "n": "int"})
    project.model("m", "SELECT id, city, n FROM {s}", mode="upsert", keys="id")
    summed = "SELECT city, sum(n) AS n FROM {m!r} GROUP BY city"
    project.model("v", summed, mode="materialized_view", refresh="incremental")
    project.model(
        "log",
        "SELECT *, _change.op AS op, _change.before.n AS n_before FROM {v}",
        mode="append",
    )
    names = ("m", "v", "log")
    project.record(
        "s", [{"id": 1, "city": "a", "n": 2}, {"id": 2, "city": "b", "n": 3}]
    )
    project.run(*names).check()
    project.record(
        "s", [{"id": 3, "city": "a", "n": 0}, {"id": 2, "city": "b", "n": 4}]
    )
    project.run(*names).check()
    found = sorted(
        (row["op"], row["city"], row["n"], row["n_before"])
        for row in project.rows("log")
    )
    assert [each for each in found if each[0] == "u"] == [("u", "b", 4, 3)]
    assert {*project.rows("log")[0]} == {"city", "n", "op", "n_before"}
