"""When memory is given back: never while something reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lakesql.engine.spark import arrow
from lakesql.engine.spark.arrow import AllocatorCleaner


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(arrow, "time", clock)
    yield clock


def watched(
    clock: Clock, late_s: float = 100, wait_s: float = 0
) -> tuple[AllocatorCleaner, list[float]]:
    """Moments ten seconds apart, and the times at which it ran."""
    ran: list[float] = []
    return AllocatorCleaner(lambda: ran.append(clock.now), 10, late_s, wait_s), ran


def test_the_cleaner_runs_before_a_block_when_it_is_due(clock: Clock) -> None:
    moments, ran = watched(clock, late_s=1000)

    for clock.now in (5, 10, 11, 12, 21, 22, 40):
        with moments.reading():
            pass

    assert ran == [11, 22, 40]


def test_the_cleaner_does_not_run_while_a_block_is_open(clock: Clock) -> None:
    moments, ran = watched(clock, late_s=1000)

    with moments.reading():
        clock.now = 20
        with moments.reading():
            clock.now = 40
    assert ran == []
    with moments.reading():
        pass

    assert ran == [40]


def test_a_block_waits_for_those_that_are_open_where_it_is_late(clock: Clock) -> None:
    moments, ran = watched(clock, wait_s=60)
    first, second = (
        ExitStack(),
        threading.Thread(target=lambda: moments.reading().__enter__()),
    )
    first.enter_context(moments.reading())
    clock.now = 101

    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert ran == []
    first.close()
    second.join(60)

    assert not second.is_alive()
    assert ran == [101]


def test_a_block_begins_without_cleaning_when_the_wait_times_out(clock: Clock) -> None:
    moments, ran = watched(clock, wait_s=0.01)

    with moments.reading():
        clock.now = 101
        with moments.reading():
            assert ran == []
    with moments.reading():
        pass

    assert ran == [101]


def test_blocks_that_begin_wait_with_the_one_that_waits(clock: Clock) -> None:
    """Or there is no such moment where several models are busy."""
    ran: list[int] = []
    opened: list[str] = []
    moments = AllocatorCleaner(
        lambda: ran.append(len(opened)), every_s=10, late_s=100, wait_s=60
    )

    def read(name: str) -> None:
        with moments.reading():
            opened.append(name)

    first = ExitStack()
    first.enter_context(moments.reading())
    clock.now = 101
    others = [
        threading.Thread(target=read, args=(name,)) for name in ("second", "third")
    ]
    for thread in others:
        thread.start()
        thread.join(0.2)
    assert opened == []
    first.close()
    for thread in others:
        thread.join(60)

    assert sorted(opened) == ["second", "third"]
    assert ran == [0]
