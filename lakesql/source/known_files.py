"""The names of files that a query has read, kept in its checkpoint as lists on which
little is held in memory at once.

`listed/batches/N` has the files of the batch with which N files have been read. From
time to time these are folded into `listed/segments/…`: lists that follow each other in
the order of names, of which `listed/index` has the first and the last. A file of the
checkpoint is written before the index names it, so that a kill leaves the old index or
the new one.
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
"""So many names a list has at most."""

FOLDED_FILES = 50_000
"""So many names are held in memory before they are folded into lists."""


class KeptFiles(StoredFiles, Protocol):
    """The files of a checkpoint that may be written."""

    def write(self, name: str, text: str) -> None:
        """Write a file, over one of that name."""

    def remove(self, name: str) -> None:
        """Remove a file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A list: the first and the last of its names, and the file that has it."""

    first: str
    last: str
    file: str


@dataclass(frozen=True, slots=True)
class Index:
    """Which lists there are.

    `folded` is how many files had been read as they were made, and `listed_ms` when the
    whole folder was listed last. All names up to `adopts` count as read besides, as a
    new checkpoint knows nothing more of them; `adopted` is how many files had been read
    then, and `digest` what their names come to. `number` is that of the next list.
    `events` are the offsets, by topic and partition, up to which events have told of
    nothing that is still to be read.
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
"""When a file was changed that was read as an event told of it: the next listing says
it."""


def read_index(files: StoredFiles) -> Index | None:
    """The lists of a checkpoint; None where it has none."""
    text = files.read(_INDEX)
    if text is None:
        return None
    found = json.loads(text)
    return Index(
        **{**found, "segments": tuple(Segment(**each) for each in found["segments"])}
    )


def knows_all(files: StoredFiles) -> bool:
    """Whether the lists of a checkpoint have all files that its query has read, as far
    as they are there."""
    index = read_index(files)
    return index is not None and not index.adopts


def read_known(files: KeptFiles, through: int) -> list[SeenFile]:
    """The files that the query of a checkpoint had read when so many were."""
    index = read_index(files) or Index()
    return [
        SeenFile(file.name, file.modified_ms)
        for file in KnownFiles(files, index).read_up_to(through)
    ]


def dump_seeded(seen: Iterable[SeenFile]) -> tuple[str, str]:
    """The file of a new checkpoint, its name and its text, that says which files count
    as read."""
    return _SEEDED, "\n".join(
        json.dumps([each.path, each.modified_ms]) for each in seen
    )


def read_seeded(files: StoredFiles) -> list[FoundFile] | None:
    """The files that count as read in a checkpoint that was made with some; None where
    it was made with none."""
    text = files.read(_SEEDED)
    if text is None:
        return None
    return [
        FoundFile(name, 0, at_ms)
        for name, at_ms in map(json.loads, text.split("\n") if text else ())
    ]


def is_listing_due(index: Index, every_ms: int, at_ms: int) -> bool:
    """Whether all of the folder is to be listed, as it was not for so long."""
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
        """Write the index as it is, in a checkpoint that has none, with files that were
        read."""
        written = _Written(self._files, _SEGMENTS, self.index.number)
        for file in sorted(read):
            written.add(file)
        written.end()
        self._save(
            replace(self.index, segments=(*written.segments,), number=written.number)
        )

    # --- batches

    def plan_batch(self, before: int, after: int, found: Sequence[FoundFile]) -> None:
        """Note the files of the next batch: `before` it so many were read, and `after`
        it so many will be."""
        for number in self._batches():
            if number > before:  # it was planned, and never begun
                self._files.remove(f"{_BATCHES}/{number}")
        self._files.write(
            f"{_BATCHES}/{after}", _dump(replace(each, through=after) for each in found)
        )

    def read_batch(self, after: int) -> list[FoundFile] | None:
        """The files of the batch with which so many are read; None where nothing is
        noted of it."""
        text = self._files.read(f"{_BATCHES}/{after}")
        return None if text is None else [*_parse(text)]

    def _batches(self) -> list[int]:
        return sorted(
            int(name) for name in self._files.names(_BATCHES) if name.isdecimal()
        )

    # --- what is known

    def reaches(self, name: str) -> bool:
        """Whether a list has a name that is larger."""
        return any(segment.last > name for segment in self.index.segments)

    def unknown(self, found: Iterable[FoundFile], read: int) -> Iterator[FoundFile]:
        """Those of some files, in order of their names, that were not read while `read`
        were."""
        for file, known in self._beside(found, read):
            if known is None:
                yield file

    def _beside(
        self, found: Iterable[FoundFile], read: int
    ) -> Iterator[tuple[FoundFile, FoundFile | None]]:
        """Files in order of their names, each with what is known of it. A list is held
        while names are in it."""
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
        """Compare all files that are there, in order of their names, with those that
        were read while `read` were.

        What is not there any more is forgotten. Those that were not read are kept in
        lists, which `next_late` gives.
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
        """The next files that the last listing has found and that were not read; none
        when all were given."""
        return (
            [*_parse(self._files.read(f"{_LATE}/{self._late.pop(0).file}") or "")]
            if self._late
            else []
        )

    def note_listing(self, at_ms: int) -> None:
        """Note that all of the folder was listed, and nothing found that is still to be
        read."""
        self._save(replace(self.index, listed_ms=at_ms))

    def note_events(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Note that events up to these offsets have told of nothing that is still to be
        read."""
        self._save(
            replace(
                self.index,
                events={
                    topic: {str(partition): at for partition, at in offsets.items()}
                },
            )
        )

    def read_all(self) -> Iterator[FoundFile]:
        """All files that are known to have been read."""
        for segment in self.index.segments:
            yield from self._read(segment)
        for number in self._batches():
            if number > self.index.folded:
                yield from self.read_batch(number) or ()

    def read_up_to(self, through: int) -> list[FoundFile]:
        """The files that had been read when so many were."""
        return [file for file in self.read_all() if file.through <= through]

    def _learn(self, read: int) -> None:
        """Hold the files of batches that are done since the lists were made; make lists
        of many."""
        for number in self._batches():
            if self._recent_through < number <= read:
                self._recent.update(
                    {file.name: file for file in self.read_batch(number) or ()}
                )
                self._recent_through = number
            if len(self._recent) >= FOLDED_FILES:
                self._fold(number)

    def _fold(self, read: int) -> None:
        """Put the files of batches that are done into the lists."""
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
        """Write the lists anew between whose names some have come, and those before and
        behind them not."""
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
        """Write the index, and remove what it has no use for."""
        self._files.write(_INDEX, json.dumps(asdict(index)))
        self.index = index
        used = {segment.file for segment in index.segments}
        for name in self._files.names(_SEGMENTS):
            if name not in used and name.isdecimal():
                self._files.remove(f"{_SEGMENTS}/{name}")
        for number in self._batches():
            # the last one may be read again until its batch is done
            if number < index.folded:
                self._files.remove(f"{_BATCHES}/{number}")


class ListingReader(Protocol):
    """Is told what a listing of all files has found."""

    def late(self, file: FoundFile) -> bool:
        """A file that was not read: whether it is to be, now."""

    def changed(self, file: FoundFile) -> None:
        """A file that has changed since it was read."""

    def adopted(self, file: FoundFile) -> None:
        """A file that counts as read, as a new checkpoint knows nothing more of it."""


class _Written:
    """Lists as they are written one after the other into a folder."""

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
        """Write what is left."""
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
    """Two ordered rows of files as one; of a name that stands in both, the one that has
    come."""
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
