"""What is expected of rows: what each `on_fail` does with those that fail, in each
mode, through crashes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from lakesql.events import BatchCommitted, BatchEmpty, RecordsRejected
from lakesql.names import LEDGER_BATCH, LEDGER_VIOLATIONS
from tests.spark.project import Fields, Project, Ran
from tests.spark.test_replay_letters import kill_at, letters, replay

ORDERS = {"id": "int", "amount": "int", "status": "string", "at": "int"}
SELECT = "SELECT id, amount, status, at FROM {orders}"
KEYED: dict[str, Any] = {"keys": "id", "sequence_by": "at"}
MODELS: dict[str, dict[str, Any]] = {
    "added": {"mode": "append"},
    "first": {"mode": "append", "keys": "id"},
    "newest": {"mode": "upsert", "delete_when": "status = 'gone'", **KEYED},
    "history": {"mode": "scd2", **KEYED},
}
PAID = {
    "name": "paid orders have an amount",
    "that": "status <> 'paid' OR amount IS NOT NULL",
}
EXPECT = [{**PAID, "on_fail": "dead_letter"}, {"that": "amount >= 0"}]
STATUS = {"name": "status", "expect": {"accepted_values": ["open", "paid", "gone"]}}


def expect(
    project: Project,
    *models: str,
    expect: list[dict[str, Any]],
    columns: tuple[Any, ...] = (),
) -> None:
    entries = [
        {"name": name, "expect": expect, "columns": list(columns)} for name in models
    ]
    project.write("models/models.yml", json.dumps({"models": entries}))


def order(
    id_: int | None, amount: int | None, status: str | None = "open", at: int = 0
) -> dict[str, Any]:
    return {"id": id_, "amount": amount, "status": status, "at": at}


def violations(ran: Ran, model: str) -> Counter[str]:
    events: list[Any] = [*ran.of(BatchCommitted, model), *ran.of(BatchEmpty, model)]
    return sum((Counter(dict(event.violations)) for event in events), Counter())


def values(project: Project, model: str) -> list[tuple[int, int | None]]:
    return [(row["id"], row["amount"]) for row in project.rows(model, "at")]


def test_rows_are_counted_or_set_aside_once_whatever_ends_the_run_and_read_again(
    project: Project,
) -> None:
    project.stream("orders", ORDERS, max_per_batch=1)
    for name, options in MODELS.items():
        project.model(name, SELECT, **options)
    expect(project, *MODELS, expect=EXPECT, columns=(STATUS,))
    project.record(
        "orders",
        [
            order(1, 10, at=1),
            order(2, -5, at=2),
            order(3, None, "paid", 3),
            order(4, None, None, 4),
        ],
    )
    project.record(
        "orders",
        [
            order(None, None, "paid", 5),
            order(1, None, "paid", 6),
            order(2, -7, "lost", 7),
            "broken",
        ],
    )

    # dead letters are written, rows are staged
    killed = project.run(reached=kill_at("publish"))
    assert not killed.succeeded
    assert {name: project.rows(name) for name in MODELS if project.has(name)} == {
        name: [] for name in MODELS
    }
    ran = project.run().check()

    everywhere = {"amount >= 0": 2, "accepted_values status": 1, PAID["name"]: 3}
    for name in MODELS:
        assert violations(ran, name) == everywhere, name
        assert dict(ran.finished(name).violations) == everywhere
        in_ledger = {
            int(summary[LEDGER_BATCH]): json.loads(summary[LEDGER_VIOLATIONS])
            for summary in project.summaries(name)
            if LEDGER_VIOLATIONS in summary
        }
        told = {
            event.batch: dict(event.violations)
            for event in ran.of(BatchCommitted, name)
        }
        assert in_ledger == {batch: failed for batch, failed in told.items() if failed}
        assert project.reasons(name) == {"expectation-failed": 3, "unparsable": 1}
        found = project.rows(f"{name}__dead_letter", "offset")
        assert [row["offset"] for row in found] == [2, 4, 5, 7]
        assert {
            row["detail"] for row in found if row["reason"] == "expectation-failed"
        } == {PAID["name"]}
    assert values(project, "added") == [(1, 10), (2, -5), (4, None), (2, -7)]
    assert values(project, "first") == [(1, 10), (2, -5), (4, None)]
    assert values(project, "newest") == [(1, 10), (4, None), (2, -7)]
    assert values(project, "history") == [(1, 10), (2, -5), (4, None), (2, -7)]
    assert [
        (event.count, event.batch) for event in ran.of(RecordsRejected, "added")
    ] == [(3, 1)]

    # A batch that was committed and is run again is skipped; nothing is counted twice.
    before = {name: project.snapshot_ids(name) for name in MODELS}
    for name in MODELS:
        project.forget(name)
    again = project.run().check()
    assert not again.of(BatchCommitted)
    assert before == {name: project.snapshot_ids(name) for name in MODELS}

    # Of an order without an id the condition is NULL now: it does not fail, and lacks a
    # key where there are keys.
    paid = {**PAID, "that": f"id = 1 OR {PAID['that']}", "on_fail": "dead_letter"}
    expect(project, *MODELS, expect=[paid])
    for name, rows in {"added": 1, "first": 0, "newest": 1, "history": 1}.items():
        keyless = {} if name == "added" else {"key-missing": 1}
        dry = replay(project, name, dry_run=True)
        assert dry.failing == {"expectation-failed": 1, "unparsable": 1, **keyless}, (
            name
        )
        assert dry.done == replay(project, name).done == 2 - len(keyless)
        assert letters(project, name) == [
            (2, False),
            (4, not keyless),
            (5, True),
            (7, False),
        ]
        assert values(project, name).count((1, None)) == rows


def test_a_batch_that_fails_is_never_seen_and_written_once_it_is_corrected(
    project: Project,
) -> None:
    project.stream("orders", ORDERS, max_per_batch=1)
    groups = "SELECT status AS id, sum(amount) AS amount, count(*) AS n FROM {orders} GROUP BY status"
    for name, options in MODELS.items():
        project.model(name, SELECT, **options)
    project.model("groups", groups, mode="upsert", keys="id")
    names = (*MODELS, "groups")
    stop = {"name": "no loss", "that": "amount >= 0", "on_fail": "stop"}
    expect(project, *names, expect=[stop, {"that": "amount < 50", "on_fail": "warn"}])
    project.record("orders", [order(1, 10, "open", 1), order(2, 60, "open", 2)])
    project.run().check()
    seen = {name: (project.rows(name), project.snapshot_ids(name)) for name in names}
    project.record(
        "orders",
        [
            order(3, 30, "paid", 3),
            "broken",
            order(4, -4, "gone", 4),
            order(5, -1, "gone", 5),
        ],
    )

    # the next run tries the same batch, and nothing is left of the former try
    for _ in range(2):
        failed = project.run()
        for name in names:
            (problem,) = failed.finished(name).problems
            assert problem.condition == "expectation-failed"
            assert problem.place is not None and (
                problem.place.path,
                problem.place.line,
            ) == ("models/models.yml", 1)
            assert (
                "'no loss' (amount >= 0)" in problem.what
                and '"amount":-' in problem.why
            )
            assert (project.rows(name), project.snapshot_ids(name)) == seen[name], name
            # whose companion has no part in it
            assert not project.has(f"{name}__dead_letter") or name == "groups"
        assert not failed.of(BatchCommitted)
    assert "2 rows of" in failed.finished("added").problems[0].what
    assert not any(
        project.rows(f"{name}__tombstones") for name in ("newest", "history")
    )

    expect(project, *names, expect=[{**stop, "on_fail": "warn"}])
    ran = project.run().check()
    assert {name: violations(ran, name)["no loss"] for name in names} == {
        **dict.fromkeys(MODELS, 2),
        "groups": 1,
    }
    assert values(project, "added") == [(1, 10), (2, 60), (3, 30), (4, -4), (5, -1)]
    assert values(project, "newest") == [(1, 10), (2, 60), (3, 30)]
    assert {row["id"]: row["amount"] for row in project.rows("groups")} == {
        "open": 70,
        "paid": 30,
        "gone": -5,
    }


def test_a_mirror_is_checked_as_its_rows_are_to_be_written(project: Project) -> None:
    columns = {"id": {"type": "int", "required": True}, "v": "int", "big": "string"}
    project.stream("s", columns, envelope="debezium", key=["id"])
    modes: dict[str, dict[str, Any]] = {
        "hard": {"mode": "cdc"},
        "soft": {"mode": "cdc", "apply_deletes": "soft"},
        "sequenced": {"mode": "cdc", "sequence_by": "_change.position"},
        "versions": {"mode": "scd2", "sequence_by": "_change.position"},
    }
    for name, options in modes.items():
        project.model(
            name,
            "SELECT id, v, big, _change.position AS position FROM {s}",
            keys="id",
            **options,
        )
    big = {"name": "big", "expect": {"not_null": {"on_fail": "stop"}}}
    expect(
        project, *modes, expect=[{"that": "v > 0", "on_fail": "warn"}], columns=(big,)
    )

    def send(*changes: tuple[str, int, int | None, str | None], at: int) -> Ran:
        events = []
        for number, (op, id_, v, text) in enumerate(changes):
            row = {"id": id_, "v": v, "big": text}
            sides = (
                {"before": row, "after": None}
                if op == "d"
                else {"before": None, "after": row}
            )
            value = {"op": op, **sides, "source": {"lsn": at + number}}
            events.append(Fields(key={"id": id_}, value=value))
        project.record("s", events)
        return project.run()

    first = send(
        ("c", 1, 1, "x"), ("c", 2, 0, "y"), ("c", 3, -1, "z"), ("c", 3, 3, "z"), at=10
    ).check()
    # Of two changes of a row the newest one is looked at; a history has a row of each.
    assert {name: violations(first, name)["v > 0"] for name in modes} == {
        **dict.fromkeys(modes, 1),
        "versions": 2,
    }
    # The large value is not sent, and stands in the table: it is not NULL. What is
    # deleted is not looked at.
    kept = ("hard", "sequenced")
    for name in set(modes) - {*kept}:
        (project.directory / f"models/{name}.sql").unlink()
    expect(
        project, *kept, expect=[{"that": "v > 0", "on_fail": "warn"}], columns=(big,)
    )
    second = send(
        ("u", 1, -1, "__debezium_unavailable_value"), ("d", 2, None, None), at=20
    ).check()
    for name in kept:
        assert violations(second, name) == {"v > 0": 1}
        assert {row["id"]: (row["v"], row["big"]) for row in project.rows(name)} == {
            1: (-1, "x"),
            3: (3, "z"),
        }
    seen = {name: project.snapshot_ids(name) for name in kept}
    third = send(("u", 3, 4, None), ("d", 1, None, None), at=30)
    assert all(third.conditions(name) == ["expectation-failed"] for name in kept)
    assert seen == {name: project.snapshot_ids(name) for name in kept}
    assert [row["id"] for row in project.rows("sequenced__tombstones")] == [2]
    expect(project, *kept, expect=[])
    project.run().check()
    assert all(
        {row["id"]: row["v"] for row in project.rows(name)} == {3: 4} for name in kept
    )


def test_an_expectation_that_spark_does_not_know_or_that_fails_is_named_by_its_place(
    project: Project,
) -> None:
    project.stream("orders", ORDERS)
    project.model("base", SELECT, mode="append")
    project.model(
        "typed", "SELECT *, concat(status, 'x') AS said FROM {orders}", mode="append"
    )
    project.model("divided", SELECT, mode="append")
    project.model(
        "counted", "SELECT *, concat(status, 'x') AS said FROM {orders}", mode="append"
    )
    entries = [
        {"name": "typed", "expect": [{"that": "said"}]},
        {
            "name": "divided",
            "expect": [{"that": "amount >= 0"}, {"that": "1 / amount < 2"}],
        },
        {
            "name": "counted",
            "columns": [{"name": "said", "expect": [{"accepted_values": ["x", 1]}]}],
        },
    ]
    project.write(
        "models/models.yml",
        "models:\n" + "".join(f"  - {json.dumps(entry)}\n" for entry in entries),
    )
    project.record("orders", [order(1, 0)])
    ran = project.run()

    assert ran.conditions("base") == []
    refused = (
        ("typed", "bad-expression", 2),
        ("divided", "expression-failed", 3),
        ("counted", "wrong-type", 4),
    )
    for name, condition, line in refused:
        (problem,) = ran.finished(name).problems
        assert problem.condition == condition
        assert problem.place is not None and (
            problem.place.path,
            problem.place.line,
        ) == ("models/models.yml", line)
