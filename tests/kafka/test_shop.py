"""The shop runs on a broker as it runs on its recorded files: no file of it but the
target is another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.servers.broker import Broker, Message
from tests.shop import oracle
from tests.spark.project import Lake, Ran, sorted_rows
from tests.spark.test_shop import REASONS, TABLES, Shop


@pytest.fixture(scope="module")
def opened(
    lake: Lake, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Shop, Ran]:
    shop = Shop(lake, tmp_path_factory.mktemp("shop-kafka"), "shop_kafka")
    for folder in shop.recorded.iterdir():
        produce_recording(broker, folder)
    shop.connections = {"shop": {"type": "kafka", "bootstrap_servers": broker.servers}}
    return shop, shop.run().check()


def produce_recording(broker: Broker, folder: Path) -> None:
    """Send a recorded topic's records to the topic of its name: each to its partition,
    where it gets its offset."""
    lines = [
        line
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    records = [json.loads(line) for line in lines]
    broker.create_topic(folder.name, 1 + max(record["partition"] for record in records))
    broker.produce(folder.name, map(message_of, records))


def message_of(record: dict[str, Any]) -> Message:
    value, key = record.get("value"), record.get("key")
    text = value if value is None or isinstance(value, str) else json.dumps(value)
    headers = tuple((name, each.encode()) for name, each in record.get("headers", ()))
    return Message(
        None if text is None else text.encode(),
        None if key is None else key.encode(),
        headers,
        record["partition"],
        record["timestamp"],
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_what_plain_python_says(
    opened: tuple[Shop, Ran], name: str
) -> None:
    shop, _ = opened
    rows = shop.rows(name)
    assert rows
    assert rows == sorted_rows(oracle.expected_tables(shop.recorded)[name])


def test_the_dead_letters_are_those_of_the_oracle(opened: tuple[Shop, Ran]) -> None:
    shop, _ = opened
    for name, letters in oracle.expected_dead_letters(shop.recorded).items():
        found = {
            (row["partition"], row["offset"], row["reason"])
            for row in shop.rows(f"{name}__dead_letter")
        }
        assert found == {
            (each.record.partition, each.record.offset, REASONS[each.reason])
            for each in letters
        }


def test_a_second_run_writes_nothing(opened: tuple[Shop, Ran]) -> None:
    shop, _ = opened
    before = {name: shop.snapshot_ids(name) for name in TABLES}
    shop.run().check()
    assert {name: shop.snapshot_ids(name) for name in TABLES} == before
