"""The renderers that write a run's events as lines: plain on the console, as JSON
(`--log-format json`), and into the file `logs/lakesql.log`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import textwrap
from dataclasses import asdict, replace
from datetime import tzinfo
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from lakesql.errors import render_problem
from lakesql.events import (
    BatchEmpty,
    BatchStarted,
    Event,
    HealthJudged,
    ModelFinished,
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
from lakesql.observe.text import GAP, describe, iso_time, printable, shorten, wall_time

WIDTH = 100
"""The width in characters of the closing table, where no terminal limits it."""

LONGEST_NAME = 30
"""The most characters of a model's name before a line's text."""

PROGRESS_EVERY_MS = 30_000
"""The least time between two lines on a model's backlog."""


class PlainLines:
    """A renderer that writes a line for each event that is worth one, and at the end
    the closing table; the failures go to `err`.

    Times are in `zone`, or in this machine's zone if it is None.
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
        """Write a line on the event, if it is worth one."""
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
    """The event as a line that begins with the model's name, in a column of its own; a
    line about the run has no such column."""
    line = describe(event)
    return f"{name_cell(line.model, run)}{line.text}" if line.model else line.text


def name_cell(model: str, run: RunTally) -> str:
    """The model's name, padded to the longest name of the run, and a gap."""
    width = min(LONGEST_NAME, max(map(len, (*run.models, *run.seeds)), default=0))
    return shorten(model, LONGEST_NAME).ljust(width) + GAP


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    # Flushed at once, as a reader of the pipe waits for this line.
    stream.flush()


JSON_PROGRESS_EVERY_MS = 5_000


class JsonLines:
    """A renderer that writes each event as a line of JSON, flushed at once for readers
    of the pipe.

    Progress, an event that comes twice a second, is written at most every 5 seconds for
    each model, and only if it has changed.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._progress: dict[str, Progress] = {}

    def __call__(self, event: Event, run: RunTally) -> None:
        """Write the event, unless it is progress that is not due."""
        if isinstance(event, Progress):
            last = self._progress.get(event.model)
            if last and (
                event.at_ms - last.at_ms < JSON_PROGRESS_EVERY_MS
                or replace(event, at_ms=last.at_ms) == last
            ):
                return
            self._progress[event.model] = event
        self._out.write(render_json(event) + "\n")
        self._out.flush()


def render_json(event: Event) -> str:
    """The event as a line of JSON in ASCII: `{"event": "batch_committed", "at":
    "2026-03-01T12:03:05.120Z", "model": "orders", …}`.

    The other keys are the event's fields by name. `reasons` is an object of counts, and
    a number that JSON cannot express (a speed before the first batch) is null.
    """
    fields: dict[str, Any] = asdict(event)
    at_ms = fields.pop("at_ms")
    if "reasons" in fields:
        fields["reasons"] = dict(fields["reasons"])
    plain = {key: _without_nan(value) for key, value in fields.items()}
    return json.dumps(
        {"event": event_name(type(event)), "at": iso_time(at_ms), **plain},
        allow_nan=False,
    )


def event_name(kind: type[Event]) -> str:
    """The name of a kind of event: `batch_committed` for `BatchCommitted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _without_nan(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


MAX_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5


class LogFile:
    """A renderer that appends a line for each event to a file, except progress, the
    beginnings of batches, and unchanged health.

    A failure is followed by its problems in full. A file that would grow past
    `max_bytes` becomes `<path>.1`, the former `.1` becomes `.2`, and so on up to `kept`
    files. The file is opened at the first event, and its folder created if needed.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES
    ) -> None:
        self._path = path
        self._handler = _RotatedFileHandler(
            path,
            maxBytes=max_bytes,
            backupCount=kept,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        self._handler.terminator = ""

    def __call__(self, event: Event, run: RunTally) -> None:
        """Append a line on the event, if it is one that is logged."""
        is_repeated = isinstance(event, HealthJudged) and event.health == event.was
        if not is_repeated and not isinstance(event, Progress | BatchStarted):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._handler.emit(logging.makeLogRecord({"msg": _render(event, run)}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handler.close()


class _RotatedFileHandler(RotatingFileHandler):
    """A handler that opens the file anew after another run has rotated it, and raises
    if it cannot be written."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802  logging's name
        if self.stream is not None and not self._is_at_path(self.stream):
            self.stream.close()
            self.stream = self._open()
        return bool(super().shouldRollover(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        raise

    def _is_at_path(self, stream: TextIO) -> bool:
        try:
            return os.path.samestat(
                os.fstat(stream.fileno()), Path(self.baseFilename).stat()
            )
        except FileNotFoundError:
            return False


def _render(event: Event, run: RunTally) -> str:
    line = f"{iso_time(event.at_ms)} {render_line(event, run)}\n"
    problems = event.problems if isinstance(event, ModelFinished) else ()
    return line + "".join(
        # Indented, so that only lines of events start with a digit.
        textwrap.indent(printable(f"{render_problem(problem)}\n", keep="\n\t"), "  ")
        for problem in problems
    )
