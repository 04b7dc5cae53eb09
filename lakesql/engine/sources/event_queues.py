"""Events about files in an SQS queue, which are moved into a log of lakesql's own and
read there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from lakesql.engine.sources.event_log import Event, EventEnds, EventLog, Places
from lakesql.source.queue_log import QueueLog, SharedFiles
from lakesql.source.sqs import Queue, Sqs, open_queue

PAGE_MESSAGES = 1_000
"""About how many messages are written to the log at once, before they are deleted from
the queue."""

TAKEN_MESSAGES = 100_000
"""How many messages are moved before a batch is planned, as a queue in which more
arrive all the time would never be empty."""


class EventQueue(EventLog):
    """A queue, and the log into which its messages are moved. A place is the number of
    a page of the log."""

    most_places: ClassVar[int] = 20

    def __init__(self, source: Sqs, queue: str, files: SharedFiles) -> None:
        self._source, self._queue_name = source, queue
        self._log = QueueLog(files)
        self._queue: Queue | None = None

    @property
    def name(self) -> str:
        """The queue's name, for messages."""
        return f"queue {self._queue_name}"

    @property
    def id(self) -> str:
        """The queue's name with the log's id, as another log has other pages."""
        return f"{self._queue_name}#{self._log.id}"

    def ends(self) -> EventEnds:
        """The first page of the log, and the one after the last."""
        return EventEnds({0: self._log.first()}, {0: self._log.end()})

    def arrive(self) -> None:
        """Move the waiting messages from the queue to the log. A message is deleted
        from the queue only after it is in the log."""
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
        """The messages in these pages of the log; for a page that is gone, an event
        without a value."""
        for page in range(start[0], end[0]):
            texts = self._log.read(page)
            if texts is None:
                yield Event(f"page {page}, which is gone", None, None)
                continue
            for number, text in enumerate(texts, 1):
                yield Event(f"page {page} message {number}", None, text.encode())

    def close(self) -> None:
        """Does nothing, as no connection is kept open."""
