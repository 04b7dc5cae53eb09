"""How the batches of a model over Kafka topics are planned without a streaming query of
Spark's.

Creating, analysing and closing a streaming query at each start costs more than a batch
of a few records. A model of a group starts whenever its topic has grown, so what was
prepared for it is kept, and batches are planned by the topic's end offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from lakesql.engine.ledger.commit import Publication, publish
from lakesql.engine.sources.spark_source import PlannedBatches
from lakesql.engine.sources.topic_places import TopicPlaces
from lakesql.engine.together.shared_topics import LONGEST, SharedTopics, TopicShare
from lakesql.errors import TransientError
from lakesql.ledger.entry import Snapshot
from lakesql.progress.position import even_limit
from lakesql.source.cluster import Offsets, find_share, lag_of, numbered, total_of
from lakesql.source.stream_state import Position, position_of


class TopicBatches(PlannedBatches):
    """The batches of one model, each of at most `limit` records.

    `look` returns the current end offsets of the topics. A stream that does not begin
    with the first record of its topics first records where it begins, in a batch
    without records. `share` is for reading topics together with other models; None if
    the model reads alone.
    """

    def __init__(
        self,
        places: TopicPlaces,
        look: Callable[[], Offsets],
        limit: int | None,
        share: TopicShare | None = None,
    ) -> None:
        self._places, self._look, self._limit, self._size = places, look, limit, limit
        self._share = share
        self._latest: Offsets = {}

    def find_last(self, position: Position) -> Position:
        """The current end of the topics, up to which batches of equal size are planned.
        Raises `TransientError` (`topic-recreated`) if a topic ends before the position
        up to which it was read."""
        begins = numbered(position)
        self._latest = self._look()
        # the ends may have been read before this model reached its position
        if _behind(begins, self._latest) is not None:
            self._latest = self._places.find_ends()
        _check_behind(begins, self._latest)
        limit = (
            self._limit
            if self._shared is None
            else min(self._limit or LONGEST, LONGEST)
        )
        if limit is not None:
            left = lag_of(
                self._places.starts(numbered(position), self._latest), self._latest
            )
            self._size = even_limit(total_of(left), limit)
        return position_of(self._latest)

    def find_end(self, position: Position, until: Position) -> Position:
        """Where the next batch ends; None if the topics have no more records."""
        if self._notes_start(position):
            return self._places.find_start()
        shared = self._shared
        if shared is not None and (begun := shared.find_end(position)) is not None:
            return begun
        ends: Offsets = numbered(self.find_last(position) if until is None else until)
        if shared is not None:
            ends = shared.meet(position, ends)
        starts = self._places.starts(numbered(position), ends)
        share = find_share(lag_of(starts, ends), self._size)
        if not any(any(each.values()) for each in share.values()):
            return None
        end = position_of(
            {
                topic: {
                    number: begins + share[topic][number]
                    for number, begins in partitions.items()
                }
                for topic, partitions in starts.items()
            }
        )
        return end if shared is None else self._plan(shared, position, end)

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame | None:
        """The records between two positions; none for a batch that only records where a
        stream begins."""
        read = partial(self._places.read, start, end)
        if self._share is None or self._notes_start(start):
            return read()
        return self._share.topics.read(self._share, start, end, held, read)

    def publish(self, publication: Publication) -> Snapshot:
        """Commit a staged batch. Raises what `publish` of the ledger raises."""
        return publish(publication)

    def report(self, position: Position) -> Mapping[str, Any]:
        """Where the model stands, and where its topics ended when last asked; empty
        without a position."""
        if not position:
            return {}
        latest = position_of(self._latest)
        return {
            "endOffset": position,
            "latestOffset": {topic: latest.get(topic, {}) for topic in position},
        }

    @property
    def _shared(self) -> SharedTopics | None:
        """The ranges shared with other models; None if there is no other model now."""
        return (
            self._share.topics
            if self._share is not None and self._share.topics.are_several()
            else None
        )

    def _plan(
        self, shared: SharedTopics, position: Position, end: Position
    ) -> Position:
        """Where a batch ends: together with the other models, unless the range is too
        large to be kept for them."""
        ends = numbered(end)
        size = lag_of(self._places.starts(numbered(position), ends), ends)
        return shared.plan(position, end) if total_of(size) <= LONGEST else end

    def _notes_start(self, position: Position) -> bool:
        return position is None and not self._places.begins_early()


def _check_behind(position: Offsets, ends: Offsets) -> None:
    """Raise `TransientError` (`topic-recreated`) if a topic ends before the position up
    to which it was read."""
    if (behind := _behind(position, ends)) is None:
        return
    topic, number, read, end = behind
    raise TransientError.of(
        "topic-recreated",
        f"Topic '{topic}', partition {number}, ends at offset {end}, and was read up to {read}: it was deleted and "
        "made again, or its broker has lost records.",
        fix="The next try says what to do.",
    )


def _behind(position: Offsets, ends: Offsets) -> tuple[str, int, int, int] | None:
    """The first partition that ends before the position up to which it was read: its
    topic and number, how far it was read, and where it ends; None if there is none. A
    partition that is gone ends at 0."""
    for topic, partitions in position.items():
        for number, read in partitions.items():
            if (end := ends.get(topic, {}).get(number, 0)) < read:
                return topic, number, read, end
    return None
