"""How work is shared with a forked copy of this process, if another core is free."""

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
    """The results of `work` for the items: one for all of them, or, for at least
    `worth` items and with another core, two, of which a copy of this process computes
    the second for the second part of the items."""
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
    """Work that a copy of this process is doing: `child` is its process id, `pipe` the
    file descriptor from which its result is read."""

    work: Callable[[], T]
    child: int
    pipe: int

    def wait(self) -> T:
        """Wait for the copy and return its result. If it has failed, the work is done
        in this process, and raises what it raises."""
        with os.fdopen(self.pipe, "rb") as pipe:
            sent = pipe.read()
        _, status = os.waitpid(self.child, 0)
        if status != 0:
            return self.work()
        result: T = pickle.loads(sent)
        return result


def can_copy() -> bool:
    """Whether this process may be copied and has more than one core. A process with
    several threads is not copied, as a lock that another thread holds would be held in
    the copy for ever."""
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
    )


def start_share(work: Callable[[], T]) -> Share[T]:
    """Start the work in a copy of this process. Only its result, which must be
    picklable, comes back; changes in memory do not."""
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
        # Exit at once, without the handlers that the original runs at its end.
        os._exit(status)
