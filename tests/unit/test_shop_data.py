"""The shop's recorded data: made by its recorder, and holding what the tests of the
shop rely on."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.shop import oracle, record

TOPICS = ("shop.customers", "shop.orders", "shop.page_views")


def test_files_are_what_the_recorder_writes():
    written = {
        path.relative_to(record.RECORDED).as_posix(): path.read_bytes()
        for path in record.RECORDED.rglob("*")
        if path.is_file()
    }
    assert written == {path: text.encode() for path, text in record.record().items()}


def test_files_are_small():
    assert sum(len(text.encode()) for text in record.record().values()) < 700_000


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_several_files_and_partitions_with_ascending_offsets(topic):
    records = oracle.read_topic(topic)
    offsets = defaultdict(list)
    for item in records:
        offsets[item.partition].append(item.offset)
    assert len(list((record.RECORDED / topic).iterdir())) >= 2
    assert len(offsets) >= 2
    assert all(seen == list(range(len(seen))) for seen in offsets.values())
    assert len({(item.key, item.partition) for item in records}) == len(
        {item.key for item in records}
    )


def test_headers_and_values_as_text_occur():
    lines = [
        json.loads(line)
        for text in record.record().values()
        for line in text.splitlines()
    ]
    assert 100 < sum("headers" in line for line in lines) < len(lines)
    texts = [line["value"] for line in lines if isinstance(line["value"], str)]
    assert any(text.startswith("{") and text.endswith("}") for text in texts)


def test_dead_letters_are_of_every_kind():
    kinds = {
        model: dict(Counter(letter.reason for letter in letters))
        for model, letters in oracle.expected_dead_letters().items()
    }
    unread = {oracle.UNREADABLE: 2, oracle.MISSING_REQUIRED: 2}
    assert kinds == {
        "orders": {
            oracle.UNREADABLE: 4,
            oracle.MISSING_REQUIRED: 2,
            oracle.NULL_SEQUENCE: 2,
        },
        "order_states": {oracle.UNREADABLE: 4, oracle.MISSING_REQUIRED: 2},
        "customers": {
            oracle.UNREADABLE: 1,
            oracle.NULL_KEY: 1,
            oracle.NULL_SEQUENCE: 1,
        },
        "clicks": unread,
        "views_per_10_minutes": unread,
        "visits_per_day": unread,
    }


def test_orders_arrive_late_twice_and_in_the_same_second():
    changes = defaultdict(list)
    for item in oracle.read_topic("shop.orders"):
        row = oracle.read_record("orders", item)
        if isinstance(row, dict):
            changes[row["order_id"]].append(row)
    older = sum(
        later["updated_at"] < earlier["updated_at"]
        for rows in changes.values()
        for earlier, later in pairwise(rows)
    )
    resent = sum(
        len(rows) - len({(row["status"], row["updated_at"]) for row in rows})
        for rows in changes.values()
    )
    tied = sum(
        len({row["updated_at"] for row in rows})
        < len({(row["status"], row["updated_at"]) for row in rows})
        for rows in changes.values()
    )
    moved = sum(
        len({row["created_at"].date() for row in rows}) > 1 for rows in changes.values()
    )
    assert older >= 20
    assert resent >= 10
    assert tied >= 3
    assert moved >= 2


@pytest.mark.checks
@pytest.mark.parametrize("batch", [7, 100, 400, 10_000])
def test_tables_do_not_depend_on_where_batches_end(batch):
    rows = oracle.accepted("orders")
    tables = [
        oracle.replay(
            rows,
            ["order_id"],
            "updated_at",
            lambda row: row["status"] == "purged",
            batch=size,
        )
        for size in (1, batch)
    ]
    assert _sorted(tables[0], "order_id") == _sorted(tables[1], "order_id")


def test_no_page_view_is_later_than_the_watermark_however_batches_are_cut():
    """Even when one partition is read a record further than the others, nothing falls
    behind the delay."""
    newest = datetime.min.replace(tzinfo=UTC)
    ahead: dict[int, datetime] = {}
    for row in oracle.accepted("clicks"):
        newest = max(newest, row["viewed_at"])
        assert newest - row["viewed_at"] < timedelta(minutes=5)
        previous = ahead.get(row["partition"])
        assert previous is None or row["viewed_at"] - previous < oracle.WATERMARK_DELAY
        ahead[row["partition"]] = row["viewed_at"]


@pytest.mark.checks
def test_the_oracles_tables_cover_the_cases_that_tests_need():
    tables = oracle.expected_tables()
    sizes = {name: len(rows) for name, rows in tables.items()}
    accepted = {model: len(oracle.accepted(model)) for model in oracle.READERS}
    assert sizes["customers"] == 120
    states = defaultdict(set)
    for row in tables["order_states"]:
        states[row["order_id"]].add(row["status"])
    purged = [order_id for order_id, seen in states.items() if "purged" in seen]
    assert len(purged) >= 5
    assert {row["order_id"] for row in tables["orders"]} == set(states) - set(purged)
    assert sizes["order_states"] == accepted["order_states"]
    assert sizes["clicks"] == accepted["clicks"]
    assert 0 < sizes["checkouts"] < sizes["clicks"]
    assert (
        0
        < sum(row["views"] for row in tables["views_per_10_minutes"])
        < sizes["clicks"]
    )
    assert sum(row["views"] for row in tables["visits_per_day"]) == sizes["clicks"]
    assert {row["status"] for row in tables["orders"]} == {
        "placed",
        "paid",
        "shipped",
        "delivered",
        "cancelled",
    }
    assert {row["is_big"] for row in tables["order_states"]} == {True, False}
    assert any(row["customer"] is None for row in tables["order_states"])
    assert any(
        row["country"] is None and row["customer"] for row in tables["order_states"]
    )


def _sorted(rows, key):
    return sorted(rows, key=lambda row: row[key])
