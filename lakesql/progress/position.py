"""The positions of a model's streams, as Spark's checkpoints and the ledger have them.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesql.events import ReadRange
from lakesql.source.kinds import SOURCES
from lakesql.source.source import offsets_of
from lakesql.source.stream_state import Position, Positions, SourceState, is_another


def topic_ids(sources: Iterable[SourceState]) -> dict[str, str]:
    """The id of each topic; a topic is left out if two clusters have topics of that
    name."""
    named = [(topic, id_) for source in sources for topic, id_ in source.topics.items()]
    ids: dict[str, set[str]] = {}
    for topic, id_ in named:
        ids.setdefault(topic, set()).add(id_)
    return {topic: id_ for topic, id_ in named if len(ids[topic]) == 1}


def rebuilt_starts(sources: Iterable[SourceState]) -> dict[str, Position]:
    """The positions at which streams of rebuilt tables begin: what these held before
    was removed."""
    starts = {
        source.name: SOURCES[source.kind].rebuilt_start(source) for source in sources
    }
    return {name: start for name, start in starts.items() if start is not None}


def first_positions(sources: Iterable[SourceState]) -> dict[str, Position]:
    """The position before the first existing record of each stream; none begins before
    it, whatever its `start`."""
    return {source.name: source.beginning for source in sources}


def count_between(before: Positions, after: Positions) -> int | None:
    """How many offsets lie between two positions of streams that all read topics; None
    if unknown."""
    count = 0
    for name, position in after.items():
        start = before.get(name)
        offsets = offsets_of(position)
        if not isinstance(start, dict) or offsets is None:
            return None
        for topic, ends in offsets.items():
            begins = start.get(topic, {})
            count += sum(
                max(0, end - begins.get(partition, 0))
                for partition, end in ends.items()
            )
    return count


def ranges_between(before: Positions, after: Positions) -> tuple[ReadRange, ...]:
    """What is read of each stream between two positions."""

    def written(position: Position) -> str:
        return "" if position is None else json.dumps(position, separators=(",", ":"))

    return tuple(
        ReadRange(name, written(before.get(name)), written(position))
        for name, position in after.items()
    )


def even_limit(backlog: int, limit: int) -> int:
    """The number of records for each batch of a backlog so that no small last batch
    remains: at most a tenth above the limit.

    A last batch of a few records takes nearly as long as a full one, and leaves small
    files.
    """
    if backlog <= limit or limit < EVEN_FROM:
        return limit
    batches = -(-backlog * 10 // (limit * 11))
    return -(-backlog // batches)


EVEN_FROM = 1_000
"""Smaller limits are used unchanged."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The topics in a stream's position that were created again since (`anew`), and
    those that no longer exist (`gone`)."""

    anew: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def find_replaced(
    source: SourceState, position: Position, topics: Mapping[str, str]
) -> Replaced:
    """What happened to the topics of a stream since it had this position and topics had
    these ids."""
    offsets = SOURCES[source.kind].offsets(position)
    if offsets is None:
        return Replaced()
    known = topics.keys() & offsets.keys()
    gone = frozenset(known - source.topics.keys())
    return Replaced(
        frozenset(
            topic
            for topic in known - gone
            if is_another(topics[topic], source.topics[topic])
        ),
        gone,
    )


def positions_now(
    sources: Iterable[SourceState], stands: Positions, topics: Mapping[str, str]
) -> dict[str, Position]:
    """The positions of the streams now, after they had the positions `stands` when
    topics had these ids: without topics that no longer exist, and at the beginning of
    those that were created again, whatever the stream's `start`."""
    found = {}
    for source in sources:
        if source.name not in stands:
            continue
        position = stands[source.name]
        replaced = find_replaced(source, position, topics)
        if replaced != Replaced():
            left = {
                topic: offsets
                for topic, offsets in position.items()
                if topic not in replaced.gone
            }
            position = {
                **left,
                **{topic: source.beginning.get(topic, {}) for topic in replaced.anew},
            }
        found[source.name] = position
    return found
