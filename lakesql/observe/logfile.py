"""`logs/lakesql.log`: everything that happened, in plain lines, run after run."""

from __future__ import annotations

import logging
import os
import textwrap
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from lakesql.errors import render_problem
from lakesql.events import BatchStarted, Event, HealthJudged, ModelFinished, Progress
from lakesql.observe.plain import render_line
from lakesql.observe.tally import RunTally
from lakesql.observe.text import iso_time, printable

MAX_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5


class LogFile:
    """Appends a line for each event but the figures between batches, their begins, and
    a health that is no news.

    A failure's problems follow it in full.

    A file that would grow past `max_bytes` becomes `<path>.1`, the former `.1` becomes
    `.2`, and so on up to `kept` files. The file is opened with the first event, and its
    directory is made if it is not there.
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
        """Appends what the event says."""
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
    """Follows the file where another run in the project has rotated it, and raises
    where it cannot be written."""

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
        # Indented, so that a line which starts with a digit is an event's.
        textwrap.indent(printable(f"{render_problem(problem)}\n", keep="\n\t"), "  ")
        for problem in problems
    )
