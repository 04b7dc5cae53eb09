"""Plain files that events of object storage announce: which files each batch has, from
the events of a topic or a queue.

A position has the places up to which events were read, and how many files were. An
event proves nothing: it may arrive twice, late, or never. So a file is identified by
its name, and all files are listed from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.event_log import EventEnds, EventLog
from lakesql.engine.sources.event_logs import check_events, notified, open_events
from lakesql.engine.sources.planned_files import (
    PlannedFiles,
    SparkPlannedFiles,
    name_some,
    shown_files,
)
from lakesql.engine.sources.spark_source import PlannedBatches, Planning
from lakesql.source.known_files import TIME_UNKNOWN, KnownFiles
from lakesql.source.name_order import FoundFile
from lakesql.source.notified_files import EventsRead, NotifiedFiles, events_read
from lakesql.source.object_events import read_event
from lakesql.source.stream_state import Position, SeededSource, SeenFile, SourceState

GRACE_MS = 600_000
"""How old a file must be before a listing takes it without an event, in milliseconds;
less if files are listed more often."""


class SparkNotifiedFiles(SparkPlannedFiles):
    """Plain files of a stream that has `notifications`."""

    kind: ClassVar[str] = NotifiedFiles.kind

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """The files in batches, as events announce them."""
        return _Notified(
            PlannedFiles(session, binding, planning),
            open_events(session, binding, planning),
        )

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the stream: whether any file exists. Raises an error if the
        topic or queue of events cannot be used."""
        check_events(session, binding)
        return super().state_now(session, binding, brokers)

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The position, with the files that were read; or, for a start time, the files
        that are older, which count as read. In either case all files are listed
        next."""
        if position is not None and seen is not None:
            return SeededSource(
                position, listed=tuple(seen(events_read(position).files))
            )
        if start_ms is None:
            return SeededSource()
        older = (
            file
            for file in shown_files(session, binding)
            if file.modified_ms < start_ms
        )
        listed = tuple(SeenFile(file.name, file.modified_ms) for file in older)
        return SeededSource(
            EventsRead(files=len(listed)).position if listed else None, listed=listed
        )


class _Notified(PlannedBatches):
    """The files of a stream as batches.

    `_told` are files that events up to the offsets `_told_to` have announced, and that
    are still to be read. `_must_be_listed`: all files have to be listed, as events were
    not read from the beginning, or some are gone.
    """

    def __init__(self, files: PlannedFiles, events: EventLog) -> None:
        self._files, self._events = files, events
        self._source = notified(files.binding)
        self._begun: Mapping[int, int] | None = None
        self._must_be_listed = False
        self._told: list[FoundFile] = []
        self._told_to: Mapping[int, int] = {}

    def find_last(self, position: Position) -> Position:
        """The position after the events that exist now."""
        self._events.arrive()
        return EventsRead(
            self._events.id, self._events.ends().last, events_read(position).files
        ).position

    def find_end(self, position: Position, until: Position) -> Position:
        """The position after the next files: those that events announce, then, if a
        listing is due, those that it finds. None if there are none."""
        if until is None and not self._told:
            self._events.arrive()
        ends, read = self._events.ends(), events_read(position)
        known = self._files.known(read.files, is_listed=False)
        at = self._begin(known, read, ends)
        if self._must_be_listed:
            unlisted = self._next_unlisted(known, at)
            if unlisted is not None:
                return unlisted
            self._must_be_listed = False
        told = self._next_told(
            known, at, events_read(until).offsets if until is not None else ends.last
        )
        if told is not None:
            return told
        return (
            self._next_unlisted(known, at)
            if self._files.is_listing_due(known)
            else None
        )

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records of the files that were planned."""
        return self._files.read_batch(events_read(start).files, events_read(end).files)

    def close(self) -> None:
        """Close the connection to the events, which is kept from batch to batch."""
        self._events.close()

    def _plan(
        self, at: EventsRead, offsets: Mapping[int, int], found: Sequence[FoundFile]
    ) -> Position:
        self._files.plan(at.files, found)
        return EventsRead(self._events.id, offsets, at.files + len(found)).position

    def _next_unlisted(self, known: KnownFiles, at: EventsRead) -> Position:
        """The position after the next files that a listing has found; None if there are
        none. A young file is left to the next listing, as its event may still arrive;
        unless no event was read yet."""
        is_first = self._must_be_listed
        why = "no event has told of" if known.index.listed_ms else ""
        found = self._files.next_unread(
            known, at.files, None, why, 0 if is_first else GRACE_MS
        )
        return self._plan(at, at.offsets, found) if found else None

    # --- events

    def _begin(
        self, known: KnownFiles, read: EventsRead, ends: EventEnds
    ) -> EventsRead:
        """The position from which events are read. If none were read yet, it is after
        the events that exist now, and then all files are listed."""
        topic = self._events.id
        if read.topic == topic and read.offsets:
            looked = known.index.events.get(topic, {})
            offsets = {
                each: max(at, looked.get(str(each), 0))
                for each, at in read.offsets.items()
            }
            return self._after_losses(known, replace(read, offsets=offsets), ends)
        if self._begun is None:
            self._begun, self._must_be_listed = ends.last, True
        return EventsRead(topic, self._begun, read.files)

    def _after_losses(
        self, known: KnownFiles, at: EventsRead, ends: EventEnds
    ) -> EventsRead:
        """The position from which events are read, moved if events after it are gone or
        the topic was created again; then all files have to be listed."""
        lost = [
            each
            for each, first in ends.first.items()
            if at.offsets.get(each, 0) < first
        ]
        anew = [
            each for each, last in ends.last.items() if at.offsets.get(each, 0) > last
        ]
        if not lost and not anew:
            return at
        offsets = {**at.offsets, **{each: ends.first[each] for each in (*lost, *anew)}}
        says = "was made anew" if anew else "has lost events that were not read"
        self._files.leave_out(f"{self._events.name} {says}: all files are listed")
        self._must_be_listed = True
        known.note_events(at.topic, offsets)
        return replace(at, offsets=offsets)

    def _next_told(
        self, known: KnownFiles, at: EventsRead, limit: Mapping[int, int]
    ) -> Position:
        """The position after the next files that events announce, by events up to
        `limit`; None if there are none."""
        read = at
        while self._told or self._read_events(known, read, limit):
            found = self._files.bounded(self._told)
            self._told = self._told[len(found) :]
            if found:
                return self._plan(
                    at, read.offsets if self._told else self._told_to, found
                )
            read = replace(read, offsets=self._told_to)
        if read.offsets != at.offsets:
            known.note_events(at.topic, read.offsets)
        return None

    def _read_events(
        self, known: KnownFiles, at: EventsRead, limit: Mapping[int, int]
    ) -> bool:
        """Read the next events; returns whether there were any."""
        start = {partition: at.offsets.get(partition, 0) for partition in limit}
        end, left = dict(start), self._events.most_places
        for partition, last in limit.items():
            end[partition] = min(max(last, start[partition]), start[partition] + left)
            left -= end[partition] - start[partition]
        if end == start:
            return False
        sizes, unreadable = self._files_of(start, end)
        told = (FoundFile(name, sizes[name], TIME_UNKNOWN) for name in sorted(sizes))
        self._told, self._told_to = (
            [*known.unknown(told, at.files)],
            {**at.offsets, **end},
        )
        if unreadable:
            self._files.leave_out(
                f"{count(len(unreadable), 'event')} of {self._events.name} cannot be read, and may have told of "
                f"files, which the next listing of all finds: {name_some(unreadable)}"
            )
        return True

    def _files_of(
        self, start: Mapping[int, int], end: Mapping[int, int]
    ) -> tuple[dict[str, int], list[str]]:
        """The sizes, by name, of files of the stream that events between two positions
        announce; and which events cannot be read."""
        sizes, unreadable = dict[str, int](), list[str]()
        for event in self._events.events(start, end):
            try:
                created = read_event(event.key, event.value)
            except ValueError as error:
                unreadable.append(f"{event.where} ({error})")
                continue
            for each in created:
                name = self._source.name_of(each.bucket, each.key)
                if (
                    name is not None
                    and self._files.order.means(name)
                    and not self._files.order.is_hidden(name)
                ):
                    sizes[name] = each.size_bytes
        return sizes, unreadable
