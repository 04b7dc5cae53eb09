"""Watermarks on fields of structs and on expressions: the rows are those of a batch, in
few runs and in many."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.spark.project import Project

START = datetime(2026, 3, 1, tzinfo=UTC)
CHUNKS, OF_A_CHUNK, CHUNK_S, LATEST_S = 6, 20, 600, 50
"""How late an event is at most: less than the watermarks' delay."""

Event = Mapping[str, Any]


def events(seed: int, chunks: int = CHUNKS) -> list[list[Event]]:
    """Chunks of events, each of ten minutes, and at the end one that closes what is to
    be closed."""
    chance, found = random.Random(seed), []
    for number in range(chunks):
        times = (
            max(number * CHUNK_S + chance.randrange(-LATEST_S, CHUNK_S), 0)
            for _ in range(OF_A_CHUNK)
        )
        found.append(
            [
                {"k": chance.randrange(3), "price": chance.randrange(100), "at": at}
                for at in times
            ]
        )
    return [*found, [{"k": 9, "price": 0, "at": 30 * 86_400}]]


def seconds(at: int) -> str:
    return (START + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")


def nested(event: Event) -> dict[str, Any]:
    """As Nexmark's generator writes a bid: in a struct of its own, beside those of
    auctions and persons."""
    bid = {
        "auction": event["k"],
        "price": event["price"],
        "dateTime": seconds(event["at"]),
    }
    return {"event_type": 2, "auction": None, "bid": bid}


def as_text(event: Event) -> dict[str, Any]:
    return {
        "k": event["k"],
        "price": event["price"],
        "at": seconds(event["at"]).replace("T", " ").rstrip("Z"),
    }


NESTED: dict[str, Any] = {
    "event_type": "int",
    "auction": "struct<id:int,dateTime:timestamp>",
    "bid": "struct<auction:int,price:int,dateTime:timestamp>",
}
TEXTS = {"k": "int", "price": "int", "at": "string"}
TIME = "to_timestamp(at, 'yyyy-MM-dd HH:mm:ss')"

Counted = Mapping[tuple[int, datetime], tuple[int, int]]


def windows(of: Sequence[Event], length_s: int) -> Counted:
    """How many events of each key there are in each window, and the highest price."""
    found: dict[tuple[int, datetime], tuple[int, int]] = {}
    for event in of:
        key = event["k"], START + timedelta(seconds=event["at"] // length_s * length_s)
        count, price = found.get(key, (0, 0))
        found[key] = count + 1, max(price, event["price"])
    return found


GROUPED = (
    "SELECT bid.auction AS k, window.start AS at, count(*) AS n, max(bid.price) AS price FROM {s} WHERE event_type = 2 "
    "GROUP BY bid.auction, window(bid.dateTime, '5 minutes')",
    "WITH bids AS (SELECT bid.* FROM {s} WHERE bid IS NOT NULL) SELECT auction AS k, window.start AS at, "
    "count(*) AS n, max(price) AS price FROM bids GROUP BY auction, window(dateTime, '5 minutes')",
    "SELECT b.bid.auction AS k, w.start AS at, count(*) AS n, max(b.bid.price) AS price FROM (SELECT *, "
    "window(bid.datetime, '5 minutes') AS w FROM {s}) AS b GROUP BY b.bid.auction, w",
    "SELECT bid.auction AS k, window.start AS at, count(*) AS n, max(bid.price) AS price FROM (SELECT * FROM {s}) AS b "
    "GROUP BY bid.auction, window(b.bid.dateTime, '5 minutes')",
)


@pytest.mark.long
@pytest.mark.parametrize("runs", [1, CHUNKS])
def test_groups_by_a_field_are_those_of_a_batch(project: Project, runs: int) -> None:
    project.stream(
        "s", NESTED, watermark={"column": "bid.dateTime", "delay": "1 minute"}
    )
    for number, select in enumerate(GROUPED):
        project.model(f"m{number}", select, mode="append")
    project.model("u", GROUPED[0], mode="upsert", keys=["k", "at"])
    chunks = events(1)
    for part in [chunks] if runs == 1 else [[chunk] for chunk in chunks]:
        project.record("s", [nested(event) for chunk in part for event in chunk])
        project.run().check()
    every = [event for chunk in chunks for event in chunk]
    expected = windows(every, 300)
    closed = {key: value for key, value in expected.items() if key[0] != 9}
    for number in range(len(GROUPED)):
        found = {
            (row["k"], row["at"].astimezone(UTC)): (row["n"], row["price"])
            for row in project.rows(f"m{number}")
        }
        # what is closed by the last event is written by the batch after it, of this run
        # or the next
        assert found.items() <= closed.items() and len(found) == len(
            project.rows(f"m{number}")
        )
        assert len(found) == len(closed)
    found = {
        (row["k"], row["at"].astimezone(UTC)): (row["n"], row["price"])
        for row in project.rows("u")
    }
    assert found == expected
    assert set(project.rows("u")[0]) == {"k", "at", "n", "price"}


JOINS: Mapping[str, Callable[[Event, Event], bool]] = {
    "bid.auction = b.k AND {time} BETWEEN bid.dateTime AND bid.dateTime + INTERVAL 5 MINUTES": (
        lambda a, b: 0 <= b["at"] - a["at"] <= 300
    ),
    "a.bid.auction = b.k AND a.bid.dateTime > {time} - INTERVAL 15 MINUTES AND a.bid.dateTime <= {time}": (
        lambda a, b: -900 < a["at"] - b["at"] <= 0
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("runs", [1, CHUNKS])
@pytest.mark.parametrize("condition", JOINS)
def test_a_join_by_fields_and_expressions_loses_no_pair(
    project: Project, condition: str, runs: int
) -> None:
    project.stream(
        "a", NESTED, watermark={"column": "bid.dateTime", "delay": "1 minute"}
    )
    project.stream("b", TEXTS, watermark={"column": TIME, "delay": "1 minute"})
    said = condition.format(time=TIME.replace("at,", "b.at,"))
    select = (
        f"SELECT a.*, b.price AS other, b.at FROM {{a}} AS a JOIN {{b}} AS b ON {said}"
    )
    project.model("pairs", select, mode="append")
    lefts, rights = events(1), events(2)
    for first in range(0, len(lefts), len(lefts) if runs == 1 else 1):
        last = len(lefts) if runs == 1 else first + 1
        project.record(
            "a", [nested(event) for chunk in lefts[first:last] for event in chunk]
        )
        project.record(
            "b", [as_text(event) for chunk in rights[first:last] for event in chunk]
        )
        project.run().check()
    expected = Counter(
        (a["k"], seconds(a["at"]), b["at"])
        for a in (event for chunk in lefts for event in chunk)
        for b in (event for chunk in rights for event in chunk)
        if a["k"] == b["k"] and JOINS[condition](a, b)
    )
    rows = project.rows("pairs")
    found = Counter(
        (
            row["bid"]["auction"],
            row["bid"]["dateTime"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            int((datetime.fromisoformat(f"{row['at']}+00:00") - START).total_seconds()),
        )
        for row in rows
    )
    assert expected and found == expected
    assert set(rows[0]) == {*NESTED, "other", "at"}


def test_events_of_a_field_that_are_late_or_ahead_are_dead_letters(
    project: Project,
) -> None:
    project.stream(
        "s", NESTED, watermark={"column": "bid.dateTime", "delay": "1 minute"}
    )
    project.stream("t", TEXTS, watermark={"column": TIME, "delay": "1 minute"})
    project.model("m", GROUPED[0], mode="append", late="dead_letter")
    by_text = f"SELECT window({TIME}, '5 minutes').start AS at, count(*) AS n FROM {{t}} GROUP BY window({TIME}, '5 minutes')"
    project.model("e", by_text, mode="append", late="dead_letter")
    first = [
        {"k": 1, "price": 1, "at": 0},
        {"k": 1, "price": 1, "at": 3_600},
        {"k": 2, "price": 1, "at": 10**10 // 4},
    ]
    second = [{"k": 1, "price": 2, "at": 10}, {"k": 1, "price": 2, "at": 7_200}]
    for part in (first, second):
        project.record("s", [*map(nested, part), {"event_type": 0}])
        project.record("t", [*map(as_text, part)])
        project.run().check()
    for name in ("m", "e"):
        assert project.reasons(name) == {"ahead-of-time": 1, "late": 1}
        assert sum(row["n"] for row in project.rows(name)) >= 2
