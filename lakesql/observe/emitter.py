"""Counts every event, and hands it to everybody who shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from threading import RLock
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from lakesql.events import Event, Noted
from lakesql.observe.tally import RunTally, count_event
from lakesql.secrets import NO_SECRETS, Secrets

Clock = Callable[[], int]
"""The time since the epoch in milliseconds."""


class Renderer(Protocol):
    """Shows events. Called by one thread at a time; one that holds a resource is a
    context manager besides."""

    def __call__(self, event: Event, run: RunTally) -> None:
        """Shows the event, or passes it over. `run` is how the run stands after it."""


@runtime_checkable
class Forewarner(Protocol):
    """A renderer that has something to say before an event is shown."""

    def say_first(self, event: Event, run: RunTally) -> Iterable[Event]:
        """The events that all renderers are shown before `event`. `run` is how the run
        stands before it."""


class Emitter:
    """Takes events from any thread and hands each to every renderer, one event at a
    time, in the renderers' order.

    A renderer that raises is left out from then on and the others are told: a full disk
    or a closed pipe costs its own output, never a batch. `failures` holds what such
    renderers raised. As a context manager it enters and leaves the renderers that are
    context managers. No renderer gets to see one of `secrets`.
    """

    def __init__(
        self, renderers: Iterable[Renderer], secrets: Secrets = NO_SECRETS
    ) -> None:
        self._renderers = list(renderers)
        self._secrets = secrets
        self._run = RunTally()
        self._resources = ExitStack()
        # Re-entrant, because a signal's handler may emit in the thread that is just
        # emitting.
        self._lock = RLock()
        self._untold: list[str] = []
        self.failures: list[Exception] = []

    def __call__(self, event: Event) -> None:
        """Hands `event` to every renderer."""
        with self._lock:
            for renderer in [
                each for each in self._renderers if isinstance(each, Forewarner)
            ]:
                for said in self._ask(renderer, self._secrets.redact_fields(event)):
                    self._deliver(said)
            self._deliver(event)
            while self._untold:
                self._deliver(Noted(self._untold.pop(0), at_ms=event.at_ms))

    def __enter__(self) -> Self:
        for renderer in self._renderers:
            if isinstance(renderer, AbstractContextManager):
                self._resources.enter_context(renderer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._renderers.clear()
            try:
                self._resources.__exit__(kind, error, trace)
            except Exception as failure:
                self.failures.append(failure)

    def _deliver(self, event: Event) -> None:
        event = self._secrets.redact_fields(event)
        run = self._run = count_event(self._run, event)
        for renderer in tuple(self._renderers):
            try:
                renderer(event, run)
            except Exception as failure:
                self._leave_out(renderer, failure)

    def _ask(self, renderer: Renderer, event: Event) -> tuple[Event, ...]:
        assert isinstance(renderer, Forewarner)
        try:
            return tuple(renderer.say_first(event, self._run))
        except Exception as failure:
            self._leave_out(renderer, failure)
            return ()

    def _leave_out(self, renderer: Renderer, failure: Exception) -> None:
        self._renderers.remove(renderer)
        self.failures.append(failure)
        self._untold.append(
            f"{type(renderer).__name__} shows nothing more, after {failure!r}."
        )
