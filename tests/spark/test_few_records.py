"""Batches of few records are planned, evaluated and held otherwise than large ones: the
table has the same rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakesql.engine.spark import few_rows
from lakesql.events import BatchCommitted, BatchEmpty
from tests.spark.project import Fields, Project, Ran
from tests.spark.test_cdc import COLUMNS, Source

pytestmark = pytest.mark.long

BATCHES = 3

FEW = "lakesql.engine.batch.rows.FEW_BYTES"

PLAIN = {
    "id": {"type": "int", "required": True},
    "v": "int",
    "w": "string",
    "at": "timestamp",
    "parts": "array<struct<n: decimal(10, 2), day: date>>",
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mirror": (
        "SELECT a AS x, b AS y, v FROM {s} WHERE v >= 0",
        {"mode": "cdc", "keys": ["x", "y"]},
    ),
    "remembering": (
        "SELECT a AS x, b AS y, v, _change.position AS at FROM {s}",
        {"mode": "cdc", "keys": ["x", "y"], "sequence_by": "_change.position"},
    ),
    "marked": (
        "SELECT a AS x, b AS y, v FROM {s}",
        {"mode": "cdc", "keys": ["x", "y"], "apply_deletes": "soft"},
    ),
    "versions": (
        "SELECT a AS x, b AS y, v, _change.ts AS at, _change.position AS place FROM {s}",
        {"mode": "scd2", "keys": ["x", "y"], "sequence_by": ["at", "place"]},
    ),
    "newest": (
        "SELECT id % 7 AS id, v, w, at, parts FROM {plain}",
        {"mode": "upsert", "keys": ["id"], "sequence_by": "v"},
    ),
    "history": (
        "SELECT id % 7 AS id, v, w, _record.timestamp AS at FROM {plain}",
        {"mode": "scd2", "keys": ["id"], "sequence_by": "at"},
    ),
    "log": (
        "SELECT id, v, 100 / nullif(v, 0) AS share, upper(w) AS w, at, get(parts, 0).n AS n, "
        "transform(parts, it -> date_add(it.day, v)) AS days FROM {plain} WHERE v IS NULL OR v > 1",
        {"mode": "append"},
    ),
}


def test_the_rows_are_those_of_the_way_of_large_batches(
    new_project: Callable[[], Project], monkeypatch: pytest.MonkeyPatch, feed_seed: int
) -> None:
    held = watch_held(monkeypatch)
    found = {}
    for few in (2**16, -1):
        monkeypatch.setattr(FEW, few)
        held.clear()
        found[few] = list(fill(new_project(), feed_seed))
        assert bool(held) == (few > 0)
    assert found[2**16] == found[-1]


def fill(project: Project, seed: int) -> Iterator[Any]:
    """What runs over random changes, a few of them delivered again, and over random
    records have said, and all rows."""
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    project.stream("plain", PLAIN)
    for name, (select, config) in MODELS.items():
        project.model(name, select, **config)
    source, chance = Source(seed), random.Random(seed)
    for _ in range(BATCHES):
        at = len(source.events)
        for _ in range(8):
            source.change()
        project.record(
            "s", [Fields(event) for _, event in source.events[max(0, at - 5) :]]
        )
        project.record(
            "plain", [plain_record(chance) for _ in range(chance.randrange(1, 30))]
        )
        yield from said_of(project.run().check())
    for name in MODELS:
        yield (
            name,
            sorted(
                json.dumps(row, default=str, sort_keys=True)
                for row in project.rows(name)
            ),
        )
        yield name, project.has(f"{name}__dead_letter") and project.reasons(name)


def plain_record(chance: random.Random) -> Any:
    """A record of a plain topic, now and then one that cannot be read or has no key."""
    if chance.random() < 0.05:
        return chance.choice(["broken", {"v": 1}, {"id": "x"}])
    return {
        "id": chance.randrange(20),
        "v": chance.choice([None, *range(12)]),
        "w": chance.choice([None, "", "a", "Ünïcode\u0000", "z" * 300]),
        "at": chance.choice(
            [None, "1582-10-10T00:00:00Z", "2024-02-29T23:59:59.999999Z"]
        ),
        "parts": chance.choice(
            [None, [], [{"n": "1.50", "day": "2024-01-31"}, {"n": None, "day": None}]]
        ),
    }


def said_of(ran: Ran) -> Iterator[Any]:
    """What each model's batches have counted."""
    for name in MODELS:
        for event in ran.of(BatchCommitted, name):
            counted = (
                event.records,
                event.rows,
                event.rejected,
                event.ignored,
                event.remembered,
                event.older,
            )
            yield name, *counted, event.event_time, event.replaced
        for empty in ran.of(BatchEmpty, name):
            yield name, empty.records, empty.rejected, empty.ignored, empty.replaced


def watch_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows the driver was given to hold, each time."""
    held: list[int] = []
    hold = few_rows.hold_rows

    def watched(rows: Any) -> Any:
        found = hold(rows)
        held.append(-1 if found is None else found[1])
        return found

    monkeypatch.setattr(few_rows, "hold_rows", watched)
    return held
