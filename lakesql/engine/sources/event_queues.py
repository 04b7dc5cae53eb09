"""Events of files in a queue of SQS, which are taken into lakesql's own log, and read
there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from lakesql.engine.sources.event_log import Event, EventEnds, EventLog, Places
from lakesql.source.queue_log import QueueLog, SharedFiles
from lakesql.source.sqs import Queue, Sqs, open_queue

PAGE_MESSAGES = 1_000
"""About so many messages are written at once, before the queue is to forget them."""

TAKEN_MESSAGES = 100_000
"""So many are taken before a batch is planned: a queue in which more arrive all the
time would never be empty."""


class EventQueue(EventLog):
    """A queue, and the log into which its messages go. A page of the log is a place."""

    most_places: ClassVar[int] = 20

    def __init__(self, source: Sqs, queue: str, files: SharedFiles) -> None:
        self._source, self._queue_name = source, queue
        self._log = QueueLog(files)
        self._queue: Queue | None = None

    @property
    def name(self) -> str:
        """The queue's name."""
        return f"queue {self._queue_name}"

    @property
    def id(self) -> str:
        """The queue's name, with the log's id: another log has other pages."""
        return f"{self._queue_name}#{self._log.id}"

    def ends(self) -> EventEnds:
        """The pages of the log."""
        return EventEnds({0: self._log.first()}, {0: self._log.end()})

    def arrive(self) -> None:
        """Take what waits in the queue. What is deleted there is in the log."""
        if self._queue is None:
            self._queue = open_queue(self._source, self._queue_name)
            self._log.remove_old()
        taken = 0
        while taken < TAKEN_MESSAGES and (
            messages := self._queue.receive(PAGE_MESSAGES)
        ):
            self._log.append([message.text for message in messages])
            self._queue.delete(messages)
            taken += len(messages)

    def events(self, start: Places, end: Places) -> Iterator[Event]:
        """The messages of the log."""
        for page in range(start[0], end[0]):
            texts = self._log.read(page)
            if texts is None:
                yield Event(f"page {page}, which is gone", None, None)
                continue
            for number, text in enumerate(texts, 1):
                yield Event(f"page {page} message {number}", None, text.encode())

    def close(self) -> None:
        """Nothing is held."""
