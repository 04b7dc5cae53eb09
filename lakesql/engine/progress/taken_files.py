"""What happens to files once their records are committed: they are moved to their
stream's archive, or deleted, if its `after` is set so. Also which unreadable files a
query has set aside.

A file is moved or deleted once Spark's checkpoint has the batch that read it as done,
which is after the commit; for a stateful model, also the checkpoint of its dead-letter
query. Spark still knows the file, so nothing is read twice: a file that a kill has left
in place is moved when the model runs again. A file that is not found then has been
moved by somebody.

Files stay in place if they have changed since they were read, cannot be read, or were
skipped when the checkpoint was made; and all files stay while the model is rebuilt,
which may be reading them.

Unreadable files are recorded in the checkpoint before their batch is written, so that
the batch leaves out the same files however often it is tried.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from lakesql.counts import count
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.globs import list_files
from lakesql.engine.sources.move_files import archived_place, delete_file, move_file
from lakesql.errors import RunError
from lakesql.names import REBUILD_SUFFIX
from lakesql.progress.stored import read_checkpoint, read_offsets
from lakesql.source.known_files import KnownFiles, read_index
from lakesql.source.pattern import escape_glob, files_below, listing_of, without_scheme
from lakesql.source.stream_state import SeenFile, read_seen

MOVERS = 8
"""How many files are moved or deleted at once: in object storage each takes several
requests."""

CHUNK_FILES = 64
"""After how many files the time limit is checked."""

Tell = Callable[[str, str], None]
"""Called with a stream's name and what could not be done with its files."""


@dataclass(slots=True)
class _TakingQuery:
    """A query of the model: its checkpoint, the newest of its batches whose files have
    been learnt, the last log entry read of each source, and the learnt files by their
    paths. `seeded` is the log entry of a source, if not -1, with the files that the
    checkpoint was made with."""

    files: CheckpointFiles
    batch: int = -1
    seeded: int = -1
    read: dict[int, int] = field(default_factory=dict)
    taken: dict[str, SeenFile] = field(default_factory=dict)


class TakenFiles:
    """Moves or deletes files that the queries of a model have read; can be used from
    any thread.

    `folders` are the queries' checkpoints, the model's own first. `moved` counts the
    files that are gone. Once a run `is_stopping`, what is left is done by the next run.
    """

    def __init__(
        self,
        session: SparkSession,
        folders: Sequence[str],
        bindings: Iterable[StreamBinding],
        tell: Tell,
        is_stopping: Callable[[], bool],
    ) -> None:
        self.moved = 0
        self._is_stopping, self._is_behind = is_stopping, False
        self._session, self._tell = session, tell
        self._queries = [
            _TakingQuery(CheckpointFiles(session, folder)) for folder in folders
        ]
        self._rebuild = CheckpointFiles(session, folders[0] + REBUILD_SUFFIX)
        self._bindings = [binding for binding in bindings if binding.takes_away]
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Move or delete what is left of earlier runs; called before the queries
        start."""
        with self._lock:
            globs = [
                binding.glob for binding in self._bindings if binding.glob is not None
            ]
            there = {
                file.path for glob in globs for file in list_files(self._session, glob)
            }
            self._learn()
            for query in self._queries:
                query.taken = {
                    path: file for path, file in query.taken.items() if path in there
                }
            self._take(None)

    def follow(self, within_s: float | None = None) -> bool:
        """Move or delete files whose batches were committed since, for at most
        `within_s` seconds. Returns whether there were some and all of them were
        tried."""
        with self._lock:
            self._is_behind |= self._learn()
            if not self._is_behind:
                return False
            self._is_behind = not self._take(within_s)
            return not self._is_behind

    def _learn(self) -> bool:
        """Read which files the batches that are done since have read. Returns whether
        there were such batches."""
        has_news = False
        for query in self._queries:
            committed = max(
                (
                    int(name)
                    for name in query.files.names("commits")
                    if name.isdecimal()
                ),
                default=-1,
            )
            if committed <= query.batch:
                continue
            has_news = True
            if query.batch < 0:
                query.seeded = 0 if _is_seeded(query.files) else -1
            for source, position in enumerate(read_offsets(query.files, committed)):
                last = position.get("logOffset") if isinstance(position, dict) else None
                since = query.read.get(source, query.seeded)
                if not isinstance(last, int) or last <= since:
                    continue
                found = read_seen(query.files, source, since + 1, last)
                query.taken.update({file.path: file for file in found})
                query.read[source] = last
            query.batch = committed
        return has_news

    def _take(self, within_s: float | None) -> bool:
        """Move or delete the files that all queries have read, for at most `within_s`
        seconds. Returns whether all were tried."""
        first, *others = (query.taken for query in self._queries)
        done = [
            file
            for path, file in first.items()
            if all(path in other for other in others)
        ]
        if not done or self._rebuild.names():
            return True
        left = {
            path for query in self._queries for path in unreadable_paths(query.files)
        }
        ends_s = time.monotonic() + within_s if within_s is not None else math.inf
        for binding in self._bindings:
            assert binding.glob is not None
            listing = listing_of(binding.glob)
            meant = [file for file in done if listing.means(file.decoded)]
            tried, failed = self._take_of(
                binding, [file for file in meant if file.decoded not in left], ends_s
            )
            gone = tried - failed
            gone |= {file.path for file in meant if file.decoded in left}
            for query in self._queries:
                query.taken = {
                    path: file for path, file in query.taken.items() if path not in gone
                }
            if len(gone | failed) < len(meant):
                return False
        return True

    def _take_of(
        self, binding: StreamBinding, files: Sequence[SeenFile], ends_s: float
    ) -> tuple[set[str], set[str]]:
        """Move or delete files of a stream until `ends_s`. Returns the paths of
        those that were tried, and of those that failed, which are reported once per
        stream."""
        tried, failed = set[str](), dict[str, OSError]()
        with ThreadPoolExecutor(MOVERS) as pool:
            for first in range(0, len(files), CHUNK_FILES):
                if time.monotonic() >= ends_s or self._is_stopping():
                    break
                chunk = files[first : first + CHUNK_FILES]
                tried |= {file.path for file in chunk}
                for file, outcome in zip(
                    chunk, pool.map(partial(self._try_one, binding), chunk), strict=True
                ):
                    if isinstance(outcome, OSError):
                        failed[file.path] = outcome
                    else:
                        self.moved += outcome
        if failed and binding.stream.name not in self._told:
            self._told.add(binding.stream.name)
            why = f"{count(len(failed), 'file')} that were read cannot be {_done(binding)}, and are tried again: "
            self._tell(binding.stream.name, f"{why}{next(iter(failed.values()))}")
        return tried, {*failed}

    def _try_one(self, binding: StreamBinding, file: SeenFile) -> bool | OSError:
        """Whether a file is gone, or the error that kept it."""
        try:
            return self._take_one(binding, file)
        except OSError as error:
            return error

    def _take_one(self, binding: StreamBinding, file: SeenFile) -> bool:
        if binding.stream.after == "delete":
            return delete_file(self._session, file)
        target = archived_place(
            binding.source.places[0], binding.stream.archive, file.decoded
        )
        if target is None:
            raise OSError(f"{file.decoded} is not below {binding.source.places[0]}")
        return move_file(self._session, file, target)


def files_read(files: CheckpointFiles, stream: str) -> Sequence[SeenFile]:
    """The files that a query has read of a stream, as far as its checkpoint records
    them."""
    checkpoint = read_checkpoint(files)
    streams = (
        checkpoint.origin.streams
        if checkpoint is not None and checkpoint.origin is not None
        else ()
    )
    if checkpoint is None or stream not in streams:
        return ()
    position = checkpoint.positions.get(checkpoint.newest_planned, ())
    at = position[streams.index(stream)] if len(position) == len(streams) else None
    index = read_index(files)
    if index is not None:
        return [
            SeenFile(file.name, file.modified_ms)
            for file in KnownFiles(files, index).read_all()
        ]
    if not isinstance(at, dict) or "logOffset" not in at:
        return ()
    return read_seen(files, streams.index(stream), 0, at["logOffset"])


def check_taken(
    session: SparkSession, model: str, binding: StreamBinding, again: Sequence[SeenFile]
) -> None:
    """Raise `RunError` (`files-taken`) if files of a stream that is to be read again do
    not exist any more.

    `again` are the files that a checkpoint knows. An earlier checkpoint may have been
    lost, so files in the archive count as read too. Files deleted by a query whose
    checkpoint is lost are unknown.
    """
    if not binding.takes_away or binding.glob is None:
        return
    stream, base = binding.stream, binding.source.places[0].rstrip("/")
    there = {file.decoded for file in list_files(session, binding.glob)}
    gone = {path for path in (file.decoded for file in again) if path not in there}
    if stream.after == "archive":
        own = without_scheme(base)
        archive = list_files(
            session, files_below(base, f"{escape_glob(stream.archive)}/**")
        )
        places = (
            f"{own}{file.decoded.removeprefix(f'{own}/{stream.archive}')}"
            for file in archive
        )
        gone |= {place for place in places if place not in there}
    if not gone:
        return
    more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
    accept = f"lakesql rebuild {model} --accept-data-loss"
    fix = f"Bring them back if there is a copy. To make the table of the files that are there: {accept}"
    if stream.after == "archive":
        fix = (
            f"Move what is in {base}/{stream.archive} back to {base}, each file to its own path, and do it again: the "
            f"next run archives them anew. To make the table without them: {accept}"
        )
    raise RunError.of(
        "files-taken",
        f"Files of stream '{stream.name}' that model '{model}' has read were {_done(binding)}: "
        f"{', '.join(sorted(gone)[:SHOWN])}{more}.",
        why="To read the stream again would leave out their rows.",
        fix=fix,
        place=stream.place,
    )


SHOWN = 5
"""The maximum number of files that are named."""


def _done(binding: StreamBinding) -> str:
    return (
        "deleted"
        if binding.stream.after == "delete"
        else f"moved to {binding.stream.archive}"
    )


def _is_seeded(files: CheckpointFiles) -> bool:
    """Whether the checkpoint was made with files that count as read, some of which may
    have been skipped."""
    checkpoint = read_checkpoint(files)
    return (
        checkpoint is not None
        and checkpoint.origin is not None
        and checkpoint.origin.is_seeded
    )


_FOLDER = "unreadable"


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file of a stream that cannot be read: its path without a scheme, its URI, when
    it was last changed, and why."""

    stream: str
    path: str
    uri: str
    modified_ms: int
    why: str


def note_unreadable(
    session: SparkSession, folder: str, batch: int, found: Sequence[UnreadableFile]
) -> None:
    """Add unreadable files of a batch to those that the checkpoint records."""
    noted = [*read_unreadable(session, folder, batch), *found]
    CheckpointFiles(session, folder).write(
        f"{_FOLDER}/{batch}", json.dumps([asdict(each) for each in noted])
    )


def read_unreadable(
    session: SparkSession, folder: str, batch: int
) -> list[UnreadableFile]:
    """The unreadable files of a batch that the checkpoint records."""
    return _read(CheckpointFiles(session, folder), str(batch))


def unreadable_paths(files: CheckpointFiles) -> set[str]:
    """The paths of all unreadable files that a checkpoint records."""
    return {
        each.path
        for name in filter(str.isdecimal, files.names(_FOLDER))
        for each in _read(files, name)
    }


def without_unreadable(
    session: SparkSession, folder: str, bindings: tuple[StreamBinding, ...]
) -> tuple[StreamBinding, ...]:
    """The bindings without the unreadable files recorded for batches to come.

    Records of batches that are done are removed, unless a stream's files are moved or
    deleted: unreadable ones must stay in place.
    """
    if not any(binding.sets_aside for binding in bindings):
        return bindings
    files = CheckpointFiles(session, folder)
    done = max(
        (int(name) for name in files.names("commits") if name.isdecimal()), default=-1
    )
    noted = list[UnreadableFile]()
    for name in filter(str.isdecimal, files.names(_FOLDER)):
        if int(name) > done:
            noted += _read(files, name)
        elif all(binding.stream.after == "leave" for binding in bindings):
            files.remove(f"{_FOLDER}/{name}")
    paths = {binding.stream.name: list[str]() for binding in bindings}
    for each in noted:
        paths[each.stream].append(each.path)
    return tuple(
        replace(binding, set_aside=tuple(paths[binding.stream.name]))
        for binding in bindings
    )


def _read(files: CheckpointFiles, name: str) -> list[UnreadableFile]:
    return [
        UnreadableFile(**each)
        for each in json.loads(files.read(f"{_FOLDER}/{name}") or "[]")
    ]
