"""Tables that are maintained between batches: the same rows in fewer files, and nothing
gone that somebody needs."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakesql.catalog.connect import open_catalog
from lakesql.catalog.table_facts import read_facts
from lakesql.clock import now_ms
from lakesql.compile.build_select import build_selects
from lakesql.compile.compiled import compiled_files
from lakesql.compile.maintenance import iceberg_options
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.maintenance.keeper import LOOKS_AGAIN_MS, Keeper
from lakesql.engine.progress.lease import Leases
from lakesql.engine.spark.arrow import ALLOCATOR_CLEANER
from lakesql.engine.spark.gateway import java_class
from lakesql.engine.spark.session import catalog_conf
from lakesql.events import (
    BatchCommitted,
    Event,
    MaintenanceFailed,
    Noted,
    TableMaintained,
)
from lakesql.model.table_name import TableName
from lakesql.names import MAINTENANCE_PROPERTY
from lakesql.project.iceberg_options import ICEBERG_OPTIONS
from lakesql.project.procedures import (
    ARGUMENTS,
    BYTES_PER_MS,
    DUE_OPTIONS,
    PROCEDURES,
    REFUSED_ARGUMENTS,
    RETRY_AFTER_MS,
    has_map,
    iceberg_names,
    option_names,
)
from lakesql.run.maintain import IS_RUN, maintenance_jobs
from lakesql.run.start.model_maintenance import find_maintenance
from lakesql.table.maintenance_record import parse_record
from tests.spark.project import Project, Row
from tests.spark.test_ledger import rewind

DAY_MS = 86_400_000
ALL_TIME: dict[str, Any] = {"max_time_ratio": 1.0}
"""What is due is done by the run after which it is, however fast the machine is: none
is left to the next run."""

LAZY = {
    **ALL_TIME,
    "rewrite_data_files": False,
    "remove_orphan_files": False,
    "rewrite_manifests": False,
}
EAGER = {
    **ALL_TIME,
    "rewrite_data_files": {
        "small_files": 1,
        "min_input_files": 2,
        "trigger": "1 millisecond",
    },
    "rewrite_manifests": {"trigger": "1 millisecond"},
    "remove_orphan_files": {"trigger": "1 millisecond"},
}


def record(project: Project, *files: int) -> None:
    """A file of 40 records for each number, of which a third has keys of the one
    before, and a bad one."""
    for number in files:
        rows: list[Any] = [
            {"id": number * 25 + index, "n": number} for index in range(40)
        ]
        project.record("e", [*rows, "broken"])


def appended(files: range) -> list[Row]:
    return sorted(
        (
            {"id": number * 25 + index, "n": number}
            for number in files
            for index in range(40)
        ),
        key=str,
    )


def newest(files: range) -> list[Row]:
    return sorted(
        {
            row["id"]: row
            for number in files
            for row in appended(range(number, number + 1))
        }.values(),
        key=str,
    )


def rows(project: Project, name: str) -> list[Row]:
    found = project.rows(name)
    assert found == project.rows_without_spark(name), "two readers differ"
    return sorted(found, key=str)


def files(project: Project, name: str) -> tuple[int, int]:
    """How many data files and delete files a table has."""
    table = f"{project.table(name)}.files"
    (found,) = project.sql(
        f"SELECT count_if(content = 0) AS data, count_if(content <> 0) AS deletes FROM {table}"
    )
    return found["data"], found["deletes"]


def keep(
    project: Project,
    model: str,
    clock: Callable[[], int] = now_ms,
    reached: Callable[[str], None] = lambda step: None,
) -> list[Event]:
    """Run what is due on a model's tables; what was told."""
    manifest, told = project.manifest(), list[Event]()
    maintenance = find_maintenance(manifest, build_selects(manifest, [model])[model])
    Keeper(maintenance, told.append, reached, clock).at_end(project.lake.session)
    assert not [event for event in told if isinstance(event, MaintenanceFailed)], told
    return told


def tasks(told: list[Event]) -> list[str]:
    return [event.task for event in told if isinstance(event, TableMaintained)]


def told_notes(told: list[Event]) -> list[Noted]:
    return [event for event in told if isinstance(event, Noted)]


def in_ten_days() -> int:
    return now_ms() + 10 * DAY_MS


@pytest.mark.parametrize("version", ["2", pytest.param("3", marks=pytest.mark.long)])
def test_every_procedure_leaves_the_rows_and_takes_the_files(
    project: Project, version: str
) -> None:
    config = {"maintenance": EAGER, "properties": {"format-version": version}}
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", **config)
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", **config)
    record(project, *range(9))
    unguarded: list[str] = []

    def meet(event: Event) -> None:
        if isinstance(event, TableMaintained) and not ALLOCATOR_CLEANER.is_open:
            unguarded.append(event.task)

    ran = project.run(meet=meet).check()
    assert unguarded == [], "another model's batch could have closed what it reads by"

    for model, expected in (("a", appended(range(9))), ("u", newest(range(9)))):
        assert rows(project, model) == expected
        assert project.reasons(model) == {"unparsable": 9}
        kinds = [
            type(event) for event in ran.events if getattr(event, "model", "") == model
        ]
        first = kinds.index(TableMaintained)
        assert BatchCommitted in kinds[:first] and BatchCommitted in kinds[first:], (
            "maintained at its end alone"
        )
        data, deletes = files(project, model)
        assert (data, deletes) == (1, 0)
        told = {event.task for event in ran.of(TableMaintained, model)}
        assert told >= {
            f"{model}.{each}" for each in ("rewrite_data_files", "rewrite_manifests")
        }
        assert files(project, f"{model}__dead_letter")[0] < 9

    # Files that no version has, of the model's own runs: an old one, and one of a
    # commit that may be under way; and a file of somebody else's.
    folder = Path(project.iceberg("a").location().removeprefix("file:")) / "data"
    written = next(folder.rglob("*.parquet"))
    old, young = (
        written.with_name(re.sub(r"\d{5}(?=\.)", count, written.name))
        for count in ("00098", "00099")
    )
    foreign = folder / "old.parquet"
    for file in (old, young, foreign):
        file.write_bytes(b"x")
    for file in (old, foreign):
        os.utime(file, (time.time() - 4 * 86_400,) * 2)
    assert "a.remove_orphan_files" in tasks(keep(project, "a"))
    assert not old.exists() and young.exists() and foreign.exists()
    assert rows(project, "a") == appended(range(9))


def test_files_of_another_table_in_the_same_folder_are_no_orphans(
    project: Project,
) -> None:
    """Two catalogs with the same warehouse and namespace make their tables in the same
    folders."""
    project.stream("e", {"id": "int", "n": "int"})
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=EAGER)
    record(project, 0)
    project.run().check()
    session, own = project.lake.session, project.lake.catalog.profile
    uri = f"sqlite:///{project.directory}/other.db"
    open_catalog(other := replace(own, name="other", uri=uri))
    apart = replace(other, name="apart", properties={"unique-table-location": "true"})
    for each in (other, apart):
        for key, value in catalog_conf(each).items():
            session.conf.set(key, value)
    table = f"other.{project.namespace}.a"
    session.sql(f"CREATE NAMESPACE other.{project.namespace}")
    session.sql(f"CREATE NAMESPACE apart.{project.namespace}")
    session.sql(f"CREATE TABLE apart.{project.namespace}.a (id int) USING iceberg")
    alone = load_table(session, TableName("apart", project.namespace, "a"))
    assert alone.location() != project.iceberg("a").location()
    gzipped = "TBLPROPERTIES ('write.metadata.compression-codec'='gzip')"
    session.sql(f"CREATE TABLE {table} USING iceberg {gzipped} AS SELECT 7 AS id")
    uuid = str(load_table(session, TableName("other", project.namespace, "a")).uuid())
    folder = Path(project.iceberg("a").location().removeprefix("file:"))
    for file in folder.rglob("*"):
        os.utime(file, (time.time() - 4 * 86_400,) * 2)

    def orphans() -> list[Event]:
        queries = maintenance_jobs(
            {"a": frozenset({"a.remove_orphan_files"})}, at_once=True
        )
        return [*project.run(jobs_by=queries).events]

    (failed,) = [event for event in orphans() if isinstance(event, MaintenanceFailed)]
    assert uuid in failed.why and str(folder) in failed.why
    assert [row.id for row in session.sql(f"SELECT id FROM {table}").collect()] == [7]

    session.sql(f"DROP TABLE {table}")  # and its files stay
    assert [event for event in orphans() if isinstance(event, MaintenanceFailed)]
    for file in folder.glob("metadata/*.gz.metadata.json"):
        file.unlink()
    (done,) = [event for event in orphans() if isinstance(event, TableMaintained)]
    assert dict(done.counts)["orphan_files_count"] > 0
    assert rows(project, "a") == appended(range(1))


def test_what_the_ledger_and_a_stream_of_the_table_need_does_not_expire(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    one: dict[str, Any] = {
        "expire_snapshots": {"retain_last": 1},
        "remove_orphan_files": False,
    }
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance={**EAGER, **one})
    project.model(
        "u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance={**LAZY, **one}
    )
    project.model("d", "SELECT id, n FROM {a}", mode="append", maintenance=False)
    record(project, 0, 1, 2)
    project.run("a", "u").check()
    before = project.snapshot_ids("a")
    assert "a.expire_snapshots" not in tasks(keep(project, "a", in_ten_days)), (
        "the stream has read nothing yet"
    )
    assert set(before) <= set(project.snapshot_ids("a"))
    project.run("d").check()
    record(project, 3, 4)
    project.run("a", "u").check()

    held = len(project.snapshot_ids("a"))
    assert "a.expire_snapshots" in tasks(
        keep(project, "a", lambda: in_ten_days() + LOOKS_AGAIN_MS)
    )
    assert 1 < len(project.snapshot_ids("a")) < held, "nothing has expired, or too much"
    project.run("d").check()
    assert rows(project, "d") == rows(project, "a") == appended(range(5))

    project.model("late", "SELECT id, n FROM {a}", mode="append", maintenance=False)
    assert project.run("late").conditions("late") == ["upstream-expired"], (
        "rows would be missing"
    )
    assert (
        project.run("late", accept_data_loss=True).check()
        and len(project.rows("late")) < 200
    )

    # A foreign commit on top, so that the newest ledger entry is not the head; then
    # only its tag holds it.
    project.sql(f"ALTER TABLE {project.table('u')} DROP TAG lakesql_ledger_u")
    project.sql(f"INSERT INTO {project.table('u')} VALUES (-1, -1)")
    assert "u.expire_snapshots" in tasks(keep(project, "u", in_ten_days))
    assert len(project.snapshot_ids("u")) == 2
    shutil.rmtree(project.directory / "checkpoints" / "u")
    record(project, 5)
    ran = project.run("u").check()
    assert [event.records for event in ran.of(BatchCommitted, "u")] == [41], (
        "it began anew"
    )
    assert rows(project, "u") == sorted(
        [*newest(range(6)), {"id": -1, "n": -1}], key=str
    )


@pytest.mark.long
def test_what_a_stream_has_read_without_a_row_of_its_own_expires(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    one: dict[str, Any] = {
        "expire_snapshots": {"retain_last": 1},
        "remove_orphan_files": False,
    }
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance={**LAZY, **one})
    project.model(
        "d", "SELECT id, n FROM {a} WHERE n >= 4", mode="append", maintenance=False
    )
    record(project, 0, 1, 2)
    project.run("a").check()
    project.run("d").check()
    assert project.rows("d") == []
    record(project, 3)
    project.run("a").check()
    held = len(project.snapshot_ids("a"))
    assert "a.expire_snapshots" in tasks(keep(project, "a", in_ten_days))
    assert 1 < len(project.snapshot_ids("a")) < held, (
        "what was read stays, or what was not is gone"
    )
    record(project, 4)
    project.run("a").check()
    project.run("d").check()
    assert (
        rows(project, "d") == [row for row in appended(range(5)) if row["n"] >= 4] != []
    )


def test_a_model_that_streams_the_table_since_it_was_changed_misses_none_of_its_rows(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    one: dict[str, Any] = {
        "expire_snapshots": {"retain_last": 1},
        "remove_orphan_files": False,
    }
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance={**LAZY, **one})
    for name in ("early", "late", "again"):
        project.model(name, "SELECT * FROM {e}", mode="append", maintenance=False)
    record(project, 0, 1)
    project.run("a", "early", "late", "again").check()

    for name in ("early", "again"):
        project.model(name, "SELECT id, n FROM {a}", mode="append", maintenance=False)
    rewind(project, "lakesql rewind early")
    rewind(project, "lakesql rewind again")
    before = project.snapshot_ids("a")
    assert "a.expire_snapshots" not in tasks(keep(project, "a", in_ten_days)), (
        "they have read nothing of it"
    )
    assert project.snapshot_ids("a") == before
    project.run("early", "again").check()
    assert rows(project, "early") == sorted(
        [*appended(range(2)), *appended(range(2))], key=str
    )

    record(project, 2, 3)
    project.run("a").check()
    rewind(project, "lakesql rewind again --to start --allow-duplicates")
    soon = lambda: in_ten_days() + LOOKS_AGAIN_MS  # noqa: E731
    assert "a.expire_snapshots" not in tasks(keep(project, "a", soon)), (
        "it is to read all of it once more"
    )
    project.run("early", "again").check()
    assert len(rows(project, "again")) == (2 + 2 + 4) * 40

    record(project, 4)
    project.run("a").check()
    project.run("early", "again").check()
    assert "a.expire_snapshots" in tasks(
        keep(project, "a", lambda: soon() + LOOKS_AGAIN_MS)
    )
    project.model("late", "SELECT id, n FROM {a}", mode="append", maintenance=False)
    rewind(project, "lakesql rewind late")
    assert project.run("late").conditions("late") == ["upstream-expired"], (
        "rows would be missing"
    )
    project.run("late", accept_data_loss=True).check()
    assert 80 < len(rows(project, "late")) < 280
    project.run("late").check()


@pytest.mark.long
def test_what_tables_and_branches_say_of_keeping_is_kept_to(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    one: dict[str, Any] = {
        "expire_snapshots": {"retain_last": 1},
        "remove_orphan_files": False,
    }
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance={**LAZY, **one})
    record(project, 0, 1, 2, 3)
    project.run("a").check()
    alter = f"ALTER TABLE {project.table('a')}"
    before = project.snapshot_ids("a")

    project.sql(f"{alter} SET TBLPROPERTIES ('gc.enabled' = 'FALSE')")
    told = keep(project, "a", in_ten_days)
    assert "a.expire_snapshots" not in tasks(told) and any(
        "gc.enabled" in event.text for event in told_notes(told)
    )
    project.sql(f"{alter} SET TBLPROPERTIES ('gc.enabled' = 'True')")

    a_month = str(30 * DAY_MS)
    project.sql(
        f"{alter} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '{a_month}')"
    )
    assert "a.expire_snapshots" not in tasks(keep(project, "a", in_ten_days))
    project.sql(f"{alter} UNSET TBLPROPERTIES ('history.expire.max-snapshot-age-ms')")

    project.sql(f"{alter} REPLACE BRANCH main WITH SNAPSHOT RETENTION 20 DAYS")
    assert "a.expire_snapshots" not in tasks(keep(project, "a", in_ten_days))
    assert project.snapshot_ids("a") == before
    project.sql(f"{alter} REPLACE BRANCH main WITH SNAPSHOT RETENTION 120 HOURS")
    assert "a.expire_snapshots" in tasks(keep(project, "a", in_ten_days))
    assert project.snapshot_ids("a") == before, (
        "Iceberg goes by its own clock for the branch"
    )
    assert rows(project, "a") == appended(range(4))


@pytest.mark.long
def test_the_ledger_outlives_the_age_at_which_tags_go(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    one: dict[str, Any] = {
        "expire_snapshots": {"retain_last": 1},
        "remove_orphan_files": False,
    }
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance={**LAZY, **one})
    record(project, 0, 1)
    project.run("a").check()
    table = project.table("a")
    # the newest entry is not the head
    project.sql(f"INSERT INTO {table} VALUES (-1, -1)")
    project.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1')"
    )
    assert "a.expire_snapshots" in tasks(keep(project, "a", in_ten_days))
    assert len(project.snapshot_ids("a")) == 2, "the head, and the ledger's"
    shutil.rmtree(project.directory / "checkpoints" / "a")
    record(project, 2)
    project.run("a").check()
    assert rows(project, "a") == sorted(
        [*appended(range(3)), {"id": -1, "n": -1}], key=str
    )


@pytest.mark.long
def test_delete_files_go_with_the_rewrite_that_leaves_them_and_what_waits_is_told(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=False)
    record(project, *range(4))
    project.run("u").check()
    assert files(project, "u")[1] > 0
    project.model(
        "u",
        "SELECT * FROM {e}",
        mode="upsert",
        keys="id",
        maintenance={**EAGER, "max_time_ratio": 0.001},
    )
    told = keep(project, "u")
    assert tasks(told) == ["u.rewrite_data_files", "u.rewrite_position_delete_files"]
    assert files(project, "u") == (1, 0) and rows(project, "u") == newest(range(4))
    assert any(
        "u.rewrite_manifests" in event.text and "waits" in event.text
        for event in told_notes(told)
    )


def test_the_oldest_snapshots_expire_where_there_are_too_many(project: Project) -> None:
    expiry = {"max_snapshots": 3, "retain_last": 1}
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model(
        "a",
        "SELECT * FROM {e}",
        mode="append",
        maintenance={**LAZY, "expire_snapshots": expiry},
    )
    record(project, *range(6))
    project.run("a").check()
    held = project.snapshot_ids("a")
    assert len(held) >= 6

    assert "a.expire_snapshots" not in tasks(keep(project, "a")), (
        "they are of the last hour"
    )
    assert "a.expire_snapshots" in tasks(
        keep(project, "a", lambda: now_ms() + 2 * 3_600_000)
    )

    assert project.snapshot_ids("a") == held[-3:]
    assert rows(project, "a") == appended(range(6))


def test_a_procedure_is_due_by_its_time_though_no_snapshot_is_kept_for_so_long(
    project: Project,
) -> None:
    keeps = {
        **LAZY,
        "expire_snapshots": {
            "max_snapshots": 1,
            "retain_last": 1,
            "trigger": "3 hours",
        },
    }
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=keeps)
    project.model(
        "b",
        "SELECT * FROM {e}",
        mode="append",
        maintenance={**LAZY, "expire_snapshots": False},
    )
    record(project, *range(4))
    project.run().check()
    starts = {
        name: project.iceberg(name).metadata.snapshots[0].timestamp_ms
        for name in ("a", "b")
    }

    assert "a.expire_snapshots" in tasks(
        keep(project, "a", lambda: now_ms() + 4 * 3_600_000)
    )
    project.sql(
        f"CALL {project.lake.catalog.profile.name}.system.expire_snapshots(table => '{project.namespace}.b', "
        f"older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    oldest = min(each.timestamp_ms for each in project.iceberg("b").metadata.snapshots)
    assert (
        oldest > starts["b"]
        and MAINTENANCE_PROPERTY not in project.iceberg("b").properties
    )
    assert not keep(project, "b")

    kept = {
        name: parse_record(
            project.iceberg(name).properties[MAINTENANCE_PROPERTY]
        ).since_ms
        for name in starts
    }
    assert kept == {"a": starts["a"], "b": oldest}, (
        "where it began, or as far as that is known"
    )
    before = project.iceberg("b").metadata_location
    assert (
        not keep(project, "b") and project.iceberg("b").metadata_location == before
    ), "it is kept once"


@pytest.mark.parametrize("step", ["maintain", "maintained"])
def test_the_next_run_finishes_what_a_killed_one_has_begun(
    project: Project, step: str
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=EAGER)
    record(project, *range(3))

    def die(model: str, reached: str) -> None:
        if reached == step:
            raise OSError("killed")

    assert not project.run(reached=die).succeeded
    assert rows(project, "u") in [newest(range(count)) for count in (1, 2, 3)]
    project.run().check()
    assert rows(project, "u") == newest(range(3))
    assert files(project, "u") == (1, 0)


def test_a_rewrite_leaves_what_is_large_and_takes_it_in_when_all_is_asked_for(
    project: Project,
) -> None:
    few = {
        **LAZY,
        "expire_snapshots": False,
        "rewrite_data_files": {"small_files": 4, "min_input_files": 2},
    }
    project.stream("e", {"id": "int", "n": "int"})
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=few)
    many = [{"id": -number, "n": number % 97} for number in range(20_000)]
    project.record("e", many)
    counts = []
    for number in range(4):
        project.run().check()
        counts.append(files(project, "a"))
        record(project, number)
    assert counts == [(1, 0), (1, 0), (2, 0), (2, 0)], (
        "the first rewrite takes in all, the second what is new"
    )
    assert rows(project, "a") == sorted([*many, *appended(range(3))], key=str)
    project.run(
        jobs_by=maintenance_jobs(
            {"a": frozenset({"a.rewrite_data_files"})}, at_once=True
        )
    ).check()
    assert files(project, "a") == (1, 0)
    assert rows(project, "a") == sorted([*many, *appended(range(3))], key=str)


@pytest.mark.parametrize(
    ("most", "more", "left"),
    [
        ("30 kB", {}, [2, 2]),
        ("2 kB", {}, [4, 3]),
        ("2 kB", {"where": "n = 3"}, [5, 5]),
        ("1 kB", {"max_files_to_rewrite": 3, "where": "n >= 0"}, [4, 3]),
    ],
)
def test_a_rewrite_is_cut_down_by_what_it_would_write_and_not_by_what_the_table_has(
    project: Project, most: str, more: dict[str, Any], left: list[int]
) -> None:
    rewrite = {
        "min_input_files": 2,
        "target_file_size": "60 kB",
        "max_bytes": most,
        **more,
    }
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    config = {**LAZY, "expire_snapshots": False, "rewrite_data_files": rewrite}
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=config)
    project.record("e", [{"id": -number, "n": number % 97} for number in range(20_000)])
    record(project, *range(4))
    project.run().check()
    sizes = sorted(
        row["file_size_in_bytes"]
        for row in project.sql(f"SELECT * FROM {project.table('a')}.files")
    )
    assert len(sizes) == 5 and sizes[-1] > 30 * 1024 > sum(sizes[:4]) > 2 * 1024, (
        "the largest is no small one"
    )

    now, found = (
        maintenance_jobs({"a": frozenset({"a.rewrite_data_files"})}, at_once=True),
        [],
    )
    for _ in left:
        project.run(jobs_by=now).check()
        found.append(files(project, "a")[0])
    assert found == left


def test_a_procedure_that_fails_is_told_and_fails_no_batch(project: Project) -> None:
    broken = {
        **EAGER,
        "rewrite_data_files": {
            **EAGER["rewrite_data_files"],
            "where": "n = CAST('no number' AS int)",
        },
    }
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=broken)
    project.model("b", "SELECT * FROM {e}", mode="append", maintenance=False)
    record(project, *range(5))
    ran = project.run().check()
    (failed, *_) = ran.of(MaintenanceFailed)
    assert failed.task == "a.rewrite_data_files" and "no number" in failed.why
    assert not [event for event in ran.of(TableMaintained) if event.model == "b"]
    assert rows(project, "a") == rows(project, "b") == appended(range(5))

    alone = maintenance_jobs({"a": frozenset({"a.rewrite_data_files"})}, at_once=True)
    ran = project.run(jobs_by=alone)
    assert ran.conditions("a") == ["maintenance-failed"], (
        "it was asked for, and there is no batch that goes on"
    )


def test_the_time_that_dead_letters_take_is_kept_with_the_own_table(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model(
        "a",
        "SELECT * FROM {e}",
        mode="append",
        maintenance={"rewrite_data_files": {"min_input_files": 2}},
    )
    record(project, *range(3))
    project.run().check()
    letters = maintenance_jobs(
        {"a": frozenset({"a__dead_letter.rewrite_data_files"})}, at_once=True
    )
    (rewritten,) = project.run(jobs_by=letters).check().of(TableMaintained)
    spent = {
        name: [
            took_ms
            for _, took_ms in parse_record(
                project.iceberg(name).properties[MAINTENANCE_PROPERTY]
            ).spent
        ]
        for name in ("a", "a__dead_letter")
    }
    assert spent == {"a": [rewritten.duration_ms], "a__dead_letter": []}


def test_tasks_run_by_themselves_and_leave_a_model_that_is_run_alone(
    project: Project,
) -> None:
    few = {
        "rewrite_data_files": {"min_input_files": 2},
        "remove_orphan_files": {"trigger": "1 day"},
    }
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=few)
    record(project, 0, 1, 2)
    project.run().check()
    names = {"a": frozenset({"a.rewrite_data_files", "a.remove_orphan_files"})}
    due, now = (
        maintenance_jobs(names, at_once=False),
        maintenance_jobs(names, at_once=True),
    )
    assert not project.run(jobs_by=due).check().of(TableMaintained), "nothing is due"
    with closing(Leases(project.lake.session)) as other:
        assert other.claim("a", str(project.directory / "checkpoints" / "a"), print)
        assert any(
            event.text == IS_RUN for event in project.run(jobs_by=due).check().of(Noted)
        )
        assert project.run(jobs_by=now).conditions("a") == ["lease-held"]
    assert files(project, "a") == (3, 0)
    ran = project.run(jobs_by=now).check()
    assert {event.task for event in ran.of(TableMaintained)} == names["a"]
    assert ran.finished("a").maintained == 2
    assert files(project, "a") == (1, 0) and rows(project, "a") == appended(range(3))
    record(project, 3)
    assert [event.records for event in project.run().check().of(BatchCommitted)] == [41]


def test_statements_written_by_hand_take_the_places_of_the_appended_tasks(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=EAGER)
    project.write(
        "models/sorted.sql",
        """{{ config(mode='maintenance', of='a', trigger='1 millisecond') }}
        CALL {{ target.catalog }}.system.rewrite_data_files(
            table => '{{ this }}', strategy => 'sort', sort_order => 'id DESC, n ASC',
            options => map('rewrite-all', 'true')
        );
        CALL {{ target.catalog }}.system.rewrite_manifests(table => '{{ this }}')""",
    )
    record(project, 0, 1, 2)
    ran = project.run().check()
    told = {event.task for event in ran.of(TableMaintained)}
    assert told >= {"sorted.rewrite_data_files", "sorted.rewrite_manifests"}
    assert not {"a.rewrite_data_files", "a.rewrite_manifests"} & told
    assert "a.remove_orphan_files" in told
    assert rows(project, "a") == appended(range(3))
    assert files(project, "a") == (1, 0)
    (file,) = project.sql(f"SELECT file_path FROM {project.table('a')}.files")
    written = (
        pq.read_table(file["file_path"].removeprefix("file:")).column("id").to_pylist()
    )
    assert written == sorted(written, reverse=True) and len(written) == 120
    # By itself, by its name.
    queries = maintenance_jobs(
        {"a": frozenset({"sorted.rewrite_data_files"})}, at_once=True
    )
    assert [
        event.task for event in project.run(jobs_by=queries).check().of(TableMaintained)
    ] == ["sorted.rewrite_data_files"]


TIMES = ["hours(at)", "days(seen)", "months(born)", "years(day)"]
PARTITIONS = ["kind", "truncate(2, kind)", "bucket(3, id)", "day", "size", *TIMES]


def test_recent_rewrites_the_partitions_that_were_written_to_alone(
    project: Project,
) -> None:
    """Each way to partition, at once; a value that is NULL; then one that no condition
    can name."""
    recent = {
        "rewrite_data_files": {
            "where": "recent",
            "rewrite_all": True,
            "trigger": "1 millisecond",
        }
    }
    config = {
        "mode": "append",
        "maintenance": {**LAZY, "expire_snapshots": False, **recent},
    }
    times = {"at": "timestamp", "seen": "timestamp", "born": "date", "day": "date"}
    columns = {"id": "int", "kind": "string", "size": "decimal(9,2)", **times}
    project.stream("e", columns)
    project.model("a", "SELECT * FROM {e}", partition_by=PARTITIONS, **config)
    project.model(
        "b", "SELECT *, at AS again FROM {e}", partition_by=["again"], **config
    )
    at, day = "2026-03-01T10:00:00Z", "1960-03-01"
    old = {
        "id": 1,
        "kind": "it's",
        "size": "1.50",
        "at": at,
        "seen": at,
        "born": day,
        "day": day,
    }
    empty = {**dict.fromkeys(columns), "id": 2}
    new = {**old, "id": 3, "kind": "other", "day": "2025-03-01"}
    project.record("e", [old, empty])
    project.run().check()
    kept = paths(project, "a")

    project.record("e", [new])
    ran = project.run().check()
    assert {event.task for event in ran.of(TableMaintained)} == {
        "a.rewrite_data_files",
        "b.rewrite_data_files",
    }
    now = paths(project, "a")
    assert len(now) == 3 and len(kept & now) == 2, (
        "partitions that nobody has written to were rewritten"
    )
    assert any("b is rewritten whole" in event.text for event in ran.of(Noted))
    assert not any("a is rewritten whole" in event.text for event in ran.of(Noted))

    project.record("e", [empty, old])
    project.run().check()
    assert len(paths(project, "a") & now) == 1 and len(paths(project, "a")) == 3
    assert [row["id"] for row in project.rows("a", "id")] == [1, 1, 2, 2, 3]
    assert not keep(project, "a"), "nothing has come since"


def paths(project: Project, name: str) -> set[str]:
    return {
        row["file_path"]
        for row in project.sql(f"SELECT file_path FROM {project.table(name)}.files")
    }


def test_a_table_that_somebody_else_maintains_is_left_alone(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=EAGER)
    record(project, 0)
    project.run().check()
    project.sql(
        f"ALTER TABLE {project.table('a')} SET TBLPROPERTIES ('lakesql.maintenance.enabled' = 'false')"
    )
    record(project, 1, 2)
    ran = project.run().check()
    tasks_of = maintenance_jobs(
        {"a": frozenset(f"a.{name}" for name in PROCEDURES)}, at_once=True
    )
    for each in (ran, project.run(jobs_by=tasks_of).check()):
        assert not [
            event
            for event in each.of(TableMaintained)
            if event.table == project.table("a")
        ]
        assert any(
            "somebody else maintains it" in event.text for event in each.of(Noted)
        )
    assert files(project, "a") == (3, 0)
    (status,) = [
        read_facts(project.lake.catalog, TableName(*project.table("a").split(".")))
    ]
    assert status is not None and status.metadata.is_left


def test_a_procedure_that_takes_too_long_is_cancelled_and_leaves_the_table(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesql.engine.maintenance.time_limit.CANCELS_EVERY_S", 0.005)
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=False)
    record(project, *range(4))
    project.run().check()
    before = files(project, "u")
    slow = {
        **EAGER,
        "max_time": "1 millisecond",
        "rewrite_manifests": False,
        "expire_snapshots": False,
    }
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=slow)
    ran = project.run().check()
    failed = {event.task: event.why for event in ran.of(MaintenanceFailed)}
    assert "longer than 0.001 seconds" in failed["u.rewrite_data_files"]
    assert files(project, "u")[0] == before[0] and rows(project, "u") == newest(
        range(4)
    )
    work = parse_record(project.iceberg("u").properties[MAINTENANCE_PROPERTY])
    assert sum(took_ms for _, took_ms in work.spent) >= sum(
        event.duration_ms for event in ran.of(MaintenanceFailed)
    )
    assert work.bytes_per_ms is not None and work.bytes_per_ms < BYTES_PER_MS, (
        "the next one takes less"
    )

    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", maintenance=EAGER)
    assert "u.rewrite_data_files" not in tasks(keep(project, "u")), (
        "it waits for the next run too"
    )
    assert "u.rewrite_data_files" in tasks(
        keep(project, "u", lambda: now_ms() + RETRY_AFTER_MS)
    )
    assert files(project, "u") == (1, 0) and rows(project, "u") == newest(range(4))


@pytest.mark.long
def test_each_compiled_call_can_be_pasted_into_spark(project: Project) -> None:
    recent = {"rewrite_data_files": {"where": "recent", "min_input_files": 2}}
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model(
        "u",
        "SELECT * FROM {e}",
        mode="upsert",
        keys="id",
        partition_by=["n"],
        maintenance=recent,
    )
    record(project, 0, 1)
    project.run("u").check()
    manifest = project.manifest()
    text = compiled_files(manifest).compile(["u"])["u"]
    table = project.table("u").split(".")[-1]
    calls = [
        call
        for call in re.findall(r"^CALL .*?\)(?=;$)", text, re.MULTILINE | re.DOTALL)
        if f"{table}'" in call
    ]
    assert [re.search(r"system\.(\w+)", call)[1] for call in calls] == list(PROCEDURES)  # type: ignore[index]
    for call in calls:
        assert project.sql(call) is not None
    assert rows(project, "u") == newest(range(2))


@pytest.mark.usefixtures("lake")
def test_options_and_arguments_are_those_that_iceberg_has() -> None:
    """Asked of the procedures themselves: a name that they do not know would fail each
    call."""
    for name, kind in PROCEDURES.items():
        camel = "".join(word.capitalize() for word in name.split("_"))
        parameters = static_field(
            f"org.apache.iceberg.spark.procedures.{camel}Procedure", "PARAMETERS"
        )
        arguments = {str(each.name()) for each in parameters}
        refused = set(REFUSED_ARGUMENTS.get(name, ()))
        options, others = iceberg_names(name), set(ICEBERG_OPTIONS[name])
        of_map = {"options"} if has_map(name) else others
        assert arguments == {"table", *ARGUMENTS[name], *refused, *of_map}
        typed = set(option_names(kind)) - DUE_OPTIONS - {"options"}
        assert typed == {*ARGUMENTS[name], *options}
        if has_map(name):
            known = valid_options(camel)
            assert set(options.values()) | others <= known
            assert set(iceberg_options(kind())) <= known


def static_field(name: str, field: str) -> Any:
    found = java_class("java.lang.Class").forName(name).getDeclaredField(field)
    found.setAccessible(True)
    return found.get(None)


def valid_options(action: str) -> set[str]:
    """Every option that an action of Iceberg's or one of its runners knows."""
    actions = "org.apache.iceberg.spark.actions"
    found: set[str] = set()
    planners = {
        "RewriteDataFiles": (
            "org.apache.iceberg.actions.BinPackRewriteFilePlanner",
            f"{actions}.SparkShufflingDataRewritePlanner",
        ),
        "RewritePositionDeleteFiles": (
            "org.apache.iceberg.actions.BinPackRewritePositionDeletePlanner",
        ),
    }[action]
    modifiers = java_class("java.lang.reflect.Modifier")
    names = (
        *planners,
        f"{actions}.{action}SparkAction",
        f"{actions}.SparkZOrderFileRewriteRunner",
    )
    for name in (
        *names,
        f"{actions}.SparkSortFileRewriteRunner",
        f"org.apache.iceberg.actions.{action}",
    ):
        kind = java_class("java.lang.Class").forName(name)
        while kind is not None and kind.getName().startswith("org.apache.iceberg"):
            for field in kind.getDeclaredFields():
                if (
                    modifiers.isStatic(field.getModifiers())
                    and field.getType().getName() == "java.lang.String"
                ):
                    field.setAccessible(True)
                    found.add(str(field.get(None)))
            kind = kind.getSuperclass()
    return found


@pytest.mark.long
def test_a_field_that_is_no_partition_of_the_table_is_refused_before_a_batch(
    project: Project,
) -> None:
    """Iceberg refuses it in the call, where it would be tried again every minute."""
    project.stream("e", {"id": "int", "at": "timestamp"})

    def model(name: str, by: str, **config: Any) -> None:
        task = {"rewrite_manifests": {"sort_by": by, "manifests": 1}}
        select = "SELECT * FROM {e}"
        project.model(name, select, mode="append", maintenance=task, **config)

    model("plain", "id")
    model("parted", "at_days", partition_by="days(at)")
    project.record("e", [{"id": 1, "at": "2026-03-01T00:00:00Z"}])
    ran = project.run()
    for name in ("plain", "parted"):
        assert ran.conditions(name) == ["unknown-partition-field"]
        assert project.rows(name) == []
    assert "'at_day'" in ran.finished("parted").problems[0].fix

    model("parted", "at_day", partition_by="days(at)")
    for number in (2, 3):
        project.record("e", [{"id": number, "at": "2026-03-01T00:00:00Z"}])
        assert not project.run("parted").of(MaintenanceFailed)
    assert len(project.rows("parted")) == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "task",
    [
        {"rewrite_data_files": {"output_spec_id": 1}},
        {"rewrite_manifests": {"spec_id": 1}},
    ],
)
def test_a_partition_spec_that_the_table_does_not_have_is_refused_before_a_batch(
    project: Project, task: dict[str, Any]
) -> None:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("a", "SELECT * FROM {e}", mode="append", maintenance=task)
    project.record("e", [{"id": 1, "n": 1}])
    ran = project.run()
    assert (
        ran.conditions("a") == ["unknown-partition-spec"]
        and "It has 0." in ran.finished("a").problems[0].why
    )
    assert project.rows("a") == []
    ran = project.run(
        jobs_by=maintenance_jobs(
            {"a": frozenset({f"a.{next(iter(task))}"})}, at_once=True
        )
    )
    assert ran.conditions("a") == ["unknown-partition-spec"]

    project.model(
        "a", "SELECT * FROM {e}", mode="append", maintenance=task, partition_by="n"
    )
    project.run().check()
    assert project.rows("a") == [{"id": 1, "n": 1}]
