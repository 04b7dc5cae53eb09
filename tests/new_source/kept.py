"""A source of its own, the half without Spark: lists of records, by topic, that a
process of a test keeps in memory.

Its records have offsets. Whoever reads them asks that process, at the address of the
connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from urllib.request import urlopen

from lakesql.decode import option
from lakesql.source.kinds import CONNECTIONS, SOURCES
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
from lakesql.source.stream_state import FoundTopics, Position, SourceState, StoredFiles


def ask(address: str, path: str) -> Any:
    """What the process that keeps the records says."""
    with urlopen(f"http://{address}/{path}", timeout=10) as answer:
        return json.load(answer)


@dataclass(frozen=True, slots=True)
class Kept(Source):
    """Lists of records in the memory of another process."""

    address: str = option("`host:port` of that process.")

    kind: ClassVar[str] = "kept"
    label: ClassVar[str] = "kept lists"
    brings: ClassVar[Brings] = "records"
    has_times: ClassVar[bool] = False
    backlog_unit: ClassVar[BacklogUnit] = "records"

    @classmethod
    def stand_in(cls) -> Self:
        return cls("")

    def check(self) -> str:
        return self.address

    def stream_state(self, stream: AskedStream) -> SourceState:
        """The topics of the stream, as they are there now."""
        there = ask(self.address, "topics")
        topics = [
            name for name in stream.origin.find_topics(there.keys) if name in there
        ]
        return SourceState(
            stream.name,
            self.kind,
            topics={name: there[name]["id"] for name in topics},
            beginnings={name: {0: there[name]["first"]} for name in topics},
            ends={name: {0: there[name]["end"]} for name in topics},
        )

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        return Looked(
            {stream.name: FoundTopics(self.stream_state(stream)) for stream in streams}
        )

    def can_be_seen(self) -> bool:
        return True

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        return now.found(stream.name)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        state = now.found(stream.name)
        return state is not None and position == state.end

    @classmethod
    def is_position(cls, position: Position) -> bool:
        return position is None or offsets_of(position) is not None

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        return isinstance(position, dict)

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        return offsets_of(position)

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        read = [
            each
            for each in (own, *stands)
            if isinstance(each, dict) and each.keys() & state.topics.keys()
        ]
        return lowest_offsets(read) if read else own

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        return {name: {"0": 1} for name in names}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        return SourceState(
            stream,
            cls.kind,
            {name: name for name in names},
            {name: {0: 0} for name in names},
        )


def register() -> None:
    """What a line of `kinds.py` does."""
    for kinds in (CONNECTIONS, SOURCES):
        assert isinstance(kinds, dict)
        kinds[Kept.kind] = Kept
