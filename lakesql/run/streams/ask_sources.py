"""Asks the sources of streams what there is, without Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakesql.source.source import Source
from lakesql.source.stream_state import FoundTopics
from lakesql.stream.stream import Stream


def read_topics(
    connections: Mapping[str, Source], streams: Sequence[Stream]
) -> tuple[Mapping[str, FoundTopics], tuple[str, ...]]:
    """What there is of those streams whose source is asked over a network, by the
    streams' names; and sentences that say of which nothing is known, and why.

    Raises what asking raises of something that is not there, or that takes neither
    login nor certificate.
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
