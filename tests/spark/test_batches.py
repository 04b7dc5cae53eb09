"""Batches that write nothing, and the ways of ending: errors, limits, an end asked
for."""

from __future__ import annotations

from collections import Counter

from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    ModelFinished,
    Noted,
    RecordsRejected,
)
from lakesql.run.model_jobs import NOT_KEPT_FRESH
from tests.spark.project import Project

COLUMNS = {"id": {"type": "int", "required": True}, "v": "string"}


def test_batches_without_rows_make_no_snapshot(project: Project) -> None:
    """However the optimizer finds out that there are none, counts and dead letters are
    there."""
    project.stream("s", COLUMNS)
    project.stream("seed", COLUMNS)
    project.model("empty", "SELECT * FROM {seed} WHERE id < 0", mode="append")
    project.model("late", "SELECT * FROM {s} WHERE id > 100", mode="append")
    project.model("never", "SELECT * FROM {s} WHERE 1 = 0", mode="append")
    project.model(
        "joined",
        "SELECT s.* FROM {s} AS s JOIN {empty!r} AS e ON e.id = s.id",
        mode="append",
    )
    project.model("keyed", "SELECT * FROM {s} WHERE 1 = 0", mode="upsert", keys="id")
    project.model(
        "keyed_join",
        "SELECT s.* FROM {s} AS s JOIN {empty!r} AS e USING (id)",
        mode="upsert",
        keys="id",
    )
    models = ("late", "never", "joined", "keyed", "keyed_join")
    project.record("seed", [{"id": 1, "v": "a"}])
    project.record("s", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, "broken"])

    ran = project.run().check()

    for model in models:
        assert project.snapshot_ids(model) == [], model
        assert project.reasons(model) == {"unparsable": 1}, model
        assert [
            (event.records, event.rejected) for event in ran.of(BatchEmpty, model)
        ] == [(3, 1)], model
    assert not ran.of(BatchCommitted)

    project.write("recorded/s/part-00002.jsonl", "")
    assert project.run(*models).succeeded
    assert all(project.snapshot_ids(model) == [] for model in models)


def test_an_empty_batch_stays_invisible_where_gc_is_disabled(project: Project) -> None:
    """Iceberg refuses to expire a snapshot there: what was staged stays, and nobody
    reads it."""
    project.stream("s", COLUMNS)
    options = {"mode": "append", "properties": {"gc.enabled": "false"}}
    project.model("late", "SELECT * FROM {s} WHERE id > 100", **options)
    project.record("s", [{"id": 1, "v": "a"}])

    assert len(project.run().check().of(BatchEmpty)) == 1
    project.record("s", [{"id": 101, "v": "a"}])
    project.run().check()
    assert [row["id"] for row in project.rows("late")] == [101]


def test_an_expression_that_fails_ends_its_model_alone(project: Project) -> None:
    project.stream("s", COLUMNS)
    project.model(
        "bad", "SELECT id,\n  v,\n  CAST(v AS int) AS number\nFROM {s}", mode="append"
    )
    project.model(
        "bad_keyed",
        "SELECT id,\n  10 / (id - 2) AS ratio\nFROM {s}",
        mode="upsert",
        keys="id",
    )
    project.model("after", "SELECT id FROM {bad}", mode="append")
    project.model("after_after", "SELECT id FROM {after}", mode="append")
    project.model(
        "fine", "SELECT id, try_cast(v AS int) AS number FROM {s}", mode="append"
    )
    project.record("s", [{"id": 1, "v": "7"}, {"id": 2, "v": "seven"}, "broken"])

    ran = project.run()

    assert not ran.succeeded
    statuses = {event.model: event.status for event in ran.of(ModelFinished)}
    assert statuses == {
        "bad": "error",
        "bad_keyed": "error",
        "after": "skipped",
        "after_after": "skipped",
        "fine": "success",
    }
    for model, line, column in (("bad", 4, 3), ("bad_keyed", 3, 3)):
        (problem,) = ran.finished(model).problems
        assert problem.condition == "expression-failed"
        assert problem.place is not None
        assert (problem.place.path, problem.place.line, problem.place.column) == (
            f"models/{model}.sql",
            line,
            column,
        )
        assert project.snapshot_ids(model) == []
    assert project.rows("fine") == [{"id": 1, "number": 7}, {"id": 2, "number": None}]

    project.model(
        "bad",
        "SELECT id,\n  v,\n  try_cast(v AS int) AS number\nFROM {s}",
        mode="append",
    )
    fixed = project.run("bad", "after", "after_after").check()

    assert [row["number"] for row in project.rows("bad")] == [7, None]
    assert [row["id"] for row in project.rows("after_after")] == [1, 2]
    assert fixed.finished("bad").rejected == 1
    assert project.reasons("bad") == {"unparsable": 1}


def test_too_many_dead_letters_stop_a_model(project: Project) -> None:
    project.stream("s", COLUMNS, max_per_batch=1)
    project.model(
        "strict", "SELECT * FROM {s}", mode="append", max_dead_letter_ratio=0.3
    )
    project.model(
        "strict_keyed",
        "SELECT * FROM {s}",
        mode="upsert",
        keys="v",
        max_dead_letter_ratio=0.3,
    )
    models = ("strict", "strict_keyed")
    project.record(
        "s", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}, "broken"]
    )
    project.record(
        "s", [{"id": 4, "v": "d"}, "broken", {"v": "e"}, {"id": 5, "v": None}]
    )

    ran = project.run()

    for model in models:
        assert ran.conditions(model) == ["too-many-dead-letters"]
        assert [row["id"] for row in project.rows(model)] == [1, 2, 3]
        assert len(project.snapshot_ids(model)) == 1
        assert project.reasons(model) == {"unparsable": 1}

    for model, keyed in zip(
        models, ({"mode": "append"}, {"mode": "upsert", "keys": "v"}), strict=True
    ):
        project.model(model, "SELECT * FROM {s}", max_dead_letter_ratio=0.75, **keyed)
    project.run().check()
    assert [row["id"] for row in project.rows("strict")] == [1, 2, 3, 4, 5]
    assert [row["id"] for row in project.rows("strict_keyed")] == [1, 2, 3, 4]
    assert project.reasons("strict_keyed") == {
        "unparsable": 2,
        "required-missing": 1,
        "key-missing": 1,
    }


def test_a_continuous_run_ends_between_batches_when_it_is_asked_to(
    project: Project,
) -> None:
    project.connections["clock"] = {"type": "rate", "rows_per_second": 50}
    project.stream("ticks", connection="clock")
    project.stream("s", COLUMNS)
    project.model(
        "generated",
        "SELECT value, timestamp FROM {ticks}",
        mode="append",
        trigger="1 second",
    )
    project.model(
        "plain", "SELECT id FROM {s}", mode="append", trigger="100 milliseconds"
    )
    project.model(
        "chained",
        "SELECT id * 2 AS twice FROM {plain}",
        mode="append",
        trigger="100 milliseconds",
    )
    project.record("s", [{"id": 1, "v": "a"}, "broken"])
    committed: set[str] = set()

    def feed(event: object) -> None:
        if isinstance(event, RecordsRejected):
            project.record("s", [{"id": 2, "v": "b"}])
        if isinstance(event, BatchCommitted):
            committed.add(event.model)

    ran = project.run(
        continuous=True, meet=feed, until=lambda: {"generated", "chained"} <= committed
    ).check()

    assert {event.status for event in ran.of(ModelFinished)} == {"success"}
    values = [row["value"] for row in project.rows("generated", "value")]
    assert sorted(values) == list(range(len(values)))
    assert values
    again = project.run("plain", "chained").check()
    assert not [event for event in again.of(ModelFinished) if event.skipped_batches]
    assert [row["id"] for row in project.rows("plain")] == [1, 2]
    assert [row["twice"] for row in project.rows("chained")] == [2, 4]


def test_a_continuous_run_ends_only_the_models_that_say_so(project: Project) -> None:
    """The others take the target's trigger."""
    project._target["trigger"] = "100 milliseconds"
    project.stream("s", {"id": "int"})
    project.model("kept", "SELECT id FROM {s}", mode="append")
    project.model("ended", "SELECT id FROM {s}", mode="append", trigger="available_now")
    project.record("s", [{"id": 1}])
    rows: Counter[str] = Counter()

    def meet(event: object) -> None:
        if isinstance(event, ModelFinished) and event.model == "ended":
            project.record("s", [{"id": 2}])
        if isinstance(event, BatchCommitted):
            rows[event.model] += event.rows

    ran = project.run(
        continuous=True, meet=meet, until=lambda: rows["kept"] == 2
    ).check()
    assert [(event.model, event.text) for event in ran.of(Noted) if event.model] == [
        ("ended", NOT_KEPT_FRESH)
    ]
    assert [row["id"] for row in project.rows("kept")] == [1, 2]
    assert [row["id"] for row in project.rows("ended")] == [1]
    assert not project.run().check().of(Noted)
