"""A checkpoint and a table that do not agree: refused before anything is written, and
fixed by the printed command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesql.compile.build_select import build_selects
from lakesql.errors import RunError
from lakesql.events import BatchCommitted, BatchEmpty, BatchSkipped, Noted
from lakesql.run.state.rewind import Rewound, rewind_model
from lakesql.run.streams.bind import bind_selects
from tests.spark.project import Project, Ran, Row

APPEND, UPSERT = {"mode": "append"}, {"mode": "upsert", "keys": "id"}
MODELS = ("a", "u")


def write_models(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", **APPEND)
    project.model("u", "SELECT * FROM {e}", **UPSERT)


def record(project: Project, *files: int) -> None:
    """A file of ten records for each number, and a bad one; each key comes twice, in
    two files that follow."""
    for number in files:
        rows: list[Any] = [
            {"id": number * 5 + index, "n": number} for index in range(10)
        ]
        project.record("e", [*rows, "broken"])


def expected(files: range) -> dict[str, list[Row]]:
    rows = [
        {"id": number * 5 + index, "n": number}
        for number in files
        for index in range(10)
    ]
    newest = {row["id"]: row for row in rows}
    return {"a": sorted(rows, key=str), "u": sorted(newest.values(), key=str)}


def check(project: Project, files: range, models: tuple[str, ...] = MODELS) -> None:
    """Nothing is lost and nothing stands twice."""
    for model in models:
        assert sorted(project.rows(model), key=str) == expected(files)[model]
        assert project.reasons(model) == {"unparsable": len(files)}


def checkpoint(project: Project, model: str) -> Path:
    return project.directory / "checkpoints" / model


def rewind(project: Project, command: str) -> Rewound:
    """Do what a `lakesql rewind …` says."""
    words = command.split()
    assert words[:2] == ["lakesql", "rewind"]
    to = words[words.index("--to") + 1] if "--to" in words else "ledger"
    manifest = project.manifest()
    (bound,) = bind_selects(manifest, build_selects(manifest, [words[2]])).values()
    allow = "--allow-duplicates" in words
    return rewind_model(
        manifest, project.lake.session, bound, to, allow_duplicates=allow
    )  # type: ignore[arg-type]


def rebuild(project: Project, command: str) -> None:
    """Do what a `lakesql rebuild …` says."""
    project.rebuild(command.removeprefix("lakesql rebuild ")).check()


def commands(ran: Ran, model: str) -> list[str]:
    """The commands that a refusal prints, in their order."""
    (problem,) = ran.finished(model).problems
    return re.findall(
        r"lakesql (?:rewind|rebuild) \w+(?: --to \w+)?(?: --allow-duplicates)?",
        problem.fix,
    )


def refuse(project: Project, condition: str, models: tuple[str, ...] = MODELS) -> Ran:
    """Run, and see each model refused with nothing written."""
    before = {
        model: project.snapshot_ids(model) for model in models if project.has(model)
    }
    files = {model: tree(checkpoint(project, model)) for model in models}
    ran = project.run(*models)
    assert {model: ran.conditions(model) for model in models} == {
        model: [condition] for model in models
    }
    assert {
        model: project.snapshot_ids(model) for model in models if project.has(model)
    } == before
    assert {model: tree(checkpoint(project, model)) for model in models} == files
    return ran


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def begun(project: Project) -> Project:
    """A project whose models have written four batches each."""
    write_models(project)
    record(project, *range(4))
    project.run().check()
    return project


@pytest.mark.promise
def test_a_lost_checkpoint_is_made_again_from_the_ledger(begun: Project) -> None:
    for model in MODELS:
        shutil.rmtree(checkpoint(begun, model))
    record(begun, 4, 5)
    ran = begun.run().check()
    assert [(event.model, event.batch) for event in ran.of(BatchCommitted)].count(
        ("a", 1)
    ) == 1
    assert {event.model for event in ran.of(Noted)} == set(MODELS)
    check(begun, range(6))
    assert begun.run().check().of(BatchCommitted) == []
    for model in MODELS:  # and once more, from a checkpoint that was made so itself
        shutil.rmtree(checkpoint(begun, model))
    record(begun, 6)
    begun.run().check()
    check(begun, range(7))


def test_a_lost_checkpoint_of_a_model_that_reads_a_model_is_rebuilt(
    begun: Project,
) -> None:
    begun.model("c", "SELECT id FROM {a}", **APPEND)
    begun.run("c").check()
    shutil.rmtree(checkpoint(begun, "c"))
    record(begun, 4)
    begun.run().check()
    assert len(begun.rows("c")) == 50


def damage_truncate_one(folder: Path) -> str:
    newest = newest_batch(folder)
    for part in ("offsets", "commits"):
        (folder / part / str(newest)).unlink()
    return "checkpoint-behind"


def damage_truncate_two(folder: Path) -> str:
    newest = newest_batch(folder)
    for number in (newest, newest - 1):
        (folder / "commits" / str(number)).unlink()
    return "checkpoint-inconsistent"


def damage_hole(folder: Path) -> str:
    (folder / "offsets" / str(newest_batch(folder) - 1)).unlink()
    return "checkpoint-inconsistent"


def damage_garbage(folder: Path) -> str:
    (folder / "offsets" / str(newest_batch(folder))).write_text("")
    return "checkpoint-inconsistent"


def damage_id(folder: Path) -> str:
    (folder / "metadata").write_text('{"id":"9d4bb1e4-0000-0000-0000-000000000000"}')
    return "checkpoint-foreign"


def damage_metadata_gone(folder: Path) -> str:
    (folder / "metadata").unlink()
    (folder / "lakesql.json").unlink()
    return "checkpoint-inconsistent"


def damage_copied(folder: Path) -> str:
    """The other model's checkpoint stands in this one's place."""
    other = folder.parent / {"a": "u", "u": "a"}[folder.name]
    kept = folder.parent / f"{other.name}.copy"
    if not kept.exists():
        shutil.copytree(folder, folder.parent / f"{folder.name}.copy")
        shutil.rmtree(folder)
        shutil.copytree(other, folder)
    else:
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
    return "checkpoint-foreign"


def newest_batch(folder: Path) -> int:
    return max(
        int(file.name) for file in (folder / "offsets").iterdir() if file.name.isdigit()
    )


@pytest.mark.parametrize(
    "damage",
    [
        damage_truncate_one,
        damage_truncate_two,
        damage_hole,
        damage_garbage,
        damage_id,
        damage_metadata_gone,
        damage_copied,
    ],
)
def test_a_damaged_checkpoint_is_refused_and_repaired_by_the_printed_command(
    begun: Project, damage: Callable[[Path], str]
) -> None:
    conditions = {damage(checkpoint(begun, "a")), damage(checkpoint(begun, "u"))}
    record(begun, 4)
    (condition,) = conditions
    ran = refuse(begun, condition)
    for model in MODELS:
        done = rewind(begun, commands(ran, model)[0])
        assert done.aside is not None and Path(done.aside).is_dir()
    begun.run().check()
    check(begun, range(5))


def roll_back(project: Project, model: str, batches: int) -> None:
    history = project.iceberg(model).metadata
    by_id = {snapshot.snapshot_id: snapshot for snapshot in history.snapshots}
    at, undone = history.current_snapshot_id, 0
    while undone < batches:  # maintenance has snapshots of its own
        undone += by_id[at].summary.operation.value != "replace"
        at = by_id[at].parent_snapshot_id
    project.sql(
        f"CALL lake.system.rollback_to_snapshot('{project.namespace}.{model}', {at})"
    )


def test_a_table_that_was_rolled_back_is_refused_until_a_rewind(begun: Project) -> None:
    for model in MODELS:
        roll_back(begun, model, 2)
    record(begun, 4)
    ran = refuse(begun, "table-behind")
    again, leave_out = commands(ran, "a")
    rewind(begun, again)
    begun.run("a").check()
    check(begun, range(5), ("a",))
    # The other model's rows of the batches that were rolled back are left out.
    assert rewind(begun, leave_out.replace(" a", " u")).positions[0][0] == "e"
    begun.run("u").check()
    newest = {number * 5 + index: number for number in (0, 1, 4) for index in range(10)}
    assert {row["id"]: row["n"] for row in begun.rows("u")} == newest


def test_a_table_rolled_back_during_a_run_is_refused(begun: Project) -> None:
    record(begun, 4, 5, 6)

    def intrude(event: Any) -> None:
        if isinstance(event, BatchCommitted) and event.batch == 4:
            roll_back(begun, event.model, 2)

    ran = begun.run(meet=intrude)
    for model in MODELS:
        assert ran.conditions(model) == ["table-behind"]
        rewind(begun, commands(ran, model)[0])
    begun.run().check()
    check(begun, range(7))


def test_a_recreated_table_is_refused_until_a_rewind(begun: Project) -> None:
    begun.sql(f"DROP TABLE {begun.table('a')}")
    columns = begun.sql(f"DESCRIBE {begun.table('u')}")
    begun.sql(f"DROP TABLE {begun.table('u')}")
    begun.sql(f"CREATE TABLE {begun.table('u')} (id INT, n INT) USING iceberg")
    assert len(columns) >= 2
    record(begun, 4)
    ran = refuse(begun, "table-recreated")
    assert not begun.has("a")
    start, after = commands(ran, "a")
    rewind(begun, start)
    rewind(begun, after.replace(" a", " u"))
    begun.run().check()
    assert sorted(begun.rows("a"), key=str) == expected(range(5))["a"]
    assert sorted(begun.rows("u"), key=str) == expected(range(4, 5))["u"]


def test_a_table_rolled_back_to_its_first_batch_is_refused(begun: Project) -> None:
    """And past a commit of somebody else's."""
    for model in MODELS:
        begun.sql(f"INSERT INTO {begun.table(model)} VALUES (0, 0)")
        metadata = begun.iceberg(model).metadata
        first = min(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number)
        begun.sql(
            f"CALL lake.system.rollback_to_snapshot('{begun.namespace}.{model}', {first.snapshot_id})"
        )
        summary = begun.summaries(model)[-1]
        assert summary["lakesql.batch"] == "0"
    refuse(begun, "table-behind")


def test_a_table_without_a_ledger_entry_of_the_model_is_refused(begun: Project) -> None:
    """Replaced by a copy of its rows: read again, they would stand twice."""
    begun.sql(
        f"CREATE OR REPLACE TABLE {begun.table('a')} USING iceberg AS SELECT * FROM {begun.table('a')}"
    )
    ran = refuse(begun, "ledger-missing", ("a",))
    start, after = commands(ran, "a")
    with pytest.raises(RunError) as caught:
        rewind(begun, start)
    assert [problem.condition for problem in caught.value.problems] == [
        "rewind-duplicates"
    ]
    rewind(begun, after)
    begun.run("a").check()
    check(begun, range(4), ("a",))


def test_batches_without_rows_are_no_reason_to_refuse(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e} WHERE n IN (1, 4)", **APPEND)
    project.model("u", "SELECT * FROM {e} WHERE n IN (1, 4)", **UPSERT)
    for number in range(5):
        record(project, number)
        if number in (0, 2, 3):
            ran = project.run().check()
            assert {event.model for event in ran.of(BatchEmpty)} == set(MODELS)
            again = project.run().check()
            assert not again.of(BatchCommitted) and not again.of(BatchEmpty)
    project.run().check()
    assert {row["n"] for row in project.rows("a")} == {1, 4}
    assert len(project.rows("a")) == 20
    for model in MODELS:
        roll_back(project, model, 1)
    refuse(project, "table-behind")


def test_changed_streams_are_refused_until_a_rewind(begun: Project) -> None:
    begun.stream("f", {"id": "int", "n": "int"})
    begun.record("f", [{"id": 1000, "n": 1}])
    begun.model("a", "SELECT id, n FROM {e} UNION ALL SELECT id, n FROM {f}", **APPEND)
    record(begun, 4)
    ran = refuse(begun, "streams-changed", ("a",))
    rewind(begun, commands(ran, "a")[0])
    begun.run("a").check()
    assert sorted(begun.rows("a"), key=str) == sorted(
        [*expected(range(5))["a"], {"id": 1000, "n": 1}], key=str
    )
    begun.model("a", "SELECT id, n FROM {f} UNION ALL SELECT id, n FROM {e}", **APPEND)
    ran = refuse(begun, "streams-changed", ("a",))
    rewind(begun, commands(ran, "a")[0])
    record(begun, 5)
    begun.run("a").check()
    assert len(begun.rows("a")) == 61


def test_a_changed_stateful_shape_is_refused_until_a_rewind(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT id, count(*) AS n FROM {e} GROUP BY id", **UPSERT)
    record(project, 0, 1)
    project.run().check()
    project.model("u", "SELECT id, max(n) AS n FROM {e} GROUP BY id", **UPSERT)
    record(project, 2)
    ran = refuse(project, "state-changed", ("u",))
    rebuild(project, commands(ran, "u")[0])
    project.run().check()
    assert sorted(project.rows("u"), key=str) == expected(range(3))["u"]
    assert project.reasons("u") == {"unparsable": 3}

    shutil.rmtree(checkpoint(project, "u"))
    ran = refuse(project, "checkpoint-lost", ("u",))
    rewind(project, commands(ran, "u")[0])
    record(project, 3)
    project.run().check()
    assert sorted(project.rows("u"), key=str) == expected(range(4))["u"]
    assert project.reasons("u") == {"unparsable": 4}


def test_groups_that_are_no_more_do_not_stay_after_a_change_of_a_window(
    project: Project,
) -> None:
    columns = {"id": "int", "at": {"type": "timestamp", "required": False}}
    project.stream("e", columns, watermark={"column": "at", "delay": "1 day"})
    select = "SELECT window(at, '{}').start AS at, count(*) AS n FROM {{e}} GROUP BY window(at, '{}')"
    project.model("w", select.format("1 hour", "1 hour"), mode="upsert", keys=["at"])
    project.record(
        "e",
        [
            {"id": number, "at": f"2026-03-01T12:{number:02}:00Z"}
            for number in range(60)
        ],
    )
    project.run().check()
    project.model(
        "w", select.format("40 minutes", "40 minutes"), mode="upsert", keys=["at"]
    )
    ran = refuse(project, "state-changed", ("w",))
    rebuild(project, commands(ran, "w")[0])
    project.run().check()
    assert sum(row["n"] for row in project.rows("w")) == 60


@pytest.mark.parametrize(
    ("before", "after", "condition"),
    [
        ({"mode": "append"}, {"mode": "upsert", "keys": ["id"]}, "mode-changed"),
        ({"mode": "upsert", "keys": ["id"]}, {"mode": "append"}, "mode-changed"),
        (
            {"mode": "upsert", "keys": ["id"]},
            {"mode": "upsert", "keys": ["id", "n"]},
            "keys-changed",
        ),
    ],
)
def test_another_mode_or_other_keys_on_a_table_with_rows(
    project: Project, before: dict[str, Any], after: dict[str, Any], condition: str
) -> None:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("m", "SELECT id, n FROM {e}", **before)
    project.record("e", [{"id": number % 2, "n": number} for number in range(4)])
    project.run().check()
    project.model("m", "SELECT id, n FROM {e}", **after)
    project.record("e", [{"id": 1, "n": 9}])
    ran = refuse(project, condition, ("m",))
    rebuild(project, commands(ran, "m")[0])
    project.run().check()
    assert (
        len(project.rows("m"))
        == {"append": 5, "upsert": len(after.get("keys", ())) * 3 - 1}[after["mode"]]
    )
    project.model("m", "SELECT id, n FROM {e}", **before)
    refuse(project, condition, ("m",))


def test_a_model_of_another_name_is_held_to_how_the_rows_of_its_table_were_written(
    project: Project,
) -> None:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("m", "SELECT id, n FROM {e}", mode="upsert", keys=["id", "n"])
    project.record("e", [{"id": 1, "n": number} for number in range(3)])
    project.run().check()
    project.sql(f"INSERT INTO {project.table('m')} VALUES (2, 2)")
    project.sql(
        f"CALL lake.system.expire_snapshots(table => '{project.table('m')}', retain_last => 1, "
        "older_than => TIMESTAMP '2099-01-01 00:00:00')"
    )
    (project.directory / "models/m.sql").unlink()
    project.model(
        "other", "SELECT id, n FROM {e}", mode="upsert", keys=["id"], table="m"
    )
    project.record("e", [{"id": 1, "n": 9}])
    ran = project.run()
    assert ran.conditions("other") == ["keys-changed"]
    assert "by model 'm'" in ran.finished("other").problems[0].what
    assert len(project.rows("m")) == 4
    project.model(
        "other", "SELECT id, n FROM {e}", mode="upsert", keys=["n", "id"], table="m"
    )
    project.run().check()
    assert len(project.rows("m")) == 5
    project.model(
        "other", "SELECT id, n FROM {e}", mode="upsert", keys=["id"], table="m"
    )
    rebuild(project, commands(project.run(), "other")[0])
    assert project.rows("m") == [{"id": 1, "n": 9}]


def test_a_table_without_rows_follows_its_model(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("m", "SELECT id, n FROM {e}", mode="append")
    project.record("e", [{"id": 1, "n": 1}])
    project.run().check()
    project.sql(f"DELETE FROM {project.table('m')}")
    project.model("m", "SELECT id, n FROM {e}", mode="upsert", keys=["id"])
    project.record("e", [{"id": 2, "n": number} for number in range(3)])
    project.run().check()
    assert project.rows("m") == [{"id": 2, "n": 2}]


def test_keys_in_another_order_or_spelling_are_the_same(project: Project) -> None:
    project.stream("e", {"id": "int", "n": "int"})
    project.model("m", "SELECT id, n FROM {e}", mode="upsert", keys=["id", "n"])
    project.record("e", [{"id": 1, "n": 1}])
    project.run().check()
    project.model("m", "SELECT id, n FROM {e}", mode="upsert", keys=["N", "id"])
    project.record("e", [{"id": 1, "n": 1}, {"id": 1, "n": 2}])
    project.run().check()
    assert project.rows("m", "n") == [{"id": 1, "n": 1}, {"id": 1, "n": 2}]


def test_a_damaged_dead_letter_checkpoint_is_repaired_without_the_models_own(
    project: Project,
) -> None:
    """A stateful model's own query keeps its state and its checkpoint."""
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("u", "SELECT id, count(*) AS n FROM {e} GROUP BY id", **UPSERT)
    record(project, 0, 1)
    project.run().check()
    damage_truncate_one(checkpoint(project, "u__dead_letter"))
    record(project, 2)
    ran = refuse(project, "checkpoint-behind", ("u",))
    (command,) = commands(ran, "u")
    own = tree(checkpoint(project, "u"))
    done = rewind(project, command)
    assert done.aside is not None and "u__dead_letter" in done.aside
    assert tree(checkpoint(project, "u")) == own
    project.run().check()
    assert {row["id"]: row["n"] for row in project.rows("u")} == {
        id_: 2 if 4 < id_ < 15 else 1 for id_ in range(20)
    }
    assert project.reasons("u") == {"unparsable": 3}


def test_a_lost_checkpoint_of_plain_files_is_refused_until_a_rewind(
    project: Project,
) -> None:
    project.connections = {
        "disk": {"type": "files", "path": str(project.directory / "landing")}
    }
    project.stream(
        "p",
        {"id": "int"},
        connection="disk",
        path="*.json",
        format="json",
        max_per_batch=1,
    )
    project.model("a", "SELECT * FROM {p}", **APPEND)
    project.model("u", "SELECT * FROM {p}", **UPSERT)

    def land(number: int) -> None:
        project.write(f"landing/{number}.json", json.dumps({"id": number}) + "\n")

    for number in range(3):
        land(number)
    project.run().check()
    kept = {
        model: shutil.copytree(
            checkpoint(project, model), project.directory / f"{model}.kept"
        )
        for model in MODELS
    }
    for model in MODELS:
        shutil.rmtree(checkpoint(project, model))
    land(3)
    ran = refuse(project, "checkpoint-lost")
    assert commands(ran, "u")[-1] == "lakesql rewind u --to start"
    rewind(project, "lakesql rewind u --to start")
    project.run("u").check()
    assert [row["id"] for row in project.rows("u", "id")] == [0, 1, 2, 3]
    # With the old checkpoint the files that it has read are known, wherever the table
    # stands.
    shutil.copytree(kept["a"], checkpoint(project, "a"))
    roll_back(project, "a", 1)
    ran = refuse(project, "table-behind", ("a",))
    rewind(project, commands(ran, "a")[0])
    project.run("a").check()
    assert [row["id"] for row in project.rows("a", "id")] == [0, 1, 2, 3]


def test_a_rewind_to_a_time_reads_the_files_since_then(project: Project) -> None:
    import os

    from lakesql.progress.start import RewindTo

    project.connections = {
        "disk": {"type": "files", "path": str(project.directory / "landing")}
    }
    project.stream("p", {"id": "int"}, connection="disk", path="*.json", format="json")
    project.model("a", "SELECT * FROM {p}", **APPEND)
    for number in range(6):
        file = project.write(
            f"landing/{number}.json", json.dumps({"id": number}) + "\n"
        )
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        if number == 2:
            project.run().check()
    shutil.rmtree(checkpoint(project, "a"))
    manifest = project.manifest()
    (bound,) = bind_selects(manifest, build_selects(manifest, ["a"])).values()
    time: RewindTo = 1_700_000_003_000
    # nothing says that the table has no file since then
    with pytest.raises(RunError) as caught:
        rewind_model(manifest, project.lake.session, bound, time)
    assert [problem.condition for problem in caught.value.problems] == [
        "rewind-duplicates"
    ]
    rewind_model(manifest, project.lake.session, bound, time, allow_duplicates=True)
    project.run().check()
    assert [row["id"] for row in project.rows("a", "id")] == list(range(6))


def test_a_rewind_to_start_is_refused_where_it_would_duplicate_rows(
    begun: Project,
) -> None:
    before = tree(checkpoint(begun, "a"))
    with pytest.raises(RunError) as caught:
        rewind(begun, "lakesql rewind a --to start")
    assert [problem.condition for problem in caught.value.problems] == [
        "rewind-duplicates"
    ]
    assert tree(checkpoint(begun, "a")) == before
    begun.sql(f"DELETE FROM {begun.table('a')}")
    rewind(begun, "lakesql rewind a --to start --allow-duplicates")
    begun.run("a").check()
    assert sorted(begun.rows("a"), key=str) == expected(range(4))["a"]


def test_a_replayed_batch_is_skipped_after_compaction_foreign_writes_and_expiry(
    begun: Project,
) -> None:
    """Compaction, foreign rows, foreign deletes, and an expiry of all but the newest
    snapshot."""
    for model in MODELS:
        name = f"{begun.namespace}.{model}"
        begun.forget(model)
        begun.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        begun.sql(f"INSERT INTO {begun.table(model)} VALUES (9999, 9999)")
        begun.sql(f"DELETE FROM {begun.table(model)} WHERE id = 9999")
        begun.sql(
            f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', "
            "retain_last => 1)"
        )
        assert begun.summaries(model)[-1].get("lakesql.batch") is None
    ran = begun.run().check()
    assert {event.model: event.batch for event in ran.of(BatchSkipped)} == {
        "a": 3,
        "u": 3,
    }
    check(begun, range(4))
    record(begun, 4)
    begun.run().check()
    check(begun, range(5))


def test_the_ledger_entry_survives_an_expiry_of_snapshots(begun: Project) -> None:
    for model in MODELS:
        begun.sql(f"INSERT INTO {begun.table(model)} VALUES (9999, 9999)")
        begun.sql(f"INSERT INTO {begun.table(model)} VALUES (9999, 9999)")
        begun.sql(
            f"CALL lake.system.expire_snapshots(table => '{begun.namespace}.{model}', "
            "older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
        )
        begun.sql(f"DELETE FROM {begun.table(model)} WHERE id = 9999")
        shutil.rmtree(checkpoint(begun, model))
    record(begun, 4)
    begun.run().check()
    check(begun, range(5))


def test_accepting_a_loss_where_nothing_is_lost_is_refused(begun: Project) -> None:
    ran = begun.run(accept_data_loss=True)
    assert [ran.conditions(model) for model in MODELS] == [
        ["nothing-lost"],
        ["nothing-lost"],
    ]
