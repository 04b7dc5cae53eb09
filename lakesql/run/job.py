"""What a run does for one model: its stream, a rebuild of its table, maintenance,
tests. All of them are jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # who asks for the options of a run need not have Spark
    from lakesql.engine.batch.streaming_query import Backlog
    from lakesql.errors import LakesqlError
    from lakesql.events import Emit


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run treats its models.

    `continuous`: all jobs run at once, until somebody ends the run. Otherwise a model
    starts when those that it reads are done, takes what is there, and ends.
    `accept_data_loss`: records that are gone from their topics are passed over.
    `fail_fast`: the first model that fails for good ends the run. `fail_if_empty`: a
    model fails that has read nothing, as its streams have nothing. `is_brief`: the run
    is over in seconds.
    """

    continuous: bool = False
    accept_data_loss: bool = False
    fail_fast: bool = False
    fail_if_empty: bool = False
    is_brief: bool = False


class Job(Protocol):
    """What runs for one model, in threads of its own, from its start until it is
    over."""

    def step(self) -> None:
        """Do what is next, if something is: it is called again and again while the job
        is active, by one thread.

        What fails here is the job's `error` afterwards; nothing is raised.
        """

    def is_active(self) -> bool:
        """Whether any of it still runs, or is still to be done. Changes nothing."""

    def error(self) -> Exception | None:
        """Why it has failed, None where it has not, or where it was asked to stop
        before."""

    def request_stop(self) -> None:
        """Let what is being written be finished, such as a batch, and begin nothing
        else. Returns at once."""

    def was_stopped(self) -> bool:
        """Whether it is over because it was asked to stop, and might have done more.
        Not if it has ended by itself."""

    def progress(self) -> tuple[float, Backlog]:
        """Records per second of the last batch, and the backlog."""


StartJob = Callable[[str, "Emit"], Job | None]
"""Starts the job of a model from where its table stands, and may raise anything. None
where it cannot be said yet whether it may start: it is asked for again soon."""


class Jobs(Protocol):
    """The jobs of a run, by their models' names, each under the leases that it
    needs."""

    def start(self, model: str, emit: Emit) -> Job | None:
        """Start the model's job, as `StartJob` says."""

    def explain(self, model: str, error: Exception) -> LakesqlError:
        """What an exception of the model means. A `TransientError` is worth a retry."""

    def must_stop(self, model: str) -> Exception | None:
        """Why the job must not continue, if so: it may have nothing to do, and so no
        batch that would ask."""

    def is_wanted(self, model: str) -> bool:
        """Whether somebody else has asked to have the model between two batches. Asks
        nobody."""

    def give_way(self, model: str) -> None:
        """Let him have it, as its job does not run. `start` gives None until it is this
        run's again."""

    def release(self, model: str) -> None:
        """The model is done: others may have what was held for it."""

    def kill(self) -> None:
        """End all jobs at once, whatever they are at."""

    def rests(self, model: str) -> bool:
        """Whether the model, whose job has ended well, waits until something has come
        for it."""
        return False

    def rest(self, model: str) -> None:
        """The model rests until something has come for it: others may have what was
        held for it meanwhile."""
        self.release(model)

    def runs_together(self, model: str) -> bool:
        """Whether the model runs as long as the others of its group, however many these
        are, and none without it."""
        return False

    def woken(self) -> Sequence[str]:
        """The models that something has come for since this was asked last; those too
        that are new in the run."""
        return ()


@dataclass(slots=True)
class ThreadWork:
    """Python code in a thread of its own, which may ask whether it is to end. It begins
    with `start`."""

    do: Callable[[Callable[[], bool]], None]
    name: str
    failure: Exception | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _was_stopped: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    def is_active(self) -> bool:
        """Whether it was started, and is not over."""
        return self._thread is not None and self._thread.is_alive()

    def request_stop(self) -> None:
        """Let it hear that it is to end when it asks."""
        self._stopping.set()

    def was_stopped(self) -> bool:
        """Whether it has asked after that, and so left something out."""
        return self._was_stopped

    def _run(self) -> None:
        try:
            self.do(self._is_ending)
        except Exception as error:  # whatever it raises is the job's error
            self.failure = error

    def _is_ending(self) -> bool:
        self._was_stopped = self._was_stopped or self._stopping.is_set()
        return self._was_stopped
