"""Sends a run's lineage events to their destination in a thread of its own; failures
there do not affect the run."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from lakesql.errors import ProfileError, first_line, not_installed
from lakesql.project.lineage_target import (
    LineageFile,
    LineageHttp,
    LineageKafka,
    LineageTarget,
)
from lakesql.secrets import Secrets
from lakesql.source.librdkafka_options import librdkafka_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakesql.lineage.lineage_jobs import LineageFacts
    from lakesql.observe.told_run import LineageRun
    from lakesql.source.source import Source

MOST_WAITING = 1_000
"""The capacity of the queue of events; further ones are lost."""

DRAIN_S = 5.0
"""How long a run waits at its end for the answer to each event."""

MOST_DRAIN_S = 15.0
"""How long a run waits at its end for all events together, and for the client to be
imported, which takes a while on a busy machine."""

ANSWER_S = 5.0
"""The timeout of one request."""

LONGEST_PAUSE_S = 60.0
"""The longest pause between two tries at an event. The first pause is one second, and
each further one twice as long."""


class Transport(Protocol):
    """Delivers events to one destination."""

    def emit(self, event: Any) -> Any:
        """Deliver one event. Raises any exception if that fails."""


class RefusedError(Exception):
    """Raised if the destination has answered that it will never accept an event."""


@dataclass(slots=True)
class LineageSender:
    """Delivers events in order, from a queue of at most `most`.

    An event whose delivery fails is retried, until the queue is full or the run is
    over. An event that is refused is lost.
    """

    shown: str
    open_transport: Callable[[], Transport]
    to_event: Callable[[LineageRun], Any]
    most: int = MOST_WAITING
    drain_s: float = DRAIN_S
    _waiting: deque[LineageRun] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _is_ending: bool = False
    _is_over: bool = False
    _sent_at: float | None = None
    _lost: int = 0
    _why: str = ""

    def offer(self, told: LineageRun) -> None:
        """Queue an event for delivery; it is counted as lost if the queue is full."""
        with self._changed:
            if self._is_over or len(self._waiting) >= self.most:
                self._lose(1, self._why or f"more than {self.most} events wait")
                return
            self._waiting.append(told)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._deliver, name="lineage", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def take_lost(self) -> tuple[int, str]:
        """How many events were lost since the last call, and why the last of them
        was."""
        with self._changed:
            lost, self._lost = self._lost, 0
            return lost, self._why

    def drain(self) -> None:
        """Wait until all events are delivered, for at most `drain_s` for each answer
        and `MOST_DRAIN_S` in all. The remaining ones are lost."""
        begun = time.monotonic()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            while self._waiting and not self._is_over:
                until = begun + MOST_DRAIN_S
                if self._sent_at is not None:
                    until = min(until, max(begun, self._sent_at) + self.drain_s)
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_over = True
            self._lose(len(self._waiting), self._why or "it takes too long")
            self._waiting.clear()
            self._changed.notify_all()

    def _lose(self, events: int, why: str) -> None:
        if events:
            self._lost += events
            self._why = why

    # --- in the delivery thread

    def _deliver(self) -> None:
        transport: Transport | None = None
        pause_s = 1.0
        while (told := self._next()) is not None:
            try:
                transport = transport or self.open_transport()
                event = self._event_of(told)
                with self._changed:
                    self._sent_at = time.monotonic()
                    self._changed.notify_all()
                transport.emit(event)
            except Exception as error:
                with self._changed:
                    if self._is_over:
                        return
                    self._why = first_line(error)
                    if isinstance(error, RefusedError):
                        self._drop()
                        continue
                    # this was the last try: there is no time for the other events
                    if self._is_ending:
                        self._is_over = True
                        self._changed.notify_all()
                        return
                    self._changed.wait_for(lambda: self._is_ending, pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            pause_s = 1.0
            with self._changed:
                if self._is_over:
                    return
                self._waiting.popleft()
                self._changed.notify_all()

    def _event_of(self, told: LineageRun) -> Any:
        try:
            return self.to_event(told)
        except Exception as error:
            raise RefusedError(f"it could not be written: {error!r}") from error

    def _next(self) -> LineageRun | None:
        """The next event to deliver, once there is one; None when the run is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            return None if self._is_over else self._waiting[0]

    def _drop(self) -> None:
        """Remove the first event from the queue and count it as lost."""
        self._waiting.popleft()
        self._lost += 1
        self._changed.notify_all()


@contextmanager
def open_sender(
    target: LineageTarget,
    find_facts: Callable[[], LineageFacts],
    connections: Mapping[str, Source],
    secrets: Secrets,
) -> Iterator[LineageSender]:
    """Yields the sender of a run's lineage events; `find_facts` is called at the first
    event.

    Raises `ProfileError` (`extra-missing`, `kafka-option`) if lineage cannot be sent.
    """
    if find_spec("openlineage") is None:
        raise not_installed("openlineage", "openlineage")
    opening = _opening(target, connections)
    facts = cache(find_facts)

    def to_event(told: LineageRun) -> Any:
        from lakesql.observe.openlineage_events import openlineage_event, redacted

        return redacted(openlineage_event(facts(), told), secrets)

    # The client logs what it raises too, and nobody reads that log.
    logging.getLogger("openlineage").addHandler(logging.NullHandler())
    logging.getLogger("openlineage").propagate = False
    yield LineageSender(secrets.redact(target.shown), opening, to_event)


def _opening(
    target: LineageTarget, connections: Mapping[str, Source]
) -> Callable[[], Transport]:
    """A function that opens the client's transport. The delivery thread calls it, as
    importing the client takes a while."""
    match target:
        case LineageFile():
            return lambda: _open_file(target)
        case LineageHttp():
            return lambda: _open_http(target)
        case LineageKafka():
            if find_spec("confluent_kafka") is None:
                raise not_installed("confluent_kafka", "kafka")
            settings = _kafka_settings(target, connections)
            return lambda: _open_kafka(target, settings)
        case _:
            raise AssertionError(target)


def _open_file(target: LineageFile) -> Transport:
    from pathlib import Path

    from openlineage.client.transport.file import FileConfig, FileTransport

    Path(target.path).parent.mkdir(parents=True, exist_ok=True)
    return FileTransport(FileConfig(log_file_path=target.path, append=True))


def _open_http(target: LineageHttp) -> Transport:
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    config: dict[str, Any] = {
        "url": target.url.rstrip("/") + "/",
        "endpoint": target.endpoint.lstrip("/"),
        "timeout": ANSWER_S,
        "retry": {"total": 0, "read": 0, "connect": 0, "status_forcelist": []},
    }
    if target.token:
        config["auth"] = {"type": "api_key", "apiKey": target.token}
    if target.ca:
        config["ssl_context"] = {"caCertPath": target.ca}
    return _HttpTransport(HttpTransport(HttpConfig.from_dict(config)))


@dataclass(frozen=True, slots=True)
class _HttpTransport:
    """OpenLineage's HTTP transport, with failures divided into those that a retry may
    cure and refusals."""

    transport: Any

    def emit(self, event: Any) -> None:
        """Deliver an event. Raises `RefusedError` if the server rejects the event
        itself, `ConnectionError` for any other failure."""
        from requests import HTTPError

        try:
            self.transport.emit(event)
        except HTTPError as error:
            response: Any = error.response
            said = f"it answers {response.status_code} {response.reason}"
            if (
                400 <= response.status_code < 500
                and response.status_code not in _MAY_CHANGE
            ):
                raise RefusedError(said) from None
            raise ConnectionError(said) from None
        except OSError as error:  # those of requests are of this class
            raise ConnectionError(
                f"it does not answer ({type(error).__name__})"
            ) from None


_MAY_CHANGE = frozenset({401, 403, 404, 408, 429})
"""HTTP client errors that are about the login, the server or the time, not about the
event: they are retried."""


def _kafka_settings(
    target: LineageKafka, connections: Mapping[str, Source]
) -> dict[str, Any]:
    """The settings for librdkafka. Raises `ProfileError` (`kafka-option`) for an option
    that it does not know."""
    cluster = connections[target.connection].cluster
    assert cluster is not None, "a profile is refused for another connection"
    found = librdkafka_options(cluster)
    if found.unknown:
        name, instead = next(iter(found.unknown.items()))
        what = f"Lineage is sent by connection '{target.connection}', whose option '{name}' librdkafka does not have."
        fix = (
            f"Write it as {instead}."
            if instead
            else "Give lineage a connection of its own, without it."
        )
        raise ProfileError.of("kafka-option", what, fix=fix)
    return {
        **found.settings,
        "message.timeout.ms": round(ANSWER_S * 1000),
        "log_level": 0,
    }


def _open_kafka(target: LineageKafka, settings: dict[str, Any]) -> Transport:
    from openlineage.client.transport.kafka import KafkaConfig, KafkaTransport

    return _KafkaTransport(
        KafkaTransport(KafkaConfig(config=settings, topic=target.topic, flush=False))
    )


@dataclass(frozen=True, slots=True)
class _KafkaTransport:
    """OpenLineage's Kafka transport, with failed deliveries raised: the client itself
    waits for a delivery but does not report whether it succeeded."""

    transport: Any

    def emit(self, event: Any) -> None:
        """Deliver an event. Raises `ConnectionError` if the broker does not confirm
        it."""
        from openlineage.client.serde import Serde

        errors: list[Any] = []
        producer, key = self.transport.producer, self.transport._get_message_key(event)
        value = Serde.to_json(event).encode()
        producer.produce(
            self.transport.topic,
            value,
            key,
            on_delivery=lambda error, _: errors.append(error),
        )
        if producer.flush(ANSWER_S + 1) or not errors:
            raise ConnectionError("it does not answer")
        if errors[0] is not None:
            raise ConnectionError(errors[0].str())
