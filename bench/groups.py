"""A group: seconds from the changes of a few of its many tables to the commits that
show them all.

    python bench/groups.py [--tables 100] [--rows 1000] [--touched 10] [--rounds 10]
    [--idle 60] [--one-topic] [--smoke]

A broker on this machine has a topic for each table of a database, as Debezium writes
them with their schemas, or `--one-topic` for all. One `lakesql run --continuous`
mirrors all of them. Prints the seconds from the command to the last table of the first
load; then, of each round, how long after the changes of `--touched` tables were sent
the last of them is committed, and the CPU seconds of the runner and its Java; then what
both use in `--idle` seconds without a change, and their memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kafka import open_broker
from bench.project import family, ticks_of, write_project
from tests.servers.broker import Broker, Message
from tests.servers.runner import Event, Runner, of
from tests.spark.test_groups import KINDS, change

STALLS_AFTER_S = 300
WARM_UP = 3
"""Rounds that do not count: Java compiles in them."""

PREFIX = "shop"
STREAM = rf"""
streams:
  - name: shop
    connection: broker
    envelope: debezium
    pattern: "{PREFIX}\\.public\\..*"
"""
STREAM_OF_ONE = f"""
streams:
  - name: shop
    connection: broker
    envelope: debezium
    topic: {PREFIX}
"""
MODEL = """{{ config(mode='cdc', trigger='1 second', tables={}) }}
SELECT * FROM {{ stream('shop') }}
"""


@dataclass(frozen=True, slots=True)
class Feed:
    """The changes of tables, in topics of their own or in one."""

    broker: Broker
    has_one_topic: bool

    def topic_of(self, name: str) -> str:
        return PREFIX if self.has_one_topic else f"{PREFIX}.public.{name}"

    def open(self, names: Sequence[str]) -> None:
        for topic in sorted({self.topic_of(name) for name in names}):
            self.broker.create_topic(topic)

    def streams(self, names: Sequence[str]) -> dict[str, str]:
        """The files that say where they are; of one topic also which tables that
        has."""
        if not self.has_one_topic:
            return {"streams/shop.yml": STREAM}
        fields = [{"field": name, "type": kind["type"]} for name, kind in KINDS.items()]
        tables = [
            {
                "stream": "shop",
                "name": f"public.{name}",
                "key": ["id"],
                "fields": fields,
            }
            for name in names
        ]
        return {
            "streams/shop.yml": STREAM_OF_ONE,
            "streams/tables.yml": json.dumps({"source_tables": tables}),
        }

    def send(self, name: str, op: str, keys: range) -> None:
        rows = (
            {"id": key, "email": f"{key}@example.com", "total": key} for key in keys
        )
        changes = [change(f"public.{name}", op, row) for row in rows]
        self.broker.produce(
            self.topic_of(name),
            [Message(dump(it["value"]), dump(it["key"])) for it in changes],
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument(
        "--rows",
        type=int,
        default=1_000,
        help="of each table, that are there before it begins",
    )
    parser.add_argument(
        "--touched", type=int, default=10, help="tables that have a change in a round"
    )
    parser.add_argument(
        "--rounds", type=int, default=10, help="that count, after three that warm up"
    )
    parser.add_argument("--idle", type=int, default=60, help="seconds")
    parser.add_argument(
        "--one-topic", action="store_true", help="that has the changes of all tables"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="three tables and one round, to see that it works",
    )
    options = parser.parse_args()
    if options.smoke:
        options.tables, options.rows, options.touched, options.rounds, options.idle = (
            3,
            10,
            2,
            1,
            1,
        )
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with open_broker(root) as broker:
            names = [f"t{number:03}" for number in range(options.tables)]
            feed = Feed(broker, options.one_topic)
            feed.open(names)
            for name in names:
                feed.send(name, "r", range(options.rows))
            servers = (
                f"{{broker: {{type: kafka, bootstrap_servers: '{broker.servers}'}}}}"
            )
            write_project(
                root, {"models/mirror.sql": MODEL, **feed.streams(names)}, servers
            )
            runner = Runner(root, "mirror")
            runner.start()
            try:
                seconds = runner.wait(
                    lambda events: loaded(events) >= options.tables, STALLS_AFTER_S
                )
                load = f"{options.tables} tables of {options.rows:,} rows"
                print(
                    f"first load of {load}: {seconds:.1f} s, {cpu_s(runner):.0f} s of CPU",
                    flush=True,
                )
                report(feed, runner, names, options)
            finally:
                runner.stop()
    return 0


def report(
    feed: Feed, runner: Runner, names: list[str], options: argparse.Namespace
) -> None:
    took, used = [], []
    for number in range(WARM_UP + options.rounds):
        first = number * options.touched
        touched = [
            names[(first + each) % len(names)] for each in range(options.touched)
        ]
        time.sleep(3)
        before = cpu_s(runner)
        took.append(round_s(feed, runner, touched, options.rows + number))
        used.append(cpu_s(runner) - before)
    took, used = took[WARM_UP:], used[WARM_UP:]
    print(
        f"{options.touched} tables touched: median {statistics.median(took):.2f} s, {min(took):.2f} to {max(took):.2f}"
    )
    print(f"CPU of a round: median {statistics.median(used):.2f} s")
    before = cpu_s(runner)
    time.sleep(options.idle)
    print(f"CPU of {options.idle} s without a change: {cpu_s(runner) - before:.2f} s")
    print(f"memory: {memory_mib(runner):,.0f} MiB", flush=True)


def round_s(feed: Feed, runner: Runner, touched: list[str], key: int) -> float:
    """Change tables, and wait until all are committed: seconds in between."""
    seen = {name: commits(runner, name) for name in touched}
    started = time.monotonic()
    for name in touched:
        feed.send(name, "c", range(key, key + 1))
    runner.wait(
        lambda events: all(commits(runner, name) > seen[name] for name in touched),
        STALLS_AFTER_S,
    )
    return time.monotonic() - started


def commits(runner: Runner, name: str) -> int:
    return len(of(runner.runs[-1], "batch_committed", f"mirror.public_{name}"))


def loaded(events: list[Event]) -> int:
    return len({event["model"] for event in of(events, "batch_committed")})


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def cpu_s(runner: Runner) -> float:
    return sum(map(ticks_of, family(runner.process.pid))) / os.sysconf("SC_CLK_TCK")


def memory_mib(runner: Runner) -> float:
    """The resident memory of the runner and all that it has started."""
    found = 0.0
    for pid in family(runner.process.pid):
        status = Path(f"/proc/{pid}/status").read_text()
        found += sum(
            int(line.split()[1])
            for line in status.splitlines()
            if line.startswith("VmRSS")
        )
    return found / 1024


if __name__ == "__main__":
    sys.exit(main())
