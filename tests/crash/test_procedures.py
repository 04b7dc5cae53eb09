"""Runners that are killed while a procedure of maintenance works: no row changes, and
the next one finishes."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import pytest

from lakesql.project.procedures import PROCEDURES
from lakesql.run.maintain import maintenance_jobs
from tests.crash.harness import SPARK, Runners
from tests.crash.runner import Order
from tests.share import choose
from tests.spark.project import Project
from tests.spark.test_maintenance import files, in_ten_days, keep, tasks

LATEST_S = 1.0
"""How long after its begin a procedure is killed at most. In a Java that has just
started each of them takes longer."""

LATE = {
    "max_time_ratio": 1.0,
    "rewrite_data_files": {"min_input_files": 2, "delete_ratio": 1.0},
    "expire_snapshots": {"retain_last": 1},
    "remove_orphan_files": {"older_than": "14 days"},
}
"""Nothing is due by itself at the end of a run, but for the expiry of what is old."""


def read(project: Project) -> tuple[int, str]:
    """How many rows the table has, and their checksum; two readers agree on them."""
    rows = [str(sorted(row.items())) for row in project.rows("u")]
    assert rows == [str(sorted(row.items())) for row in project.rows_without_spark("u")]
    return len(rows), hashlib.sha256("".join(sorted(rows)).encode()).hexdigest()


def age(folder: Path) -> Path:
    """Make a table's files old enough to be orphans; its folder of data files."""
    long_ago = time.time() - 20 * 86_400
    for file in folder.rglob("*"):
        os.utime(file, (long_ago, long_ago))
    return folder / "data"


@pytest.mark.parametrize("step", PROCEDURES)
def test_a_runner_killed_within_a_procedure_changes_no_row(
    project: Project, runners: Runners, step: str, seed: int
) -> None:
    chance = choose(seed, "procedure", step)
    project._target["spark"] = SPARK
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=LATE)
    for number in range(6):
        project.record(
            "e", [{"id": number * 500 + index, "n": number} for index in range(1000)]
        )
    project.run().check()
    before, folder = (
        read(project),
        Path(project.iceberg("u").location().removeprefix("file:")),
    )
    data = age(folder)
    foreign = data / "left.parquet"
    foreign.write_bytes(b"x")
    age(folder)

    order = Order(
        str(project.directory),
        "u",
        "maintain",
        procedure=step,
        after_s=chance.uniform(0.05, LATEST_S),
    )
    runner = runners.run(order)
    runner.wait_for("reached")
    assert runner.wait() == -signal.SIGKILL
    runner.end()
    assert "table_maintained" not in [line.get("event") for line in runner.lines], (
        "it was killed too late"
    )
    assert read(project) == before

    every = maintenance_jobs(
        {"u": frozenset(f"u.{name}" for name in PROCEDURES)}, at_once=True
    )
    project.run(jobs_by=every).check()
    assert read(project) == before
    assert files(project, "u") == (1, 0)
    age(folder)
    told = tasks(keep(project, "u", in_ten_days))
    assert "u.expire_snapshots" in told or step == "expire_snapshots"
    age(folder)
    project.run(jobs_by=every).check()
    paths = (
        row["file_path"]
        for row in project.sql(f"SELECT file_path FROM {project.table('u')}.all_files")
    )
    known = {path.removeprefix("file:") for path in paths}
    assert {str(file) for file in data.rglob("*.parquet")} == {*known, str(foreign)}
    assert read(project) == before
    project.record("e", [{"id": 0, "n": 7}])
    project.run().check()
    assert read(project)[0] == before[0]
