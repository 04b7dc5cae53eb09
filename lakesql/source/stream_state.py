"""What a stream of a model is now, and where it stands: values that its source and the
ledger share, and the files that it has read by the lists in Spark's checkpoint. No JVM.

Each batch of a source of files is a file in `sources/I/`, and every tenth a `.compact`
file with all before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import unquote

from lakesql.errors import Problem, RunError
from lakesql.source.pattern import without_scheme

Position = Any
"""Where a source stands, as Spark's JSON has it: the value of `lakesql.offsets` for one
stream."""

Positions = Mapping[str, Position]
"""By stream; one that is missing starts where the stream says."""

THROUGH = "through"
"""In the position of a recorded stream: by topic, the last file that was read. Spark's
own position counts batches of files, which means nothing without the list of them in
its checkpoint."""


BATCHES = "logOffset"
"""In a position of Spark's source of files: the number of its own last batch. The files
of each are in its lists."""


class Expired(NamedTuple):
    """Why something is gone behind a place of a log, and the place from which a reader
    goes on without it."""

    why: str
    follows: Position = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """A stream of the model as it is now.

    `nothing` says why there is nothing to read, where that is known. For Kafka: the id
    of each topic, and of each partition the first offset that is still there, and the
    one behind the last. For a table that was rebuilt: the snapshot that brought its new
    rows, and those after it, in their order; and the time of the first of them, in
    milliseconds since the epoch. `is_cut`: the first snapshots of a table are gone, and
    with them
    which rows they brought. Without `is_asked` nothing is known of Kafka's topics, and
    nothing follows from that. `left_out` says which files are not read, and why.
    `held` are the partitions whose records a reader may not see all of, as a
    transaction is open: where it has begun. `formers` are the names that the model of a
    table had before it was renamed. `history` are the snapshots that lead to its head,
    as far as they are left, None where they were not asked for; `abandoned` the times
    of the others. `find_expired` says of a position in a log without numbers behind
    which of its places something is gone, by topic and partition.
    """

    name: str
    kind: str
    topics: Mapping[str, str] = field(default_factory=dict)
    beginnings: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    rebuilt: tuple[int, ...] = ()
    rebuilt_ms: int | None = None
    is_cut: bool = False
    nothing: str = ""
    left_out: str = ""
    is_asked: bool = True
    held: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    formers: tuple[str, ...] = ()
    history: frozenset[int] | None = None
    abandoned: Mapping[int, int] = field(default_factory=dict)
    find_expired: Callable[[Position], Mapping[tuple[str, str], Expired]] | None = (
        field(default=None, compare=False)
    )

    @property
    def beginning(self) -> Position:
        """The position in front of all that Kafka's topics have now."""
        return position_of(self.beginnings)

    @property
    def end(self) -> Position:
        """The position behind all that Kafka's topics have now."""
        return position_of(self.ends)


def position_of(offsets: Mapping[str, Mapping[int, int]]) -> Position:
    """Offsets as checkpoints and ledgers have them: the reverse of `numbered`."""
    return {
        topic: {str(number): at for number, at in each.items()}
        for topic, each in offsets.items()
    }


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """What is there of a stream's topics. `problems` are those that are not there, or
    that may not be read."""

    source: SourceState
    problems: tuple[Problem, ...] = ()


NO_ID = "A" * 22
"""What a broker says of a topic that has no id: it, or its
`inter.broker.protocol.version`, is older than Kafka 2.8. A checkpoint or a ledger may
have it too, where the cluster has been upgraded since."""


def is_another(known: str, now: str) -> bool:
    """Whether a topic of the id `now` is another one than the one that had the id
    `known`."""
    return known != now and NO_ID not in (known, now)


def spark_position(position: Position) -> Position:
    """A position without what lakesql adds to it."""
    if isinstance(position, dict) and THROUGH in position:
        return {key: value for key, value in position.items() if key != THROUGH}
    return position


LOOKED_AT = 100
"""How many of the files that were read last are looked for, to see whether they have
moved."""


class StoredFiles(Protocol):
    """The files of one checkpoint, by their paths in it."""

    def read(self, name: str) -> str | None:
        """The text of a file, None if there is none."""

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; none if
        it is not there."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source has read: its URI as Spark writes it, and when it was
    changed."""

    path: str
    modified_ms: int

    @property
    def decoded(self) -> str:
        """Its path, as names stand on a disk: without a scheme, and with nothing
        escaped."""
        return unquote(without_scheme(self.path))

    @property
    def folder(self) -> str:
        """The name of the folder that it is in: a recorded topic's."""
        return unquote(self.path.rsplit("/", 2)[-2])

    @property
    def name(self) -> str:
        """The name of the file."""
        return unquote(self.path.rsplit("/", 1)[-1])


@dataclass(frozen=True, slots=True)
class SeededSource:
    """What a new checkpoint says of one source: where it stands, None for its start,
    and which files it has seen, in Spark's lists or, as `listed`, in those of lakesql's
    own."""

    position: Position = None
    seen: tuple[SeenFile, ...] = ()
    listed: tuple[SeenFile, ...] | None = None

    @classmethod
    def of(cls, seen: Sequence[SeenFile]) -> Self:
        """A source that has read these files; one that has read none is at its
        start."""
        return cls({BATCHES: 0}, tuple(seen)) if seen else cls()


def read_seen(files: StoredFiles, source: int, first: int, last: int) -> list[SeenFile]:
    """The files that a source of files has read in its own batches `first` to `last`.

    Each of those is a file in `sources/<source>/`; every tenth is a `.compact` file
    with all before it too, and what it holds goes after a while. Raises `RunError`
    (`rewind-impossible`) where a part of the list is gone.
    """
    folder = f"sources/{source}"
    text = files.read(f"{folder}/{last}") if first == last else None
    if text is not None:
        return [file for _, file in _parse_seen(text)]
    names = files.names(folder)
    compacts = [
        int(name.removesuffix(".compact"))
        for name in names
        if name.endswith(".compact")
    ]
    newest = max((number for number in compacts if number <= last), default=-1)
    parts = [f"{newest}.compact"] if newest >= first else []
    parts += [str(number) for number in range(max(first, newest + 1), last + 1)]
    # those before a later compact file are gone: it has them too
    if not set(names).issuperset(parts):
        later = min((number for number in compacts if number > last), default=None)
        if later is None:
            raise RunError.of(
                "rewind-impossible",
                f"The list of the files that batches up to {last} have read is gone from {folder}/ of the checkpoint.",
                fix="Name a time, `--to TIME`, or read all again, `--to start`; in mode append drop the table first.",
            )
        parts = [f"{later}.compact"]
    found = {}
    for name in parts:
        for number, file in _parse_seen(files.read(f"{folder}/{name}") or ""):
            if first <= number <= last:
                found[file.path] = file
    return list(found.values())


def newest_seen(files: StoredFiles, source: int) -> list[SeenFile]:
    """The files of the newest list of a source of files; none if it has read none, or
    reads something else."""
    lists = [
        name
        for name in files.names(f"sources/{source}")
        if name.removesuffix(".compact").isdecimal()
    ]
    newest = max(
        lists, key=lambda name: int(name.removesuffix(".compact")), default=None
    )
    text = files.read(f"sources/{source}/{newest}") if newest else None
    return (
        [file for _, file in _parse_seen(text)]
        if text and text.startswith("v1\n{")
        else []
    )


def _parse_seen(text: str) -> Iterator[tuple[int, SeenFile]]:
    for line in text.splitlines()[1:]:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError(f"{line} is no file of a batch")
        yield (
            int(entry["batchId"]),
            SeenFile(str(entry["path"]), int(entry["timestamp"])),
        )
