"""What every kind of source answers about a stream that is read from it, without Java
and Spark: `Source`, and the values that it is given.

A new kind is a file beside this one, `<kind>.py`, with a class that answers this; a
file of the same name in `lakesql/engine/sources`, which reads its records with Spark;
and a line in `kinds.py` and in `spark_sources.py`. No other module asks which kind a
source is.

A command that reads a profile loads all kinds, so a module that few of these answers
need is imported inside the function that needs it.
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
"""The unit of a backlog: `ms` is how much older the last record read is than the newest
record."""


class AskedStream(Protocol):
    """The options of a stream that its source may need."""

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
        """What happens to its files once they are read; they stay where they are with
        `leave`."""

    @property
    def ordered_by(self) -> str | None:
        """`name` if its files are found and read in the order of their names; None if
        all of them are listed."""

    @property
    def notifications(self) -> Notifications | None:
        """Where events announce its files; None if no events do."""

    @property
    def list_all_every_ms(self) -> int:
        """How often all of its files are listed if they are found by name or by
        events."""


class SnapshotNow(Protocol):
    """A snapshot of a table, as a source needs it."""

    @property
    def id(self) -> int:
        """Its id."""

    @property
    def parent(self) -> int | None:
        """The id of the snapshot before it; None if there is none."""

    @property
    def summary(self) -> Mapping[str, str]:
        """Its summary: what Iceberg and lakesql have recorded in it."""


class TableNow(Protocol):
    """A table's present metadata, as a source needs them."""

    @property
    def history(self) -> Sequence[SnapshotNow]:
        """The snapshots from its head to its root, as far as they have not expired."""

    def ledger(self) -> Iterator[SnapshotNow]:
        """The snapshots of `history`, then those whose summaries the table keeps in a
        property after they have expired."""


class Now(Protocol):
    """The present state of sources, as far as it can be seen without Java; each is
    looked at once."""

    def table(self, name: str) -> TableNow | None:
        """The table named `catalog.namespace.name`; None if it does not exist."""

    def found(self, stream: str) -> SourceState | None:
        """What `Source.look` has found of a stream; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A connection's answer: the state of each stream by its name, and reasons why
    others could not be read."""

    found: Mapping[str, FoundTopics]
    unread: tuple[str, ...] = ()


class Source(Protocol):
    """What a stream is read from on one target: a connection of the profile, or another
    model's table."""

    kind: ClassVar[str]
    """The name of the kind in profiles, in `SourceState` and in the registries."""

    reader: ClassVar[str] = ""
    """The file of `lakesql/engine/sources` that reads it with Spark, if several kinds
    share one; '' if the file has the kind's name."""

    label: ClassVar[str]
    """The name of the kind in errors, as in `reads plain files now`."""

    brings: ClassVar[Brings]
    """The form in which its records arrive: records of topics, records in files, or
    rows with columns."""

    has_offsets: ClassVar[bool] = True
    """Whether each record has an offset, which is larger for newer records."""

    may_lack_offsets: ClassVar[bool] = False
    """Whether only the records themselves tell whether they have offsets, as those of a
    project's own source."""

    place_instead: ClassVar[str] = ""
    """A sentence that says where the position of a record without an offset is
    found."""

    has_times: ClassVar[bool] = True
    """Whether reading can begin at a time."""

    looks_up_start: ClassVar[bool] = False
    """Whether a stream's `start` is looked up once, when it is first read. If not, each
    record is compared with the time, and `latest` reads everything that exists."""

    keeps_lists: ClassVar[bool] = False
    """Whether a checkpoint keeps lists of the files that were read from it."""

    is_planned: ClassVar[bool] = False
    """Whether lakesql plans its batches of files itself, instead of Spark."""

    is_in_name_order: ClassVar[bool] = False
    """Whether files are read in the order of their names, instead of their times."""

    backlog_unit: ClassVar[BacklogUnit] = "files"
    """The unit in which its backlog is counted."""

    jars: ClassVar[frozenset[str]] = frozenset()
    """The groups of jars that Spark needs to read it."""

    events_in: ClassVar[str] = ""
    """What the part of it that carries events on new files is called in
    `notifications`: `topic` or `queue`; '' if it carries none."""

    @classmethod
    def stand_in(cls) -> Self:
        """A source of this kind without options, for questions that depend on the kind
        alone."""
        return cls()

    def as_asked(self, stream: AskedStream, events: Source | None = None) -> Source:
        """This source in the way in which a stream is read through it: some connections
        have several. `events` is the connection that the stream's `notifications`
        name."""
        return self

    # --- where it is

    def resolved(self, directory: Path) -> Self:
        """This source with its local paths made absolute, relative to `directory`."""
        return self

    @property
    def places(self) -> tuple[str, ...]:
        """The folders or URLs below which it reads files; empty if it reads none."""
        return ()

    def files(self, origin: StreamOrigin) -> str | None:
        """The pattern of the files that are read for an origin; None if it reads no
        files."""
        return None

    @property
    def recording(self) -> Path | None:
        """The local folder that holds recorded topics; None for any other source."""
        return None

    @property
    def cluster(self) -> Kafka | None:
        """The Kafka cluster that is asked for topics and their newest records; None if
        there is none."""
        return None

    @property
    def as_log(self) -> LogSource | None:
        """This source if a client in Python reads its topics, else None."""
        return None

    def problems(self, origin: StreamOrigin, place: Place) -> Iterator[Problem]:
        """Problems of an origin that cannot be in this source, such as an invalid topic
        name."""
        return iter(())

    def rebuilt_since(self, at_ms: int | None) -> Source:
        """This source, to be read from the time `at_ms` on because everything before
        was removed."""
        return self

    # --- what it is called in lineage

    @property
    def lineage_namespace(self) -> str:
        """The namespace of its topics in OpenLineage."""
        return self.kind

    def datasets(
        self, stream: AskedStream, topics: Sequence[str]
    ) -> tuple[Dataset, ...]:
        """The datasets that a stream reads, by OpenLineage's names. `topics` are those
        that its position says it has read; if empty, the names in the stream's entry
        are used."""
        names = topics or stream.origin.given or (stream.name,)
        return tuple(Dataset(self.lineage_namespace, name) for name in names)

    # --- what can be said of it without Java

    def check(self) -> str:
        """What it is, in words. Raises `ProfileError` (`connection-unreachable`) if it
        plainly does not exist."""
        ...

    def reach(self, streams: Sequence[AskedStream]) -> str:
        """What it is, in words, after asking it for what these streams read, as
        `lakesql debug` does.

        Raises the errors of the connection.
        """
        return self.check()

    def look(self, name: str, streams: Sequence[AskedStream]) -> Looked:
        """The state of the streams that are read from it, asked over the network; empty
        if its state can be had without.

        `name` is the connection's name. Raises an error if something does not exist or
        the credentials are refused.
        """
        return Looked({})

    def can_be_seen(self) -> bool:
        """Whether its whole state can be seen without Java."""
        return False

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """The present state of a stream; None if it cannot be found out."""
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
        """Whether a stream surely has nothing new after its position.

        It is the source with this `number` in its query, whose checkpoint has `files`.
        """
        return False

    # --- its positions, as Spark's checkpoints and `lakesql.offsets` in the ledger keep
    # them

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether a position can be of this kind of source; a stream may have been read
        from another kind before."""
        ...

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether a position alone says what has been read, without the old
        checkpoint."""
        return False

    @classmethod
    def rebuilt_start(cls, state: SourceState) -> Position:
        """The position at which a stream begins whose source was rebuilt, whatever its
        `start` says; None if the source was not rebuilt."""
        return None

    @classmethod
    def is_at_start(cls, position: Position) -> bool:
        """Whether a stream at this position has read nothing yet."""
        return position is None

    @classmethod
    def offsets(cls, position: Position) -> Mapping[str, Mapping[str, int]] | None:
        """The position as offsets by topic and partition; None if it has none."""
        return None

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """The position of a stream among the positions of all sources of its query;
        `own` is the one with the stream's number.

        Unless `is_ordered`, Spark may have reordered the sources of the query, or read
        a stream twice.
        """
        return own

    @classmethod
    def complete(
        cls,
        position: Position,
        before: Position,
        read: Callable[[int, int], Sequence[SeenFile]],
    ) -> Position:
        """A position of Spark's, completed with what the ledger keeps beside it;
        `before` is the position after the last batch.

        `read` returns the files that the source has read in its own batches from the
        first number to the last.
        """
        return position

    @classmethod
    def noted_start(cls, position: Position) -> Position:
        """The start to record in a checkpoint for a source at this position, in place
        of the one with which it began; None if this kind records none."""
        return None

    # --- what a change of a stream means, before it is run

    @classmethod
    def compared_as(cls, other: str | None) -> str:
        """The kind by whose rules a change of a stream is judged; `other` is the
        stream's kind in the other version of the project."""
        return cls.kind

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """An example position of a stream that has read something of these names: of
        topics, a pattern, a path or a table."""
        return {}

    @classmethod
    def supposed_state(cls, stream: str, names: Sequence[str]) -> SourceState:
        """An example of the present state of such a stream."""
        from lakesql.source.stream_state import SourceState

        return SourceState(stream, cls.kind)

    @classmethod
    def explain_other_names(
        cls, stream: str, model: str, former: Sequence[str], names: Sequence[str]
    ) -> Problem | None:
        """The problem that a stream has other names now, of which its position has
        nothing, so that its model cannot continue; None if it can."""
        return None


def offsets_of(position: Position) -> Mapping[str, Mapping[str, int]] | None:
    """The position if it is offsets by topic and partition, else None."""
    if not is_places(position):
        return None
    are_offsets = all(
        isinstance(at, int) for offsets in position.values() for at in offsets.values()
    )
    return position if are_offsets else None


def is_places(position: Position) -> bool:
    """Whether a position is a mapping of topics to partitions to places."""
    return isinstance(position, dict) and all(
        isinstance(places, dict) for places in position.values()
    )


def has_mark(position: Position, mark: str) -> bool:
    """Whether a position has the key `mark`, and it is no topic: a topic's value is a
    mapping of partitions."""
    return (
        isinstance(position, dict)
        and mark in position
        and not isinstance(position[mark], dict)
    )


def lowest_offsets(positions: Sequence[Mapping[str, Mapping[str, Any]]]) -> Position:
    """The lowest offset of each partition in several positions."""
    found: dict[str, dict[str, int]] = {}
    for position in positions:
        for topic, partitions in position.items():
            known = found.setdefault(topic, {})
            for number, at in partitions.items():
                known[number] = min(int(at), known.get(number, int(at)))
    return found
