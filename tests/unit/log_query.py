"""A query over a log, with its checkpoint, for logs in memory that random tests
drive."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakesql.engine.sources.log import LogBatches
from lakesql.engine.sources.log_reader import LogReader, TopicPage, find_expired
from lakesql.source.log import LogSource
from lakesql.source.stream_state import Expired


class LogQuery:
    """Reads topic `t` as `PlannedQuery` does; `rows` is what its table has. It may be
    killed between two steps."""

    def __init__(
        self, source: LogSource, start: Any = "earliest", limit: int = 7
    ) -> None:
        self.source, self.start, self.limit = source, start, limit
        self.position: Any = None
        self.planned: tuple[Any, list[bytes]] | None = None
        self.rows: list[int] = []
        random.seed(0)  # a batch begins with any of its partitions
        self.restart()

    def restart(self) -> None:
        """A new runner, which knows the checkpoint alone."""
        self.reader = self._open("q")
        self.batches = LogBatches(None, self.reader)  # type: ignore[arg-type]

    def _open(self, owner: str) -> LogReader:
        return LogReader(self.source, "s", ("t",), self.start, self.limit, owner)

    def expired(self) -> Mapping[tuple[str, str], Expired]:
        """What a run asks before it reads."""
        return (
            find_expired(self._open(""), self.position)
            if self.position is not None
            else {}
        )

    def plan(self, until: Any = None) -> bool:
        """Plan a batch, which is in the checkpoint then; whether there is one."""
        end = self.batches.find_end(self.position, until)
        if end is None:
            return False
        self.planned = (
            json.loads(json.dumps(end)),
            _values(self.batches.pages(self.position, end)),
        )
        return True

    def write(self, is_read_again: bool) -> None:
        """Write the batch that is planned; a new runner reads it again, and must find
        the same."""
        assert self.planned is not None
        end, values = self.planned
        if is_read_again:
            self.restart()
            assert sorted(_values(self.batches.pages(self.position, end))) == sorted(
                values
            )
        self.rows += map(int, values)
        self.position, self.planned = end, None

    def take_all(self, until: Any = None) -> None:
        for _ in range(2000):
            if not self.plan(until):
                return
            self.write(is_read_again=False)
        raise AssertionError("it does not end")

    def run_once(self, meanwhile: Callable[[], object] | None = None) -> None:
        """A run that takes what is there, to which more may come meanwhile."""
        self.restart()
        until = self.batches.find_last(self.position)
        for _ in range(2000):
            if meanwhile is not None:
                meanwhile()
            if not self.plan(until):
                return
            self.write(is_read_again=False)
        raise AssertionError("it does not end")


def _values(pages: Sequence[TopicPage]) -> list[bytes]:
    return [record.value or b"" for each in pages for record in each.page.records]
