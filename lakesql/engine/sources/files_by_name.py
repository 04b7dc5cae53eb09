"""Plain files that are read in the order of their names: which files each batch has, by
listing names after the last one.

A position has the last name that was read, and how many files were. Files that arrive
with a smaller name are found by listing all files from time to time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.planned_files import (
    PlannedFiles,
    SparkPlannedFiles,
    shown_files,
)
from lakesql.engine.sources.spark_source import PlannedBatches, Planning
from lakesql.source.files_by_name import FilesByName, TakenNames, names_taken
from lakesql.source.name_order import FoundFile
from lakesql.source.stream_state import Position, SeededSource, SeenFile


class SparkFilesByName(SparkPlannedFiles):
    """Plain files of a stream with `ordered_by: name`."""

    kind: ClassVar[str] = FilesByName.kind

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """The files in batches, in the order of their names."""
        return _ByName(PlannedFiles(session, binding, planning))

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """The position, with the files that were read; or, for a start time, the
        position before the first file that is not older."""
        if position is not None:
            files = names_taken(position).files
            return SeededSource(
                position, listed=tuple(seen(files)) if seen is not None else None
            )
        if start_ms is None:
            return SeededSource()
        taken = TakenNames()
        for file in shown_files(session, binding):
            if file.modified_ms >= start_ms:
                break
            taken = taken.plus([file])
        return SeededSource(taken.position if taken.files else None)


class _ByName(PlannedBatches):
    """The files of a stream as batches."""

    def __init__(self, files: PlannedFiles) -> None:
        self._files = files

    def find_last(self, position: Position) -> Position:
        """The position with the largest existing name; None if no file exists and none
        was read."""
        taken = names_taken(position)
        last = taken.last
        for file in self._files.shown(last):
            last = file.name
        return replace(taken, last=last).position if last else None

    def find_end(self, position: Position, until: Position) -> Position:
        """The position after the next files: first those that came late, if a listing
        of all is due, then new ones. None if there are none."""
        taken, files = names_taken(position), self._files
        known = files.known(taken.files, taken.last, taken.digest)
        found = list[FoundFile]()
        if files.is_listing_due(known):
            found = files.next_unread(
                known, taken.files, taken.last, f"came late, behind {taken.last}"
            )
        if not found:
            new = files.shown(
                taken.last, names_taken(until).last if until is not None else None
            )
            found = files.bounded(
                known.unknown(new, taken.files) if known.reaches(taken.last) else new
            )
        if not found:
            return None
        files.plan(taken.files, found)
        return taken.plus(found).position

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records of the files that were planned."""
        return self._files.read_batch(names_taken(start).files, names_taken(end).files)
