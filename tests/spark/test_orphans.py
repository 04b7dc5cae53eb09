"""What a removal of orphans takes, and what it leaves: layouts of tables that have a
part in each other's folders."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakesql.engine.ledger.commit import begin_commit, stage
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.spark.session import new_session
from lakesql.events import Event, MaintenanceFailed, TableMaintained
from lakesql.model.table_name import TableName
from lakesql.run.maintain import maintenance_jobs
from tests.spark.project import Project

pytestmark = pytest.mark.spark

DAY_S = 86_400


def plain(location: str) -> Path:
    return Path(re.sub(r"\Afile:/+", "/", location))


def files_below(folder: Path) -> set[Path]:
    found = (
        Path(base) / name
        for base, _, names in os.walk(folder, followlinks=False)
        for name in names
    )
    return {file for file in found if not file.name.endswith(".crc")}


def make_old(folder: Path) -> None:
    for file in files_below(folder):
        os.utime(file, (time.time() - 10 * DAY_S,) * 2)


def named_by(project: Project, table: str) -> set[Path]:
    """Every file that a kept snapshot of a table needs, as its metadata tables say, and
    its metadata files."""
    columns = {
        "all_files": "file_path",
        "all_manifests": "path",
        "snapshots": "manifest_list",
    }
    columns["metadata_log_entries"] = "file"
    rows = (
        project.sql(f"SELECT {column} AS f FROM {table}.{name}")
        for name, column in columns.items()
    )
    return {plain(row["f"]) for found in rows for row in found}


def remove_orphans(project: Project, model: str = "a", sweep: Any = "") -> list[Event]:
    tasks = {model: frozenset({f"{model}.remove_orphan_files"})}
    return [
        *project.run(jobs_by=maintenance_jobs(tasks, at_once=True, sweep=sweep)).events
    ]


def counts(events: list[Event]) -> dict[str, int]:
    (done,) = [event for event in events if isinstance(event, TableMaintained)]
    return dict(done.counts)


def stage_and_leave(project: Project, model: str) -> set[Path]:
    """A batch whose runner was killed once it was staged: the files that nobody has
    published."""
    folder = plain(project.iceberg(model).location())
    before = files_below(folder)
    session = new_session(project.lake.session)
    begun = begin_commit(
        load_table(session, TableName("lake", project.namespace, model))
    )
    stage(session, begun, f"INSERT INTO {project.table(model)} VALUES (7, 7), (8, 8)")
    return files_below(folder) - before


@pytest.fixture
def filled(project: Project) -> Iterator[Project]:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("a", "SELECT * FROM {e}", mode="append")
    project.record("e", [{"id": number, "n": number % 3} for number in range(9)])
    project.run().check()
    yield project


def test_own_files_go_and_all_others_stay(filled: Project) -> None:
    folder = plain(filled.iceberg("a").location())
    own = stage_and_leave(filled, "a")
    assert {file.suffix for file in own} == {".parquet", ".avro"}
    kept = named_by(filled, filled.table("a"))
    data = next(file for file in own if file.suffix == ".parquet")
    strange = [
        # Spark's name, of somebody else's task
        folder / "data" / f"00000-7-{uuid4()}-0-00001.parquet",
        folder / "data" / "left.parquet",
        folder / "data" / "backup" / data.name,  # a copy of an own one
        folder / "daily" / "data" / data.name,
        folder / "metadata" / f"{uuid4()}-m0.avro",
        folder / "metadata" / f"snap-12-1-{uuid4()}.avro",
        folder / "metadata" / "20260101-1.stats",
        folder / "README",
    ]
    for file in strange:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    make_old(folder)

    found = counts(remove_orphans(filled))
    assert found == {
        "orphan_files_count": len(own),
        "unknown_files_count": len(strange),
    }
    assert files_below(folder) >= kept | set(strange)
    assert not files_below(folder) & own

    remove_orphans(filled, sweep="list")
    (folder / "late").write_bytes(b"x")
    make_old(folder)
    (failed,) = [
        event
        for event in remove_orphans(filled, sweep="delete")
        if isinstance(event, MaintenanceFailed)
    ]
    assert "--unknown-files list" in failed.why
    assert files_below(folder) >= set(strange), "what nobody has listed stays"
    remove_orphans(filled, sweep="list")
    assert (
        counts(remove_orphans(filled, sweep="delete"))["orphan_files_count"]
        == len(strange) + 1
    )
    assert files_below(folder) >= kept and not files_below(folder) & set(strange)
    assert len(filled.rows_without_spark("a")) == 9


LAYOUTS = (
    "inside",
    "around",
    "shared",
    "data",
    "metadata",
    "prefix",
    "linked",
    "link inside",
)
REFUSED = {"inside", "around", "shared", "data", "metadata", "linked", "link inside"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_file_of_another_table_goes(
    filled: Project, layout: str, feed_seed: int
) -> None:
    chance = random.Random(f"{feed_seed} {layout}")
    folder = plain(filled.iceberg("a").location())
    inner = folder / "/".join(
        chance.choices(("data", "metadata", "x=1", "daily"), k=chance.randint(1, 3))
    )
    beside = folder.with_name("a_" + uuid4().hex[:6])
    location = {"inside": inner, "around": folder.parent, "shared": folder}.get(
        layout, beside
    )
    properties = {"format-version": str(chance.choice((1, 2, 3)))}
    if layout in ("data", "metadata"):
        properties[f"write.{layout}.path"] = f"file://{inner}"
    if layout == "linked":
        beside.symlink_to(folder)
    other = f"lake.{filled.namespace}.other"
    said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    filled.sql(
        f"CREATE TABLE {other} (id int, n int) USING iceberg LOCATION 'file://{location}' TBLPROPERTIES ({said})"
    )
    for number in range(chance.randint(1, 3)):
        filled.sql(f"INSERT INTO {other} VALUES ({number}, 1)")
    if layout == "link inside":
        (folder / "data" / "n=1").symlink_to(beside / "data")
    own = stage_and_leave(filled, "a")
    # of a writer that is none of ours
    under_way = folder / "data" / f"00000-3-{uuid4()}-0-00001.parquet"
    under_way.write_bytes(b"x")
    make_old(folder.parent)
    named = named_by(filled, filled.table("a")) | named_by(filled, other)
    before = (filled.rows("a"), filled.sql(f"SELECT * FROM {other} ORDER BY id"))

    told = remove_orphans(filled)
    failed = [event for event in told if isinstance(event, MaintenanceFailed)]
    assert bool(failed) == (layout in REFUSED), told
    named_in = (
        str(folder / "data" / "n=1")
        if layout == "link inside"
        else f"{filled.namespace}.other"
    )
    assert all(named_in in event.why for event in failed)
    assert all(file.exists() for file in named | {under_way})
    assert all(file.exists() for file in own) == bool(failed)
    assert (
        filled.rows("a"),
        filled.sql(f"SELECT * FROM {other} ORDER BY id"),
    ) == before
    filled.sql(f"DROP TABLE {other}")
    if layout == "linked":
        beside.unlink()
    elif beside.exists():
        shutil.rmtree(beside)
