"""What a run does for one model is a job: its stream, a rebuild of its table, its
maintenance or its tests."""

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

    `continuous`: all jobs run at once, until the run is interrupted. Otherwise a model
    starts when those that it reads are done, reads what has arrived, and ends.
    `accept_data_loss`: records that are gone from their topics are skipped.
    `fail_fast`: the first model that fails for good ends the run. `fail_if_empty`: a
    model fails if it has read nothing because its streams are empty. `is_brief`: the
    run is expected to end within seconds.
    """

    continuous: bool = False
    accept_data_loss: bool = False
    fail_fast: bool = False
    fail_if_empty: bool = False
    is_brief: bool = False


class Job(Protocol):
    """The work of one model, in threads of its own, from its start until it is over."""

    def step(self) -> None:
        """Do what comes next, if anything. One thread calls it repeatedly while the job
        is active.

        It raises nothing: a failure becomes the job's `error`.
        """

    def is_active(self) -> bool:
        """Whether any of the job still runs or is still to be done. Changes nothing."""

    def error(self) -> Exception | None:
        """Why the job has failed; None if it has not, or was asked to stop before."""

    def request_stop(self) -> None:
        """Let what is being written finish, such as a batch, and begin nothing else.
        Returns at once."""

    def was_stopped(self) -> bool:
        """Whether the job is over because it was asked to stop, with work possibly
        left. False if it has ended by itself."""

    def progress(self) -> tuple[float, Backlog]:
        """The records per second of the last batch, and the backlog."""


StartJob = Callable[[str, "Emit"], Job | None]
"""Starts the job of a model from where its table stands; may raise anything. Returns
None if it cannot start yet; it is called again soon."""


class Jobs(Protocol):
    """The jobs of a run, by model, each under the leases that it needs."""

    def start(self, model: str, emit: Emit) -> Job | None:
        """Start the model's job; the contract is that of `StartJob`."""

    def explain(self, model: str, error: Exception) -> LakesqlError:
        """The error that an exception of the model's job stands for. A `TransientError`
        is worth a retry."""

    def must_stop(self, model: str) -> Exception | None:
        """Why the job must not continue, else None. Asked also while the job is idle
        and no batch would notice."""

    def is_wanted(self, model: str) -> bool:
        """Whether another process has asked to have the model between two batches.
        Sends no request."""

    def give_way(self, model: str) -> None:
        """Give the model to the process that has asked for it, while its job does not
        run. `start` returns None until the model is given back."""

    def release(self, model: str) -> None:
        """The model has ended: release what was held for it."""

    def kill(self) -> None:
        """End all jobs at once, whatever they are doing."""

    def rests(self, model: str) -> bool:
        """Whether the model, after its job has succeeded, waits until records have
        arrived for it."""
        return False

    def rest(self, model: str) -> None:
        """The model rests until records have arrived for it: release what was held for
        it."""
        self.release(model)

    def runs_together(self, model: str) -> bool:
        """Whether the model runs as long as the others of its group, regardless of
        concurrency limits, as none of them progresses without it."""
        return False

    def woken(self) -> Sequence[str]:
        """The models for which records have arrived since the last call, including
        models that are new in the run."""
        return ()


@dataclass(slots=True)
class ThreadWork:
    """A function that runs in a thread of its own, from `start` on. It is passed a
    function that tells whether it is to end."""

    do: Callable[[Callable[[], bool]], None]
    name: str
    failure: Exception | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _was_stopped: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def is_active(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def request_stop(self) -> None:
        """Make the function see that it is to end, the next time it asks."""
        self._stopping.set()

    def was_stopped(self) -> bool:
        """Whether the function has asked after `request_stop`, so that it may have left
        something out."""
        return self._was_stopped

    def _run(self) -> None:
        try:
            self.do(self._is_ending)
        except Exception as error:  # whatever it raises is the job's error
            self.failure = error

    def _is_ending(self) -> bool:
        self._was_stopped = self._was_stopped or self._stopping.is_set()
        return self._was_stopped
