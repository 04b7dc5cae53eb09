"""The names of the files that a query has read, kept in its checkpoint as sorted lists,
so that few are held in memory at once.

`listed/batches/N` has the files of the batch after which N files have been read. From
time to time these are merged into `listed/segments/…`: lists that follow each other in
the order of names. `listed/index` has the first and the last name of each. A list is
written before the index names it, so a kill leaves either the old index or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from lakesql.source.name_order import FoundFile
from lakesql.source.stream_state import SeenFile, StoredFiles

FOLDER = "listed"
_BATCHES, _SEGMENTS, _LATE = f"{FOLDER}/batches", f"{FOLDER}/segments", f"{FOLDER}/late"
_INDEX, _SEEDED = f"{FOLDER}/index", f"{FOLDER}/seeded"

SEGMENT_FILES = 20_000
"""The maximum number of names in a list."""

FOLDED_FILES = 50_000
"""The number of names that are held in memory before they are merged into the lists."""


class KeptFiles(StoredFiles, Protocol):
    """The files of a checkpoint, for reading and writing."""

    def write(self, name: str, text: str) -> None:
        """Write a file, replacing any of that name."""

    def remove(self, name: str) -> None:
        """Remove a file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A list of names: its first and its last name, and the file that holds it."""

    first: str
    last: str
    file: str


@dataclass(frozen=True, slots=True)
class Index:
    """The lists of a checkpoint, and what has been found out by listing and by events.

    `folded` is how many files had been read when the lists were made; `listed_ms` is
    when the whole folder was last listed. All names up to `adopts` count as read too,
    because a new checkpoint knows nothing else of them; `adopted` is how many files had
    been read then, and `digest` a checksum of their names. `number` is the number of
    the next list. `events` are the offsets, by topic and partition, up to which events
    have announced no file that is still to be read.
    """

    segments: tuple[Segment, ...] = ()
    folded: int = 0
    listed_ms: int = 0
    adopts: str = ""
    adopted: int = 0
    digest: int = 0
    number: int = 0
    events: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


TIME_UNKNOWN = 0
"""The modification time of a file that was read when an event announced it; the next
listing finds out the real one."""


def read_index(files: StoredFiles) -> Index | None:
    """The index of a checkpoint's lists; None if it has none."""
    text = files.read(_INDEX)
    if text is None:
        return None
    found = json.loads(text)
    return Index(
        **{**found, "segments": tuple(Segment(**each) for each in found["segments"])}
    )


def knows_all(files: StoredFiles) -> bool:
    """Whether the lists of a checkpoint name every file that its query has read and
    that still exists."""
    index = read_index(files)
    return index is not None and not index.adopts


def read_known(files: KeptFiles, through: int) -> list[SeenFile]:
    """The files that the query of a checkpoint had read when it had read `through`
    files."""
    index = read_index(files) or Index()
    return [
        SeenFile(file.name, file.modified_ms)
        for file in KnownFiles(files, index).read_up_to(through)
    ]


def dump_seeded(seen: Iterable[SeenFile]) -> tuple[str, str]:
    """The name and the text of the file in a new checkpoint that lists the files which
    count as read."""
    return _SEEDED, "\n".join(
        json.dumps([each.path, each.modified_ms]) for each in seen
    )


def read_seeded(files: StoredFiles) -> list[FoundFile] | None:
    """The files that count as read in a checkpoint because it was created with them;
    None if it was created without."""
    text = files.read(_SEEDED)
    if text is None:
        return None
    return [
        FoundFile(name, 0, at_ms)
        for name, at_ms in map(json.loads, text.split("\n") if text else ())
    ]


def is_listing_due(index: Index, every_ms: int, at_ms: int) -> bool:
    """Whether the whole folder has to be listed, as the last listing is `every_ms`
    old."""
    return at_ms - index.listed_ms >= every_ms


class KnownFiles:
    """The files that a query has read, and the lists of them in its checkpoint."""

    def __init__(self, files: KeptFiles, index: Index) -> None:
        self.index = index
        self._files = files
        self._late: list[Segment] = []
        self._recent: dict[str, FoundFile] = {}
        self._recent_through = index.folded

    def begin(self, read: Iterable[FoundFile] = ()) -> None:
        """Write the first index of a checkpoint, with the files that count as read."""
        written = _Written(self._files, _SEGMENTS, self.index.number)
        for file in sorted(read):
            written.add(file)
        written.end()
        self._save(
            replace(self.index, segments=(*written.segments,), number=written.number)
        )

    # --- batches

    def plan_batch(self, before: int, after: int, found: Sequence[FoundFile]) -> None:
        """Record the files of the next batch: `before` it `before` files were read, and
        after it `after` files will be."""
        for number in self._batches():
            if number > before:  # it was planned, and never begun
                self._files.remove(f"{_BATCHES}/{number}")
        self._files.write(
            f"{_BATCHES}/{after}", _dump(replace(each, through=after) for each in found)
        )

    def read_batch(self, after: int) -> list[FoundFile] | None:
        """The files of the batch after which `after` files are read; None if it was not
        recorded."""
        text = self._files.read(f"{_BATCHES}/{after}")
        return None if text is None else [*_parse(text)]

    def _batches(self) -> list[int]:
        return sorted(
            int(name) for name in self._files.names(_BATCHES) if name.isdecimal()
        )

    # --- what is known

    def reaches(self, name: str) -> bool:
        """Whether a list has a larger name than `name`."""
        return any(segment.last > name for segment in self.index.segments)

    def unknown(self, found: Iterable[FoundFile], read: int) -> Iterator[FoundFile]:
        """The files of `found`, in order of their names, that were not yet read when
        `read` files had been."""
        for file, known in self._beside(found, read):
            if known is None:
                yield file

    def _beside(
        self, found: Iterable[FoundFile], read: int
    ) -> Iterator[tuple[FoundFile, FoundFile | None]]:
        """Files in order of their names, each with its record among the first `read`
        files read, or None. One list at a time is held in memory."""
        self._learn(read)
        segments, held = [*self.index.segments], dict[str, FoundFile]()
        for file in found:
            while segments and segments[0].first <= file.name:
                segment = segments.pop(0)
                held = (
                    {each.name: each for each in self._read(segment)}
                    if segment.last >= file.name
                    else {}
                )
            is_adopted = file.name <= self.index.adopts
            yield (
                file,
                held.get(file.name)
                or self._recent.get(file.name)
                or (file if is_adopted else None),
            )

    def compare(
        self, there: Iterable[FoundFile], read: int, compared: ListingReader
    ) -> None:
        """Compare all existing files, in order of their names, with the first `read`
        files that were read, and report differences to `compared`.

        Read files that no longer exist are forgotten. Unread files that `compared`
        wants to be read go to lists, which `next_late` returns.
        """
        self._fold(read)
        kept, late = (
            _Written(self._files, _SEGMENTS, self.index.number),
            _Written(self._files, _LATE, 0),
        )
        for file, known in self._beside(there, read):
            if known is None:
                if compared.late(file):
                    late.add(file)
                continue
            if known.modified_ms == TIME_UNKNOWN:
                known = replace(known, modified_ms=file.modified_ms)
            if known.modified_ms != file.modified_ms:
                compared.changed(file)
            if file.name <= self.index.adopts:
                compared.adopted(file)
            kept.add(known)
        kept.end()
        late.end()
        self._late = [*late.segments]
        self._save(
            replace(
                self.index, segments=(*kept.segments,), number=kept.number, adopts=""
            )
        )

    def next_late(self) -> list[FoundFile]:
        """The next unread files that the last listing has found; empty when all were
        returned."""
        return (
            [*_parse(self._files.read(f"{_LATE}/{self._late.pop(0).file}") or "")]
            if self._late
            else []
        )

    def note_listing(self, at_ms: int) -> None:
        """Record that the whole folder was listed and nothing is left to read."""
        self._save(replace(self.index, listed_ms=at_ms))

    def note_events(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Record that events up to these offsets have announced no file that is still
        to be read."""
        self._save(
            replace(
                self.index,
                events={
                    topic: {str(partition): at for partition, at in offsets.items()}
                },
            )
        )

    def read_all(self) -> Iterator[FoundFile]:
        """All files that are recorded as read."""
        for segment in self.index.segments:
            yield from self._read(segment)
        for number in self._batches():
            if number > self.index.folded:
                yield from self.read_batch(number) or ()

    def read_up_to(self, through: int) -> list[FoundFile]:
        """The files that had been read when `through` files had."""
        return [file for file in self.read_all() if file.through <= through]

    def _learn(self, read: int) -> None:
        """Load the files of completed batches that the lists do not have yet; if they
        are many, merge them into the lists."""
        for number in self._batches():
            if self._recent_through < number <= read:
                self._recent.update(
                    {file.name: file for file in self.read_batch(number) or ()}
                )
                self._recent_through = number
            if len(self._recent) >= FOLDED_FILES:
                self._fold(number)

    def _fold(self, read: int) -> None:
        """Merge the files of completed batches into the lists."""
        batches = [
            number for number in self._batches() if self.index.folded < number <= read
        ]
        come: dict[str, FoundFile] = {}
        for number in batches:
            come.update({file.name: file for file in self.read_batch(number) or ()})
            if len(come) >= FOLDED_FILES or number == batches[-1]:
                self._fold_in(sorted(come.values()), number)
                come = {}
        self._recent, self._recent_through = {}, self.index.folded

    def _fold_in(self, come: Sequence[FoundFile], folded: int) -> None:
        """Merge files into the lists; only lists whose range of names overlaps the new
        names are rewritten."""
        first, last = come[0].name, come[-1].name
        before = [each for each in self.index.segments if each.last < first]
        behind = [each for each in self.index.segments if each.first > last]
        between = self.index.segments[
            len(before) : len(self.index.segments) - len(behind)
        ]
        if before and not between and not behind and _is_small(self._read(before[-1])):
            between = (before.pop(),)
        written = _Written(self._files, _SEGMENTS, self.index.number)
        for file in _merge(
            (file for segment in between for file in self._read(segment)), come
        ):
            written.add(file)
        written.end()
        segments = (*before, *written.segments, *behind)
        self._save(
            replace(self.index, segments=segments, folded=folded, number=written.number)
        )

    def _read(self, segment: Segment) -> list[FoundFile]:
        return [*_parse(self._files.read(f"{_SEGMENTS}/{segment.file}") or "")]

    def _save(self, index: Index) -> None:
        """Write the index, and remove the lists and batches that it no longer needs."""
        self._files.write(_INDEX, json.dumps(asdict(index)))
        self.index = index
        used = {segment.file for segment in index.segments}
        for name in self._files.names(_SEGMENTS):
            if name not in used and name.isdecimal():
                self._files.remove(f"{_SEGMENTS}/{name}")
        for number in self._batches():
            # the last batch may be read again until it is done
            if number < index.folded:
                self._files.remove(f"{_BATCHES}/{number}")


class ListingReader(Protocol):
    """Receives what a listing of all files has found."""

    def late(self, file: FoundFile) -> bool:
        """Whether an unread file is to be read now."""

    def changed(self, file: FoundFile) -> None:
        """A file has changed since it was read."""

    def adopted(self, file: FoundFile) -> None:
        """A file counts as read only because a new checkpoint began after it."""


class _Written:
    """Lists while they are written, one after another, into a folder."""

    def __init__(self, files: KeptFiles, folder: str, number: int) -> None:
        self._folder = folder
        self.segments: list[Segment] = []
        self.number = number
        self._files = files
        self._open: list[FoundFile] = []

    def add(self, file: FoundFile) -> None:
        """Add the next file."""
        self._open.append(file)
        if len(self._open) >= SEGMENT_FILES:
            self.end()

    def end(self) -> None:
        """Write the remaining files as the last list."""
        if not self._open:
            return
        name = str(self.number)
        self._files.write(f"{self._folder}/{name}", _dump(self._open))
        self.segments.append(Segment(self._open[0].name, self._open[-1].name, name))
        self.number, self._open = self.number + 1, []


def _is_small(found: Sequence[FoundFile]) -> bool:
    return len(found) < SEGMENT_FILES // 2


def _merge(
    known: Iterable[FoundFile], come: Iterable[FoundFile]
) -> Iterator[FoundFile]:
    """Two sorted sequences of files as one; of two files with the same name, the one of
    `come`."""
    from heapq import merge

    last: FoundFile | None = None
    for file in merge(known, come):
        if last is not None and last.name != file.name:
            yield last
        last = file
    if last is not None:
        yield last


def _dump(found: Iterable[FoundFile]) -> str:
    values = (
        [each.name, each.size_bytes, each.modified_ms, each.through] for each in found
    )
    return "\n".join(map(json.dumps, values))


def _parse(text: str) -> Iterator[FoundFile]:
    for line in text.split("\n") if text else ():
        name, size_bytes, modified_ms, through = json.loads(line)
        yield FoundFile(name, size_bytes, modified_ms, through=through)
