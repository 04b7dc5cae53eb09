"""`logs/lakesql.log`: everything that happened, in plain lines, run after run."""

from __future__ import annotations

import os
import textwrap
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Self

from lakesql.errors import render_problem
from lakesql.events import Event, ModelFinished, Progress
from lakesql.observe.plain import render_line
from lakesql.observe.tally import RunTally
from lakesql.observe.text import iso_time, printable

MAX_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5


class LogFile:
    """Appends a line for each event but the figures between batches; a failure's problems follow it in full.

    A file that has grown past `max_bytes` becomes `<path>.1`, the former `.1` becomes `.2`, and so on up to `kept`
    files. The file is opened with the first event, and its directory is made if it is not there.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT_FILES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._file: TextIOWrapper | None = None

    def __call__(self, event: Event, run: RunTally) -> None:
        """Appends what the event says."""
        if isinstance(event, Progress):
            return
        file = self._file or self._open()
        file.write(_render(event, run))
        file.flush()
        if file.tell() >= self._max_bytes:
            self._rotate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _open(self) -> TextIOWrapper:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
        return self._file

    def _close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        is_own = self._is_at_path()
        self._close()
        if not is_own:  # another run has done it; the next event opens the new file
            return
        for number in range(self._kept - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        with suppress(FileNotFoundError):  # the other one was faster
            if self._kept:
                self._path.replace(self._numbered(1))
            else:
                self._path.unlink()

    def _is_at_path(self) -> bool:
        """Whether the open file is the one at the path: another run in the project may have moved it away."""
        try:
            return self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _render(event: Event, run: RunTally) -> str:
    line = f"{iso_time(event.at_ms)} {render_line(event, run)}\n"
    problems = event.problems if isinstance(event, ModelFinished) else ()
    return line + "".join(
        # Indented, so that a line which starts with a digit is an event's.
        textwrap.indent(printable(f"{render_problem(problem)}\n", keep="\n\t"), "  ")
        for problem in problems
    )
