"""Lineage to a topic of a real broker: every event of a run, valid, in its order."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer

from lakesql.project.lineage_target import LineageKafka
from lakesql.run.tell.send_lineage import open_sender
from lakesql.secrets import NO_SECRETS
from lakesql.source.kafka import Kafka
from tests.lineage.validate import problems_of
from tests.servers.broker import Broker
from tests.unit.test_lineage_runs import OVER, STARTED, begun, done, facts, tell

TOPIC = "lineage_events"


def test_a_topic_gets_all_events_in_their_order(broker: Broker) -> None:
    broker.create_topic(TOPIC, 1)
    connections = {"b": Kafka(broker.servers)}
    target = LineageKafka(connection="b", topic=TOPIC)
    runs = tell(
        STARTED,
        *(each for number in range(3) for each in (begun(number), done(number))),
        OVER,
    )
    with open_sender(target, facts, connections, NO_SECRETS) as sender:
        sender.drain_s = 30
        for each in runs:
            sender.offer(each)
        sender.drain()
        assert sender.take_lost() == (0, "")
    found = _read(broker, len(runs))
    assert [(event["eventType"], event["run"]["runId"]) for event in found] == [
        (run.state, run.id) for run in runs
    ]
    assert [problem for event in found for problem in problems_of(event)] == []


def _read(broker: Broker, count: int) -> list[dict[str, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "lineage",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    try:
        messages = consumer.consume(count, timeout=30)
    finally:
        consumer.close()
    return [json.loads(message.value() or b"") for message in messages]
