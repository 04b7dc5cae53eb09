"""`lakesql rebuild`: a table is filled again beside the live one, and gets the new rows
in one commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.maintenance.keeper import LOOKS_AGAIN_MS
from lakesql.engine.progress.lease import Leases
from lakesql.engine.sources.globs import list_files
from lakesql.events import Noted, QueryPaused, Retrying
from lakesql.run.maintain import maintenance_jobs
from lakesql.run.rebuild import abandon_rebuild
from lakesql.run.start.context import RunContext
from lakesql.run.state.drop import Dropper
from lakesql.source.local_files import local_files
from tests.spark.project import T0_MS, Project, Ran, Row
from tests.spark.test_expectations import expect
from tests.spark.test_maintenance import LAZY, in_ten_days, keep, tasks

pytestmark = pytest.mark.long

COLUMNS = {
    "id": "bigint",
    "k": "string",
    "n": "bigint",
    "at": {"type": "timestamp", "required": False},
}
WATERMARK = {"column": "at", "delay": "1 minute"}
AT = "2026-03-01T12:00:00Z"


def value(id_: int, k: str = "a", n: int = 1) -> dict[str, object]:
    return {"id": id_, "k": k, "n": n, "at": AT}


@pytest.fixture
def begun(project: Project) -> Project:
    """A stream of six records, of which one is bad, in two files."""
    project.stream("s", COLUMNS, watermark=WATERMARK)
    project.record("s", [value(1), value(2, "b"), value(3)])
    project.record("s", [value(1, n=2), value(4, "c"), "no record"])
    return project


def folders(project: Project) -> set[str]:
    """The folders of checkpoints, without those that are kept."""
    return {name for name in project.checkpoint_folders() if "Z" not in name}


def count_rows(project: Project, name: str = "m") -> int:
    return len(project.rows_without_spark(name))


def test_append_becomes_upsert_and_every_row_stands_once(begun: Project) -> None:
    begun.model("m", "SELECT id, k, n FROM {s}", mode="append")
    begun.run().check()
    assert count_rows(begun) == 5
    before = begun.iceberg("m")
    begun.model("m", "SELECT id, k, n FROM {s}", mode="upsert", keys=["id"])
    assert begun.run().conditions("m") == ["mode-changed"]
    # The folder of the table that is filled may be that of another catalog too.
    metadata = (
        Path(before.location().removeprefix("file:")).parent / "m__rebuild" / "metadata"
    )
    metadata.mkdir(parents=True)
    (metadata / "00000-of-another.metadata.json").write_text("{}")
    begun.rebuild("m").check()
    assert [file.name for file in metadata.iterdir()] == [
        "00000-of-another.metadata.json"
    ]
    assert begun.rows_without_spark("m") == begun.rows("m")
    assert [(row["id"], row["n"]) for row in begun.rows("m", "id")] == [
        (1, 2),
        (2, 1),
        (3, 1),
        (4, 1),
    ]
    assert begun.reasons("m").total() == 1
    after = begun.iceberg("m")
    assert after.metadata.table_uuid == before.metadata.table_uuid
    old = after.scan(snapshot_id=before.metadata.current_snapshot_id).to_arrow()
    assert old.num_rows == 5
    assert begun.table_names() == {"m", "m__dead_letter"}
    assert folders(begun) == {"m", "m.lease"}
    begun.record("s", [value(2, "b", 7), value(9)])
    begun.run().check()
    assert [(row["id"], row["n"]) for row in begun.rows("m", "id")] == [
        (1, 2),
        (2, 7),
        (3, 1),
        (4, 1),
        (9, 1),
    ]


def test_columns_types_partitions_and_order_are_the_models_as_it_is_now(
    begun: Project,
) -> None:
    begun.model(
        "m",
        "SELECT id, k, n, at FROM {s}",
        mode="append",
        partition_by=["days(at)", "k"],
    )
    begun.run().check()
    select = "SELECT CAST(n AS string) AS n, struct(id, k) AS who, id, k FROM {s}"
    begun.model(
        "m", select, mode="append", partition_by=["bucket(4, id)", "k"], order_by=["n"]
    )
    begun.rebuild("m").check()
    table = begun.iceberg("m")
    assert [field.name for field in table.schema().fields] == ["n", "who", "id", "k"]
    assert [str(field.transform) for field in table.spec().fields] in (
        ["bucket[4]", "identity"],
        ["identity", "bucket[4]"],
    )
    assert len(table.sort_order().fields) == 1
    expected: list[Row] = [
        {"n": "1", "who": {"id": 1, "k": "a"}, "id": 1, "k": "a"},
        {"n": "1", "who": {"id": 2, "k": "b"}, "id": 2, "k": "b"},
        {"n": "1", "who": {"id": 3, "k": "a"}, "id": 3, "k": "a"},
        {"n": "2", "who": {"id": 1, "k": "a"}, "id": 1, "k": "a"},
        {"n": "1", "who": {"id": 4, "k": "c"}, "id": 4, "k": "c"},
    ]
    order: Callable[[Row], tuple[int, str]] = lambda row: (row["id"], row["n"])  # noqa: E731
    assert sorted(begun.rows("m"), key=order) == sorted(expected, key=order)
    assert sorted(begun.rows_without_spark("m"), key=order) == sorted(
        expected, key=order
    )
    assert [
        row["id"]
        for row in begun.sql(
            f"SELECT id FROM {begun.table('m')} WHERE id = 4 AND k = 'c'"
        )
    ] == [4]
    begun.record("s", [value(5, "d")])
    begun.run().check()
    assert count_rows(begun) == 6


def test_a_column_may_get_another_type_by_which_the_table_is_partitioned_and_ordered(
    begun: Project,
) -> None:
    begun.model(
        "m",
        "SELECT id, n, k FROM {s}",
        mode="append",
        partition_by=["n"],
        order_by=["id"],
    )
    begun.run().check()
    select = "SELECT CAST(id AS string) AS id, CAST(n AS string) AS n, k FROM {s}"
    begun.model("m", select, mode="append", partition_by=["n"], order_by=["id"])
    begun.rebuild("m").check()
    found = [(row["id"], row["n"]) for row in begun.rows("m", "id")]
    assert sorted(found) == [("1", "1"), ("1", "2"), ("2", "1"), ("3", "1"), ("4", "1")]
    assert begun.rows_without_spark("m") == begun.rows("m")
    begun.record("s", [value(5)])
    begun.run().check()
    assert count_rows(begun) == 6


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_that_the_rebuild_updates_and_deletes_are_gone_in_the_table_too(
    begun: Project, version: str
) -> None:
    """The replacement has delete files, or deletion vectors, that go with its data
    files."""
    config = {
        "mode": "upsert",
        "keys": ["id"],
        "delete_when": "n < 0",
        "properties": {"format-version": version},
    }
    begun.stream("s", COLUMNS, max_per_batch=1)
    begun.model("m", "SELECT id, k, n FROM {s}", partition_by=["k"], **config)
    begun.record("s", [value(4, "c", -1), value(2, "b", 5)])
    begun.run().check()
    expected = begun.rows("m")
    begun.model(
        "m",
        "SELECT id, k, n, 1 AS one FROM {s}",
        partition_by=["bucket(2, id)"],
        **config,
    )
    begun.rebuild("m").check()
    assert begun.rows("m") == [{**row, "one": 1} for row in expected]
    begun.record("s", [value(1, n=9)])
    begun.run().check()
    assert {row["id"]: row["n"] for row in begun.rows("m")} == {1: 9, 2: 5, 3: 1}


def test_groups_that_no_longer_exist_are_gone(begun: Project) -> None:
    begun.model(
        "m", "SELECT k, count(*) AS c FROM {s} GROUP BY k", mode="upsert", keys=["k"]
    )
    begun.run().check()
    assert len(begun.rows("m")) == 3
    begun.model(
        "m",
        "SELECT substr(k, 1, 0) AS k, count(*) AS c FROM {s} GROUP BY 1",
        mode="upsert",
        keys=["k"],
    )
    assert begun.run().conditions("m") == ["state-changed"]
    begun.rebuild("m").check()
    assert begun.rows("m") == [{"k": "", "c": 5}]
    assert begun.reasons("m").total() == 1
    begun.record("s", [value(7), "bad too"])
    begun.run().check()
    assert begun.rows("m") == [{"k": "", "c": 6}]
    assert begun.reasons("m").total() == 2


STEPS = [
    "look-up",
    "stage",
    "publish",
    "finish",
    "hand-over",
    "swap",
    "finish-rebuild",
    "drop-replacement",
    "move-checkpoint",
]


@pytest.mark.parametrize(
    ("step", "stateful", "then"),
    [
        *((step, True, "run") for step in STEPS),
        *((step, False, "rebuild") for step in ("publish", "swap", "finish-rebuild")),
    ],
)
def test_a_rebuild_that_broke_off_is_finished_by_the_next_command(
    begun: Project, step: str, stateful: bool, then: str
) -> None:
    select = (
        "SELECT k, count(*) AS c FROM {s} GROUP BY k"
        if stateful
        else "SELECT id, k, n FROM {s}"
    )
    begun.model("m", select, mode="upsert", keys=["k" if stateful else "id"])
    begun.run().check()
    rows, letters = begun.rows("m"), begun.reasons("m")

    break_off(begun, step)
    assert begun.rows("m") == rows
    begun.record("s", [value(8, "z"), "bad"])
    more = [{"k": "z", "c": 1}] if stateful else [{"id": 8, "k": "z", "n": 1}]
    expected = sorted([*rows, *more], key=lambda row: repr(sorted(row.items())))
    if then == "run":
        begun.run().check()
        assert begun.rows("m") == expected
    begun.rebuild("m").check()
    begun.run().check()
    assert begun.rows("m") == expected
    assert begun.reasons("m").total() == letters.total() + 1
    assert begun.table_names() == {"m", "m__dead_letter"}
    assert folders(begun) == (
        {"m", "m.lease", "m__dead_letter"} if stateful else {"m", "m.lease"}
    )


def break_off(project: Project, at: str, name: str = "m") -> None:
    def reached(model: str, step: str) -> None:
        if step == at:
            raise RuntimeError("killed")

    assert not project.rebuild(name, reached=reached).succeeded


def test_no_orphan_of_any_table_of_the_model_is_removed_while_it_is_rebuilt(
    begun: Project,
) -> None:
    """The files of the replacement, and of its dead letters, lie where those of the
    live tables do."""
    model = {
        "mode": "append",
        "maintenance": {"max_time_ratio": 1.0, "expire_snapshots": False},
    }
    begun.model("m", "SELECT id, k, n FROM {s}", **model)
    begun.run().check()
    break_off(begun, "hand-over")
    written, letters = (
        data_files(begun, "m__rebuild"),
        data_files(begun, "m__rebuild__dead_letter"),
    )
    assert written and letters
    for file in (*written, *letters):
        os.utime(file, (time.time() - 9 * 86_400,) * 2)

    orphans = frozenset(
        f"{owner}.remove_orphan_files" for owner in ("m", "m__dead_letter")
    )
    begun.run(jobs_by=maintenance_jobs({"m": orphans}, at_once=True)).check()

    assert all(file.exists() for file in (*written, *letters))
    begun.rebuild("m").check()
    assert count_rows(begun) == 5 and begun.reasons("m").total() == 1


def test_what_the_rebuild_of_a_reader_has_still_to_read_does_not_expire(
    begun: Project,
) -> None:
    expiry = {**LAZY, "expire_snapshots": {"retain_last": 1}}
    begun.model("a", "SELECT id, k, n FROM {s}", mode="append", maintenance=expiry)
    begun.model("m", "SELECT id, n FROM {a}", mode="append", maintenance=False)
    for number in range(3):
        begun.record("s", [value(10 + number)])
        begun.run().check()
    before = set(begun.snapshot_ids("a"))
    break_off(begun, "look-up")
    told = keep(begun, "a", in_ten_days)
    assert "a.expire_snapshots" not in tasks(told), "the rebuild has read nothing yet"
    assert any(
        "the rebuild of 'm'" in event.text for event in told if isinstance(event, Noted)
    )

    break_off(begun, "hand-over")
    for number in range(3):
        begun.record("s", [value(20 + number)])
        begun.run().check()
    assert "a.expire_snapshots" in tasks(
        keep(begun, "a", lambda: in_ten_days() + LOOKS_AGAIN_MS)
    )
    assert len(before & set(begun.snapshot_ids("a"))) == 1, (
        "the one where the rebuild stands"
    )
    begun.rebuild("m").check()
    assert [row["id"] for row in begun.rows("m", "id")] == [
        1,
        1,
        2,
        3,
        4,
        10,
        11,
        12,
        20,
        21,
        22,
    ]


def data_files(project: Project, name: str) -> list[Path]:
    found = project.sql(f"SELECT file_path FROM {project.table(name)}.files")
    return [Path(row["file_path"].removeprefix("file:")) for row in found]


def live_run(
    project: Project, ended: threading.Event, found: list[Ran]
) -> threading.Thread:
    """A continuous run of `m` in a thread of its own, as another process would run
    it."""
    thread = threading.Thread(
        target=lambda: found.append(
            project.run("m", continuous=True, until=ended.is_set)
        )
    )
    thread.start()
    return thread


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.05)


def test_a_model_that_runs_meanwhile_loses_nothing_and_no_reader_sees_fewer_rows(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id, k, n FROM {s}", mode="append", trigger="1 second")
    ended, found, counts = threading.Event(), list[Ran](), list[int]()
    writer = live_run(begun, ended, found)
    wait_for(lambda: begun.has("m") and count_rows(begun) == 5)

    def record(model: str, step: str) -> None:
        number = len(counts)
        counts.append(count_rows(begun))
        if number < 20:
            begun.record("s", [value(100 + number)])

    begun.rebuild("m", reached=record).check()
    counts.append(count_rows(begun))
    begun.record("s", [value(99)])
    wait_for(lambda: any(row["id"] == 99 for row in begun.rows_without_spark("m")))
    ended.set()
    writer.join()
    found[0].check()
    assert found[0].of(QueryPaused, "m") and not found[0].of(Retrying, "m")
    begun.run().check()
    assert counts == sorted(counts) and counts[0] >= 5
    ids = [row["id"] for row in begun.rows("m", "id")]
    published = min(len(counts) - 1, 20)
    assert ids == sorted([1, 1, 2, 3, 4, 99, *range(100, 100 + published)])
    assert folders(begun) == {"m", "m.lease"}


def test_a_run_that_has_the_former_version_of_the_model_ends(begun: Project) -> None:
    begun.model("m", "SELECT id, k, n FROM {s}", mode="append", trigger="1 second")
    ended, found = threading.Event(), list[Ran]()
    writer = live_run(begun, ended, found)
    wait_for(lambda: begun.has("m") and count_rows(begun) == 5)
    begun.model(
        "m", "SELECT id, n FROM {s}", mode="upsert", keys=["id"], trigger="1 second"
    )
    begun.rebuild("m").check()
    writer.join()
    assert found[0].conditions("m") == ["table-rebuilt"]
    assert [(row["id"], row["n"]) for row in begun.rows("m", "id")] == [
        (1, 2),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


def test_a_commit_of_somebody_else_before_the_swap_makes_it_read_on(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    written = []

    def write(model: str, step: str) -> None:
        if step == "swap" and not written:
            written.append(1)
            begun.sql(f"INSERT INTO {begun.table('m')} VALUES (77)")

    ran = begun.rebuild("m", reached=write).check()
    assert any(
        "somebody has written to its table meanwhile" in note.text
        for note in ran.of(Noted)
    )
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 1, 2, 3, 4]


def test_models_that_stream_a_rebuilt_table_are_refused_until_they_are_rebuilt(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    begun.model("down", "SELECT id, k FROM {m}", mode="append")
    begun.model("late", "SELECT id FROM {m}", mode="append")
    begun.run("m", "down").check()
    begun.model("m", "SELECT id + 10 AS id, k FROM {s}", mode="append")
    begun.rebuild("m").check()
    begun.record("s", [value(5)])
    assert begun.run().conditions("down") == ["upstream-rebuilt"]
    assert [row["id"] for row in begun.rows("late", "id")] == [11, 11, 12, 13, 14, 15]
    assert [row["id"] for row in begun.rows("down", "id")] == [1, 1, 2, 3, 4]
    begun.rebuild("m", "down", "late").check()
    for model in ("down", "late"):
        assert [row["id"] for row in begun.rows(model, "id")] == [
            11,
            11,
            12,
            13,
            14,
            15,
        ]
    begun.record("s", [value(6)])
    begun.run().check()
    for model in ("down", "late"):
        assert [row["id"] for row in begun.rows(model, "id")] == [
            11,
            11,
            12,
            13,
            14,
            15,
            16,
        ]


def test_a_model_without_a_table_is_run(begun: Project) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.rebuild("m").check()
    assert count_rows(begun) == 5
    assert folders(begun) == {"m", "m.lease"}


def test_from_a_time_on_the_table_has_what_is_newer_alone(begun: Project) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    begun.rebuild("m", start=T0_MS + 2000).check()
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 4]


def test_a_rebuild_of_files_that_are_gone_is_refused_until_that_is_accepted(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    (begun.directory / "recorded" / "s" / "part-00001.jsonl").unlink()
    ran = begun.rebuild("m")
    assert ran.conditions("m") == ["data-lost"]
    assert "part-00001.jsonl" in ran.finished("m").problems[0].what
    assert begun.table_names() == {"m", "m__dead_letter"}
    begun.rebuild("m", accept_data_loss=True).check()
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 4]


def test_a_folder_has_the_files_that_spark_reads_there(project: Project) -> None:
    project.stream("s", {"id": "bigint"}, path="landing", format="json")
    for name, id_ in {
        "a.json": 1,
        "b.json": 2,
        "_c.json": 3,
        ".d.json": 4,
        "within/e.json": 5,
        "_f/g.json": 6,
    }.items():
        project.write(f"landing/{name}", f'{{"id": {id_}}}\n')
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.run().check()
    project.rebuild("m").check()
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2]
    pattern = str(project.directory / "landing")
    assert {file.name for file in list_files(project.lake.session, pattern)} == {
        "a.json",
        "b.json",
    }
    assert {file.name for file in local_files(pattern)} == {"a.json", "b.json"}
    (project.directory / "landing" / "a.json").unlink()
    ran = project.rebuild("m")
    assert ran.conditions("m") == ["data-lost"]
    assert (
        "a.json" in ran.finished("m").problems[0].what
        and "b.json" not in ran.finished("m").problems[0].what
    )


def abandon(project: Project) -> bool:
    manifest = project.manifest()
    context = RunContext(
        manifest, project.lake.session, project.lake.catalog, lambda event: None
    )
    with closing(Leases(project.lake.session)) as leases:
        return abandon_rebuild(
            context, build_select(manifest, "m"), leases, lambda text: None
        )


def test_a_rebuild_is_not_continued_for_another_version_but_abandoned(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    break_off(begun, "swap")
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    assert begun.rebuild("m").conditions("m") == ["rebuild-outdated"]
    assert abandon(begun)
    assert begun.table_names() == {"m", "m__dead_letter"} and folders(begun) == {
        "m",
        "m.lease",
    }
    assert not abandon(begun)
    assert count_rows(begun) == 5
    begun.rebuild("m").check()
    assert begun.rows("m")[0].keys() == {"id", "k"}


def test_a_rebuild_of_an_edited_model_follows_the_one_that_it_finishes(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    break_off(begun, "finish-rebuild")
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    begun.rebuild("m").check()
    assert len(begun.rows("m")) == 5 and begun.rows("m")[0].keys() == {"id", "k"}
    assert begun.table_names() == {"m", "m__dead_letter"} and folders(begun) == {
        "m",
        "m.lease",
    }


K_IS_REQUIRED = {**COLUMNS, "k": {"type": "string", "required": True}}


@pytest.mark.parametrize("edited", ["contract", "start", "expectations"])
def test_a_rebuild_is_not_continued_with_other_streams_or_expectations(
    begun: Project, edited: str
) -> None:
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    expect(begun, "m", expect=[{"that": "id < 3", "on_fail": "dead_letter"}])
    begun.run().check()
    break_off(begun, "swap")
    match edited:
        case "contract":
            begun.stream("s", K_IS_REQUIRED, watermark=WATERMARK)
        case "start":
            begun.stream("s", COLUMNS, watermark=WATERMARK, start="2026-03-01")
        case "expectations":
            expect(begun, "m", expect=[{"that": "id < 4", "on_fail": "dead_letter"}])
    assert begun.rebuild("m").conditions("m") == ["rebuild-outdated"]


def test_a_rebuild_is_continued_when_only_words_and_the_size_of_batches_were_edited(
    begun: Project,
) -> None:
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    expect(begun, "m", expect=[{"that": "id < 3", "on_fail": "dead_letter"}])
    begun.run().check()
    break_off(begun, "swap")
    properties = begun.directory / "models" / "models.yml"
    properties.write_text(f"\n{properties.read_text()}")
    described = {
        **COLUMNS,
        "k": {"type": "string", "required": False, "description": "a letter"},
    }
    begun.stream(
        "s", described, watermark=WATERMARK, max_per_batch=1, description="letters"
    )
    begun.rebuild("m").check()
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 1, 2]


def test_a_rebuild_with_an_edited_contract_follows_the_one_that_it_finishes(
    begun: Project,
) -> None:
    begun.record("s", [{"id": 5, "n": 1}])
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    begun.run().check()
    break_off(begun, "finish-rebuild")
    begun.stream("s", K_IS_REQUIRED, watermark=WATERMARK)
    begun.rebuild("m").check()
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 1, 2, 3, 4]
    assert begun.reasons("m") == {"unparsable": 1, "required-missing": 1}


def test_dead_letters_that_the_live_table_gets_meanwhile_are_not_those_of_the_rebuild(
    project: Project,
) -> None:
    project.stream("s", COLUMNS)
    project.record("s", [value(1)])
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.run().check()
    break_off(project, "hand-over")
    assert not project.has("m__rebuild__dead_letter")
    project.stream("s", K_IS_REQUIRED)
    project.record("s", [{"id": 2}])
    project.run().check()
    assert project.reasons("m") == {"required-missing": 1}
    project.stream("s", COLUMNS)
    break_off(project, "drop-replacement")
    project.rebuild("m").check()
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2]
    assert project.reasons("m").total() == 0
    assert project.table_names() == {"m", "m__dead_letter"}


def test_what_is_abandoned_behind_the_swap_is_finished(begun: Project) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    begun.model("m", "SELECT id, k FROM {s}", mode="append")
    break_off(begun, "finish-rebuild")
    assert abandon(begun)
    assert len(begun.rows("m")) == len(begun.rows_without_spark("m")) == 5
    assert begun.rows("m")[0].keys() == {"id", "k"}
    assert begun.table_names() == {"m", "m__dead_letter"} and folders(begun) == {
        "m",
        "m.lease",
    }


def test_a_model_is_dropped_with_the_rebuild_that_was_begun(begun: Project) -> None:
    begun.model("m", "SELECT id FROM {s}", mode="append")
    begun.run().check()
    for step in ("publish", "swap", "finish-rebuild"):
        break_off(begun, step)
        dropper = Dropper(begun.manifest(), begun.lake.session, begun.lake.catalog)
        dropper.drop("m", dropper.find()["m"], lambda text: None)
        assert begun.table_names() == set() and folders(begun) == set()
        begun.run().check()
        assert count_rows(begun) == 5


def test_a_table_to_merge_into_keeps_the_columns_that_it_was_partitioned_by(
    begun: Project,
) -> None:
    begun.model(
        "m",
        "SELECT id, k, n FROM {s}",
        mode="upsert",
        keys=["id"],
        partition_by=["k", "bucket(2, id)"],
    )
    begun.run().check()
    begun.model(
        "m",
        "SELECT id, length(k) AS k FROM {s}",
        mode="upsert",
        keys=["id"],
        partition_by=["k"],
    )
    ran = begun.rebuild("m")
    assert ran.conditions("m") == ["rebuild-impossible"]
    assert "partitioned by k," in ran.finished("m").problems[0].what
    assert begun.table_names() == {"m", "m__dead_letter"}
    begun.model(
        "m",
        "SELECT id, k, length(k) AS size FROM {s}",
        mode="upsert",
        keys=["id"],
        partition_by=["size"],
    )
    begun.rebuild("m").check()
    begun.record("s", [value(1, "dd"), value(7)])
    begun.run().check()
    assert [(row["id"], row["size"]) for row in begun.rows("m", "id")] == [
        (1, 2),
        (2, 1),
        (3, 1),
        (4, 1),
        (7, 1),
    ]
    assert begun.rows_without_spark("m") == begun.rows("m")
