"""MQTT: wildcards, runners and brokers that are killed, and a log from which each
message is in the table once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from lakesql.source import mqtt as source
from lakesql.source import mqtt_files as files
from lakesql.source import mqtt_taker
from tests.servers.mosquitto import Mosquitto
from tests.servers.process import running
from tests.sources.runs import (
    REPOSITORY,
    STARTS_A_PROCESS,
    STEPS,
    check_samples,
    kill_at,
    lose_checkpoint,
    numbers,
    run_alone,
)
from tests.spark.project import Project


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running(Mosquitto(tmp_path / "mosquitto")) as broker:
        yield broker


class Sensors:
    """Sends readings, with numbers; each is acknowledged by the broker."""

    def __init__(self, broker: Mosquitto) -> None:
        self.broker = broker
        self.sent: list[int] = []

    def send(self, count: int) -> None:
        more = range(len(self.sent), len(self.sent) + count)
        self.broker.send(
            (f"plant/{number % 3}/temperature", json.dumps({"id": number}))
            for number in more
        )
        self.sent += more


@pytest.fixture
def sensors(project: Project, broker: Mosquitto) -> Iterator[Sensors]:
    """A broker whose session is there, and a model that takes what comes."""
    project.connections["bus"] = {"type": "mqtt", "url": broker.url, "log": "mqtt"}
    project.stream("s", {"id": "int"}, connection="bus", topic="plant/+/temperature")
    project.model(
        "m",
        "SELECT id, _record.topic AS topic, _record.offset AS number FROM {s}",
        mode="append",
    )
    project.run().check()
    yield Sensors(broker)
    stop_takers()


def stop_takers() -> None:
    """What ends with a runner's process."""
    for each in mqtt_taker._TAKERS.values():
        each.stop()
    mqtt_taker._TAKERS.clear()


def test_each_message_is_there_once_with_its_topic(
    project: Project, sensors: Sensors
) -> None:
    sensors.send(30)
    project.run().check()
    assert numbers(project) == sensors.sent
    assert {row["topic"] for row in project.rows("m", "id")} == {
        f"plant/{each}/temperature" for each in range(3)
    }
    assert sorted(row["number"] for row in project.rows("m", "id")) == [*range(30)]
    stop_takers()
    sensors.send(30)  # nobody reads: the broker keeps them for the session
    project.run().check()
    assert numbers(project) == sensors.sent
    project.rebuild("m").check()
    assert numbers(project) == sensors.sent, "the log has them"


def test_a_runner_that_is_killed_and_a_lost_checkpoint(
    project: Project, sensors: Sensors
) -> None:
    stop_takers()
    for step in STEPS:
        sensors.send(10)
        kill_at(project, step)
    sensors.send(5)
    project.run().check()
    assert numbers(project) == sensors.sent
    lose_checkpoint(project)
    sensors.send(5)
    project.run().check()
    assert numbers(project) == sensors.sent


def test_a_broker_that_is_killed_loses_nothing(
    project: Project, sensors: Sensors, broker: Mosquitto
) -> None:
    sensors.send(20)
    time.sleep(2.5)  # it writes what it keeps every second
    broker.kill()
    broker.start()
    sensors.send(20)
    project.run().check()
    assert sorted({*numbers(project)}) == sensors.sent
    assert len(numbers(project)) - len(sensors.sent) <= 20, (
        "what was not acknowledged may have come twice"
    )


def test_what_dies_between_the_log_and_the_acknowledgement_comes_again_and_says_so(
    project: Project, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_takers()
    sensors.send(10)
    monkeypatch.setattr(mqtt.Client, "ack", lambda *_: None)
    project.run().check()
    stop_takers()
    monkeypatch.undo()
    project.model(
        "m",
        "SELECT id, element_at(_record.headers, 1).key AS mark FROM {s}",
        mode="append",
    )
    project.run().check()
    assert numbers(project) == sorted([*sensors.sent, *sensors.sent])
    project.model("k", "SELECT id FROM {s}", mode="append", keys=["id"])
    project.run().check()
    assert [row["id"] for row in project.rows("k", "id")] == sensors.sent, (
        "by a key each is there once"
    )


def test_a_broker_that_is_away_is_told_of(
    project: Project, sensors: Sensors, broker: Mosquitto
) -> None:
    stop_takers()
    broker.stop()
    project._target["retries"] = {"attempts": 0}
    assert project.run().conditions("m") == ["connection-unreachable"]


def test_a_log_that_was_cleaned_keeps_its_numbers(tmp_path: Path) -> None:
    lines = [files.KeptMessage("t", "", number, []) for number in range(5)]
    files.append_file(tmp_path, lines)
    files.append_file(tmp_path, lines)
    log = source.MqttLog(tmp_path)
    assert [
        record.offset for page in log.read("0", 3, 8, 100) for record in page.records
    ] == [3, 4, 5, 6, 7]
    assert [
        record.offset for page in log.read("0", 3, None, 4) for record in page.records
    ] == [3, 4, 5, 6]
    files.remove_old(tmp_path, 2**60)
    assert files.log_end(tmp_path) == 10
    files.append_file(tmp_path, lines)
    with pytest.raises(source.LogExpiredError):
        [*log.read("0", 9, None, 100)]
    assert [
        record.offset
        for page in log.read("0", 10, None, 100)
        for record in page.records
    ] == [*range(10, 15)]


def test_the_sensors_of_the_docs(project: Project, broker: Mosquitto) -> None:
    """The stream and the models of docs/queues.md: a reading that is sent twice is
    there once."""
    page = (REPOSITORY / "docs" / "queues.md").read_text("utf-8")
    files = r"```(?:yaml|sql)\n(?:#|--) ((?:streams|models)/\w+\.\w+)[^\n]*\n(.+?)```"
    for path, text in re.findall(files, page, re.DOTALL):
        project.write(path, text)
    project.connections["sensors"] = {"type": "mqtt", "url": broker.url, "log": "mqtt"}
    project.run().check()
    readings = [
        {"at": f"2026-03-01T08:{minute:02}:00Z", "value": minute}
        for minute in (0, 0, 1, 1, 1, 30)
    ]
    broker.send(("plant/d1/temperature", json.dumps(reading)) for reading in readings)
    project.run().check()
    rows = project.rows("readings", "at")
    assert [(row["device"], row["metric"], row["value"]) for row in rows] == [
        ("d1", "temperature", value) for value in (0.0, 1.0, 30.0)
    ]
    assert [
        row["readings"] for row in project.rows("readings_by_minute", "minute")
    ] == [2, 3]
    stop_takers()


def test_a_sample_is_recorded_with_the_topics_of_its_messages(
    project: Project, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensors.send(30)
    project.run().check()
    check_samples(project, "plant/+/temperature", sensors.sent, monkeypatch)
    assert {row["topic"] for row in project.rows("again", "id")} == {
        f"plant/{each}/temperature" for each in range(3)
    }


def test_a_run_with_nothing_new_starts_no_java(
    project: Project, sensors: Sensors, broker: Mosquitto
) -> None:
    """The log and the broker are asked in Python."""
    sensors.send(10)
    project.run().check()
    stop_takers()
    assert run_alone(project) == 0
    sensors.send(5)  # the broker keeps them for the session
    assert run_alone(project) == STARTS_A_PROCESS, "there is something to read"
    assert project.run_without_java() == [], "it is in the log since"
    project.run().check()
    assert numbers(project) == sensors.sent
    assert project.run_without_java() != []
    stop_takers()
    broker.stop()
    assert project.run_without_java() == [], (
        "nobody knows what a broker has that is away"
    )
