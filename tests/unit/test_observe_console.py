"""What a run shows: plain lines, the closing table, and the live view on a real
pseudo-terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from functools import reduce
from threading import Thread
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import Place, Problem
from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Event,
    HealthJudged,
    HealthReason,
    ModelFinished,
    Noted,
    PartitionLag,
    Progress,
    QueryStarted,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    SessionStarted,
    StepApplied,
)
from lakesql.observe.console import console, is_watched
from lakesql.observe.emitter import Emitter
from lakesql.observe.lines import PROGRESS_EVERY_MS, WIDTH, PlainLines
from lakesql.observe.live import (
    ATTENTION,
    LETTERS,
    PHASE_STYLES,
    PICTURES,
    LiveView,
    Signs,
    render_live,
)
from lakesql.observe.summary import render_closing, render_totals
from lakesql.observe.tally import Phase, RunTally, count_event
from lakesql.observe.text import shorten
from tests.cases import each_of

AT = 1_772_366_585_123
SOURCE = "SELECT amuont"
PROBLEM = Problem(
    "wrong-value",
    "No such column.",
    "Because.",
    "Did you mean that?",
    Place("models/b.sql", 3, 8),
)
RUN: tuple[Event, ...] = (
    RunStarted("dev", ("orders", "b", "late"), False, at_ms=AT),
    SessionStarted(7_100, at_ms=AT),
    Noted("a note", at_ms=AT),
    StepApplied("orders", "table made", at_ms=AT),
    QueryStarted("orders", at_ms=AT),
    RecordsRejected(
        "orders",
        0,
        "lake.shop.orders__dead_letter",
        2,
        (("not-readable", 2),),
        at_ms=AT,
    ),
    BatchCommitted("orders", 0, 400, 371, 2, 77, 812, "", at_ms=AT),
    Progress("orders", 500.0, 4_321, "records", at_ms=AT),
    BatchSkipped("orders", 1, at_ms=AT),
    BatchEmpty("orders", 2, 0, 0, at_ms=AT),
    ModelFinished("orders", "success", 1, 400, 371, 2, 1, 5_000, at_ms=AT),
    ModelFinished("b", "error", 0, 0, 0, 0, 0, 1_000, (PROBLEM,), at_ms=AT),
    ModelFinished("late", "skipped", 0, 0, 0, 0, 0, 0, because="b failed", at_ms=AT),
    RunFinished(9_000, False, at_ms=AT),
)


def read_line(place: Place) -> str | None:
    return SOURCE if place.path == "models/b.sql" else None


def plain(*events: Event) -> tuple[list[str], str]:
    out, err = io.StringIO(), io.StringIO()
    with Emitter([PlainLines(out, err, zone=UTC, read_line=read_line)]) as emit:
        for event in events:
            emit(event)
    assert emit.failures == []
    return out.getvalue().splitlines(), err.getvalue()


def tally(*events: Event) -> RunTally:
    return reduce(count_event, events, RunTally())


def test_plain_lines_say_one_event_each() -> None:
    lines, _ = plain(*RUN)
    stamped = [line for line in lines if line.startswith("12:03:05 ")]
    assert len(stamped) == 11
    assert (
        "12:03:05 orders  batch 0: 400 records, 371 rows, 2 dead letters, 0.8 s"
        in stamped
    )


def test_the_closing_table_has_a_row_for_each_model_and_fits() -> None:
    lines, _ = plain(*RUN)
    rows = {
        line.split()[0]: line.split()[1:]
        for line in lines
        if line.startswith(("orders ", "b ", "late "))
    }
    assert rows["orders"] == ["done", "1", "400", "371", "2", "5.0", "s"]
    assert rows["b"][0] == "failed"
    assert rows["late"][0] == "skipped"
    assert max(len(line) for line in lines) <= WIDTH


def test_failures_stand_in_full_on_stderr_alone() -> None:
    lines, err = plain(*RUN)
    assert "error[wrong-value] models/b.sql:3:8\n" in err
    caret, source = err.splitlines()[4], err.splitlines()[3]
    assert source[caret.index("^") :].startswith("amuont")
    assert "Did you mean that?" in err
    assert not any("Did you mean that?" in line for line in lines)


def test_a_backlog_gets_a_line_now_and_then() -> None:
    every = PROGRESS_EVERY_MS // 10
    events = [
        Progress("a", 5.0, 1_000 - step, "records", at_ms=AT + step * every)
        for step in range(31)
    ]
    lines, _ = plain(RunStarted("dev", ("a",), True, at_ms=AT), *events)
    assert [line.split()[3] for line in lines[1:]] == ["990", "980", "970"]


def test_no_backlog_gets_no_line() -> None:
    events = [
        Progress("a", 0.0, 0, "records", at_ms=AT + step * PROGRESS_EVERY_MS)
        for step in range(5)
    ]
    assert len(plain(RunStarted("dev", ("a",), True, at_ms=AT), *events)[0]) == 1


@given(
    names=st.lists(
        st.text(min_size=1, max_size=80), min_size=1, max_size=5, unique=True
    ),
    rows=st.integers(0, 10**12),
    duration_ms=st.integers(0, 10**10),
)
def test_no_name_and_no_number_makes_the_closing_table_wider(
    names: list[str], rows: int, duration_ms: int
) -> None:
    ends = [
        ModelFinished(name, "success", rows, rows, rows, rows, 0, duration_ms, at_ms=AT)
        for name in names
    ]
    header, *table = render_totals(
        tally(RunStarted("dev", tuple(names), False, at_ms=AT), *ends), 120
    )
    assert "batches" in header.plain and "dead letters" in header.plain
    assert len(table) == len(names)
    assert {line.cell_len for line in table} == {header.cell_len}
    assert header.cell_len <= 120
    assert all(line.plain.count(f"{rows:,}") >= 4 or rows == 0 for line in table)


@each_of("rows", [0, 7, 336_776, 1_204_336_774])
def test_the_closing_table_fits_in_60_columns(rows: int) -> None:
    names = ("orders", "a_model_with_a_rather_long_name_indeed")
    ends = [
        ModelFinished(name, "success", 41, rows, rows, rows, 0, 7_384_000, at_ms=AT)
        for name in names
    ]
    table = render_totals(tally(RunStarted("dev", names, False, at_ms=AT), *ends), 60)
    assert max(line.cell_len for line in table) <= 60
    assert [
        word for word in table[0].plain.split() if word in "model status rows time"
    ] == [
        "model",
        "status",
        "rows",
        "time",
    ]
    assert all(
        (f"{rows:,}" if rows else "-") in line.plain and "2 h 03 min" in line.plain
        for line in table[1:]
    )


def test_the_summary_names_the_models_that_are_not_kept_fresh() -> None:
    ends = [
        ModelFinished(name, "success", 1, 1, 1, 0, 0, 1_000, at_ms=AT)
        for name in ("kept", "ended")
    ]
    lines, _ = plain(
        RunStarted("dev", ("kept", "ended"), True, ("ended",), at_ms=AT),
        *ends,
        RunFinished(9_000, True, at_ms=AT),
    )
    assert [line.partition(":")[0] for line in lines if "not kept fresh" in line] == [
        "ended"
    ]


def test_cells_are_shown_to_the_letter() -> None:
    """Neither markup nor an emoji's name nor a command for the terminal is followed."""
    names = ("[red]a[/red]", ":smile:", "a\x1b[31mb", "日本")
    run = tally(
        RunStarted("dev", names, False, at_ms=AT),
        *(QueryStarted(name, at_ms=AT) for name in names),
    )
    shown = [line.plain for line in render_totals(run, 100)[1:]]
    assert [line.split()[0] for line in shown] == [
        "[red]a[/red]",
        ":smile:",
        "a\\x1b[31mb",
        "日本",
    ]
    live = render_live(run, 100, 30, AT, PICTURES).plain.split("\n")[2:6]
    assert [line.split()[1] for line in live] == [line.split()[0] for line in shown]


@given(st.text(max_size=60), st.integers(4, 60))
def test_a_short_name_keeps_both_ends(name: str, width: int) -> None:
    short = shorten(name, width)
    assert len(short) <= width
    assert short == name or (short[0] == name[0] and len(short) == width)


def test_a_run_without_new_records_says_so() -> None:
    ends = (
        ModelFinished("a", "success", 0, 0, 0, 0, 0, 9, at_ms=AT),
        RunFinished(9, False, at_ms=AT),
    )
    assert render_closing(
        tally(RunStarted("dev", ("a",), False, at_ms=AT), *ends)
    ).startswith("Nothing new")
    assert not render_closing(
        tally(RunStarted("dev", ("a", "b"), False, at_ms=AT), *ends)
    ).startswith("Nothing new")


BEHIND = (
    PartitionLag("shop.orders", 0, 300),
    PartitionLag("shop.orders", 1, 0),
    PartitionLag("shop.orders", 2, 4_000),
    PartitionLag("shop.clicks", 11, 21),
)


@given(
    st.integers(30, 200),
    st.integers(4, 60),
    st.integers(0, 10**9),
    st.sampled_from([PICTURES, LETTERS]),
)
def test_the_live_table_stays_within_the_screen(
    width: int, height: int, rows: int, signs: Signs
) -> None:
    names = tuple(f"a_model_with_a_rather_long_name_{number}" for number in range(40))
    run = tally(
        RunStarted("dev", names, True, at_ms=AT),
        SessionStarted(1, at_ms=AT),
        *(
            BatchCommitted(name, 3, rows, rows, 7, 1, 1, "", at_ms=AT)
            for name in names[5:20]
        ),
        *(
            Progress(name, 123.0, 4_321, "records", BEHIND, at_ms=AT)
            for name in names[5:20]
        ),
    )
    view = render_live(run, width, height, AT + 5_000, signs)
    lines = view.plain.split("\n")
    assert len(lines) <= max(height, 7)
    shown = next(line for line in lines if "ago" in line)
    assert f"{rows:,}" in shown and "4,321" in shown and "5 s ago" in shown
    if width >= 60:
        assert max(len(line) for line in lines[:-1]) <= width


@each_of(
    ("width", "said"),
    [
        (100, "backlog shop.orders-2 4,000 · shop.orders-0 300 · shop.clicks-11 21"),
        (61, "backlog shop.orders-2 4,000 · shop.orders-0 300 · 1 more"),
        (41, "backlog shop.orders-2 4,000 · 2 more"),
        (20, None),
    ],
)
def test_the_backlog_is_shown_by_partition_the_largest_first(
    width: int, said: str | None
) -> None:
    """As long as there is room, and a backlog."""

    def lags(height: int, *lag: PartitionLag) -> list[str]:
        told = Progress("a", 1.0, 4_321, "records", lag, at_ms=AT)
        run = tally(
            RunStarted("dev", ("a", "b", "c"), True, at_ms=AT),
            QueryStarted("a", at_ms=AT),
            told,
        )
        lines = render_live(run, width, height, AT, PICTURES).plain.split("\n")
        return [line.strip() for line in lines if "backlog shop" in line]

    assert lags(24, *BEHIND) == ([said] if said else [])
    assert lags(9, *BEHIND) == lags(24, PartitionLag("shop.orders", 0, 0)) == []


OLD = HealthReason(
    "freshness",
    "ill",
    900_000,
    600_000,
    "last commit 15 min 00 s ago (limit 10 min 00 s)",
)
MANY = HealthReason(
    "delete_ratio",
    "watch",
    0.2,
    0.1,
    "20 % of the rows in its data files are deleted (limit 10 %)",
)


def test_the_health_of_each_model_is_shown_with_its_reasons() -> None:
    away = Retrying("b", 1, 10, 1_000, (PROBLEM,), at_ms=AT)
    names = ("orders", "b", "c", "waits")
    run = tally(
        RunStarted("dev", names, True, at_ms=AT),
        *(QueryStarted(name, at_ms=AT) for name in names[:3]),
        HealthJudged("orders", "ill", "well", (OLD, MANY), at_ms=AT),
        away,
        ModelFinished("c", "error", 0, 0, 0, 0, 0, 1, (PROBLEM,), at_ms=AT),
    )

    def words(run: RunTally, width: int = 120, height: int = 24) -> list[list[str]]:
        return [
            line.split()
            for line in render_live(run, width, height, AT, LETTERS).plain.split("\n")[
                2:-2
            ]
        ]

    found = words(run)
    assert [line[1:3] for line in (found[0], found[2], found[3])] == [
        ["orders", "ill"],
        ["b", "watch"],
        ["c", "ill"],
    ]
    assert " ".join(found[1]).startswith(f"ill: {OLD.text}, watch: {MANY.text}"[:100])
    assert found[4] == [".", "waits"]
    assert len(words(run, height=9)) == 3, "no room for reasons"
    assert (
        max(
            len(line)
            for line in render_live(run, 60, 24, AT, LETTERS).plain.split("\n")
        )
        <= 60
    )
    well = count_event(run, HealthJudged("orders", "well", "ill", (), at_ms=AT))
    assert [line[1:3] for line in words(well)[:2]] == [
        ["orders", "well"],
        ["b", "watch"],
    ]


def test_a_health_that_is_no_news_gets_no_line() -> None:
    told = [
        HealthJudged("a", "ill", was, (OLD,), at_ms=AT)
        for was in ("well", "ill", "ill")
    ]
    lines, _ = plain(
        RunStarted("dev", ("a",), True, at_ms=AT),
        *told,
        HealthJudged("a", "well", "ill", (), at_ms=AT),
    )
    assert [line.split(" ", 1)[1].strip() for line in lines[1:]] == [
        f"a  ill: {OLD.text}",
        "a  well",
    ]
    assert shown_live((RUN[0], *told)).count(OLD.text) >= 1


def test_every_phase_has_its_sign_and_its_style() -> None:
    assert set(PHASE_STYLES) == set(ATTENTION) == set(get_args(Phase))
    for signs in (PICTURES, LETTERS):
        assert {*signs.phases, "running"} == set(get_args(Phase))


def test_a_wide_screen_shows_every_figure_and_an_80_column_one_the_important() -> None:
    run = tally(*RUN[:8])
    head = {
        width: render_live(run, width, 24, AT, PICTURES).plain.split("\n")[1].split()
        for width in (80, 120)
    }
    assert head[80] == [
        "model",
        "health",
        "batch",
        "records/s",
        "rows",
        "backlog",
        "last",
        "commit",
    ]
    assert head[120] == [
        *("model", "health", "batch", "records/s", "records", "rows"),
        *("dead", "letters", "late", "failing", "backlog", "last", "commit"),
    ]


class Terminal(io.StringIO):
    """A terminal as far as `isatty` goes."""

    def isatty(self) -> bool:
        return True


@each_of(
    ("environ", "watched"),
    [
        ({}, True),
        ({"TERM": "xterm-256color", "CI": ""}, True),
        ({"CI": "false"}, True),
        ({"CI": "true"}, False),
        ({"CI": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_a_terminal_outside_of_ci_is_watched(
    environ: Mapping[str, str], watched: bool
) -> None:
    assert is_watched(Terminal(), environ) is watched
    assert is_watched(io.StringIO(), environ) is False


@contextmanager
def terminal() -> Iterator[tuple[io.TextIOWrapper, bytearray]]:
    """A pseudo-terminal's end to write to, and what has arrived at the other end once
    the block is left."""
    master, slave = os.openpty()
    arrived = bytearray()

    def read_all() -> None:
        while True:
            try:
                read = os.read(master, 65_536)
            except OSError:
                return
            arrived.extend(read)

    reader = Thread(target=read_all)
    reader.start()
    try:
        with open(slave, "w", encoding="utf-8") as stream:  # noqa: PTH123
            yield stream, arrived
    finally:
        reader.join()
        os.close(master)


def shown_live(events: tuple[Event, ...], **environ: str) -> str:
    environ = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environ}
    with terminal() as (stream, arrived):
        render = console(
            stream,
            stream,
            environ=environ,
            clock=lambda: AT,
            read_line=read_line,
            zone=UTC,
        )
        assert isinstance(render, LiveView)
        with Emitter([render]) as emit:
            for event in events:
                emit(event)
        assert emit.failures == []
    return arrived.decode()


HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def test_the_live_view_ends_with_the_table_the_failures_and_the_cursor() -> None:
    text = shown_live(RUN)
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) == 1
    after = text[text.index(SHOW_CURSOR) :]
    assert "371" in after and "up to date" not in after
    assert "error[wrong-value] models/b.sql:3:8" in after
    before = text[: text.index(SHOW_CURSOR)]
    assert (
        "a note" in before
        and "orders__dead_letter" in before
        and "table made" in before
    )


def test_the_live_view_restores_the_terminal_where_the_run_broke_off() -> None:
    text = shown_live(RUN[:7])
    assert text.index(HIDE_CURSOR) < text.index(SHOW_CURSOR)


def test_no_color_is_respected() -> None:
    coloured, colourless = "\x1b[31m", shown_live(RUN, NO_COLOR="1")
    assert coloured in shown_live(RUN)
    assert not any(
        f"\x1b[{code}m" in colourless
        for code in (*range(30, 38), *range(90, 98), "1;31", "1;32")
    )


def test_dead_letters_for_a_known_reason_get_a_line_now_and_then() -> None:
    again = [
        RecordsRejected(
            "orders",
            100 + step,
            "t",
            1,
            (("not-readable", 1),),
            at_ms=AT + step * 1_000,
        )
        for step in range(40)
    ]
    other = RecordsRejected(
        "orders", 900, "t", 1, (("missing-value", 1),), at_ms=AT + 41_000
    )
    text = shown_live((RUN[0], *again, other))
    batches = [step for step in range(100, 140) if f"batch {step}:" in text]
    assert batches == [100, 130]
    assert "batch 900:" in text


def test_what_the_encoding_does_not_have_is_no_failure() -> None:
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="ascii")
    render = console(
        out, out, environ={}, clock=lambda: AT, read_line=read_line, zone=UTC
    )
    render(Noted("Größe", at_ms=AT), RunTally())
    assert buffer.getvalue() == b"12:03:05 Gr??e\n"


@pytest.mark.checks
def test_rich_is_not_loaded_where_nobody_watches() -> None:
    code = "import sys, lakesql.observe.lines; print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
