"""Append with keys: what is inserted, against a replay in plain Python that takes one
row after the other."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from lakesql.events import BatchCommitted, BatchEmpty, RecordsRejected
from tests.spark.project import Project, Row, sorted_rows

COLUMNS = {"a": "int", "b": "string", "at": "timestamp", "on": "date", "v": "int"}
T0 = datetime(2026, 3, 1, tzinfo=UTC)


def first_rows(
    rows: list[Row], keys: list[str], time: str = "", within: timedelta = timedelta()
) -> list[Row]:
    """The rows that are inserted when they come one by one."""
    table: list[Row] = []
    for row in rows:
        same = (there for there in table if all(there[key] == row[key] for key in keys))
        if not any(
            not time or abs(there[time] - row[time]) <= within for there in same
        ):
            table.append(row)
    return sorted_rows(table)


def random_row(chance: random.Random, number: int) -> Row:
    at = T0 + timedelta(hours=chance.randrange(240), microseconds=chance.choice([0, 1]))
    return {
        "a": chance.randrange(3),
        "b": chance.choice(["x", "ü'"]),
        "at": at,
        "on": at.date(),
        "v": number,
    }


def as_json(row: Row) -> Row:
    return {**row, "at": row["at"].isoformat(), "on": row["on"].isoformat()}


OPTIONS: dict[str, dict[str, Any]] = {
    "forever": {"keys": ["a", "b"]},
    "hours": {"keys": ["a", "b"], "within": "36 hours", "partition_by": ["days(at)"]},
    "days": {
        "keys": "B",
        "within": "1 day",
        "partition_by": ["bucket(2, a)", "months(`on`)"],
    },
}


def expected(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "forever": first_rows(rows, ["a", "b"]),
        "hours": first_rows(rows, ["a", "b"], "at", timedelta(hours=36)),
        "days": first_rows(rows, ["b"], "on", timedelta(days=1)),
    }


def test_any_cut_into_batches_inserts_what_a_replay_row_by_row_inserts(
    project: Project,
) -> None:
    chance = random.Random(1)
    rows = [random_row(chance, number) for number in range(80)]
    ends = sorted(chance.sample(range(1, 80), 3))
    for stream, per_batch in (("cut", 1), ("whole", "unlimited")):
        project.stream(stream, COLUMNS, max_per_batch=per_batch)
        for name, options in OPTIONS.items():
            project.model(
                f"{name}_{stream}",
                f"SELECT * FROM {{{stream}}}",
                mode="append",
                **options,
            )
        for start, end in pairwise([0, *ends, 80]):
            project.record(stream, [as_json(row) for row in rows[start:end]])

    project.run().check()

    for stream in ("cut", "whole"):
        assert {name: project.rows(f"{name}_{stream}") for name in OPTIONS} == expected(
            rows
        )


def test_what_comes_again_is_not_inserted_again_and_a_row_without_key_or_time_is_a_dead_letter(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="append", **OPTIONS["hours"])
    rows = [random_row(random.Random(7), number) for number in range(5)]
    project.record("s", [as_json(row) for row in rows])
    project.record("s", [as_json(row) for row in rows])
    project.record(
        "s", [{**as_json(rows[0]), "b": None}, {**as_json(rows[0]), "at": None}]
    )

    ran = project.run().check()

    inserted = first_rows(rows, ["a", "b"], "at", timedelta(hours=36))
    assert project.rows("m") == inserted
    assert [event.rows for event in ran.of(BatchCommitted)] == [len(inserted)]
    assert [event.records for event in ran.of(BatchEmpty)] == [5, 2]
    (rejected,) = ran.of(RecordsRejected)
    assert rejected.reasons == (("key-missing", 2),)


def test_a_batch_whose_keys_somebody_else_inserts_before_it_is_published_is_empty(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "v": "int"})
    project.model("m", "SELECT id, v FROM {s}", mode="append", keys="id")
    project.record("s", [{"id": 1, "v": 1}])
    project.run().check()
    project.record("s", [{"id": 2, "v": 2}, "broken"])

    def insert(model: str, step: str) -> None:
        if step == "publish":
            project.sql(f"INSERT INTO {project.table('m')} VALUES (2, 20)")

    ran = project.run(reached=insert).check()

    assert [(row["id"], row["v"]) for row in project.rows("m", "id")] == [
        (1, 1),
        (2, 20),
    ]
    assert [(event.records, event.rejected) for event in ran.of(BatchEmpty)] == [(2, 1)]
    assert not ran.of(BatchCommitted)
    project.record("s", [{"id": 3, "v": 3}])
    project.run().check()
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2, 3]
