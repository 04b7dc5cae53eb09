"""Plain lines: a run's log where nobody watches it live, and the log file's text."""

from __future__ import annotations

from datetime import tzinfo
from typing import TextIO

from lakesql.events import (
    BatchEmpty,
    BatchStarted,
    Event,
    HealthJudged,
    Progress,
    RunFinished,
)
from lakesql.observe.summary import (
    ReadLine,
    render_closing,
    render_failures,
    render_remarks,
    render_totals,
)
from lakesql.observe.tally import RunTally
from lakesql.observe.text import GAP, describe, shorten, wall_time

WIDTH = 100
"""Columns of the closing table, which nobody's terminal bounds."""

LONGEST_NAME = 30
"""Columns for a model's name before a line's text."""

PROGRESS_EVERY_MS = 30_000
"""How often a query that is behind says how far, between its batches."""


class PlainLines:
    """Writes a line for each event that is worth one, and at the end the closing table;
    the failures go to `err`.

    Times are of `zone`, this machine's if it is None.
    """

    def __init__(
        self, out: TextIO, err: TextIO, *, zone: tzinfo | None, read_line: ReadLine
    ) -> None:
        self._out = out
        self._err = err
        self._zone = zone
        self._read_line = read_line
        self._progress_at_ms: dict[str, int] = {}

    def __call__(self, event: Event, run: RunTally) -> None:
        """Writes what the event says, if it is worth a line."""
        if isinstance(event, RunFinished):
            self._close(run)
        elif self._is_worth_a_line(event):
            _write(
                self._out,
                f"{wall_time(event.at_ms, self._zone)} {render_line(event, run)}\n",
            )

    def _is_worth_a_line(self, event: Event) -> bool:
        match event:
            case BatchStarted():
                return False
            case BatchEmpty():
                return event.rejected + event.late + event.replaced > 0 or bool(
                    event.violations
                )
            case HealthJudged():
                return event.health != event.was
            case Progress():
                last = self._progress_at_ms.setdefault(event.model, event.at_ms)
                if not event.left or event.at_ms - last < PROGRESS_EVERY_MS:
                    return False
                self._progress_at_ms[event.model] = event.at_ms
                return True
            case _:
                return True

    def _close(self, run: RunTally) -> None:
        table = (
            "\n".join(line.plain.rstrip() for line in render_totals(run, WIDTH))
            if run.models
            else ""
        )
        parts = (table, "\n".join(render_remarks(run)), render_closing(run))
        _write(self._out, "".join(f"\n{part}\n" for part in parts if part))
        for failure in render_failures(run, self._read_line):
            _write(self._err, f"\n{failure}\n")


def render_line(event: Event, run: RunTally) -> str:
    """What the event says in a line, its model in a column of its own; a line about the
    run has no such column."""
    line = describe(event)
    return f"{name_cell(line.model, run)}{line.text}" if line.model else line.text


def name_cell(model: str, run: RunTally) -> str:
    """The model's name and the gap after it, as wide as the longest of the run."""
    width = min(LONGEST_NAME, max(map(len, (*run.models, *run.seeds)), default=0))
    return shorten(model, LONGEST_NAME).ljust(width) + GAP


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    # At once, because whoever reads the pipe waits for this line.
    stream.flush()
