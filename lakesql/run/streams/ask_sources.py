"""Asks the sources of streams what they hold, without Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesql.source.source import Source
from lakesql.source.stream_state import FoundTopics
from lakesql.stream.stream import Stream


def read_topics(
    connections: Mapping[str, Source], streams: Sequence[Stream]
) -> tuple[Mapping[str, FoundTopics], tuple[str, ...]]:
    """What the topics of those streams hold whose source is asked over a network, by
    stream; and sentences that name the streams of which nothing is known, and why.

    Raises what asking raises if something does not exist, or if a login or certificate
    is refused.
    """
    found: dict[str, FoundTopics] = {}
    unread: dict[str, None] = {}
    for name, connection in connections.items():
        of = [stream for stream in streams if stream.connection == name]
        if of:
            looked = connection.look(name, of)
            found |= looked.found
            unread |= dict.fromkeys(looked.unread)
    return found, tuple(unread)
