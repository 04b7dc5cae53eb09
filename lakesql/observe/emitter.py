"""How events reach the renderers: each is counted in the tally, and handed with it to
every renderer."""

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
"""A function that returns the time since the epoch in milliseconds."""


class Renderer(Protocol):
    """Something that shows events. It is called by one thread at a time; one that holds
    a resource is a context manager too."""

    def __call__(self, event: Event, run: RunTally) -> None:
        """Show the event, or ignore it. `run` is the state of the run after it."""


@runtime_checkable
class Forewarner(Protocol):
    """A renderer that may emit events of its own before an event is shown."""

    def say_first(self, event: Event, run: RunTally) -> Iterable[Event]:
        """The events that all renderers get before `event`. `run` is the state of the
        run before it."""


class Emitter:
    """A function that takes events from any thread and hands each to every renderer,
    one event at a time, in the renderers' order.

    A renderer that raises gets no more events, and the others get a note on that: a
    full disk or a closed pipe ends its own output, never a batch. `failures` has the
    exceptions of such renderers. As a context manager it enters and leaves the
    renderers that are context managers. `secrets` are redacted in all events.
    """

    def __init__(
        self, renderers: Iterable[Renderer], secrets: Secrets = NO_SECRETS
    ) -> None:
        self._renderers = list(renderers)
        self._secrets = secrets
        self._run = RunTally()
        self._resources = ExitStack()
        # Re-entrant, as a signal handler may emit in a thread that is emitting.
        self._lock = RLock()
        self._untold: list[str] = []
        self.failures: list[Exception] = []

    def __call__(self, event: Event) -> None:
        """Hand `event` to every renderer."""
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
