"""What is asked of a stream's source, whatever kind it is, by whoever does not read
records: no Java, no Spark.

A new kind is a file beside this one, `<kind>.py`, with a class that answers this; a
file of the same name in `lakesql/engine/sources`, which reads its records with Spark;
and a line in `kinds.py` and in `spark_sources.py`. Nobody else asks which kind a source
is.

A command that reads a profile loads all kinds: what answers few of its questions is
imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from lakesql.source.dataset import Dataset
from lakesql.source.origin import Brings

if TYPE_CHECKING:
    from lakesql.errors import Place, Problem
    from lakesql.source.kafka import Kafka
    from lakesql.source.log import LogSource
    from lakesql.source.notifications import Notifications
    from lakesql.source.origin import StreamOrigin
    from lakesql.source.stream_state import (
        FoundTopics,
        Position,
        SeenFile,
        SourceState,
        StoredFiles,
    )

Start = Literal["earliest", "latest"] | datetime
"""Where a new checkpoint starts. A time without a zone is in UTC."""

BacklogUnit = Literal["records", "files", "ms"]
"""What a backlog is counted in: `ms` is the time by which what was read is older than
the newest there is."""


class AskedStream(Protocol):
    """What a source is told of the stream that is read from it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def origin(self) -> StreamOrigin:
        """Where its records are."""

    @property
    def place(self) -> Place:
        """Where it is declared."""

    @property
    def after(self) -> str:
        """What becomes of its files once they are read: `leave` where they stay."""

    @property
    def ordered_by(self) -> str | None:
        """By what its files are found and read, if not by listing all of them:
        `name`."""

    @property
    def notifications(self) -> Notifications | None:
        """Where events tell of its files, if any do."""

    @property
    def list_all_every_ms(self) -> int:
        """How often all of its files are listed, where they are found otherwise."""


class SnapshotNow(Protocol):
    """A snapshot of a table."""

    @property
    def id(self) -> int:
        """Its id."""

    @property
    def parent(self) -> int | None:
        """The id of the one before it, if there is one."""

    @property
    def summary(self) -> Mapping[str, str]:
        """What Iceberg and lakesql have noted in it."""


class TableNow(Protocol):
    """A table as its metadata says."""

    @property
    def history(self) -> Sequence[SnapshotNow]:
        """From its head to its root, as far as they are left."""

    def ledger(self) -> Iterator[SnapshotNow]:
        """The snapshots of `history`, and then those whose summaries the table keeps in
        a property."""


class Now(Protocol):
    """What there is now, as far as it can be seen without Java; each thing is looked at
    once."""

    def table(self, name: str) -> TableNow | None:
        """The table of this name, `catalog.namespace.name`, if it is there."""

    def found(self, stream: str) -> SourceState | None:
        """What `Source.look` has found of a stream; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a connection has answered: what there is of each stream, by its name, and
    why nothing is known of others."""

    found: Mapping[str, FoundTopics]
    unread: tuple[str, ...] = ()


class Source(Protocol):
    """What a stream is read from on one target: a connection of its profile, or another
    model's table."""

    kind: ClassVar[str]
    """The word for it: in profiles, in `SourceState` and in the registries."""

    reader: ClassVar[str] = ""
    """The file of `lakesql/engine/sources` that reads it with Spark, where several
    kinds share one; else its kind's."""

    label: ClassVar[str]
    """What an error calls it, as in `reads plain files now`."""

    brings: ClassVar[Brings]
    """What its records arrive as: records of topics, records in the stream's own files,
    or rows with columns."""

    has_offsets: ClassVar[bool] = True
    """Whether each record has an offset, which rises with its age."""

    may_lack_offsets: ClassVar[bool] = False
    """Whether the records alone say that they have offsets: those of code that the
    project brings."""

    place_instead: ClassVar[str] = ""
    """Where the place of a record is found that has no offset, in a sentence."""

    has_times: ClassVar[bool] = True
    """Whether it can be read from a time on."""

    looks_up_start: ClassVar[bool] = False
    """Whether a stream's `start` is looked up once, when it is first read. Otherwise
    each record is compared with a time, and `latest` reads what is there."""

    keeps_lists: ClassVar[bool] = False
    """Whether a checkpoint has lists of the files that were read from it."""

    is_planned: ClassVar[bool] = False
    """Whether lakesql plans its batches of files itself, as Spark does not stream
    them."""

    is_in_name_order: ClassVar[bool] = False
    """Whether files are read in the order of their names, and not of their times."""

    backlog_unit: ClassVar[BacklogUnit] = "files"
    """What is counted that was not read yet."""

    jars: ClassVar[frozenset[str]] = frozenset()
    """The groups of jars that Spark needs to read it."""

    events_in: ClassVar[str] = ""
    """What `notifications` call that of it which tells of files: `topic` or `queue`; ''
    where nothing does."""

    @classmethod
    def stand_in(cls) -> Self:
        """One of which nothing but the kind is known."""
        return cls()

    def as_asked(self, stream: AskedStream, events: Source | None = None) -> Source:
        """This connection as a stream is read through it: some have several ways.
        `events` is the connection that the stream's `notifications` name."""
        return self

    # --- where it is

    def resolved(self, directory: Path) -> Self:
        """This source with the local paths absolute that are relative to a
        directory."""
        return self

    @property
    def places(self) -> tuple[str, ...]:
        """The folders or URLs below which it reads files; none where it reads none."""
        return ()

    def files(self, origin: StreamOrigin) -> str | None:
        """The pattern of the files that are read for an origin; None where it reads
        none."""
        return None

    @property
    def recording(self) -> Path | None:
        """The folder of this machine that holds recorded topics, if it is one."""
        return None

    @property
    def cluster(self) -> Kafka | None:
        """The cluster that is asked for topics, and for their newest records, if there
        is one."""
        return None

    @property
    def as_log(self) -> LogSource | None:
        """This source where a client in Python reads its topics."""
        return None

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """What of an origin cannot be in it, such as the name of a topic."""
        return iter(())

    def rebuilt_since(self, at_ms: int | None) -> Source:
        """This source where it is read from that time on, as all before it was
        removed."""
        return self

    # --- what it is called in lineage

    @property
    def lineage_namespace(self) -> str:
        """The namespace of its topics in OpenLineage."""
        return self.kind

    def datasets(
        self, stream: AskedStream, topics: Sequence[str]
    ) -> tuple[Dataset, ...]:
        """What a stream reads, as OpenLineage calls it. `topics` are those that it has
        read, if its position says it; else it is what the stream's entry says."""
        names = topics or stream.origin.given or (stream.name,)
        return tuple(Dataset(self.lineage_namespace, name) for name in names)

    # --- what can be said of it without Java

    def check(self) -> str:
        """What it is, in words. Raises `ProfileError` (`connection-unreachable`) where
        it is plainly not there."""
        ...

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """What it is, in words, once it was asked for what these streams read, as
        `lakesql debug` does.

        Raises what asking raises.
        """
        return self.check()

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """What there is of those streams that are read from it, asked over a network;
        nothing where it need not be.

        `name` is the connection's. Raises what asking raises where something is not
        there, or does not take the credentials.
        """
        return Looked({})

    def can_be_seen(self) -> bool:
        """Whether all that it has can be seen without Java."""
        return False

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """A stream as it is now; None where that is not to be had."""
        from lakesql.source.stream_state import SourceState

        return SourceState(stream.name, self.kind)

    def is_read(
        self,
        stream: AskedStream,
        number: int,
        position: Position,
        files: StoredFiles,
        now: Now,
    ) -> bool:
        """Whether a stream surely has nothing behind its position.

        It is the source `number` of a query, whose checkpoint has `files`.
        """
        return False

    # --- its positions: how Spark's checkpoints, and `lakesql.offsets` in the ledger,
    # say where a stream stands

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether a stream may stand so, if it is read from such a source: it may have
        been read from another kind."""
        ...

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether a position alone says what has been read."""
        return False

    @classmethod
    def rebuilt_start(cls, state: SourceState) -> Position:
        """Where a stream begins whose source was made anew, whatever it says itself;
        None where it was not."""
        return None

    @classmethod
    def is_at_start(cls, position: Position) -> bool:
        """Whether a stream that stands so has read nothing yet."""
        return position is None

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        """The position as offsets by topic and partition; None where it is none."""
        return None

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """Where a stream stands, by the positions of all sources of its query; `own` is
        the one in its place.

        Unless `is_ordered`, Spark may have its query's sources in another order, or
        read a stream twice.
        """
        return own

    @classmethod
    def complete(
        cls,
        position: Position,
        before: Position,
        read: Callable[[int, int], Sequence[SeenFile]],
    ) -> Position:
        """A position of Spark's with what the ledger keeps beside it; `before` is the
        one of the last batch.

        `read` gives the files that the source has read in its own batches from the
        first to the last.
        """
        return position

    @classmethod
    def noted_start(cls, position: Position) -> Position:
        """Where a source that stands so begins by the note that it keeps in a
        checkpoint; None where it keeps none."""
        return None

    # --- what a change of a stream means, before it is run

    @classmethod
    def compared_as(cls, other: str | None) -> str:
        """The kind by whose rules a change is judged; `other` is the stream's kind in
        the other version."""
        return cls.kind

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """Where a stream would stand that has read something of these names: of topics,
        a pattern, a path, a table."""
        return {}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        """What such a stream would be now."""
        from lakesql.source.stream_state import SourceState

        return SourceState(stream, cls.kind)

    @classmethod
    def explain_other_names(
        cls, stream: str, model: str, former: Sequence[str], names: Sequence[str]
    ) -> Problem | None:
        """What keeps a model from going on whose stream has other names now, of which
        its position says nothing."""
        return None


def offsets_of(position: Position) -> Mapping[str, Mapping[str, int]] | None:
    """A position that is offsets by topic and partition; None where it is something
    else."""
    if not is_places(position):
        return None
    are_offsets = all(
        isinstance(at, int) for offsets in position.values() for at in offsets.values()
    )
    return position if are_offsets else None


def is_places(position: Position) -> bool:
    """Whether a position is a place in each partition, by topic and partition."""
    return isinstance(position, dict) and all(
        isinstance(places, dict) for places in position.values()
    )


def has_mark(position: Position, mark: str) -> bool:
    """Whether a position has a key of this name that is no topic's: a topic has offsets
    by partition."""
    return (
        isinstance(position, dict)
        and mark in position
        and not isinstance(position[mark], dict)
    )


def lowest_offsets(positions: Sequence[Mapping[str, Mapping[str, Any]]]) -> Position:
    """The lower one of each partition's offsets in several positions."""
    found: dict[str, dict[str, int]] = {}
    for position in positions:
        for topic, partitions in position.items():
            known = found.setdefault(topic, {})
            for number, at in partitions.items():
                known[number] = min(int(at), known.get(number, int(at)))
    return found
