"""MQTT 5: a broker that forgets a message once it is acknowledged. So what comes is written to a log first.

One client for each topic filter, with a session that lasts, takes messages of QoS 1 and 2 and appends them to files of
a local folder. A message is acknowledged once its file is on the disk. Readers read the log, in which each message has
a number: from there on it is in a table exactly once. Between broker and log it is at least once: a client that dies
after it has written and before it has acknowledged gets the messages again, with the flag `dup`.
"""

from __future__ import annotations

import atexit
import base64
import fcntl
import json
import os
import socket
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, Self
from urllib.parse import quote, urlsplit

from lakesql.clock import now_ms
from lakesql.decode import Node, option, read_filled, read_positive, read_value
from lakesql.errors import LakesqlError, ProfileError, ProjectError, TransientError, not_installed
from lakesql.location import absolute
from lakesql.source.log import Log, LogExpiredError, LogPage, LogPlace, LogPlaces, LogRecord, LogSource
from lakesql.source.source import AskedStream, Start

WAITING = 20_000
"""So many messages that are not acknowledged make a file at once; a broker sends 65,535 of them at most."""

WAITING_BYTES = 32 * 1024 * 1024
"""So do those whose payloads are so large: a reader has a file in memory as a whole."""

FILE_S = 0.5
"""How often what has come is written to a file."""

QUIET_S = 1.0
"""A broker that has sent nothing for so long has sent what it had kept."""

SETTLED_WITHIN_S = 30.0
"""How long a run waits for that: what comes later is the next one's."""

AWAY_S = 20.0
"""A broker that is away for so long is told of."""

SESSION_S = 30 * 86_400
"""How long a broker is asked to keep what comes while nobody reads."""

DAY_MS = 86_400_000

SHORT_S = 10.0
SHORT_TIMES = 5
"""A broker that ends so many connections in a row, each so soon, is told of. It ends one as another client of its id
comes: these take turns then, and each misses what the other one gets."""

PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}


def _read_url(node: Node) -> str:
    url: str = read_value(node, str, "url")
    if urlsplit(url).scheme in PORTS and urlsplit(url).hostname:
        return url
    fix = "Write `mqtt://host:1883`, or mqtts, ws or wss."
    raise ProjectError.of("wrong-value", f"{node.shown} is no URL of an MQTT broker.", fix=fix, place=node.place)


@dataclass(frozen=True, slots=True)
class Mqtt(LogSource):
    """An MQTT broker. A stream's `topic` is a topic or a filter: `plant/+/temperature`, `plant/#`."""

    url: str = option("`mqtt://host:1883`, or `mqtts`, `ws`, `wss`.", read=_read_url)
    log: str = option(
        "The folder of the log of messages, one that several machines reach where models may run on any of them.",
        default=".lakesql/mqtt",
        read=read_filled,
    )
    client_id: str = option(
        "How the ids of its clients begin. The broker keeps what has come by them, so they are never changed.",
        default="lakesql",
        read=read_filled,
    )
    username: str = option("The user's name.", default="")
    password: str = option("The user's password.", default="")
    trusted_certificates: str = option("A file of the certificates that the broker's is signed by.", default="")
    certificate: str = option("A file of the client's own certificate.", default="")
    private_key: str = option("The file of its key.", default="")
    keep_days: int = option(
        "How many days messages stay in the log, for `rewind` and `rebuild`.", default=7, read=read_positive
    )

    kind: ClassVar[str] = "mqtt"
    label: ClassVar[str] = "MQTT"
    tells_ends: ClassVar[bool] = False
    tells_ids: ClassVar[bool] = False
    modules: ClassVar[tuple[str, ...]] = ("paho",)

    def resolved(self, directory: Path) -> Self:
        """The connection with the folder of its log absolute."""
        return replace(self, log=absolute(self.log, directory))

    def check(self) -> str:
        """Its address and its log."""
        return f"{self.url}, messages are written to {self.log}"

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """Its address, where a broker takes connections. A session would be kept there, so none is begun."""
        url = urlsplit(self.url)
        try:
            socket.create_connection((str(url.hostname), url.port or PORTS[url.scheme]), 10).close()
        except OSError as error:
            what = f"The MQTT broker at {self.url} does not answer: {error}."
            raise TransientError.of("connection-unreachable", what) from None
        return f"{self.url} accepts connections, messages are written to {self.log}"

    def open(self, topic: str, owner: str) -> Log:
        """The log of a topic filter. With an owner, its client begins to take messages."""
        log = MqttLog(self.folder(topic))
        if owner:
            log.taker = _taker(self, topic)
        return log

    def folder(self, topic: str) -> Path:
        """The folder of a filter's log."""
        return Path(self.log) / quote(self.client_id, safe="") / quote(topic, safe="")


class _MessageFile(NamedTuple):
    """A file of the log: the number of its first message, and that of the first one behind it."""

    first: int
    end: int
    path: Path


class _KeptMessage(NamedTuple):
    """A message in a file of the log; its payload is in base64, and the time is in microseconds."""

    topic: str
    payload: str
    received_us: int
    headers: list[list[str]]


@dataclass(slots=True)
class MqttLog(Log):
    """The log of one topic filter: one partition, in which each message has a number."""

    folder: Path
    taker: Taker | None = None

    def starts(self, start: Start) -> LogPlaces:
        """The first message that is kept, the next one that comes, or the first one of a time."""
        if start == "latest":
            return self.ends({})
        files = _last_files(log_files(self.folder))
        if start == "earliest":
            return {"0": files[0].first if files else log_end(self.folder)}
        assert isinstance(start, datetime)
        at_us = round((start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp() * 1_000_000)
        for file in files:
            for number, line in enumerate(_lines(file), file.first):
                if line.received_us >= at_us:
                    return {"0": number}
        return {"0": log_end(self.folder)}

    def ends(self, places: LogPlaces) -> LogPlaces:
        """The number of the next message."""
        return {"0": log_end(self.folder)}

    def settle(self) -> None:
        """Wait for what the broker has kept."""
        if self.taker is not None:
            self.taker.settle()

    def read(self, partition: str, place: LogPlace, until: LogPlace, limit: int) -> Iterator[LogPage]:
        """The messages from a number on."""
        if self.taker is not None:
            self.taker.check()
        files = log_files(self.folder)
        at = place or 0
        end = until if until is not None else log_end(self.folder)
        stop = min(end, at + limit)
        begin = bisect_right(files, at, key=lambda file: file.first) - 1
        for file in files[max(begin, 0) :]:
            if at >= stop:
                return
            if not file.first <= at < file.end:
                break
            last = min(file.end, stop)
            lines = _lines(file)[at - file.first : last - file.first]
            yield LogPage([_record(line, number) for number, line in enumerate(lines, at)], last)
            at = last
        if at < stop:
            raise LogExpiredError(f"messages from {at} on are not in the log {self.folder} any more.")


def _record(line: _KeptMessage, number: int) -> LogRecord:
    headers = [(key, value.encode()) for key, value in line.headers]
    payload = base64.b64decode(line.payload)
    return LogRecord(payload, line.received_us, offset=number, headers=headers, topic=line.topic)


def log_files(folder: Path) -> list[_MessageFile]:
    """The files of a log, in the order of their messages."""
    found = []
    for path in folder.glob("*.jsonl"):
        first, _, end = path.stem.partition("-")
        found.append(_MessageFile(int(first), int(end), path))
    return sorted(found)


def _last_files(files: Sequence[_MessageFile]) -> Sequence[_MessageFile]:
    """Those from which on none is missing: somebody may have removed one in the middle."""
    for at in range(len(files) - 1, 0, -1):
        if files[at - 1].end != files[at].first:
            return files[at:]
    return files


def log_end(folder: Path) -> int:
    """The number of the next message of a log."""
    files = log_files(folder)
    if files:
        return files[-1].end
    noted = folder / "end"
    return int(noted.read_text()) if noted.is_file() else 0


def _lines(file: _MessageFile) -> list[_KeptMessage]:
    try:
        with file.path.open("rb") as lines:
            return [_KeptMessage(*json.loads(line)) for line in lines]
    except FileNotFoundError:
        raise LogExpiredError(f"file {file.path} of the log has just been removed.") from None


def append_file(folder: Path, lines: Sequence[_KeptMessage]) -> None:
    """Write messages to the end of a log. They are on the disk when it returns."""
    first = log_end(folder)
    path = folder / f"{first:020d}-{first + len(lines):020d}.jsonl"
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    _sync(folder)


def remove_old(folder: Path, before_ms: int) -> None:
    """Remove the oldest files, as far as their last message is older than a time. The number of the next message is
    kept."""
    old = [*takewhile(lambda file: file.path.stat().st_mtime * 1000 < before_ms, log_files(folder))]
    if not old:
        return
    beside = folder / "end.new"
    beside.write_text(str(log_end(folder)))
    beside.rename(folder / "end")
    _sync(folder)
    for file in old:
        file.path.unlink()


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


_TAKERS: dict[tuple[Mqtt, str], Taker] = {}
_TAKERS_LOCK = threading.Lock()


def _taker(source: Mqtt, topic: str) -> Taker:
    """The one of this process that takes the messages of a filter."""
    with _TAKERS_LOCK:
        found = _TAKERS.get((source, topic))
        if found is None or not found.is_alive():
            found = _TAKERS[source, topic] = Taker(source, topic)
            found.start()
            atexit.register(found.stop)
        return found


class Taker(threading.Thread):
    """Takes messages from a broker and appends them to a log, while no other process does."""

    def __init__(self, source: Mqtt, topic: str) -> None:
        super().__init__(name=f"mqtt {topic}", daemon=True)
        self._source, self._topic = source, topic
        self._folder = source.folder(topic)
        self._messages: list[Any] = []
        self._size_bytes = 0
        self._connection = 0
        self._connected_at: float | None = None
        self._short_ones = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._away_since: float | None = time.monotonic()
        self._last_at = time.monotonic()
        self._is_writing = False
        self._takes = True

    def settle(self) -> None:
        """Return once the broker has sent what it had kept, and that is in the log. Raises what keeps it from it."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while time.monotonic() < deadline:
            self.check()
            if self._is_quiet() or not self._takes:
                return
            time.sleep(0.05)
        self.check(0)

    def check(self, away_s: float = AWAY_S) -> None:
        """Raise what keeps messages from coming."""
        if self._failure is not None:
            raise self._failure
        since = self._away_since
        if since is not None and self._takes and time.monotonic() - since > away_s:
            what = f"The MQTT broker at {self._source.url} does not answer."
            raise TransientError.of("connection-unreachable", what)

    def stop(self) -> None:
        """Write and acknowledge what has come, and end."""
        self._stopping.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(10)

    def run(self) -> None:
        """Take messages until it is stopped."""
        try:
            with _written(self._source):
                self._folder.mkdir(parents=True, exist_ok=True)
                lock = (self._folder / "lock").open("w")
            with lock:
                while not self._stopping.is_set():
                    self._takes = _is_locked(lock)
                    if self._takes:
                        self._take()
                        return
                    self._stopping.wait(QUIET_S)  # another process takes them
        except Exception as error:
            self._failure = error if isinstance(error, LakesqlError) else _explain(error, self._source)

    def _take(self) -> None:
        with _written(self._source):
            for left in self._folder.glob("*.new"):
                left.unlink()
        client = self._connect()
        client.loop_start()
        cleaned_ms = 0
        try:
            while not self._stopping.is_set() and self._failure is None:
                with self._changed:
                    self._changed.wait_for(self._is_full, FILE_S)
                self._write_waiting(client)
                if now_ms() - cleaned_ms > 60_000:
                    cleaned_ms = now_ms()
                    with _written(self._source):
                        remove_old(self._folder, cleaned_ms - self._source.keep_days * DAY_MS)
            self._write_waiting(client)
        finally:
            client.disconnect()
            client.loop_stop()

    def _is_quiet(self) -> bool:
        with self._changed:
            is_written = not self._messages and not self._is_writing
            return self._away_since is None and is_written and time.monotonic() - self._last_at > QUIET_S

    def _is_full(self) -> bool:
        is_large = len(self._messages) >= WAITING or self._size_bytes >= WAITING_BYTES
        return is_large or self._stopping.is_set()

    def _write_waiting(self, client: Any) -> None:
        """Append the messages that have come, and acknowledge them then.

        Behind a new connection they come again, and a broker that has forgotten the session gives their numbers to
        others: those are not to be acknowledged.
        """
        with self._changed:
            taken, self._messages, self._size_bytes = self._messages, [], 0
            connection, self._is_writing = self._connection, True
        if taken:
            with _written(self._source):
                append_file(self._folder, [_line(message) for message in taken])
        for message in taken:
            if message.qos and connection == self._connection:
                client.ack(message.mid, message.qos)
        with self._changed:
            self._is_writing = False

    def _connect(self) -> Any:
        try:
            import paho.mqtt.client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties
        except ModuleNotFoundError:
            raise not_installed("paho.mqtt", "mqtt") from None
        url = urlsplit(self._source.url)
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"{self._source.client_id}-{sha256(self._topic.encode()).hexdigest()[:12]}",
            protocol=mqtt.MQTTv5,
            transport="websockets" if url.scheme in ("ws", "wss") else "tcp",
            manual_ack=True,
        )
        if self._source.username:
            client.username_pw_set(self._source.username, self._source.password)
        if url.scheme in ("mqtts", "wss"):
            self._set_certificates(client)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_message, client.on_subscribe = self._on_message, self._on_subscribe
        client.reconnect_delay_set(1, 5)
        wanted: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        wanted.SessionExpiryInterval, wanted.ReceiveMaximum = SESSION_S, 65_535
        client.connect_async(str(url.hostname), url.port or PORTS[url.scheme], clean_start=False, properties=wanted)
        return client

    def _set_certificates(self, client: Any) -> None:
        source = self._source
        try:
            client.tls_set(source.trusted_certificates or None, source.certificate or None, source.private_key or None)
        except (OSError, ValueError) as error:
            what = f"The certificates of the MQTT connection to {source.url} cannot be read: {error}"
            raise ProfileError.of("client-option", what) from None

    def _on_connect(self, client: Any, _: Any, flags: Any, reason: Any, __: Any) -> None:
        if reason.is_failure:
            what = f"The MQTT broker at {self._source.url} refuses the client: {reason}."
            is_login = reason.value in (0x86, 0x87, 0x8C)
            self._failure = (
                ProfileError.of("wrong-credentials", what)
                if is_login
                else TransientError.of("connection-unreachable", what)
            )
            return
        from paho.mqtt.subscribeoptions import SubscribeOptions

        self._last_at = time.monotonic()
        # The session keeps what comes. Of retained messages it has had those that were there when it began.
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self._topic, options=options)

    def _on_subscribe(self, _: Any, __: Any, ___: Any, reasons: Sequence[Any], ____: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            what = f"The MQTT broker does not let the client read '{self._topic}': {reasons[0]}."
            self._failure = ProfileError.of("topic-forbidden", what)
            return
        self._last_at = self._connected_at = time.monotonic()
        self._away_since = None

    def _on_disconnect(self, *_: Any) -> None:
        with self._changed:
            # The broker sends the others again, as they were not acknowledged.
            self._messages = [message for message in self._messages if not message.qos]
            self._connection += 1
        now = time.monotonic()
        self._away_since = self._away_since or now
        if self._connected_at is None:
            return
        self._short_ones = self._short_ones + 1 if now - self._connected_at < SHORT_S else 0
        self._connected_at = None
        if self._short_ones >= SHORT_TIMES:
            self._failure = TransientError.of(
                "connection-unreachable",
                f"The MQTT broker at {self._source.url} ends each connection that reads '{self._topic}' soon.",
                why=f"Another client may have the same id, which begins with '{self._source.client_id}': another "
                "target, project or log. Each of them misses the messages that the other one gets.",
                fix="Give each its own `client_id` in profiles.yml.",
            )

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        message.timestamp = time.time_ns() // 1000
        self._last_at = time.monotonic()
        with self._changed:
            self._messages.append(message)
            self._size_bytes += len(message.payload)
            if self._is_full():
                self._changed.notify()


def _line(message: Any) -> _KeptMessage:
    headers = [[key, value] for key, value in getattr(message.properties, "UserProperty", [])]
    headers += [[f"mqtt.{name}", "true"] for name in ("dup", "retain") if getattr(message, name)]
    payload = base64.b64encode(message.payload).decode()
    return _KeptMessage(message.topic, payload, int(message.timestamp), [*headers, ["mqtt.qos", str(message.qos)]])


def _is_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _written(source: Mqtt) -> Iterator[None]:
    """What keeps the log from being written as an error of lakesql's."""
    try:
        yield
    except OSError as error:
        raise TransientError.of("storage-unreachable", f"The log {source.log} cannot be written: {error}") from None


def _explain(error: Exception, source: Mqtt) -> Exception:
    return TransientError.of("connection-unreachable", f"The MQTT broker at {source.url} does not answer: {error}")
