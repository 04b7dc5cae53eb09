"""The client that receives messages from an MQTT broker for a topic filter: it appends
them to a log first and acknowledges them then."""

from __future__ import annotations

import atexit
import base64
import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakesql.clock import now_ms
from lakesql.errors import LakesqlError, ProfileError, TransientError, not_installed
from lakesql.source.mqtt_files import KeptMessage, append_file, remove_old

if TYPE_CHECKING:
    from lakesql.source.mqtt import Mqtt

WAITING = 20_000
"""The number of unacknowledged messages at which a file is written at once; a broker
sends at most 65,535 of them."""

WAITING_BYTES = 32 * 1024 * 1024
"""The size of their payloads at which a file is written at once; a reader holds a whole
file in memory."""

FILE_S = 0.5
"""The interval at which received messages are written to a file."""

QUIET_S = 1.0
"""A broker that has sent nothing for so long is taken to have sent everything that it
had kept."""

SETTLED_WITHIN_S = 30.0
"""How long a run waits for the broker to be quiet; later messages are left to the next
run."""

LOOK_S = 5.0
"""How long a run checks for new messages before it starts Java to read them."""

AWAY_S = 20.0
"""How long a broker may be unreachable before this is an error."""

SESSION_S = 30 * 86_400
"""How long the broker is asked to keep messages while no client is connected."""

DAY_MS = 86_400_000

SHORT_S = 10.0
SHORT_TIMES = 5
"""The number of connections in a row, each shorter than `SHORT_S`, after which it is an
error. A broker ends a connection when another client connects with the same id: the two
then take turns, and each misses the messages that the other receives."""

_TAKERS: dict[tuple[Mqtt, str], Taker] = {}
_TAKERS_LOCK = threading.Lock()


def taker_of(source: Mqtt, topic: str) -> Taker:
    """The thread of this process that takes the messages of a filter, started if
    necessary."""
    with _TAKERS_LOCK:
        found = _TAKERS.get((source, topic))
        if found is None or not found.is_alive():
            found = _TAKERS[source, topic] = Taker(source, topic)
            found.start()
            atexit.register(found.stop)
        return found


class Taker(threading.Thread):
    """A thread that takes messages from a broker and appends them to a log, as long as
    no other process does."""

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
        """Return once the broker has sent what it had kept and that is in the log, or
        after `SETTLED_WITHIN_S`. Raises the error that prevents it."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while time.monotonic() < deadline:
            self.check()
            if self._is_quiet() or not self._takes:
                return
            time.sleep(0.05)
        self.check(0)

    def has_settled(self, while_so: Callable[[], bool]) -> bool:
        """Whether the broker has sent what it had kept while `while_so` stayed true.
        False if that is not known within `LOOK_S`."""
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline and while_so():
            self.check()
            if self._is_quiet() or not self._takes:
                return while_so()
            time.sleep(0.05)
        return False

    def check(self, away_s: float = AWAY_S) -> None:
        """Raise the error that prevents messages from arriving, if there is one."""
        if self._failure is not None:
            raise self._failure
        since = self._away_since
        if since is not None and self._takes and time.monotonic() - since > away_s:
            what = f"The MQTT broker at {self._source.url} does not answer."
            raise TransientError.of("connection-unreachable", what)

    def stop(self) -> None:
        """Write and acknowledge the received messages, and end the thread."""
        self._stopping.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(10)

    def run(self) -> None:
        """Take messages until the thread is stopped."""
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
            self._failure = (
                error
                if isinstance(error, LakesqlError)
                else _explain(error, self._source)
            )

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
                        remove_old(
                            self._folder, cleaned_ms - self._source.keep_days * DAY_MS
                        )
            self._write_waiting(client)
        finally:
            client.disconnect()
            client.loop_stop()

    def _is_quiet(self) -> bool:
        with self._changed:
            is_written = not self._messages and not self._is_writing
            return (
                self._away_since is None
                and is_written
                and time.monotonic() - self._last_at > QUIET_S
            )

    def _is_full(self) -> bool:
        is_large = len(self._messages) >= WAITING or self._size_bytes >= WAITING_BYTES
        return is_large or self._stopping.is_set()

    def _write_waiting(self, client: Any) -> None:
        """Append the received messages to the log, then acknowledge them.

        They are not acknowledged if the client has reconnected meanwhile: the broker
        sends them again, and one that has forgotten the session may have given their
        numbers to other messages.
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
        client.connect_async(
            *self._source.address, clean_start=False, properties=wanted
        )
        return client

    def _set_certificates(self, client: Any) -> None:
        source = self._source
        try:
            client.tls_set(
                source.trusted_certificates or None,
                source.certificate or None,
                source.private_key or None,
            )
        except (OSError, ValueError) as error:
            what = f"The certificates of the MQTT connection to {source.url} cannot be read: {error}"
            raise ProfileError.of("client-option", what) from None

    def _on_connect(
        self, client: Any, _: Any, flags: Any, reason: Any, __: Any
    ) -> None:
        if reason.is_failure:
            what = (
                f"The MQTT broker at {self._source.url} refuses the client: {reason}."
            )
            is_login = reason.value in (0x86, 0x87, 0x8C)
            self._failure = (
                ProfileError.of("wrong-credentials", what)
                if is_login
                else TransientError.of("connection-unreachable", what)
            )
            return
        from paho.mqtt.subscribeoptions import SubscribeOptions

        self._last_at = time.monotonic()
        # The session keeps new messages. It got the retained ones when it began.
        options = SubscribeOptions(
            qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
        client.subscribe(self._topic, options=options)

    def _on_subscribe(
        self, _: Any, __: Any, ___: Any, reasons: Sequence[Any], ____: Any
    ) -> None:
        if any(reason.is_failure for reason in reasons):
            what = f"The MQTT broker does not let the client read '{self._topic}': {reasons[0]}."
            self._failure = ProfileError.of("topic-forbidden", what)
            return
        self._last_at = self._connected_at = time.monotonic()
        self._away_since = None

    def _on_disconnect(self, *_: Any) -> None:
        with self._changed:
            # The broker sends the others again, as they are not acknowledged.
            self._messages = [message for message in self._messages if not message.qos]
            self._connection += 1
        now = time.monotonic()
        self._away_since = self._away_since or now
        if self._connected_at is None:
            return
        self._short_ones = (
            self._short_ones + 1 if now - self._connected_at < SHORT_S else 0
        )
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


def _line(message: Any) -> KeptMessage:
    headers = [
        [key, value] for key, value in getattr(message.properties, "UserProperty", [])
    ]
    headers += [
        [f"mqtt.{name}", "true"] for name in ("dup", "retain") if getattr(message, name)
    ]
    payload = base64.b64encode(message.payload).decode()
    return KeptMessage(
        message.topic,
        payload,
        int(message.timestamp),
        [*headers, ["mqtt.qos", str(message.qos)]],
    )


def _is_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _written(source: Mqtt) -> Iterator[None]:
    """Turn an error while writing the log into an error of lakesql."""
    try:
        yield
    except OSError as error:
        raise TransientError.of(
            "storage-unreachable", f"The log {source.log} cannot be written: {error}"
        ) from None


def _explain(error: Exception, source: Mqtt) -> Exception:
    return TransientError.of(
        "connection-unreachable",
        f"The MQTT broker at {source.url} does not answer: {error}",
    )
