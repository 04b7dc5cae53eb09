"""A bar for each file that is fetched, on a terminal that somebody watches, and gone
again at the end."""

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
    """What draws the bars: told of a file's name, how many bytes of it are there, and
    how many it has, if known."""
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
    # Only here: importing rich takes a while, and jars are fetched once.
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
