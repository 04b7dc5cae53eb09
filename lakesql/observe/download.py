"""Progress bars for files that are fetched, on a terminal, which disappear at the
end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from lakesql.observe.console import is_watched

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """A context with a function that draws the bars. It takes a file's name, the number
    of bytes fetched, and the file's size, None if unknown."""
    tasks: dict[str, TaskID] = {}
    bars: list[Progress] = []

    with ExitStack() as stack:

        def show(name: str, done: int, total: int | None) -> None:
            if not is_watched(sys.stderr, os.environ):
                return
            if not bars:
                bars.append(stack.enter_context(_open_bars()))
            if name not in tasks:
                tasks[name] = bars[0].add_task(name, total=total)
            bars[0].update(tasks[name], completed=done, total=total)

        yield show


def _open_bars() -> Progress:
    # Imported here, as rich loads slowly and jars are fetched only once.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
