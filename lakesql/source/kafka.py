"""Kafka's topics as a source: records have offsets, which librdkafka looks up without
Java."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lakesql.decode import option
from lakesql.source.kafka_options import read_client_options
from lakesql.source.origin import Brings
from lakesql.source.source import (
    AskedStream,
    BacklogUnit,
    Looked,
    Now,
    Source,
    lowest_offsets,
    offsets_of,
)

if TYPE_CHECKING:
    from lakesql.errors import Place, Problem
    from lakesql.source.origin import StreamOrigin
    from lakesql.source.stream_state import Position, SourceState, StoredFiles


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class Kafka(Source):
    """A Kafka broker. `options` go to its client unchanged, without the prefix
    `kafka.`."""

    bootstrap_servers: str = option(
        "Addresses of brokers, as `host:port`, separated by commas."
    )
    options: Mapping[str, str] = option(
        "Options of the Kafka client, such as those of SASL and SSL.",
        factory=dict,
        read=read_client_options,
    )
    group_id_prefix: str = option(
        "Prefix of the names of consumer groups (Spark's `groupIdPrefix`), for a broker that permits groups by "
        "prefix.",
        default="",
    )

    kind: ClassVar[str] = "kafka"
    label: ClassVar[str] = "Kafka"
    brings: ClassVar[Brings] = "records"
    looks_up_start: ClassVar[bool] = True
    backlog_unit: ClassVar[BacklogUnit] = "records"
    jars: ClassVar[frozenset[str]] = frozenset({"kafka"})
    events_in: ClassVar[str] = "topic"

    @classmethod
    def stand_in(cls) -> Self:
        """A cluster without an address."""
        return cls("")

    @property
    def cluster(self) -> Kafka | None:
        """This cluster."""
        return self

    @property
    def lineage_namespace(self) -> str:
        """`kafka://` with the first of the brokers."""
        return f"kafka://{self.bootstrap_servers.partition(',')[0].strip()}"

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """A problem for each name that no topic of Kafka can have."""
        from lakesql.errors import Problem

        for name in origin.find_topics(tuple):
            if not _TOPIC.match(name):
                what = f"'{name}' is not the name of a topic of Kafka's."
                why = "It has at most 249 letters, digits, '.', '_' and '-'."
                yield Problem("bad-topic", what, why, place=place)

    def check(self) -> str:
        """Its address. Only `lakesql debug` asks whether a broker answers there."""
        return self.bootstrap_servers

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """The topics of the streams, and the offsets that they hold.

        Empty if confluent-kafka, an extra, is not installed, or if librdkafka has no
        counterpart for an option of the connection; the reason is in `unread`.
        """
        from lakesql.errors import explain_missing
        from lakesql.source.librdkafka_options import librdkafka_options
        from lakesql.source.stream_state import FoundTopics, SourceState
        from lakesql.source.unread import explain_no_records

        try:
            # imported here: its client is an extra
            from lakesql.source.kafka_client import read_offsets
        except ModuleNotFoundError as error:
            absent = explain_missing(error)
            if absent is None:
                raise
            return Looked(
                {},
                (
                    f"Topics are not looked at: {absent.problems[0].what} {absent.problems[0].fix}",
                ),
            )
        if unknown := librdkafka_options(self).unknown:
            why = ", ".join(
                f"{option} (taken: {takes})" if takes else option
                for option, takes in unknown.items()
            )
            what = "has no counterpart" if len(unknown) == 1 else "have no counterparts"
            return Looked(
                {},
                (
                    f"Topics of connection '{name}' are not looked at: without Java {why} {what}.",
                ),
            )
        found = {}
        held_by_stream = read_offsets(self, streams)
        for stream in streams:
            held = held_by_stream[stream.name]
            if held.problems:
                missing = SourceState(stream.name, self.kind, is_asked=False)
                found[stream.name] = FoundTopics(missing, held.problems)
                continue
            nothing = explain_no_records(stream.origin, held.beginnings, held.ends)
            state = SourceState(
                stream.name,
                self.kind,
                held.ids,
                held.beginnings,
                held.ends,
                nothing=nothing,
            )
            found[stream.name] = FoundTopics(state)
        return Looked(found)

    def can_be_seen(self) -> bool:
        """Whether librdkafka is installed and supports the connection's options."""
        from importlib.util import find_spec

        from lakesql.source.librdkafka_options import librdkafka_options

        return (
            find_spec("confluent_kafka") is not None
            and not librdkafka_options(self).unknown
        )

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """The state that `look` has found."""
        return now.found(stream.name)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether the position is at the end of all topics."""
        state = now.found(stream.name)
        return state is not None and position == state.end

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position is offsets by topic and partition, or none."""
        return not isinstance(position, dict) or offsets_of(position) is not None

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether there is a position: offsets alone say what has been read."""
        return isinstance(position, dict)

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        """The position itself."""
        return offsets_of(position)

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """`own` if it has one of the stream's topics, else the lowest offsets of the
        positions that have."""
        read = [
            each
            for each in (own, *stands)
            if isinstance(each, dict) and each.keys() & state.topics.keys()
        ]
        return own if not read or read[0] is own else lowest_offsets(read)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one record of each topic was read."""
        return {name: {"0": 1} for name in names}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        """A state in which the topics exist with their first record."""
        from lakesql.source.stream_state import SourceState

        return SourceState(
            stream,
            cls.kind,
            {name: name for name in names},
            {name: {0: 0} for name in names},
        )
