"""How many records a second are read of Kinesis, Pulsar and MQTT, each of 300 bytes,
into an append table.

    python bench/queues.py [--records 300000] [--smoke]

Pulsar and Mosquitto run on this machine, beside lakesql. The stand-ins of Kinesis give
some 5,000 records a second themselves, so lakesql's own part is measured with a client
that answers with pages that were recorded: four shards, of which each answer has up to
10,000 records. MQTT is measured in two parts: from the broker to the log, by one
client, and from the log to the table. The first run of a model warms up, the second one
is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pulsar
from paho.mqtt.enums import CallbackAPIVersion

from bench.append import run_by_lakesql
from bench.project import cpu_seconds, open_project, write_project
from lakesql.source import kinesis
from lakesql.source.mqtt import Mqtt
from lakesql.source.mqtt_files import log_end
from lakesql.source.mqtt_taker import Taker
from tests.servers.mosquitto import Mosquitto
from tests.servers.process import LOOPBACK, running
from tests.servers.pulsar import PulsarServer

SIZE = 300
SHARDS = 4
PARTITIONS = 4
STREAM = """streams:
  - name: {name}
    connection: {name}
    topic: {name}
    max_per_batch: 100000
    columns: {{id: bigint, device: string, metric: string, value: double, pad: string}}
"""
MODEL = "{{{{ config(mode='append') }}}}\nSELECT id, device, metric, value, pad FROM {{{{ stream('{name}') }}}}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few records without Pulsar, to see that it works",
    )
    options = parser.parse_args(arguments)
    count = 5_000 if options.smoke else options.records
    with tempfile.TemporaryDirectory() as directory, ExitStack() as servers:
        root = Path(directory)
        broker = servers.enter_context(running(Mosquitto(root / "mosquitto")))
        connections = {
            "mqtt": {"type": "mqtt", "url": broker.url, "log": str(root / "log")}
        }
        connections["kinesis"] = {"type": "kinesis", "region": "us-east-1"}
        send: dict[str, Callable[[int, int], None]] = {"kinesis": send_pages}
        if not options.smoke:
            server = servers.enter_context(running(PulsarServer(root / "pulsar")))
            server.ask("persistent/public/default/pulsar/partitions", PARTITIONS, "PUT")
            connections["pulsar"] = {"type": "pulsar", "url": server.url}
            send["pulsar"] = sender_of_pulsar(server)
        send["mqtt"] = filler(Mqtt(broker.url, str(root / "log")), broker)
        names = [*send]
        files = {f"streams/{name}.yml": STREAM.format(name=name) for name in names}
        files |= {f"models/{name}.sql": MODEL.format(name=name) for name in names}
        manifest = write_project(root, files, json.dumps(connections))
        kinesis._client = lambda _: Pages()  # type: ignore[assignment]
        with open_project(manifest, names[0]) as around:
            for name in names:
                sent = 0
                for label in ("warm-up", "measured"):
                    send[name](sent, count)
                    sent += count
                    started, cpu = time.perf_counter(), cpu_seconds()
                    run_by_lakesql(around, name)
                    took, cpu = time.perf_counter() - started, cpu_seconds() - cpu
                    found = around.session.table(f"lake.bench.{name}").count()
                    assert found == sent, f"{found} of {sent} records are there"
                    line = f"{label:>8} {name:>8} {count / took:9,.0f} records/s {cpu / count * 1e6:6.1f} µs of CPU"
                    print(line, flush=True)
    return 0


def value(number: int) -> bytes:
    """A record of 300 bytes."""
    found = {
        "id": number,
        "device": f"d{number % 1000}",
        "metric": "temperature",
        "value": number / 7,
    }
    text = json.dumps({**found, "pad": ""})
    return json.dumps({**found, "pad": "x" * (SIZE - len(text))}).encode()


def sender_of_pulsar(server: PulsarServer) -> Callable[[int, int], None]:
    """What sends records to a topic of some partitions."""

    def send(first: int, count: int) -> None:
        client = pulsar.Client(
            server.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        producer = client.create_producer(
            "pulsar",
            batching_enabled=True,
            batching_max_publish_delay_ms=5,
            block_if_queue_full=True,
        )
        for number in range(first, first + count):
            producer.send_async(
                value(number), lambda *_: None, partition_key=f"k{number % 1009}"
            )
        producer.flush()
        client.close()

    return send


def filler(source: Mqtt, broker: Mosquitto) -> Callable[[int, int], None]:
    """What sends messages to a broker while a client takes them to the log, and says
    how many a second that were."""

    def fill(first: int, count: int) -> None:
        taker = Taker(source, "mqtt")
        taker.start()
        taker.settle()
        sender = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        sender.max_inflight_messages_set(0)
        sender.connect(LOOPBACK, broker.port)
        taker.stop()  # what is sent waits for its session
        sender.loop_start()
        for number in range(first, first + count):
            sent = sender.publish("mqtt", value(number), qos=1)
            if number % 5_000 == 4_999 or number == first + count - 1:
                sent.wait_for_publish()
        sender.disconnect()
        sender.loop_stop()
        taker, started = Taker(source, "mqtt"), time.perf_counter()
        taker.start()
        while log_end(source.folder("mqtt")) < first + count:
            taker.check()
            time.sleep(0.05)
        took = time.perf_counter() - started
        taker.stop()
        print(
            f"{'':>8} {'mqtt':>8} {count / took:9,.0f} messages/s from the broker to the log",
            flush=True,
        )

    return fill


# --- Kinesis: a client that answers with pages

_PAGES: list[list[dict[str, Any]]] = [[] for _ in range(SHARDS)]


def send_pages(first: int, count: int) -> None:
    """Record so many records more."""
    at = datetime.now(UTC)
    for number in range(first, first + count):
        found = {
            "SequenceNumber": str(10**55 + number),
            "ApproximateArrivalTimestamp": at,
            "Data": value(number),
        }
        _PAGES[number % SHARDS].append({**found, "PartitionKey": f"k{number % 1009}"})


class Pages:
    """Answers as boto3's client of Kinesis does."""

    def describe_stream_summary(self, **_: Any) -> Mapping[str, Any]:
        created = datetime(2026, 1, 1, tzinfo=UTC)
        found = {
            "StreamARN": "arn:records",
            "StreamCreationTimestamp": created,
            "RetentionPeriodHours": 24,
        }
        return {"StreamDescriptionSummary": found}

    def list_shards(self, **_: Any) -> Mapping[str, Any]:
        return {
            "Shards": [
                {"ShardId": f"shardId-{shard:012}", "SequenceNumberRange": {}}
                for shard in range(SHARDS)
            ]
        }

    def get_shard_iterator(self, **words: Any) -> Mapping[str, Any]:
        shard, after = int(words["ShardId"][-12:]), words.get("StartingSequenceNumber")
        begin = 0
        if after is not None:
            begin = (int(after) - 10**55) // SHARDS + 1
        return {"ShardIterator": f"{shard} {begin}"}

    def get_records(self, **words: Any) -> Mapping[str, Any]:
        shard, begin = map(int, words["ShardIterator"].split())
        records = _PAGES[shard][begin : begin + words["Limit"]]
        behind = len(_PAGES[shard]) - begin - len(records)
        return {
            "Records": records,
            "NextShardIterator": f"{shard} {begin + len(records)}",
            "MillisBehindLatest": 1000 if behind else 0,
        }

    def close(self) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main())
