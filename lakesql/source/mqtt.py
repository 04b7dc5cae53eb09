"""MQTT 5 as a source: a broker forgets a message once it is acknowledged, so messages
are written to a log first.

One client for each topic filter, with a persistent session, receives messages of QoS 1
and 2 and appends them to files of a local folder. A message is acknowledged once its
file is on disk. Readers read the log, where each message has a number, so from there to
the table it is exactly once. From the broker to the log it is at least once: a client
that dies between writing and acknowledging receives the messages again, with the flag
`dup`.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import quote, urlsplit

from lakesql.decode import Node, option, read_filled, read_positive, read_value
from lakesql.errors import ProjectError, TransientError
from lakesql.location import absolute
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPage,
    LogPlace,
    LogPlaces,
    LogRecord,
    LogSource,
)
from lakesql.source.mqtt_files import (
    KeptMessage,
    last_files,
    log_end,
    log_files,
    read_lines,
)
from lakesql.source.source import AskedStream, Now, Start

if TYPE_CHECKING:
    from lakesql.source.mqtt_taker import Taker
    from lakesql.source.stream_state import Position, StoredFiles

PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}


def _read_url(node: Node) -> str:
    url: str = read_value(node, str, "url")
    if urlsplit(url).scheme in PORTS and urlsplit(url).hostname:
        return url
    fix = "Write `mqtt://host:1883`, or mqtts, ws or wss."
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is no URL of an MQTT broker.",
        fix=fix,
        place=node.place,
    )


@dataclass(frozen=True, slots=True)
class Mqtt(LogSource):
    """An MQTT broker. A stream's `topic` is a topic or a filter: `plant/+/temperature`,
    `plant/#`."""

    url: str = option(
        "URL of the broker: `mqtt://host:1883`, or with `mqtts`, `ws` or `wss`.",
        read=_read_url,
    )
    log: str = option(
        "Folder of the log of messages; must be shared if models may run on several machines.",
        default=".lakesql/mqtt",
        read=read_filled,
    )
    client_id: str = option(
        "Prefix of the client ids. The broker stores sessions by these ids, so it must not change.",
        default="lakesql",
        read=read_filled,
    )
    username: str = option("Name of the user.", default="")
    password: str = option("Password of the user.", default="")
    trusted_certificates: str = option(
        "PEM file with the certificates that have signed the broker's.", default=""
    )
    certificate: str = option("PEM file with the client's own certificate.", default="")
    private_key: str = option("PEM file with the key of that certificate.", default="")
    keep_days: int = option(
        "How many days messages are kept in the log, for `rewind` and `rebuild`.",
        default=7,
        read=read_positive,
    )

    kind: ClassVar[str] = "mqtt"
    label: ClassVar[str] = "MQTT"
    tells_ids: ClassVar[bool] = False
    modules: ClassVar[tuple[str, ...]] = ("paho",)

    @property
    def address(self) -> tuple[str, int]:
        """The broker's host and port."""
        url = urlsplit(self.url)
        return str(url.hostname), url.port or PORTS[url.scheme]

    @property
    def lineage_namespace(self) -> str:
        """`mqtt://` with the broker's host and port."""
        return "mqtt://{}:{}".format(*self.address)

    def resolved(self, directory: Path) -> Self:
        """The connection with an absolute path of its log."""
        return replace(self, log=absolute(self.log, directory))

    def check(self) -> str:
        """The broker's URL and the folder of the log, in words."""
        return f"{self.url}, messages are written to {self.log}"

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """The broker's URL and log, in words, if the broker accepts connections. No
        MQTT session is begun, as the broker would keep it."""
        import socket

        try:
            socket.create_connection(self.address, 10).close()
        except OSError as error:
            what = f"The MQTT broker at {self.url} does not answer: {error}."
            raise TransientError.of("connection-unreachable", what) from None
        return f"{self.url} accepts connections, messages are written to {self.log}"

    def open(self, topic: str, owner: str) -> Log:
        """The log of a topic filter. With an owner, its client begins to receive
        messages."""
        log = MqttLog(self.folder(topic))
        if owner:
            from lakesql.source.mqtt_taker import taker_of

            log.taker = taker_of(self, topic)
        return log

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether the position is at the end of the log, and the broker has kept no
        messages that arrive now.

        Only a run that takes what exists asks. Its process then receives messages,
        which are in the log when Spark reads it.
        """
        if not LogSource.is_read(self, stream, number, position, files, now):
            return False
        from lakesql.source.mqtt_taker import taker_of

        topics = stream.origin.find_topics(tuple)
        takers = [taker_of(self, topic) for topic in topics]  # all take at once
        return all(
            taker.has_settled(
                partial(MqttLog(self.folder(topic)).is_at_end, position[topic])
            )
            for taker, topic in zip(takers, topics, strict=True)
        )

    def folder(self, topic: str) -> Path:
        """The folder of a topic filter's log."""
        return Path(self.log) / quote(self.client_id, safe="") / quote(topic, safe="")


@dataclass(slots=True)
class MqttLog(Log):
    """The log of one topic filter: one partition, in which each message has a
    number."""

    folder: Path
    taker: Taker | None = None

    def starts(self, start: Start) -> LogPlaces:
        """The number of the first message that is kept, of the next one to arrive, or
        of the first one received since a time."""
        if start == "latest":
            return self.ends({})
        files = last_files(log_files(self.folder))
        if start == "earliest":
            return {"0": files[0].first if files else log_end(self.folder)}
        at_us = round(start.timestamp() * 1_000_000)
        for file in files:
            for number, line in enumerate(read_lines(file), file.first):
                if line.received_us >= at_us:
                    return {"0": number}
        return {"0": log_end(self.folder)}

    def ends(self, places: LogPlaces) -> LogPlaces:
        """The number of the next message."""
        return {"0": log_end(self.folder)}

    def settle(self) -> None:
        """Wait until the messages that the broker has kept are in the log."""
        if self.taker is not None:
            self.taker.settle()

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """The messages from a number on, a page for each file of the log. Raises
        `LogExpiredError` if messages are no longer in the log."""
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
            lines = read_lines(file)[at - file.first : last - file.first]
            yield LogPage(
                [_record(line, number) for number, line in enumerate(lines, at)], last
            )
            at = last
        if at < stop:
            raise LogExpiredError(
                f"messages from {at} on are not in the log {self.folder} any more."
            )


def _record(line: KeptMessage, number: int) -> LogRecord:
    headers = [(key, value.encode()) for key, value in line.headers]
    payload = base64.b64decode(line.payload)
    return LogRecord(
        payload, line.received_us, offset=number, headers=headers, topic=line.topic
    )
