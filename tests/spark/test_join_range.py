"""Joins of streams whose conditions are accepted: no pair is lost, in a few runs and in
many small batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest

from tests.spark.project import Project

pytestmark = pytest.mark.long

COLUMNS = {"id": "int", "k": "int", "at": "timestamp", "until": "timestamp"}
WATERMARK = {"column": "at", "delay": "1 minute"}
CHUNKS, OF_A_CHUNK, CHUNK_S, STEP_S = 9, 12, 600, 10
LATEST_S, LONGEST_S = 50, 1_800
"""How late an event is at most, less than the watermark's delay; and how long `until`
lies after `at` at most."""

Event = Mapping[str, int]

ACCEPTED: Mapping[str, Callable[[Event, Event], bool]] = {
    "a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES": lambda a, b: (
        0 <= b["at"] - a["at"] <= 300
    ),
    "a.k = b.k AND a.at > b.at - INTERVAL 15 MINUTES AND a.at <= b.at + INTERVAL 10 SECONDS": (
        lambda a, b: -900 < a["at"] - b["at"] <= 10
    ),
    "a.k = b.k AND b.at BETWEEN a.at AND a.until AND b.at <= a.at + INTERVAL 30 MINUTES": (
        lambda a, b: a["at"] <= b["at"] <= a["until"] and b["at"] <= a["at"] + 1_800
    ),
    "a.k = b.k AND b.at >= a.at": lambda a, b: b["at"] >= a["at"],
    "a.k = b.k AND a.at = b.at": lambda a, b: a["at"] == b["at"],
    "a.k = b.k": lambda a, b: True,
}


def events(seed: int) -> list[list[Event]]:
    """Chunks of events, each of ten minutes, in which an event is less late than the
    watermark allows."""
    chance, chunks = random.Random(seed), []
    for number in range(CHUNKS):
        chunk = []
        for index in range(OF_A_CHUNK):
            at = number * CHUNK_S + chance.randrange(-LATEST_S, CHUNK_S, STEP_S)
            event = {
                "id": number * OF_A_CHUNK + index,
                "k": chance.randrange(3),
                "at": max(at, 0),
            }
            chunk.append({**event, "until": event["at"] + chance.randrange(LONGEST_S)})
        chunks.append(chunk)
    return chunks


def written(event: Event) -> dict[str, Any]:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = {
        name: (start + timedelta(seconds=event[name])).isoformat()
        for name in ("at", "until")
    }
    return {**event, **times}


@pytest.mark.parametrize("runs", [3, CHUNKS])
@pytest.mark.parametrize("condition", ACCEPTED)
def test_a_condition_that_is_accepted_loses_no_pair(
    project: Project, condition: str, runs: int
) -> None:
    for name in ("a", "b"):
        project.stream(name, COLUMNS, watermark=WATERMARK)
    project.model(
        "pairs",
        f"SELECT a.id AS one, b.id AS other FROM {{a}} a JOIN {{b}} b ON {condition}",
        mode="append",
    )
    lefts, rights = events(1), events(2)
    for first in range(0, CHUNKS, CHUNKS // runs):
        last = first + CHUNKS // runs
        for name, chunks in (("a", lefts), ("b", rights)):
            project.record(
                name,
                [written(event) for chunk in chunks[first:last] for event in chunk],
            )
        project.run().check()
    expected = {
        (a["id"], b["id"])
        for a in chain.from_iterable(lefts)
        for b in chain.from_iterable(rights)
        if a["k"] == b["k"] and ACCEPTED[condition](a, b)
    }
    found = [(row["one"], row["other"]) for row in project.rows("pairs")]
    assert expected and len(found) == len(expected) and set(found) == expected
