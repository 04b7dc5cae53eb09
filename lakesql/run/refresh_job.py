"""The job of a model over tables: refreshes its table, and maintains it between two
refreshes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesql.engine.batch.streaming_query import Backlog
from lakesql.engine.refresh.make_view import make_view
from lakesql.engine.refresh.refresh_table import Refresh, refresh_table
from lakesql.engine.spark.session import activate
from lakesql.model.config import Every
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.run.job import ThreadWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesql.engine.maintenance.keeper import Keeper

LOOKS_EVERY_S = 1.0
"""How often inputs are checked for changes if no interval is configured as trigger."""

TIMED_EVERY_S = 60.0
"""How often a table is refreshed whose rows change with time, if no interval is
configured as trigger; and how often a view of the catalog is checked against the
columns of its tables."""

_POLL_S = 0.1


@dataclass(slots=True)
class RefreshJob:
    """Refreshes a table once, or with `continuous` by its trigger until it is asked to
    stop.

    With `is_forced` the first refresh computes all rows. `keep` is called after each
    refresh; it stores what the next run compares to find nothing new.
    """

    refresh: Refresh
    session: SparkSession
    keeper: Keeper | None
    continuous: bool
    is_forced: bool = False
    keep: Callable[[], None] = lambda: None
    is_busy: bool = False
    work: ThreadWork = field(init=False)

    def __post_init__(self) -> None:
        self.work = ThreadWork(self._run, f"refresh {self.refresh.select.model.name}")

    def start(self) -> None:
        """Start the refreshes."""
        self.work.start()

    def step(self) -> None:
        """Do nothing: the thread runs one refresh after the other."""

    def is_active(self) -> bool:
        """Whether the job refreshes, maintains, or waits for its trigger."""
        return self.work.is_active()

    def error(self) -> Exception | None:
        """Why the job has failed; None if it has not."""
        return self.work.failure

    def request_stop(self) -> None:
        """Let the current refresh finish, and begin no other."""
        self.work.request_stop()

    def was_stopped(self) -> bool:
        """Whether the job is over because it was asked to stop."""
        return self.work.was_stopped()

    def progress(self) -> tuple[float, Backlog]:
        """No records and no backlog."""
        return 0.0, Backlog(None, "records", is_busy=self.is_busy)

    def _run(self, is_ending: Callable[[], bool]) -> None:
        activate(self.session)  # Iceberg's catalogs ask the thread for its session
        while True:
            self._refresh_once()
            if not self.continuous:
                if self.keeper is not None:
                    self.keeper.at_end(self.session, is_ending)
                return
            if not _wait(self._pause_s(), is_ending):
                return

    def _pause_s(self) -> float:
        """The seconds to wait between two refreshes. Rows that change with time are
        refreshed even if no input has changed."""
        trigger = self.refresh.select.model.trigger
        if not self.refresh.select.model.config.is_stored:
            return TIMED_EVERY_S
        if isinstance(trigger, Every):
            return trigger.interval_ms / 1000
        is_timed = refreshes_of(self.refresh.select).plan.is_timed
        return TIMED_EVERY_S if is_timed else LOOKS_EVERY_S

    def _refresh_once(self) -> None:
        self.is_busy = True
        head = None
        if self.refresh.select.model.config.is_stored:
            head = refresh_table(self.refresh, self.session, is_forced=self.is_forced)
        else:
            make_view(self.refresh, self.session)
        self.is_forced = False
        self.keep()
        if head is not None and self.continuous and self.keeper is not None:
            self.keeper.after_batch(self.session, head.summary, False)
        self.is_busy = False


def _wait(seconds: float, is_ending: Callable[[], bool]) -> bool:
    """Wait this long; False if the job is to end before."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if is_ending():
            return False
        time.sleep(min(_POLL_S, seconds))
    return not is_ending()
