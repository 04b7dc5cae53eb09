from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from threading import Barrier, Thread
from time import sleep
from typing import Self

import pytest

from lakesql.events import BatchEmpty, Event, Noted
from lakesql.observe.emitter import Emitter
from lakesql.observe.tally import RunTally


class Kept(AbstractContextManager["Kept"]):
    """Keeps the events, and notices when it is called by two threads at once."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.run = RunTally()
        self.is_open = False
        self.overlaps = 0
        self._inside = False

    def __call__(self, event: Event, run: RunTally) -> None:
        self.overlaps += self._inside
        self._inside = True
        sleep(0.000_1)
        self.events.append(event)
        self.run = run
        self._inside = False

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False


class Broken:
    """Shows `good` events and then fails."""

    def __init__(self, good: int) -> None:
        self.good = good
        self.calls = 0

    def __call__(self, event: Event, run: RunTally) -> None:
        self.calls += 1
        if self.calls > self.good:
            raise BrokenPipeError


def test_events_of_many_threads_reach_all_renderers_in_one_order() -> None:
    first, second = Kept(), Kept()
    barrier = Barrier(8)

    def emit_many(emit: Emitter, name: str) -> None:
        barrier.wait()
        for number in range(100):
            emit(Noted(str(number), name, at_ms=number))

    with Emitter([first, second]) as emit:
        threads = [
            Thread(target=emit_many, args=(emit, str(name))) for name in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(first.events) == 8 * 100
    assert first.events == second.events
    assert first.overlaps == 0
    for name in range(8):
        assert [
            event.at_ms
            for event in first.events
            if isinstance(event, Noted) and event.model == str(name)
        ] == list(range(100))


def test_renderers_are_open_within_and_closed_after_even_when_the_run_fails() -> None:
    kept = Kept()
    with pytest.raises(KeyError), Emitter([kept, Broken(9)]) as emit:
        assert kept.is_open
        emit(Noted("x", at_ms=1))
        raise KeyError
    assert not kept.is_open
    assert emit.failures == []


def test_a_failed_renderer_is_dropped_and_the_others_get_one_note() -> None:
    kept, broken = Kept(), Broken(1)
    with Emitter([broken, kept]) as emit:
        for number in range(4):
            emit(Noted(str(number), at_ms=number))
    assert broken.calls == 2
    assert [event.at_ms for event in kept.events] == [0, 1, 1, 2, 3]
    assert [type(failure) for failure in emit.failures] == [BrokenPipeError]


def test_events_are_counted_once_for_all_renderers() -> None:
    first, second = Kept(), Kept()
    with Emitter([first, Broken(0), second]) as emit:
        for number in range(3):
            emit(BatchEmpty("a", number, 5, 0, at_ms=number))
    assert first.run is second.run
    assert first.run.models["a"].records == 15


def test_the_last_renderer_may_fail_too() -> None:
    with Emitter([Broken(0), Broken(0)]) as emit:
        emit(Noted("x", at_ms=1))
        emit(Noted("y", at_ms=2))
    assert len(emit.failures) == 2


def test_a_renderer_that_fails_to_close_does_not_keep_others_open() -> None:
    class Stuck(Kept):
        def __exit__(self, *_: object) -> None:
            raise OSError

    kept = Kept()
    with Emitter([kept, Stuck()]) as emit:
        pass
    assert not kept.is_open
    assert [type(failure) for failure in emit.failures] == [OSError]


def test_a_renderer_may_emit() -> None:
    kept = Kept()

    def echo(event: Event, run: RunTally) -> None:
        if isinstance(event, Noted) and event.text == "call":
            emit(Noted("answer", at_ms=event.at_ms))

    emit = Emitter([echo, kept])
    emit(Noted("call", at_ms=1))
    assert {event.text for event in kept.events if isinstance(event, Noted)} == {
        "call",
        "answer",
    }


class Forewarning(Kept):
    """Says something before each event; raises before the event `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def say_first(self, event: Event, run: RunTally) -> Iterable[Event]:
        if event.at_ms == self.at:
            raise OSError
        yield Noted(f"before {event.at_ms}", at_ms=event.at_ms)


def test_what_is_said_first_is_shown_by_all_before_the_event() -> None:
    kept = Kept()
    with Emitter([kept, Forewarning(9)]) as emit:
        emit(Noted("a", at_ms=1))
        emit(Noted("b", at_ms=2))
    assert [event.text for event in kept.events if isinstance(event, Noted)] == [
        "before 1",
        "a",
        "before 2",
        "b",
    ]
    assert emit.failures == []


def test_a_renderer_that_fails_to_say_something_first_is_dropped() -> None:
    kept, failing = Kept(), Forewarning(2)
    with Emitter([kept, failing]) as emit:
        for number in (1, 2, 3):
            emit(Noted("x", at_ms=number))
    assert [event.at_ms for event in kept.events] == [1, 1, 2, 2, 3]
    assert [event.at_ms for event in failing.events] == [1, 1]
    assert [type(failure) for failure in emit.failures] == [OSError]
