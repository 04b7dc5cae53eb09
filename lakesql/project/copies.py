"""Work that a copy of this process does on another core, where there is one."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


def in_two(
    items: Sequence[Item], worth: int, work: Callable[[Sequence[Item]], T]
) -> list[T]:
    """What the work makes of the items, or of each half of them: of `worth` and more a
    copy of this process does the second one, where it has a core for itself."""
    if len(items) < worth or not can_copy():
        return [work(items)]
    half = len(items) // 2
    share = start_share(partial(work, items[half:]))
    try:
        first = work(items[:half])
    finally:
        second = share.wait()
    return [first, second]


@dataclass(frozen=True, slots=True)
class Share(Generic[T]):
    """Work that is being done beside this process: `child` is the process, `pipe` what
    its result is read from."""

    work: Callable[[], T]
    child: int
    pipe: int

    def wait(self) -> T:
        """The result of the work. If the copy has failed, the work is done here, and
        raises here what it raises."""
        with os.fdopen(self.pipe, "rb") as pipe:
            sent = pipe.read()
        _, status = os.waitpid(self.child, 0)
        if status != 0:
            return self.work()
        result: T = pickle.loads(sent)
        return result


def can_copy() -> bool:
    """Whether a copy of this process has a core for itself. A process with several
    threads is not copied: a lock that another thread holds would be held in the copy
    for ever."""
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
    )


def start_share(work: Callable[[], T]) -> Share[T]:
    """Let a copy of this process do the work. What it changes in memory stays there:
    its result comes back alone."""
    read, write = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(write)
        return Share(work, child, read)
    status = 1
    try:
        os.close(read)
        result = pickle.dumps(work(), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(result)
        status = 0
    finally:
        # nothing of what the process does at its end is the copy's to do
        os._exit(status)
