"""Plain files of object storage that events announce: they are found in a topic or a
queue, instead of by listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import urlsplit

from lakesql.source.file_folder import FolderSource
from lakesql.source.kafka import Kafka
from lakesql.source.origin import Brings
from lakesql.source.source import AskedStream, Now, Source, has_mark

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position, SourceState, StoredFiles

TOLD_BY = "told_by"
"""The key in a position for the topic whose events were read, or for the log of a
queue."""


@dataclass(frozen=True, slots=True)
class EventsRead:
    """The topic or queue whose events were read, the offset in each partition, and the
    number of files in all; '' before the first."""

    topic: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)
    files: int = 0

    @property
    def position(self) -> Position:
        """The position with this value."""
        offsets = {
            str(partition): self.offsets[partition]
            for partition in sorted(self.offsets)
        }
        return {TOLD_BY: self.topic, "events": offsets, "files": self.files}


def events_read(position: Position) -> EventsRead:
    """The events that have been read by a position; none if it is of another kind."""
    if not has_mark(position, TOLD_BY):
        return EventsRead()
    offsets = {int(partition): int(at) for partition, at in position["events"].items()}
    return EventsRead(str(position[TOLD_BY]), offsets, int(position["files"]))


@dataclass(frozen=True, slots=True)
class NotifiedFiles(FolderSource):
    """Plain files of a stream with `notifications`."""

    path: str
    events: Source
    told_by: str

    kind: ClassVar[str] = "notified_files"
    label: ClassVar[str] = "plain files that events tell of"
    brings: ClassVar[Brings] = "files"
    has_offsets: ClassVar[bool] = False
    is_planned: ClassVar[bool] = True

    @classmethod
    def stand_in(cls) -> Self:
        """A source without a folder."""
        return cls("", Kafka.stand_in(), "")

    @property
    def jars(self) -> frozenset[str]:  # type: ignore[override]  # a kind of its own would be one for each place of events
        """The jars of the source with the events."""
        return self.events.jars

    def name_of(self, bucket: str, key: str) -> str | None:
        """The name of an object below the connection's path; None if it is not below
        it."""
        place = urlsplit(self.path)
        base = place.path.strip("/")
        prefix = f"{base}/" if base else ""
        is_below = bucket == place.netloc and key.startswith(prefix)
        return key.removeprefix(prefix) if is_below else None

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """A state without facts."""
        from lakesql.source.stream_state import SourceState

        return SourceState(stream.name, self.kind)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """False: only a run asks the source of the events."""
        return False

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position names the source of its events, or is none."""
        return not isinstance(position, dict) or has_mark(position, TOLD_BY)

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which one event was read."""
        return EventsRead("events", {0: 1}, 1).position
