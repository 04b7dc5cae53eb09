"""How a query runs whose batches lakesql plans itself, over a source that Spark does
not stream.

It keeps a checkpoint like Spark's: `offsets/N` is written before a batch, `commits/N`
after it. So everything that continues, compares, seeds or rewinds a checkpoint works
for it too, and a planned batch is the same when it is tried again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import now_ms
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.spark_source import BatchPutOffError, PlannedBatches
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.progress.stored import read_offsets
from lakesql.source.stream_state import Position

_log = logging.getLogger(__name__)

BATCHES_KEPT = 100
"""For how many batches a checkpoint keeps files, as in Spark
(`spark.sql.streaming.minBatchesToRetain`)."""


@dataclass(frozen=True, slots=True)
class PlannedProgress:
    """The progress report of a query's last batch, in the form of Spark's."""

    json: str


class PlannedQuery:
    """A query with as much of Spark's `StreamingQuery` as `ModelQuery` uses; it runs in
    a thread of its own."""

    def __init__(
        self,
        session: SparkSession,
        name: str,
        folder: str,
        batches: PlannedBatches,
        write: Callable[[DataFrame | None, int], None],
        trigger: Trigger,
    ) -> None:
        self.name = name
        self._position: Position = None
        self._last: PlannedProgress | None = None
        self._session = session
        self._files = CheckpointFiles(session, folder)
        self._batches = batches
        self._write = write
        self._trigger = trigger
        self._stopping = threading.Event()
        self._is_busy = True
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"batches of {name}", daemon=True
        )

    def start(self) -> PlannedQuery:
        """Start with the batch that is to be read next."""
        self._thread.start()
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        """Whether it has not ended."""
        return self._thread.is_alive()

    @property
    def lastProgress(self) -> PlannedProgress | None:  # noqa: N802  Spark's name
        """The report of its last batch; while it waits for other models, a report of
        now."""
        return self._report(0) if self._batches.is_idle() else self._last

    @property
    def status(self) -> Mapping[str, bool]:
        """Whether it looks for a batch, or writes one."""
        return {"isTriggerActive": self._is_busy and not self._batches.is_idle()}

    def exception(self) -> Exception | None:
        """Why it ended, if it failed."""
        return self._failure

    def stop(self) -> None:
        """Begin no further batch."""
        self._stopping.set()
        self._batches.interrupt()

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:
            _log.info("The query %s ends: %s", self.name, error)
            self._failure = error
        finally:
            self._batches.close()

    def _read(self) -> None:
        number, position, planned = self._stand()
        self._position = position
        until = (
            self._batches.find_last(position)
            if isinstance(self._trigger, AvailableNow)
            else None
        )
        while not self._stopping.is_set():
            self._is_busy = True
            if planned is not None and not self._batches.takes_again(position, planned):
                return
            end = planned if planned is not None else self._find_end(position, until)
            if end is not None:
                started_ms = now_ms()
                try:
                    self._write_batch(
                        number, position, end, is_planned=planned is not None
                    )
                except BatchPutOffError:
                    planned = end
                    continue
                number, position, planned = number + 1, end, None
                self._note(position, started_ms)
                continue
            if not isinstance(self._trigger, Every):
                return
            self._is_busy = False
            self._note(position, now_ms())
            self._stopping.wait(self._trigger.interval_ms / 1000)

    def _find_end(self, position: Position, until: Position) -> Position:
        if isinstance(self._trigger, AvailableNow) and until is None:
            return None
        return self._batches.find_end(position, until)

    def _stand(self) -> tuple[int, Position, Position]:
        """The number of the next batch, where it begins, and where it ends if it was
        planned already."""
        planned, committed = (
            self._numbers(folder) for folder in ("offsets", "commits")
        )
        done = max(committed, default=-1)
        position = read_offsets(self._files, done)[0] if done in planned else None
        following = done + 1
        return (
            following,
            position,
            read_offsets(self._files, following)[0] if following in planned else None,
        )

    def _numbers(self, folder: str) -> set[int]:
        return {int(name) for name in self._files.names(folder) if name.isdecimal()}

    def _write_batch(
        self, number: int, start: Position, end: Position, is_planned: bool
    ) -> None:
        if not is_planned:
            metadata = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms(), "conf": {}}
            lines = (
                "v1",
                *(json.dumps(each, separators=(",", ":")) for each in (metadata, end)),
            )
            self._files.write(f"offsets/{number}", "\n".join(lines))
        with ExitStack() as held:
            self._write(self._batches.read(start, end, held), number)
        self._files.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
        self._batches.finish()
        if number >= BATCHES_KEPT:
            for folder in ("offsets", "commits"):
                self._files.remove(f"{folder}/{number - BATCHES_KEPT}")

    def _note(self, position: Position, started_ms: int) -> None:
        self._position = position
        self._last = self._report(now_ms() - started_ms)

    def _report(self, duration_ms: int) -> PlannedProgress:
        sources = [dict(self._batches.report(self._position))]
        report = {
            "sources": sources,
            "processedRowsPerSecond": 0.0,
            "batchDuration": duration_ms,
        }
        return PlannedProgress(json.dumps(report))
