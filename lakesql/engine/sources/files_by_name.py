"""Plain files in the order of their names: which are read next is looked up from the last name on, and Spark reads
those that are named.

A position has the last name that was taken, and how many files were read. What comes with a smaller name is found by a
listing of all files now and then, beside the lists of those that were read (`lakesql/source/known_files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import now_ms
from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.files import SparkFiles
from lakesql.engine.sources.names_there import NamesThere, names_there
from lakesql.engine.sources.read_files import RECORD_BYTES, measure_lines
from lakesql.engine.sources.spark_source import PlannedBatches, Planning, check_origin
from lakesql.errors import RunError
from lakesql.events import FilesLate, FilesLeftOut
from lakesql.location import local_folder
from lakesql.source.empty import explain_no_files
from lakesql.source.files_by_name import FilesByName, TakenNames, digest_of, names_taken
from lakesql.source.known_files import Index, KnownFiles, is_listing_due, read_index
from lakesql.source.left_out import explain_changed, explain_hidden
from lakesql.source.name_order import FoundFile, NameOrder
from lakesql.source.pattern import without_scheme
from lakesql.source.seen_files import SeededSource, SeenFile
from lakesql.source.stream_state import Position, SourceState

BATCH_FILES = 10_000
"""So many files a batch has at most, however small they are: each is a path that Spark is given."""

NAMED = 3
"""How many files are named where something is said of some."""


class SparkFilesByName(SparkFiles):
    """Plain files of a stream that says `ordered_by: name`."""

    kind: ClassVar[str] = FilesByName.kind

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """Nothing that Spark streams: `planned_batches` reads it."""
        raise AssertionError("Spark does not stream files in the order of their names")

    def planned_batches(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> PlannedBatches | None:
        """Some files at a time, in the order of their names."""
        return _ByName(session, binding, planning)

    def state_now(self, session: SparkSession, binding: StreamBinding, brokers: Brokers) -> SourceState:
        """Whether there is a file at all. Which are passed over, each listing says."""
        check_origin(binding)
        there = names_there(session, order_of(binding)).files("")
        is_there = any(not file.is_hidden for file in there)
        assert binding.glob is not None
        nothing = "" if is_there else explain_no_files(binding.glob)
        return SourceState(binding.stream.name, self.kind, nothing=nothing)

    def seed(
        self,
        session: SparkSession,
        binding: StreamBinding,
        position: Position,
        start_ms: int | None,
        seen: Callable[[int], Sequence[SeenFile]] | None,
    ) -> SeededSource:
        """A position as it is; at a time, that before the first file that is as new."""
        if position is not None or start_ms is None:
            return SeededSource(position)
        taken = TakenNames()
        for file in _shown(names_there(session, order_of(binding)).files("")):
            if file.modified_ms >= start_ms:
                break
            taken = taken.plus([file])
        return SeededSource(taken.position if taken.files else None)

    def holdings(
        self, session: SparkSession, binding: StreamBinding, state: SourceState, seen: Callable[[], Sequence[SeenFile]]
    ) -> tuple[list[str], str]:
        """The names of those files that were read, and are gone; and how many are there."""
        there = {file.name for file in _shown(names_there(session, order_of(binding)).files(""))}
        return sorted(file.path for file in seen() if file.path not in there), count(len(there), "file")


def order_of(binding: StreamBinding) -> NameOrder:
    """The order of a stream's files."""
    assert binding.glob is not None
    return NameOrder(binding.source.places[0], binding.glob)


def _shown(files: Iterable[FoundFile]) -> Iterator[FoundFile]:
    return (file for file in files if not file.is_hidden)


class _ByName(PlannedBatches):
    """The files of a stream as batches."""

    def __init__(self, session: SparkSession, binding: StreamBinding, planning: Planning) -> None:
        check_origin(binding)
        self._session, self._binding, self._planning = session, binding, planning
        self._order = order_of(binding)
        self._there: NamesThere = names_there(session, self._order)
        self._hidden: set[str] = set()
        self._known: KnownFiles | None = None

    def find_last(self, position: Position) -> Position:
        """The largest name."""
        last = names_taken(position).last
        for file in self._new_files(last, None):
            last = file.name
        return replace(names_taken(position), last=last).position if last else None

    def find_end(self, position: Position, until: Position) -> Position:
        """Behind the next files: those that have come late first, if all were to be listed."""
        taken = names_taken(position)
        known = self._open_known(position)
        late = self._find_late(known, taken) if self._is_listing_due(known) else []
        if late:
            return self._plan(known, taken, late)
        found = self._bounded(self._unread(known, taken, names_taken(until).last if until is not None else None))
        return self._plan(known, taken, found) if found else None

    def read(self, start: Position, end: Position, held: ExitStack) -> DataFrame:
        """The raw records of the files that were planned. Those that have gone meanwhile are told of, and left out."""
        known = self._open_known(start)
        before, after = names_taken(start).files, names_taken(end).files
        planned = known.read_batch(after)
        if planned is None:
            raise RunError.of(
                "checkpoint-inconsistent",
                f"The list of the files of a batch is gone from {after} of the checkpoint's listed/batches.",
                fix=f"To continue where the table stands: `lakesql rewind {self._planning.model}`.",
            )
        try:
            return self._load(planned)
        except AnalysisException as error:
            left = [file for file in planned if self._there.find(file.name) is not None]
            if error.getCondition() != "PATH_NOT_FOUND" or len(left) == len(planned):
                raise
            gone = {file.name for file in planned} - {file.name for file in left}
            known.plan_batch(before, after, left)
            verb = "was" if len(gone) == 1 else "were"
            self._leave_out(f"{count(len(gone), 'file')} of a batch {verb} removed before it was read: {_some(gone)}")
            return self._load(left)

    def _load(self, files: Sequence[FoundFile]) -> DataFrame:
        paths = [self._order.path_of(file.name) for file in files]
        read = tuple(path for path in paths if without_scheme(path) not in self._binding.set_aside)
        source = SparkFiles()
        if read:
            return source.records(self._session, self._session.read, replace(self._binding, files=read))
        return source.records(self._session, self._session.read, self._binding).limit(0)

    # --- what is new

    def _unread(self, known: KnownFiles, taken: TakenNames, until: str | None) -> Iterator[FoundFile]:
        found = self._new_files(taken.last, until)
        return known.unknown(found, taken.files) if known.reaches(taken.last) else found

    def _new_files(self, after: str, until: str | None) -> Iterator[FoundFile]:
        """The files behind a name. Of those that Spark would pass over it is told, once."""
        hidden = list[str]()
        for file in self._there.files(after, until):
            if not file.is_hidden:
                yield file
            elif file.name not in self._hidden:
                self._hidden.add(file.name)
                hidden.append(self._order.path_of(file.name))
        self._leave_out(explain_hidden(hidden))

    def _bounded(self, files: Iterator[FoundFile]) -> list[FoundFile]:
        """So many of the next files as a batch may have: one at least."""
        first = next(files, None)
        if first is None:
            return []
        limit = self._binding.stream.max_per_batch
        most = limit * self._record_bytes(first) if limit else None
        found, size_bytes = list[FoundFile](), 0
        for file in chain([first], files):
            size_bytes += file.size_bytes
            if len(found) >= BATCH_FILES or (most is not None and found and size_bytes > most):
                break
            found.append(file)
        return found

    def _record_bytes(self, file: FoundFile) -> int:
        if self._binding.stream.record_format.has_typed_rows or not file.size_bytes:
            return RECORD_BYTES
        path = self._order.path_of(file.name)
        return measure_lines(Path(path) if local_folder(path) is not None else None)

    def _plan(self, known: KnownFiles, taken: TakenNames, found: Sequence[FoundFile]) -> Position:
        end = taken.plus(found)
        known.plan_batch(taken.files, end.files, found)
        return end.position

    # --- what came late

    def _open_known(self, position: Position) -> KnownFiles:
        """What was read, by the lists of the checkpoint. One without any was made to continue at a position."""
        if self._known is not None:
            return self._known
        index = read_index(self._planning.files)
        if index is None:
            taken = names_taken(position)
            at_ms = now_ms() if position is None else 0
            index = Index(
                listed_ms=at_ms, folded=taken.files, adopts=taken.last, adopted=taken.files, digest=taken.digest
            )
            self._known = KnownFiles(self._planning.files, index)
            self._known.begin()
            return self._known
        self._known = KnownFiles(self._planning.files, index)
        return self._known

    def _is_listing_due(self, known: KnownFiles) -> bool:
        return is_listing_due(known.index, self._binding.stream.list_all_every_ms, now_ms())

    def _find_late(self, known: KnownFiles, taken: TakenNames) -> list[FoundFile]:
        """List all files up to the last name, and take those that were not read. Raises `RunError` (`late-files`)."""
        stream, at_ms, before = self._binding.stream, now_ms(), known.index
        found = _LateAndChanged()
        known.compare(_shown(self._there.files("", taken.last)), taken.files, found)
        if before.adopts and (found.adopted_files, found.digest) != (before.adopted, before.digest):
            self._leave_out(
                f"a new checkpoint takes all files up to {before.adopts} as read, which are "
                f"{found.adopted_files:,} now; {before.adopted:,} had been read: files were removed since, or some "
                "that came late are not read"
            )
        self._leave_out(explain_changed([self._order.path_of(name) for name in found.changed_names]))
        if not found.late_files:
            known.note_listing(at_ms)
            return []
        late = self._bounded(iter(found.late_ones))
        said = f"{count(found.late_files, 'file')} came late, behind {taken.last}: {_some(f.name for f in late)}"
        if stream.late_files == "refuse":
            raise RunError.of(
                "late-files",
                f"Of stream '{stream.name}', {said}.",
                why="They have smaller names than the last file that was read.",
                place=stream.place,
            )
        why = f"{said}; they are read now"
        self._planning.emit(FilesLate(self._planning.model, stream.name, len(late), why, now_ms()))
        return late

    def _leave_out(self, why: str) -> None:
        if why:
            self._planning.emit(FilesLeftOut(self._planning.model, self._binding.stream.name, why, now_ms()))


class _LateAndChanged:
    """What a listing of all files has found, of which some are held and all counted."""

    def __init__(self) -> None:
        self.late_files = self.adopted_files = self.digest = 0
        self.late_ones: list[FoundFile] = []
        self.changed_names: list[str] = []

    def late(self, file: FoundFile) -> None:
        """A file that was not read."""
        self.late_files += 1
        if len(self.late_ones) < BATCH_FILES:
            self.late_ones.append(file)

    def changed(self, file: FoundFile) -> None:
        """A file that has changed since it was read."""
        self.changed_names.append(file.name)

    def adopted(self, file: FoundFile) -> None:
        """A file that counts as read."""
        self.adopted_files += 1
        self.digest = (self.digest + digest_of(file.name)) % 2**64


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{', '.join(found[:NAMED])}{more}"
