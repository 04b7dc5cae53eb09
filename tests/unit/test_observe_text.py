from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.counts import count
from lakesql.errors import Place, Problem
from lakesql.events import BatchCommitted, ModelFinished, Noted, Progress, Retrying
from lakesql.observe.text import (
    age,
    describe,
    duration,
    headline,
    iso_time,
    printable,
    stopwatch,
)
from tests.cases import each_of

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@each_of(
    ("ms", "text"),
    [
        (-5, "0.0 s"),
        (840, "0.8 s"),
        (41_240, "41.2 s"),
        (59_949, "59.9 s"),
        (59_960, "1 min 00 s"),
        (125 * SECOND, "2 min 05 s"),
        (3 * HOUR + 4 * MINUTE, "3 h 04 min"),
        (12 * DAY + 3 * HOUR, "12 d 03 h"),
    ],
)
def test_a_duration_is_written_in_its_largest_units(ms: int, text: str) -> None:
    assert duration(ms) == text


@each_of(
    ("ms", "text"),
    [
        (-5, "now"),
        (999, "now"),
        (4_900, "4 s ago"),
        (59_999, "59 s ago"),
        (12 * MINUTE, "12 min ago"),
        (2 * HOUR, "2 h ago"),
        (3 * DAY, "3 d ago"),
    ],
)
def test_an_age_is_written_in_its_largest_unit(ms: int, text: str) -> None:
    assert age(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"), [(-1, "0:00"), (42_900, "0:42"), (3 * HOUR + 7 * SECOND, "3:00:07")]
)
def test_the_stopwatch_is_written_with_minutes_and_hours(ms: int, text: str) -> None:
    assert stopwatch(ms) == text


def test_a_count_has_its_plural_and_thousands_separators() -> None:
    assert count(1, "row") == "1 row"
    assert count(0, "row") == "0 rows"
    assert count(1_204, "batch", "batches") == "1,204 batches"


def test_times_are_utc_to_the_millisecond() -> None:
    assert iso_time(1_772_366_585_123) == "2026-03-01T12:03:05.123Z"


def test_a_batch_says_its_figures() -> None:
    line = describe(BatchCommitted("orders", 3, 400, 371, 2, 77, 812, "", at_ms=0))
    assert line.model == "orders"
    assert line.text == "batch 3: 400 records, 371 rows, 2 dead letters, 0.8 s"


def test_a_batch_without_dead_letters_does_not_speak_of_them() -> None:
    assert (
        describe(BatchCommitted("orders", 3, 1, 1, 0, 77, 812, "", at_ms=0)).text
        == "batch 3: 1 record, 1 row, 0.8 s"
    )


@pytest.mark.parametrize("speed", [float("nan"), float("inf")])
def test_a_rate_that_is_not_a_number_is_omitted(speed: float) -> None:
    assert (
        describe(Progress("orders", speed, 12, "records", at_ms=0)).text
        == "backlog 12 records"
    )


def test_a_backlog_says_how_long_it_takes() -> None:
    assert (
        describe(Progress("orders", 200.0, 65_000, "ms", at_ms=0)).text
        == "backlog 1 min 05 s, 200 records/s"
    )
    text = describe(Progress("orders", 200.0, 60_000, "records", at_ms=0)).text
    assert text == "backlog 60,000 records, 200 records/s, about 5 min 00 s left"
    for event in (
        Progress("orders", 200.0, 600, "records", at_ms=0),
        Progress("orders", 200.0, 60_000, "files", at_ms=0),
    ):
        assert "left" not in describe(event).text


def test_a_failure_says_condition_place_and_how_many_more() -> None:
    problem = Problem("wrong-value", "No.", place=Place("models/orders.sql", 3, 5))
    assert headline((problem,)).startswith("error[wrong-value] models/orders.sql:3:5 ")
    assert "2 more" in headline((problem, problem, problem))


def test_a_retry_says_its_reason_its_number_and_when_it_comes() -> None:
    problem = Problem("connection-unreachable", "No broker answers.")
    line = describe(Retrying("orders", 3, 10, 4_000, (problem,), at_ms=0))
    assert (line.model, line.tone) == ("orders", "warning")
    assert all(
        fact in line.text
        for fact in (
            "error[connection-unreachable]",
            "No broker answers.",
            "4.0 s",
            "3 of 10",
        )
    )


def test_a_model_without_batches_is_reported_as_up_to_date() -> None:
    finished = ModelFinished("orders", "success", 0, 0, 0, 0, 0, 90, at_ms=0)
    worked = ModelFinished("orders", "success", 0, 0, 0, 0, 1, 90, at_ms=0)
    assert "up to date" in describe(finished).text
    assert "up to date" not in describe(worked).text


@given(st.text())
def test_the_text_of_any_event_is_one_printable_line(text: str) -> None:
    assert describe(Noted(text, text, at_ms=0)).text.isprintable()
    assert describe(Noted(text, text, at_ms=0)).model.isprintable()


def test_unprintable_characters_are_escaped() -> None:
    assert printable("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb c\\u202ed"
    assert printable("a\tb\nc", keep="\t\n") == "a\tb\nc"
    assert printable("Größe 数") == "Größe 数"
