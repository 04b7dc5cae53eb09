"""Apache Pulsar as a source: the partitions of a topic are read from a message id,
which is Pulsar's ledger, the entry in it and the index in a batch.

Pulsar deletes messages that no subscription holds. So each query has a durable
subscription that receives no messages and only retains them. It is moved forward once a
batch is in the table, but not past the last entry read. So the message that was read
last still exists when a query continues; if it does not, something else has removed
what the subscription held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lakesql.clock import epoch_ms
from lakesql.decode import option
from lakesql.errors import LakesqlError, ProfileError, TransientError, not_installed
from lakesql.source.dataset import without_login
from lakesql.source.log import (
    Log,
    LogExpiredError,
    LogPage,
    LogPlace,
    LogPlaces,
    LogRecord,
    LogSource,
)
from lakesql.source.source import Start

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position

PAGE_RECORDS = 10_000

PAGE_BYTES = 16 * 1024 * 1024
"""The size of the messages at which a page ends."""

QUEUE_RECORDS = 5_000
"""The maximum number of messages that a reader has the broker send ahead."""

ONE_RECORD = 10
"""The number of messages that a reader has the broker send ahead to look at one."""

WAIT_MS = 2_000
"""How long a reader waits for a message before it asks the broker whether there is
one."""

ANSWERS_WITHIN_S = 30


@dataclass(frozen=True, slots=True)
class Pulsar(LogSource):
    """A Pulsar cluster. A topic with a short name is in the tenant `public` and the
    namespace `default`."""

    url: str = option("URL of the broker: `pulsar://host:6650`, or with `pulsar+ssl`.")
    token: str = option("Token with which clients authenticate.", default="")
    trusted_certificates: str = option(
        "PEM file with the certificates that have signed the broker's.", default=""
    )
    certificate: str = option(
        "PEM file with the client's own certificate, for authentication by TLS.",
        default="",
    )
    private_key: str = option("PEM file with the key of that certificate.", default="")
    subscription_prefix: str = option(
        "Prefix of the names of the subscriptions that keep unread messages for models.",
        default="lakesql-",
    )
    read_compacted: bool = option(
        "For compacted topics: whether only the newest message of each key is read, as far as the topic is compacted.",
        default=False,
    )

    kind: ClassVar[str] = "pulsar"
    label: ClassVar[str] = "Pulsar"
    numbers_records: ClassVar[bool] = False
    has_offsets: ClassVar[bool] = False
    place_instead: ClassVar[str] = (
        "The header `message_id` has the place of a message in its partition."
    )
    tells_ids: ClassVar[bool] = False
    modules: ClassVar[tuple[str, ...]] = ("pulsar",)

    @property
    def lineage_namespace(self) -> str:
        """The cluster's URL, without a login."""
        return without_login(self.url).rstrip("/")

    def check(self) -> str:
        """The cluster's URL."""
        return self.url

    def open(self, topic: str, owner: str) -> Log:
        """The reader of a topic, with the owner's subscription if there is an owner."""
        subscription = f"{self.subscription_prefix}{owner}" if owner else ""
        return PulsarTopic(self._client(), topic, subscription, self.read_compacted)

    def _client(self) -> Any:
        try:
            import pulsar
        except ModuleNotFoundError:
            raise not_installed("pulsar", "pulsar") from None
        login: Any = pulsar.AuthenticationToken(self.token) if self.token else None
        if self.certificate:
            login = pulsar.AuthenticationTLS(self.certificate, self.private_key)
        with _explained(self.url):
            return pulsar.Client(
                self.url,
                authentication=login,
                operation_timeout_seconds=ANSWERS_WITHIN_S,
                tls_trust_certs_file_path=self.trusted_certificates or None,
                tls_validate_hostname=True,
                # the client's own logger prints
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
            )

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one message of each topic was read."""
        return {name: {"0": [0, 0, -1]} for name in names}


@dataclass(slots=True)
class PulsarTopic(Log):
    """The reader of one topic. Without a `subscription` nothing is retained for it."""

    client: Any
    name: str
    subscription: str
    read_compacted: bool
    _names: dict[str, str] = field(default_factory=dict)
    _holders: dict[str, Any] = field(default_factory=dict)
    _held: dict[str, LogPlace] = field(default_factory=dict)
    _newest_ms: dict[str, int] = field(default_factory=dict)

    def starts(self, start: Start) -> LogPlaces:
        """The start of each partition: its first message, its last one, or a time."""
        self._find_partitions()
        if start == "earliest":
            return dict.fromkeys(self._names)
        if start == "latest":
            return {partition: self._last(partition) for partition in self._names}
        return {partition: {"from": epoch_ms(start)} for partition in self._names}

    def partitions(self, places: LogPlaces) -> LogPlaces:
        """The places of all partitions; a new partition begins at its first message."""
        self._find_partitions()
        return {**dict.fromkeys(self._names), **places}

    def ends(self, places: LogPlaces) -> LogPlaces:
        """The last message of each partition."""
        self._find_partitions()
        return {partition: self._last(partition) for partition in self._names}

    def read(
        self, partition: str, place: LogPlace, until: LogPlace, limit: int
    ) -> Iterator[LogPage]:
        """The messages after a place, up to `until` or to the last message that exists,
        page by page. Raises `LogExpiredError` if messages up to `until` are gone."""
        end = until if until is not None else self._last(partition)
        if end is None or limit <= 0:
            return
        with self._reader(partition, place, min(limit, QUEUE_RECORDS)) as reader:
            self._check_first(reader, place)
            number, last, reached = int(partition), _order(end), place
            records: list[LogRecord] = []
            size = 0
            while limit > 0 and _order(reached) < last:
                message = self._next(reader)
                if message is None:
                    break
                at = _place_of(message)
                order = _order(at)
                if order > last:
                    break
                if order <= _order(reached):
                    # the message that was read last, which a compacted topic may have
                    # dropped
                    continue
                reached, limit = at, limit - 1
                records.append(_record(message, at, number))
                size += len(records[-1].value or b"")
                if len(records) >= PAGE_RECORDS or size >= PAGE_BYTES:
                    yield self._page(partition, records, reached, last)
                    records, size = [], 0
        if records:
            yield self._page(partition, records, reached, last)
        is_short = until is not None and limit > 0 and _order(reached) < last
        # a time may be later than the last message
        if is_short and not self.read_compacted and not isinstance(reached, dict):
            raise LogExpiredError(f"messages up to {_said(until)} are gone.")

    def _page(
        self,
        partition: str,
        records: Sequence[LogRecord],
        reached: LogPlace,
        last: tuple[int, ...],
    ) -> LogPage:
        """A page of a partition that was read up to `reached`, with how much older its
        last record is than `last`, the newest message when the broker was asked."""
        newest_ms = self._newest_ms.get(partition)
        if newest_ms is None:
            return LogPage(records, reached)
        behind_ms = (
            max(0, newest_ms - records[-1].timestamp_us // 1000)
            if _order(reached) < last
            else 0
        )
        return LogPage(records, reached, behind_ms)

    def check(self, partition: str, place: LogPlace) -> None:
        """Raise `LogExpiredError` if the message that was read last is gone: those
        after it may be too."""
        with self._reader(partition, place, ONE_RECORD) as reader:
            self._check_first(reader, place)

    def _check_first(self, reader: Any, place: LogPlace) -> None:
        if not isinstance(place, list) or self.read_compacted:
            return
        first = self._next(reader)
        if first is None or _place_of(first) != place:
            raise LogExpiredError(
                f"message {_said(place)} is gone, and perhaps some behind it."
            )

    def release(self, places: LogPlaces) -> None:
        """Acknowledge the entries before the one that was read last; that one may have
        been read only in part."""
        import pulsar

        for partition, place in places.items():
            if (
                place == self._held.get(partition)
                or not isinstance(place, list)
                or partition not in self._holders
            ):
                continue
            self._held[partition] = place
            ledger, entry, _ = place
            if entry > 0:
                with _explained(self.name):
                    self._holders[partition].acknowledge_cumulative(
                        pulsar.MessageId(-1, ledger, entry - 1, -1)
                    )

    def close(self) -> None:
        """Close the client and all its readers. The subscriptions stay."""
        # it raises that it is closed already if a broker is down
        with suppress(Exception):
            self.client.close()

    def _find_partitions(self) -> None:
        """Look up the partitions, and subscribe to the new ones so that their messages
        are retained."""
        import pulsar

        with _explained(self.name):
            found = self.client.get_topic_partitions(self.name)
            for name in found:
                number = (
                    name.rpartition("-partition-")[2] if "-partition-" in name else "0"
                )
                self._names[number] = name
                if self.subscription and number not in self._holders:
                    self._holders[number] = self.client.subscribe(
                        name,
                        self.subscription,
                        consumer_type=pulsar.ConsumerType.Exclusive,
                        initial_position=pulsar.InitialPosition.Earliest,
                        receiver_queue_size=0,
                    )

    def _last(self, partition: str) -> LogPlace:
        """The place of the partition's last message; None if it has none."""
        import pulsar

        with (
            _explained(self.name),
            closing(
                self._open_reader(partition, pulsar.MessageId.latest, ONE_RECORD)
            ) as reader,
        ):
            message = self._next(reader) if reader.has_message_available() else None
            if message is None:
                return None
            self._newest_ms[partition] = message.publish_timestamp()
            return _place_of(message)

    @contextmanager
    def _reader(self, partition: str, place: LogPlace, ahead: int) -> Iterator[Any]:
        """A reader that begins with the message at a place, or with the first message
        since a time. The broker sends it up to `ahead` messages in advance."""
        import pulsar

        if partition not in self._names:
            self._find_partitions()
        with _explained(self.name):
            begin = (
                pulsar.MessageId(-1, *place)
                if isinstance(place, list)
                else pulsar.MessageId.earliest
            )
            with closing(self._open_reader(partition, begin, ahead)) as reader:
                if isinstance(place, dict):
                    reader.seek(place["from"])
                yield reader

    def _open_reader(self, partition: str, begin: Any, ahead: int) -> Any:
        return self.client.create_reader(
            self._names[partition],
            begin,
            receiver_queue_size=ahead,
            start_message_id_inclusive=True,
            is_read_compacted=self.read_compacted,
        )

    def _next(self, reader: Any) -> Any:
        """The next message; None if there is none at present."""
        import _pulsar

        try:
            return reader.read_next(WAIT_MS)
        except _pulsar.Timeout:
            return (
                reader.read_next(ANSWERS_WITHIN_S * 1000)
                if reader.has_message_available()
                else None
            )


def _place_of(message: Any) -> list[int]:
    id_ = message.message_id()
    return [id_.ledger_id(), id_.entry_id(), id_.batch_index()]


def _order(place: LogPlace) -> tuple[int, ...]:
    """A place as a sortable value. A message that is not in a batch, and a place that
    names only an entry, come after everything in their entry."""
    if not isinstance(place, list):
        return (-1,)
    ledger, entry, index = place
    return ledger, entry, index if index >= 0 else 2**31


def _said(place: Sequence[int]) -> str:
    return ":".join(map(str, place))


def _record(message: Any, place: Sequence[int], partition: int) -> LogRecord:
    headers = [(key, value.encode()) for key, value in message.properties().items()]
    headers.append(("message_id", _said(place).encode()))
    if at_ms := message.event_timestamp():
        headers.append(("event_timestamp", str(at_ms).encode()))
    key = message.partition_key()
    return LogRecord(
        None if message.has_null_value() else message.data(),
        message.publish_timestamp() * 1000,
        key.encode() if key else None,
        partition,
        headers=headers,
    )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the client's exceptions into lakesql's errors."""
    import pulsar

    try:
        yield
    except pulsar.PulsarException as error:
        raise _explain(error, name) from None


def _explain(error: Exception, name: str) -> LakesqlError:
    kind = type(error).__name__
    if kind in ("AuthenticationError", "ErrorGettingAuthenticationData"):
        return ProfileError.of(
            "wrong-credentials", f"Pulsar does not take the login: {error}"
        )
    if kind == "AuthorizationError":
        return ProfileError.of(
            "topic-forbidden", f"Topic '{name}' may not be read: {error}"
        )
    if kind in ("TopicNotFound", "NotFound", "InvalidTopicName"):
        return ProfileError.of(
            "unknown-topic", f"There is no topic '{name}' in Pulsar: {error}"
        )
    if kind in ("InvalidUrl", "InvalidConfiguration"):
        return ProfileError.of(
            "client-option", f"The Pulsar client cannot be opened: {error}"
        )
    if kind == "ConsumerBusy":
        what = f"Another reader has the subscription by which Pulsar keeps what is not read of '{name}': {error}"
        why = "It may be another run of the model, or of a model of its name on another target or in another project."
        fix = "Give each target and project its own `subscription_prefix` in profiles.yml."
        return TransientError.of("connection-unreachable", what, why=why, fix=fix)
    return TransientError.of(
        "connection-unreachable",
        f"Pulsar does not answer as it should, of '{name}': {error}",
    )
