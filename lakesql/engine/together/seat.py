"""How one model takes part in the rounds of its group: where its batches end, and how
they are committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame

from lakesql.engine.ledger.commit import Publication
from lakesql.engine.sources.topic_places import TopicPlaces
from lakesql.engine.together.rounds import Rounds, Standing
from lakesql.engine.together.shared_topics import TopicShare
from lakesql.engine.together.topic_batches import TopicBatches
from lakesql.ledger.entry import Snapshot
from lakesql.source.cluster import Offsets
from lakesql.source.stream_state import Position


class Seat(TopicBatches):
    """The batches of one model that end and are committed together with those of the
    others.

    `latest` returns where topics ended when last asked.
    """

    def __init__(
        self,
        model: str,
        places: TopicPlaces,
        rounds: Rounds,
        latest: Callable[[], Offsets],
        share: TopicShare | None,
    ) -> None:
        super().__init__(places, latest, None, share)
        self._model, self._rounds = model, rounds
        rounds.join(model)

    def find_last(self, position: Position) -> Position:
        """The position itself: the rounds plan where batches end."""
        return position or {}

    def find_end(self, position: Position, until: Position) -> Position:
        """Where the model's batch ends in the next round that has one for it; None if
        there are no more. A stream that does not begin with the first record of its
        topics first records where it begins."""
        if self._notes_start(position):
            return self._places.find_start()
        end = self._rounds.find_end(self._model, Standing(position))
        if end is not None and self._shared is not None:
            self._plan(self._shared, position, end)
        return end

    def takes_again(self, position: Position, end: Position) -> bool:
        """Wait for the round of a batch that was planned before. Returns whether it may
        be written."""
        return (
            self._notes_start(position)
            or self._rounds.find_end(self._model, Standing(position, end)) is not None
        )

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame | None:
        """The records between two positions. At most as many models as there are slots
        read and stage at the same time."""
        slot = self._rounds.slot()
        slot.acquire()
        held.callback(slot.release)
        return super().read(start, end, held)

    def publish(self, publication: Publication) -> Snapshot:
        """Have a staged batch committed together with those of the others. Raises what
        `Rounds.publish` raises."""
        return self._rounds.publish(self._model, publication)

    def finish(self) -> None:
        """Record that the batch is done."""
        self._rounds.finish(self._model)

    def is_idle(self) -> bool:
        """Whether it waits for a round."""
        return self._rounds.waits(self._model)

    def interrupt(self) -> None:
        """Stop waiting for a round."""
        self._rounds.interrupt(self._model)

    def report(self, position: Position) -> Mapping[str, Any]:
        """Where it stands, and where its topics ended when last asked."""
        self._latest = self._look()
        return super().report(position)

    def close(self) -> None:
        """Leave the rounds, at least for now."""
        self._rounds.leave(self._model)
