"""Batches of files that lakesql plans itself, and Spark reads by their names: what is
common to all ways to find files.

The files of a batch are recorded in the checkpoint before the batch is, so that it has
the same files however often it is read. All files are listed from time to time, and
compared with the lists of those that were read (`lakesql/source/known_files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakesql.clock import now_ms
from lakesql.counts import count
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.sources.files import SparkFiles
from lakesql.engine.sources.names_there import NamesThere, names_there
from lakesql.engine.sources.read_files import RECORD_BYTES, measure_lines
from lakesql.engine.sources.spark_source import Planning, check_origin
from lakesql.errors import RunError
from lakesql.events import FilesLate, FilesLeftOut
from lakesql.location import local_folder
from lakesql.source.known_files import (
    Index,
    KnownFiles,
    is_listing_due,
    read_index,
    read_seeded,
)
from lakesql.source.name_order import FoundFile, NameOrder
from lakesql.source.pattern import without_scheme
from lakesql.source.stream_state import SeenFile, SourceState
from lakesql.source.unread import explain_changed, explain_hidden, explain_no_files

BATCH_FILES = 10_000
"""How many files a batch may have, however small they are, as Spark is given the path
of each."""

FINDERS = 8
"""How many files are looked up in parallel."""

NAMED = 3
"""How many files a message names."""


class SparkPlannedFiles(SparkFiles):
    """Plain files whose batches Spark does not plan; a kind implements how the files of
    a batch are found."""

    def read(self, session: SparkSession, binding: StreamBinding) -> DataFrame:
        """Not supported: `planned_batches` reads the files instead."""
        raise AssertionError("Spark does not stream files whose batches are planned")

    def state_now(
        self, session: SparkSession, binding: StreamBinding, brokers: Brokers
    ) -> SourceState:
        """The state of the stream: whether any file exists, for which S3 lists one
        page, and other storage folder by folder. Which files are left out is reported
        by each listing."""
        check_origin(binding)
        assert binding.glob is not None
        is_there = any(True for _ in shown_files(session, binding))
        nothing = "" if is_there else explain_no_files(binding.glob)
        return SourceState(binding.stream.name, binding.source.kind, nothing=nothing)

    def holdings(
        self,
        session: SparkSession,
        binding: StreamBinding,
        state: SourceState,
        seen: Callable[[], Sequence[SeenFile]],
    ) -> tuple[list[str], str]:
        """The names of read files that no longer exist, and a text with the number of
        existing files."""
        there = {file.name for file in shown_files(session, binding)}
        return sorted(file.path for file in seen() if file.path not in there), count(
            len(there), "file"
        )


class PlannedFiles:
    """The files of a stream, from which its batches are planned and read."""

    def __init__(
        self, session: SparkSession, binding: StreamBinding, planning: Planning
    ) -> None:
        check_origin(binding)
        self.session, self.binding = session, binding
        self._planning = planning
        self.order = order_of(binding)
        self.there: NamesThere = names_there(session, self.order)
        self._told_hidden: set[str] = set()
        self._known: KnownFiles | None = None
        self._late: list[FoundFile] = []
        self._listed_at_ms = 0

    # --- batches

    def bounded(self, files: Iterable[FoundFile]) -> list[FoundFile]:
        """As many of the next files as a batch may have; at least one, if there are
        any."""
        following = iter(files)
        first = next(following, None)
        if first is None:
            return []
        limit = self.binding.stream.max_per_batch
        most = limit * self._record_bytes(first) if limit else None
        found, size_bytes = list[FoundFile](), 0
        for file in chain([first], following):
            size_bytes += file.size_bytes
            if len(found) >= BATCH_FILES or (
                most is not None and found and size_bytes > most
            ):
                break
            found.append(file)
        return found

    def plan(self, before: int, found: Sequence[FoundFile]) -> None:
        """Record the files of the next batch; `before` files were read before it."""
        self.known(before).plan_batch(before, before + len(found), found)

    def read_batch(self, before: int, after: int) -> DataFrame:
        """The raw records of the batch that begins after `before` read files and ends
        after `after`. Files that were removed meanwhile are reported and left out."""
        known = self.known(before)
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
            with ThreadPoolExecutor(FINDERS) as pool:
                there = [*pool.map(lambda file: self.there.find(file.name), planned)]
            left = [
                file
                for file, found in zip(planned, there, strict=True)
                if found is not None
            ]
            if error.getCondition() != "PATH_NOT_FOUND" or len(left) == len(planned):
                raise
            gone = {file.name for file in planned} - {file.name for file in left}
            known.plan_batch(before, after, left)
            verb = "was" if len(gone) == 1 else "were"
            self.leave_out(
                f"{count(len(gone), 'file')} of a batch {verb} removed before it was read: {name_some(gone)}"
            )
            return self._load(left)

    def _load(self, files: Sequence[FoundFile]) -> DataFrame:
        paths = [self.order.path_of(file.name) for file in files]
        read = tuple(
            path for path in paths if without_scheme(path) not in self.binding.set_aside
        )
        source = SparkFiles()
        if read:
            return source.records(
                self.session, self.session.read, replace(self.binding, files=read)
            )
        return source.records(self.session, self.session.read, self.binding).limit(0)

    def _record_bytes(self, file: FoundFile) -> int:
        if self.binding.stream.record_format.has_typed_rows or not file.size_bytes:
            return RECORD_BYTES
        path = self.order.path_of(file.name)
        return measure_lines(Path(path) if local_folder(path) is not None else None)

    # --- what was read

    def known(
        self, read: int, last: str = "", digest: int = 0, is_listed: bool = True
    ) -> KnownFiles:
        """The files that were read, by the lists of the checkpoint. A checkpoint
        without lists was created to continue after `read` files: it has a list of
        these, or they are the files with names up to `last`, with the checksum
        `digest`. If `read` is 0, the files count as listed now, unless `is_listed` is
        false."""
        if self._known is not None:
            return self._known
        files = self._planning.files
        index, seeded = read_index(files), read_seeded(files)
        if index is not None:
            self._known = KnownFiles(files, index)
        elif seeded is not None:
            self._known = KnownFiles(files, Index(folded=read))
            self._known.begin(seeded)
        else:
            listed_ms = now_ms() if is_listed and not read else 0
            self._known = KnownFiles(
                files, Index((), read, listed_ms, last, read, digest)
            )
            self._known.begin()
        return self._known

    # --- listing all files

    def is_listing_due(self, known: KnownFiles) -> bool:
        """Whether all files have to be listed, or files of the last listing are still
        to be read."""
        every_ms = self.binding.stream.list_all_every_ms
        return (
            bool(self._late)
            or bool(self._listed_at_ms)
            or is_listing_due(known.index, every_ms, now_ms())
        )

    def next_unread(
        self,
        known: KnownFiles,
        read: int,
        until: str | None,
        why: str,
        grace_ms: int = 0,
    ) -> list[FoundFile]:
        """The next batch of unread files from a listing of all files with names up to
        `until`; empty when all were returned. `why`, if not empty, is the reason for
        which they are reported as late. A file younger than `grace_ms` is left to the
        next listing.

        Raises `RunError` (`late-files`) if the stream is configured to refuse late
        files.
        """
        if not self._late and not self._listed_at_ms:
            self._listed_at_ms = now_ms()
            grace_ms = min(grace_ms, self.binding.stream.list_all_every_ms)
            self._list_all(known, read, until, why, self._listed_at_ms - grace_ms)
        self._late = self._late or known.next_late()
        found = self.bounded(self._late)
        self._late = self._late[len(found) :]
        if not found:
            known.note_listing(self._listed_at_ms)
            self._listed_at_ms = 0
        return found

    def _list_all(
        self, known: KnownFiles, read: int, until: str | None, why: str, before_ms: int
    ) -> None:
        stream, before = self.binding.stream, known.index
        found = _LateAndChanged(range(before_ms, self._listed_at_ms))
        known.compare(self.shown("", until), read, found)
        if before.adopts and (found.adopted_files, found.digest) != (
            before.adopted,
            before.digest,
        ):
            self.leave_out(
                f"a new checkpoint takes all files up to {before.adopts} as read, which are "
                f"{found.adopted_files:,} now; {before.adopted:,} had been read: files were removed since, or some "
                "that came late are not read"
            )
        if found.changed_files:
            more = [""] * (found.changed_files - len(found.changed_names))
            self.leave_out(
                explain_changed([*map(self.order.path_of, found.changed_names), *more])
            )
        if not found.late_files or not why:
            return
        said = f"{count(found.late_files, 'file')} {why}: {name_some(found.late_names, found.late_files)}"
        if stream.late_files == "refuse":
            self._listed_at_ms = 0
            raise RunError.of(
                "late-files",
                f"Of stream '{stream.name}', {said}.",
                why="They have smaller names than the last file that was read.",
                place=stream.place,
            )
        said = f"{said}; they are read now"
        self._planning.emit(
            FilesLate(self._planning.model, stream.name, found.late_files, said)
        )

    def shown(self, after: str, until: str | None = None) -> Iterator[FoundFile]:
        """The files with names after `after`. Files that Spark would ignore are left
        out, and each is reported once."""
        hidden = list[str]()
        for file in self.there.files(after, until):
            if not file.is_hidden:
                yield file
            elif (
                file.name not in self._told_hidden
                and len(self._told_hidden) < BATCH_FILES
            ):
                self._told_hidden.add(file.name)
                hidden.append(self.order.path_of(file.name))
        self.leave_out(explain_hidden(hidden))

    def leave_out(self, why: str) -> None:
        """Report why files are not read; does nothing if the reason is empty."""
        if why:
            self._planning.emit(
                FilesLeftOut(self._planning.model, self.binding.stream.name, why)
            )


def order_of(binding: StreamBinding) -> NameOrder:
    """The name order of a stream's files."""
    assert binding.glob is not None
    return NameOrder(binding.source.places[0], binding.glob)


def shown_files(session: SparkSession, binding: StreamBinding) -> Iterator[FoundFile]:
    """The files of a stream in the order of their names, without those that Spark
    ignores."""
    return (
        file
        for file in names_there(session, order_of(binding)).files("")
        if not file.is_hidden
    )


def name_some(names: Iterable[str], files: int = 0) -> str:
    """A text with the first `NAMED` names, and how many more there are; `files` is the
    number of all if `names` has only some."""
    found = sorted(names)
    left = max(files, len(found)) - NAMED
    return f"{', '.join(found[:NAMED])}{f' and {left} more' if left > 0 else ''}"


class _LateAndChanged:
    """The result of comparing a listing of all files with those that were read: counts,
    and some names."""

    def __init__(self, young: range) -> None:
        self._young = young
        self.late_files = self.changed_files = self.adopted_files = self.digest = 0
        self.late_names: list[str] = []
        self.changed_names: list[str] = []

    def late(self, file: FoundFile) -> bool:
        """Count a file that was not read; returns whether it is to be read, which is
        false for one that is too young."""
        if file.modified_ms in self._young:
            return False
        self.late_files += 1
        if len(self.late_names) < NAMED:
            self.late_names.append(file.name)
        return True

    def changed(self, file: FoundFile) -> None:
        """Count a file that was modified after it was read."""
        self.changed_files += 1
        if len(self.changed_names) < NAMED:
            self.changed_names.append(file.name)

    def adopted(self, file: FoundFile) -> None:
        """Count a file that a new checkpoint counts as read."""
        self.adopted_files += 1
        self.digest = (self.digest + file.digest) % 2**64
