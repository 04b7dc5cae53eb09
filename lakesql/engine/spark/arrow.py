"""How the memory that Iceberg's vectorised reader leaves behind is freed.

It creates an Arrow allocator for each data file that a task opens, and closes none of
them (https://github.com/apache/iceberg/issues/13937): half a kilobyte of heap each, for
as long as Java lives. A MERGE opens files in every batch, so a runner would be out of
memory in weeks. Without vectorised reading there would be no allocators, but a batch
would take up to 50 % longer. So the allocators are closed here, at moments when nothing
is being read.

A cluster's executors are other processes, whose allocators are out of reach.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JJavaError

from lakesql.engine.spark.gateway import java_class


class AllocatorCleaner:
    """Runs `act` between blocks of `reading` in any threads, never while one is open.

    It runs before a block that begins more than `every_s` seconds after the last time,
    if no other block is open. If there was no such moment for `late_s` seconds, blocks
    that begin wait for one, for at most `wait_s` seconds.
    """

    def __init__(
        self, act: Callable[[], None], every_s: float, late_s: float, wait_s: float
    ) -> None:
        self._act = act
        self._every_s, self._late_s, self._wait_s = every_s, late_s, wait_s
        self._changed = threading.Condition()
        self._open = 0
        self._is_waiting = False
        self._acted_at = self._waited_at = time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether a block of `reading` is open."""
        return self._open > 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A block in which `act` must not run."""
        with self._changed:
            now = time.monotonic()
            if self._is_waiting:
                self._changed.wait_for(lambda: not self._is_waiting, self._wait_s)
            elif now - max(self._acted_at, self._waited_at) > self._late_s:
                self._is_waiting, self._waited_at = True, now
                self._changed.wait_for(lambda: not self._open, self._wait_s)
                self._is_waiting = False
                self._changed.notify_all()
            if not self._open and now - self._acted_at > self._every_s:
                self._acted_at = now
                self._act()
            self._open += 1
        try:
            yield
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()


def close_allocators() -> None:
    """Close all allocators of Iceberg's vectorised reader. Nothing in this process may
    be reading meanwhile."""
    children = (
        java_class("org.apache.iceberg.arrow.ArrowAllocation")
        .rootAllocator()
        .getChildAllocators()
    )
    # raised for an allocator that still has memory: it stays, the others are closed
    with suppress(Py4JJavaError):
        java_class(
            "org.apache.iceberg.shaded.org.apache.arrow.util.AutoCloseables"
        ).close(children)


ALLOCATOR_CLEANER = AllocatorCleaner(
    close_allocators, every_s=10, late_s=300, wait_s=10
)
"""The cleaner of this process, which has one Java. All that reads data files is in a
`reading` block of it."""
