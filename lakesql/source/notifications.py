"""Where events announce new files: a topic or a queue to which object storage
writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.decode import Node, option, read_filled
from lakesql.errors import Problem


@dataclass(frozen=True, slots=True)
class Notifications:
    """A topic or a queue with the events of a bucket."""

    connection: str = option(
        "Connection of type `kafka` or `sqs` whose topic or queue has the events.",
        read=read_filled,
    )
    topic: str = option(
        "Topic of the events, with a connection of type `kafka`.",
        default="",
        read=read_filled,
    )
    queue: str = option(
        "Queue of the events, with a connection of type `sqs`: its name, or its URL for a queue of another account.",
        default="",
        read=read_filled,
    )

    @property
    def option(self) -> str:
        """The option that is set: `topic` or `queue`."""
        return "queue" if self.queue else "topic"

    @property
    def place(self) -> str:
        """The topic or queue in words, such as `topic lake-events`."""
        return f"{self.option} {self.name}"

    @property
    def name(self) -> str:
        """The name of the topic or the queue."""
        return self.queue or self.topic


def check_notifications(
    given: Notifications, node: Node, stream: str
) -> Iterator[Problem]:
    """Problems of a stream that does not name exactly one topic or queue."""
    if given.topic and given.queue:
        what = f"Stream '{stream}' names a topic and a queue under 'notifications'."
        yield Problem(
            "contradictory-options", what, place=node.entries()["queue"].place
        )
    if not given.name:
        what = f"Stream '{stream}' names neither a topic nor a queue under 'notifications'."
        fix = "Write `topic:` of a connection of type `kafka`, or `queue:` of one of type `sqs`."
        yield Problem("missing-option", what, fix=fix, place=node.place)
