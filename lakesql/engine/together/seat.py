"""The place of one model in the rounds of its group: where its batches end, and how
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
    """The batches of one model, which end and are committed with those of the others.

    `latest` says where topics ended when they were looked at last.
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
        """The rounds know it."""
        return position or {}

    def find_end(self, position: Position, until: Position) -> Position:
        """Where the model's batch ends in the next round that it has one in. A stream
        that begins elsewhere than with the first record there is notes first where."""
        if self._notes_start(position):
            return self._places.find_start()
        end = self._rounds.find_end(self._model, Standing(position))
        if end is not None and self._shared is not None:
            self._plan(self._shared, position, end)
        return end

    def takes_again(self, position: Position, end: Position) -> bool:
        """Wait for the round that the batch is of."""
        return (
            self._notes_start(position)
            or self._rounds.find_end(self._model, Standing(position, end)) is not None
        )

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame | None:
        """The records between two places. As many models read and stage at a time as
        there are slots."""
        slot = self._rounds.slot()
        slot.acquire()
        held.callback(slot.release)
        return super().read(start, end, held)

    def publish(self, publication: Publication) -> Snapshot:
        """Have a staged batch committed with those of the others. Raises what
        `Rounds.publish` raises."""
        return self._rounds.publish(self._model, publication)

    def finish(self) -> None:
        """The batch is written."""
        self._rounds.finish(self._model)

    def is_idle(self) -> bool:
        """Whether it waits for a round."""
        return self._rounds.waits(self._model)

    def interrupt(self) -> None:
        """Wait no longer."""
        self._rounds.interrupt(self._model)

    def report(self, position: Position) -> Mapping[str, Any]:
        """Where it stands, and where its topics ended when they were looked at last."""
        self._latest = self._look()
        return super().report(position)

    def close(self) -> None:
        """Leave the rounds, at least for now."""
        self._rounds.leave(self._model)
