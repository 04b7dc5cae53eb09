"""The shop project, run as a newcomer runs it, against an oracle in plain Python."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from lakesql.events import BatchCommitted, BatchEmpty
from tests.shop import oracle
from tests.spark.project import Lake, Project, Ran, sorted_rows

pytestmark = pytest.mark.promise

REPOSITORY = Path(__file__).parents[2]
REASONS = {
    oracle.UNREADABLE: "unparsable",
    oracle.MISSING_REQUIRED: "required-missing",
    oracle.NULL_KEY: "key-missing",
    oracle.NULL_SEQUENCE: "sequence-missing",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = sorted(oracle.expected_tables())


class Shop(Project):
    """A copy of the repository's own project, on the catalog of the tests."""

    def __init__(self, lake: Lake, directory: Path, namespace: str = "shop") -> None:
        for folder in ("models", "streams", "macros"):
            shutil.copytree(REPOSITORY / folder, directory / folder)
        shutil.copy(REPOSITORY / "pyproject.toml", directory)
        super().__init__(lake, directory, namespace, "shop")
        self.recorded = directory / "streams" / "recorded"
        self.connections = {"shop": {"type": "recorded", "path": str(self.recorded)}}


@dataclass(frozen=True, slots=True)
class Opened:
    shop: Shop
    first: Ran


@pytest.fixture(scope="module")
def opened(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    shop = Shop(lake, tmp_path_factory.mktemp("shop"))
    yield Opened(shop, shop.run())


def expected(name: str, shop: Shop) -> list[oracle.Row]:
    return sorted_rows(oracle.expected_tables(shop.recorded)[name])


def test_every_model_succeeds(opened: Opened) -> None:
    opened.first.check()
    assert {
        name: opened.first.finished(name).status for name in TABLES
    } == dict.fromkeys(TABLES, "success")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_what_plain_python_says(opened: Opened, name: str) -> None:
    rows = opened.shop.rows(name)
    assert rows == expected(name, opened.shop)
    assert rows
    assert opened.shop.rows_without_spark(name) == rows


@pytest.mark.parametrize("name", sorted(oracle.READERS))
def test_each_dead_letter_has_the_position_and_bytes_of_its_record(
    opened: Opened, name: str
) -> None:
    letters = oracle.expected_dead_letters(opened.shop.recorded).get(name, [])
    found = opened.shop.rows(f"{name}__dead_letter")
    key = ("topic", "partition", "offset", "reason")
    assert sorted(tuple(row[column] for column in key) for row in found) == sorted(
        (
            letter.record.topic,
            letter.record.partition,
            letter.record.offset,
            REASONS[letter.reason],
        )
        for letter in letters
    )
    records = {
        (letter.record.partition, letter.record.offset): letter.record
        for letter in letters
    }
    for row in found:
        record = records[row["partition"], row["offset"]]
        assert value_of(row, record) == record.value
        assert row["key"] == (None if record.key is None else record.key.encode())
        assert int(row["timestamp"].timestamp() * 1000) == record.timestamp_ms
        assert (row["stream"], row["model"]) == (STREAMS[record.topic], name)
    assert opened.first.finished(name).rejected == len(letters)


def value_of(letter: oracle.Row, record: oracle.Record) -> object:
    """A dead letter's value as it stands in the recorded line: a text, or JSON."""
    text = letter["value"].decode()
    return (
        text if isinstance(record.value, str) else json.loads(text, parse_float=Decimal)
    )


STREAMS = {
    "shop.orders": "orders",
    "shop.customers": "customers",
    "shop.page_views": "page_views",
}


def test_every_commit_carries_its_ledger_entry(opened: Opened) -> None:
    for name in TABLES:
        commits = opened.first.of(BatchCommitted, name)
        summaries = opened.shop.summaries(name)
        checkpoint = json.loads(
            (opened.shop.directory / "checkpoints" / name / "metadata").read_text()
        )["id"]
        assert [int(summary["lakesql.batch"]) for summary in summaries] == [
            commit.batch for commit in commits
        ]
        assert {summary["lakesql.model"] for summary in summaries} == {name}
        assert {summary["lakesql.checkpoint"] for summary in summaries} == {checkpoint}
        assert all(json.loads(summary["lakesql.offsets"]) for summary in summaries)
        assert len({summary["lakesql.query"] for summary in summaries}) == 1
        assert [summary.get("lakesql.event-time", "") for summary in summaries] == [
            each.event_time for each in commits
        ]
        assert sorted(opened.shop.snapshot_ids(name)) == sorted(
            commit.snapshot for commit in commits
        )


def test_the_ledger_knows_the_newest_event(opened: Opened) -> None:
    for name in ("orders", "customers"):
        letters = oracle.expected_dead_letters(opened.shop.recorded)[name]
        unread = [
            letter.record
            for letter in letters
            if letter.reason in (oracle.UNREADABLE, oracle.MISSING_REQUIRED)
        ]
        records = oracle.read_topic(oracle.READERS[name], opened.shop.recorded)
        newest_ms = max(
            record.timestamp_ms for record in records if record not in unread
        )
        entries = [
            summary["lakesql.event-time"] for summary in opened.shop.summaries(name)
        ]
        assert max(
            datetime.fromisoformat(entry) for entry in entries
        ) == EPOCH + timedelta(milliseconds=newest_ms)


def test_events_count_what_was_written(opened: Opened) -> None:
    records = {
        topic: len(oracle.read_topic(topic, opened.shop.recorded)) for topic in STREAMS
    }
    for name, topic in oracle.READERS.items():
        if name not in ("views_per_10_minutes", "visits_per_day"):
            assert opened.first.finished(name).records == records[topic]
    for name in ("clicks", "order_states", "checkouts"):
        assert opened.first.finished(name).rows == len(expected(name, opened.shop))


def test_running_again_writes_nothing_and_new_records_write_exactly_their_rows(
    opened: Opened,
) -> None:
    shop = opened.shop
    before = {name: shop.snapshot_ids(name) for name in TABLES}
    letters = {
        name: shop.snapshot_ids(f"{name}__dead_letter") for name in oracle.READERS
    }

    again = shop.run()

    again.check()
    assert {name: shop.snapshot_ids(name) for name in TABLES} == before
    assert {
        name: shop.snapshot_ids(f"{name}__dead_letter") for name in oracle.READERS
    } == letters
    assert not again.of(BatchCommitted)
    assert not [event for event in again.of(BatchEmpty) if event.records]

    lines = (
        (shop.recorded / "shop.orders" / "part-00001.jsonl").read_text().splitlines()
    )
    newest = max(
        record.offset for record in oracle.read_topic("shop.orders", shop.recorded)
    )
    added = [json.loads(line) for line in lines[:25]]
    for number, record in enumerate(added, start=1):
        record["offset"] = newest + number
        if isinstance(record["value"], dict) and record["value"].get("order_id"):
            record["value"]["order_id"] += 100_000
    added.append(
        {
            "partition": 0,
            "offset": newest + 99,
            "timestamp": 1,
            "key": None,
            "value": "broken",
        }
    )
    path = shop.recorded / "shop.orders" / "part-00009.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in added))

    third = shop.run("orders", "clicks")

    third.check()
    assert shop.rows("orders") == expected("orders", shop)
    assert [event.records for event in third.of(BatchCommitted)] == [26]
    assert shop.snapshot_ids("clicks") == before["clicks"]
    assert len(shop.rows("orders__dead_letter")) == len(
        oracle.expected_dead_letters(shop.recorded)["orders"]
    )
