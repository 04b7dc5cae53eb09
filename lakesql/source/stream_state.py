"""The present state of a model's stream and its position, as values that its source and
the ledger share; and the files that it has read, from the lists in Spark's checkpoint.
No JVM.

Each batch of a source of files is a file in `sources/I/`, and every tenth is a
`.compact` file that includes all before it.
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
"""The position of a source in Spark's JSON: the value of `lakesql.offsets` for one
stream."""

Positions = Mapping[str, Position]
"""Positions by stream. A missing stream begins at its `start`."""

THROUGH = "through"
"""The key in the position of a recorded stream for the last file read, by topic.
Spark's own position counts batches of files, which means nothing without the list of
them in its checkpoint."""


BATCHES = "logOffset"
"""The key in a position of Spark's file source that holds the number of the source's
own last batch. The files of each batch are in the source's lists."""


class Expired(NamedTuple):
    """Why something after a place of a log is gone, and the place at which a reader
    that accepts the loss continues."""

    why: str
    follows: Position = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """The present state of a stream of the model.

    `nothing` is the reason why there is nothing to read, if known. `left_out` names the
    files that are not read, and why.

    For Kafka: `topics` has the id of each topic, `beginnings` and `ends` the first
    offset of each partition that still exists and the one after the last. Without
    `is_asked` nothing is known of the topics. `held` has the partitions in which a
    transaction is open, with the offset where it began: a reader may not read past it.
    For a log without numbers, `find_expired` returns the places of a position, by topic
    and partition, after which something is gone.

    For a table: `rebuilt` are the snapshots since its last rebuild, the oldest first,
    and `rebuilt_ms` the time of the first of them in milliseconds since the epoch.
    `is_cut`: the first snapshots are gone, and with them the knowledge which rows they
    added. `formers` are the names that the table's model had before it was renamed.
    `history` are the snapshots that lead to its head, None if not asked for;
    `abandoned` has the times of all others.
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
        """The position before everything that Kafka's topics hold now."""
        return position_of(self.beginnings)

    @property
    def end(self) -> Position:
        """The position after everything that Kafka's topics hold now."""
        return position_of(self.ends)


def position_of(offsets: Mapping[str, Mapping[int, int]]) -> Position:
    """Offsets as checkpoints and ledgers have them: the inverse of `numbered`."""
    return {
        topic: {str(number): at for number, at in each.items()}
        for topic, each in offsets.items()
    }


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The state of a stream's topics. `problems` are those that do not exist or may not
    be read."""

    source: SourceState
    problems: tuple[Problem, ...] = ()


NO_ID = "A" * 22
"""The id that a broker returns for a topic without an id, if it, or its
`inter.broker.protocol.version`, is older than Kafka 2.8. A checkpoint or a ledger may
still have it after the cluster was upgraded."""


def is_another(known: str, now: str) -> bool:
    """Whether the ids `known` and `now` are certainly of two different topics."""
    return known != now and NO_ID not in (known, now)


def spark_position(position: Position) -> Position:
    """A position without what lakesql has added to it."""
    if isinstance(position, dict) and THROUGH in position:
        return {key: value for key, value in position.items() if key != THROUGH}
    return position


LOOKED_AT = 100
"""How many of the last read files are looked for, to see whether the files were
moved."""


class StoredFiles(Protocol):
    """The files of one checkpoint, by their paths in it."""

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""

    def names(self, name: str = "") -> list[str]:
        """The names in a folder of the checkpoint, or in the checkpoint itself; empty
        if it does not exist."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file that a source has read: its URI as Spark writes it, and its modification
    time."""

    path: str
    modified_ms: int

    @property
    def decoded(self) -> str:
        """Its path on disk: without a scheme, and with nothing escaped."""
        return unquote(without_scheme(self.path))

    @property
    def folder(self) -> str:
        """The name of the folder that contains it; of a recorded topic, the topic's
        folder."""
        return unquote(self.path.rsplit("/", 2)[-2])

    @property
    def name(self) -> str:
        """The name of the file."""
        return unquote(self.path.rsplit("/", 1)[-1])


@dataclass(frozen=True, slots=True)
class SeededSource:
    """What a new checkpoint records of one source: its position, None for its start,
    and the files that count as read, in Spark's lists (`seen`) or in lakesql's own
    (`listed`)."""

    position: Position = None
    seen: tuple[SeenFile, ...] = ()
    listed: tuple[SeenFile, ...] | None = None

    @classmethod
    def of(cls, seen: Sequence[SeenFile]) -> Self:
        """A source that has read these files; at its start if there are none."""
        return cls({BATCHES: 0}, tuple(seen)) if seen else cls()


def read_seen(files: StoredFiles, source: int, first: int, last: int) -> list[SeenFile]:
    """The files that a source of files has read in its own batches `first` to `last`.

    Each batch is a file in `sources/<source>/`; every tenth is a `.compact` file that
    includes all before it, which are deleted after a while. Raises `RunError`
    (`rewind-impossible`) if a part of the list is gone.
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
    # a later compact file may have replaced them: it includes them
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
    """The files in the newest list of a source of files; empty if it has read none, or
    is another kind of source."""
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
