"""When the batches of several models of a group become visible: in rounds, in which all
stage their batches and one commit publishes them.

Each model writes its batches in a thread of its own, which asks here where the next
batch ends, and hands over what it has staged. One more thread plans the rounds, and
commits. A model that fails ends the round: the batches that the others have staged are
put off, and staged again in a later round once all models are back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesql.engine.ledger.commit import HeadMovedError, Publication
from lakesql.engine.ledger.commit_together import OneFailedError, Published
from lakesql.engine.sources.planned_files import name_some
from lakesql.engine.sources.spark_source import BatchPutOffError
from lakesql.errors import TransientError
from lakesql.ledger.entry import Snapshot
from lakesql.source.stream_state import Position


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a model stands between two rounds; `planned` is where its next batch ends,
    if it has been planned already."""

    position: Position
    planned: Position = None


_log = logging.getLogger(__name__)

Plan = Callable[[Mapping[str, Standing]], Mapping[str, Position]]
"""Returns where the batches of the next round end, for those models that have one in
it."""

Publish = Callable[[Mapping[str, Publication]], Published]
"""Commits what the models have staged."""

State = Literal["away", "standing", "writing", "staged"]


@dataclass(slots=True)
class _Participant:
    """The state of a model in the rounds. `end` is where its batch of the round ends,
    `outcome` the result of its commit."""

    state: State = "away"
    standing: Standing = field(default_factory=lambda: Standing(None))
    end: Position = None
    publication: Publication | None = None
    outcome: Snapshot | Exception | None = None
    is_interrupted: bool = False


class Rounds:
    """The rounds of the models that are members, from the first time that all of them
    are there.

    A round begins every `interval_s` seconds; None: rounds follow each other until
    there is nothing left to read. `discard` is called with what was staged and is not
    to be committed, and `finished` once all models of a round are done. At most `slots`
    models write in parallel. `tell` is called, once for each reason, with what keeps
    the models waiting.
    """

    def __init__(
        self,
        members: Iterable[str],
        plan: Plan,
        publish: Publish,
        discard: Callable[[Publication], None],
        finished: Callable[[], None],
        interval_s: float | None,
        slots: int,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._plan, self._publish, self._discard, self._finished = (
            plan,
            publish,
            discard,
            finished,
        )
        self._interval_s = interval_s
        self._say = tell
        self._seats = {member: _Participant() for member in members}
        self._slots = threading.Semaphore(slots)
        self._changed = threading.Condition()
        self._round: set[str] = set()
        """The models whose batches of the round are not done."""
        self._is_broken = False
        self._is_over = False
        self._failure: Exception | None = None
        self._told = ""
        self._thread = threading.Thread(
            target=self._run, name="lakesql-rounds", daemon=True
        )

    # --- for the thread of a model

    def join(self, member: str) -> None:
        """Add a model to the rounds, such as that of a new table in the feed."""
        with self._changed:
            self._seats.setdefault(member, _Participant()).is_interrupted = False
            if not self._thread.is_alive() and not self._is_over:
                self._thread.start()

    def find_end(self, member: str, standing: Standing) -> Position:
        """Wait for the next round that has something for the model, and return where
        its batch ends; None if there are no more rounds, or the model was interrupted.
        Raises what planning raises."""
        with self._changed:
            seat = self._seats[member]
            seat.state, seat.standing, seat.end, seat.outcome = (
                "standing",
                standing,
                None,
                None,
            )
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_called(seat))
            if seat.end is not None and not seat.is_interrupted:
                return seat.end
            failure = None if seat.is_interrupted else self._failure
            seat.state = "away"
            self._changed.notify_all()
        if failure is not None:
            raise failure
        return None

    def _is_called(self, seat: _Participant) -> bool:
        is_ending = seat.is_interrupted or self._is_over or self._failure is not None
        return seat.end is not None or is_ending

    def slot(self) -> threading.Semaphore:
        """The semaphore that a model holds while it stages."""
        return self._slots

    def publish(self, member: str, publication: Publication) -> Snapshot:
        """Have what a model has staged committed together with what the others have;
        returns the snapshot that becomes the table's head.

        While it waits, another model may use its slot. Raises `HeadMovedError` if it
        must be staged again, `BatchPutOffError` if the round has ended without it, and
        what committing raises.
        """
        self._slots.release()
        try:
            with self._changed:
                seat = self._seats[member]
                seat.publication, seat.outcome, seat.state = publication, None, "staged"
                self._changed.notify_all()
                self._changed.wait_for(lambda: seat.outcome is not None)
                outcome, seat.outcome, seat.publication = seat.outcome, None, None
                seat.state = "writing"
        finally:
            self._slots.acquire()
        assert outcome is not None
        if isinstance(outcome, Snapshot):
            return outcome
        raise outcome

    def finish(self, member: str) -> None:
        """Record that a model's batch of the round is done, in its checkpoint too."""
        with self._changed:
            self._round.discard(member)
            self._changed.notify_all()

    def leave(self, member: str) -> None:
        """Record that a model has ended, at least for now: a round in which it has not
        finished is broken."""
        with self._changed:
            seat = self._seats[member]
            self._is_broken = self._is_broken or member in self._round
            self._round.discard(member)
            seat.state, seat.is_interrupted = "away", False
            self._changed.notify_all()

    def interrupt(self, member: str) -> None:
        """End the waiting of a model for a round."""
        with self._changed:
            self._seats[member].is_interrupted = True
            self._changed.notify_all()

    def waits(self, member: str) -> bool:
        """Whether a model waits for a round, and so writes nothing."""
        return self._seats[member].state == "standing"

    # --- for the run

    def close(self) -> None:
        """Plan no more rounds: models that wait for one are told that there are
        none."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    # --- the thread of the rounds

    def _run(self) -> None:
        try:
            self._make_rounds()
        # a defect: no model may wait for a thread that has ended
        except Exception as error:
            with self._changed:
                self._failure, self._is_over = error, True
                for name in self._find_offered():
                    self._answer(name, error)
                self._changed.notify_all()

    def _make_rounds(self) -> None:
        while True:
            began = time.monotonic()
            standing = self._gather()
            if standing is None:
                return
            try:
                ends = self._plan(standing)
            except TransientError as error:
                if self._interval_s is None:
                    self._fail(error)
                    continue
                self._tell(f"the next round is tried again: {error.problems[0].what}")
                ends = {}
            except Exception as error:
                self._fail(error)
                continue
            if ends:
                self._begin(ends)
                if self._serve():
                    self._finish_round()
                if self._interval_s is None:
                    continue
            elif self._interval_s is None:
                self.close()
                return
            assert self._interval_s is not None
            self._rest(began + self._interval_s)

    def _gather(self) -> Mapping[str, Standing] | None:
        """Where all models stand, once all wait for a round; None if there are no more
        rounds."""
        tells_at = time.monotonic() + TELLS_AFTER_S
        with self._changed:
            while not self._is_over:
                missing = frozenset(
                    name
                    for name, seat in self._seats.items()
                    if seat.state != "standing"
                )
                if not missing:
                    return {name: seat.standing for name, seat in self._seats.items()}
                self._changed.wait(max(0.0, tells_at - time.monotonic()))
                if time.monotonic() >= tells_at:
                    self._tell(
                        f"nothing is committed until {name_some(missing)} can go on"
                    )
                    tells_at = time.monotonic() + TELLS_AFTER_S
            return None

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)

    def _begin(self, ends: Mapping[str, Position]) -> None:
        with self._changed:
            self._round, self._is_broken, self._told = set(ends), False, ""
            for member, end in ends.items():
                seat = self._seats[member]
                if seat.state == "standing":
                    seat.end, seat.state = end, "writing"
                else:  # it has left since it was asked where it stands
                    self._is_broken = True
                    self._round.discard(member)
            self._changed.notify_all()

    def _serve(self) -> bool:
        """Commit each time that all unfinished models of the round have staged, until
        all are done. Returns whether all have finished."""
        while True:
            with self._changed:
                self._changed.wait_for(self._is_ready)
                if not self._round:
                    return not self._is_broken
                offered, is_broken = self._find_offered(), self._is_broken
            if is_broken:
                self._put_off(offered)
            else:
                self._commit(offered)

    def _finish_round(self) -> None:
        """Report that all tables are at the same place. If that cannot be recorded, the
        next round records it."""
        try:
            self._finished()
        except Exception as error:
            self._tell(
                f"which snapshots belong together is not noted, and will be with the next round: {error}"
            )

    def _find_offered(self) -> dict[str, Publication]:
        """What models of the round have staged and has not been answered yet."""
        return {
            name: seat.publication
            for name, seat in self._seats.items()
            if seat.state == "staged"
            and seat.outcome is None
            and seat.publication is not None
        }

    def _is_ready(self) -> bool:
        """Whether there is something to commit or to put off, or nothing more to wait
        for in the round."""
        offered = self._find_offered()
        if self._is_broken:
            return bool(offered) or not self._round
        return self._round <= offered.keys()

    def _commit(self, publications: Mapping[str, Publication]) -> None:
        outcomes: dict[str, Snapshot | Exception] = {}
        try:
            published = self._publish(publications)
        except OneFailedError as error:
            self._put_off(
                {
                    name: each
                    for name, each in publications.items()
                    if name != error.model
                }
            )
            outcomes[error.model] = error.reason
        except Exception as error:
            outcomes = dict.fromkeys(publications, error)
        else:
            outcomes = {
                **published.heads,
                **{name: HeadMovedError() for name in published.moved},
            }
            # those that wait are committed later, with those that are staged again
            with self._changed:
                for name, publication in (published.waiting or {}).items():
                    self._seats[name].publication = publication
        with self._changed:
            for name, outcome in outcomes.items():
                self._answer(name, outcome)
            self._changed.notify_all()

    def _answer(self, name: str, outcome: Snapshot | Exception) -> None:
        seat = self._seats[name]
        seat.outcome = outcome
        if isinstance(outcome, Snapshot | HeadMovedError):
            return
        self._round.discard(name)
        self._is_broken = True

    def _put_off(self, offered: Mapping[str, Publication]) -> None:
        """Tell models to stage their batches again in a later round."""
        for publication in offered.values():
            try:
                self._discard(publication)
            # files that are left are removed as orphans
            except Exception as error:
                _log.warning("What was staged is left: %s", error)
        with self._changed:
            for name in offered:
                self._answer(name, BatchPutOffError())
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        """Raise an error of planning in all models that wait for a round."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or not self._some_stand())
            self._failure = None

    def _some_stand(self) -> bool:
        return any(seat.state == "standing" for seat in self._seats.values())

    def _rest(self, until: float) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over, max(0.0, until - time.monotonic())
            )


TELLS_AFTER_S = 30.0
"""How long a round waits for models before it reports which ones."""
