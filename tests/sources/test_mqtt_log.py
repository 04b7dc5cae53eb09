"""The log of MQTT's messages beside a real broker, without Spark: what the client
appends, and what it says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakesql.errors import LakesqlError, ProfileError, TransientError
from lakesql.source import mqtt_files as log_of_files
from lakesql.source.log import LogExpiredError
from lakesql.source.mqtt import Mqtt, MqttLog
from lakesql.source.mqtt_taker import Taker
from tests.servers.mosquitto import Mosquitto
from tests.servers.process import running

TOPIC = "plant/+/state"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with running(Mosquitto(tmp_path_factory.mktemp("mosquitto"))) as broker:
        yield broker


@pytest.fixture
def connection(
    broker: Mosquitto, tmp_path: Path, request: pytest.FixtureRequest
) -> Mqtt:
    """A connection whose session no other test has."""
    return Mqtt(broker.url, str(tmp_path / "log"), client_id=request.node.name)


@pytest.fixture
def takers() -> Iterator[list[Taker]]:
    """Those that a test has started."""
    started: list[Taker] = []
    yield started
    for taker in started:
        taker.stop()


def send(broker: Mosquitto, *values: str, retain: bool = False) -> None:
    broker.send((("plant/1/state", value) for value in values), retain)


def take(connection: Mqtt, takers: list[Taker]) -> Taker:
    """One that has taken what the broker had."""
    taker = Taker(connection, TOPIC)
    takers.append(taker)
    taker.start()
    taker.settle()
    return taker


def values(connection: Mqtt) -> list[str]:
    pages = MqttLog(connection.folder(TOPIC)).read("0", 0, None, 1000)
    return [(record.value or b"").decode() for page in pages for record in page.records]


def condition(raised: pytest.ExceptionInfo[LakesqlError]) -> str:
    (problem,) = raised.value.problems
    return problem.condition


def wait_for_failure(taker: Taker) -> None:
    """Until it raises what keeps messages from coming."""
    for _ in range(400):
        taker.check()
        time.sleep(0.05)


def test_a_retained_message_is_taken_once_over_many_runs(
    broker: Mosquitto, connection: Mqtt, takers: list[Taker]
) -> None:
    send(broker, "kept", retain=True)
    for _ in range(3):
        take(connection, takers).stop()
    assert values(connection) == ["kept"]
    send(broker, "newer", retain=True)
    take(connection, takers).stop()
    assert values(connection) == ["kept", "newer"]
    send(broker, "", retain=True)


def test_a_second_client_of_the_same_id_is_told_of(
    broker: Mosquitto, connection: Mqtt, takers: list[Taker]
) -> None:
    """The broker gives a message to one of them, so the other one would miss it without
    a word."""
    take(connection, takers)
    other = Taker(replace(connection, log=f"{connection.log}-of-another"), TOPIC)
    takers.append(other)
    other.start()
    for _ in range(400):
        failures = [taker._failure for taker in takers if taker._failure is not None]
        if failures:
            break
        time.sleep(0.05)
    assert isinstance(failures[0], TransientError)
    (problem,) = failures[0].problems
    assert problem.condition == "connection-unreachable"
    assert "client_id" in problem.fix


def test_a_log_that_cannot_be_written_is_told_of_and_loses_nothing(
    broker: Mosquitto,
    connection: Mqtt,
    takers: list[Taker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taker = take(connection, takers)

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_of_files.os, "fsync", refuse)
    send(broker, "one", "two")
    with pytest.raises(TransientError) as raised:
        wait_for_failure(taker)
    assert condition(raised) == "storage-unreachable"
    monkeypatch.undo()
    take(connection, takers).stop()
    assert values(connection) == ["one", "two"]


def test_a_certificate_that_is_not_there_is_told_of(
    broker: Mosquitto, tmp_path: Path, takers: list[Taker]
) -> None:
    url = broker.url.replace("mqtt://", "mqtts://")
    taker = Taker(
        Mqtt(url, str(tmp_path / "log"), trusted_certificates="/nowhere.pem"), TOPIC
    )
    takers.append(taker)
    taker.start()
    with pytest.raises(ProfileError) as raised:
        wait_for_failure(taker)
    assert condition(raised) == "client-option"


def lines(*numbers: int) -> list[log_of_files.KeptMessage]:
    return [
        log_of_files.KeptMessage("t", "", number * 1_000_000, []) for number in numbers
    ]


def test_only_the_oldest_files_are_removed_whatever_their_times(tmp_path: Path) -> None:
    """A file in the middle may look old, as it was copied, or a clock was set: without
    it the log would have a hole."""
    for begin in (0, 5, 10):
        log_of_files.append_file(tmp_path, lines(*range(begin, begin + 5)))
    (first, second, third) = log_of_files.log_files(tmp_path)
    os.utime(second.path, (1, 1))
    log_of_files.remove_old(tmp_path, 1_000_000)
    assert log_of_files.log_files(tmp_path) == [first, second, third]
    os.utime(first.path, (1, 1))
    log_of_files.remove_old(tmp_path, 1_000_000)
    assert log_of_files.log_files(tmp_path) == [third]


def test_a_file_that_is_missing_in_the_middle_is_said(tmp_path: Path) -> None:
    for begin in (0, 5, 10):
        log_of_files.append_file(tmp_path, lines(*range(begin, begin + 5)))
    log_of_files.log_files(tmp_path)[1].path.unlink()
    log = MqttLog(tmp_path)
    for begin in (0, 4, 5, 7):
        with pytest.raises(LogExpiredError):
            [*log.read("0", begin, None, 100)]
    assert log.starts("earliest") == {"0": 10}, "from there on it has all"
    assert [page.place for page in log.read("0", 10, None, 100)] == [15]


def test_a_file_that_is_removed_while_it_is_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for begin in (0, 5):
        log_of_files.append_file(tmp_path, lines(*range(begin, begin + 5)))
    files = log_of_files.log_files(tmp_path)
    monkeypatch.setattr("lakesql.source.mqtt.log_files", lambda _: files)
    files[0].path.unlink()
    with pytest.raises(LogExpiredError):
        [*MqttLog(tmp_path).read("0", 0, None, 100)]
    monkeypatch.undo()
    assert MqttLog(tmp_path).starts("earliest") == {"0": 5}
