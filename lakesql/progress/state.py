"""The values that are compared before a query starts, and the decisions that may come
of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakesql.compile.select import Select
from lakesql.ledger.entry import Entry
from lakesql.model.table_name import TableName
from lakesql.model.writing import Deletes
from lakesql.modes.batches.all_batches import batches_of
from lakesql.modes.written_as import WrittenAs
from lakesql.names import DEAD_LETTER_SUFFIX
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import Position, Positions, SourceState


@dataclass(frozen=True, slots=True)
class Batch:
    """The number of a batch in a checkpoint."""

    checkpoint: str
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What lakesql records in a checkpoint beside Spark's files: what the checkpoint
    was made for, and what it follows.

    `model` is the query's name in the ledger (`ProgressState.owner`), `table_id` the
    table's UUID. `follows` is the newest batch in the table's ledger when the
    checkpoint was made; `topics` are the ids of Kafka's topics as of the newest batch.
    `accepted` names the records whose loss was accepted. `start_ms` replaces the
    streams' `start`. The batches after `empty_after`, up to `empty_through`, have no
    rows and so no commit. `is_seeded`: it was made with positions that no batch of its
    own has reached.
    """

    model: str
    table_id: str
    streams: tuple[str, ...]
    state: str
    follows: Batch | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    accepted: str = ""
    start_ms: int | None = None
    empty_after: int = -1
    empty_through: int = -1
    is_seeded: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a checkpoint by its files.

    `id` is empty if the file with it is gone. `planned` are the batches in `offsets/`,
    `committed` those in `commits/`. `positions` are the sources' positions after the
    newest of each, and after -1, which is before the first batch, where Kafka's are
    known. `damage` describes what cannot be read.
    """

    id: str
    planned: frozenset[int]
    committed: frozenset[int]
    positions: Mapping[int, tuple[Position, ...]]
    origin: Origin | None = None
    damage: str = ""

    @property
    def newest_planned(self) -> int:
        """The newest batch whose positions are fixed; -1 if there is none."""
        return max(self.planned, default=-1)

    @property
    def newest_committed(self) -> int:
        """The newest batch that Spark has recorded as done; -1 if there is none."""
        return max(self.committed, default=-1)


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """Where a query keeps its progress: in the ledger of `table` under the name
    `owner`, and in the checkpoint's `folder`.

    `shape` is a hash of the query's stateful shape, empty if it keeps no state. The
    other fields are as in `ProgressState`.
    """

    model: str
    owner: str
    table: TableName
    folder: str
    shape: str = ""
    mode: str = ""
    keys: tuple[str, ...] = ()
    unique_by: tuple[str, ...] = ()
    is_companion: bool = False
    deletes: Deletes = ""


@dataclass(frozen=True, slots=True)
class MovedFiles:
    """Files whose folder was moved: `count` files that were read have the same names as
    files where the stream reads now; `old` and `new` are the paths of one."""

    old: str
    new: str
    count: int


@dataclass(frozen=True, slots=True)
class ProgressState:
    """Everything that is compared. `table_id` is empty if there is no table, `shape` if
    the model is stateless.

    `mode` and `keys` are the model's present ones, empty for a query of dead letters.
    `model` is the name for commands, `owner` the name of the query in the ledger and in
    its checkpoint. `unique_by` are the columns that keep rows unique even if the
    streams are read again. `has_rows`: the table has rows, whoever wrote them.
    `is_companion`: the query writes a stateful model's dead letters; its batches
    without rows leave no trace in the table or the checkpoint. `deletes` is what
    happens to rows that the source deletes. `written` is the newest entry in the table,
    of any model.
    """

    model: str
    owner: str
    table: str
    table_id: str
    folder: str
    sources: tuple[SourceState, ...]
    shape: str
    checkpoint: Checkpoint | None
    entry: Entry | None
    mode: str = ""
    keys: tuple[str, ...] = ()
    unique_by: tuple[str, ...] = ()
    has_rows: bool = False
    is_companion: bool = False
    accept_data_loss: bool = False
    deletes: Deletes = ""
    moved: MovedFiles | None = None
    written: Entry | None = None

    @property
    def written_as(self) -> WrittenAs:
        """The mode, keys and handling of deletes with which the model writes rows
        now."""
        return WrittenAs(self.mode, self.keys, self.deletes)

    @property
    def would_duplicate(self) -> bool:
        """Whether rows would be duplicated if the streams were read from their start
        again.

        True even without a ledger entry: somebody may have expired the snapshots that
        had one.
        """
        return self.has_rows and not self.unique_by

    @property
    def accepted(self) -> str:
        """The records whose loss somebody has accepted. Until a row is written after
        that, only the checkpoint has the latest of them."""
        origin = self.checkpoint.origin if self.checkpoint else None
        if origin is not None and (
            self.entry is None or origin.follows == newest_batch(self.entry)
        ):
            return origin.accepted
        return self.entry.accepted if self.entry else ""

    def find_moved(self, positions: Positions) -> SourceState | None:
        """A source whose position cannot be of its kind, because the stream was moved
        to another kind of source; None if there is none.

        Spark may order a stateful query's sources differently than its FROM, so there
        the position may be of any source's kind.
        """
        for source in self.sources:
            kinds = (
                {other.kind for other in self.sources} if self.shape else {source.kind}
            )
            if not any(
                SOURCES[kind].is_position(positions.get(source.name)) for kind in kinds
            ):
                return source
        return None


def state_of(
    identity: QueryIdentity,
    sources: Sequence[SourceState],
    checkpoint: Checkpoint | None,
    *,
    table_id: str,
    entry: Entry | None,
    has_rows: bool,
    written: Entry | None,
    accept_data_loss: bool = False,
    moved: MovedFiles | None = None,
) -> ProgressState:
    """The state of a query, however its checkpoint and its table were read.

    Streams of renamed models get their new names.
    """
    renamed = partial(_now_called, sources=sources)
    if checkpoint is not None and checkpoint.origin is not None:
        origin = replace(
            checkpoint.origin, streams=tuple(map(renamed, checkpoint.origin.streams))
        )
        checkpoint = replace(checkpoint, origin=origin)
    if entry is not None and any(map(_was_renamed, sources)):
        positions = {
            renamed(name): position for name, position in entry.positions.items()
        }
        entry = replace(entry, offsets=json.dumps(positions, separators=(",", ":")))
    return ProgressState(
        model=identity.model,
        owner=identity.owner,
        table=str(identity.table),
        table_id=table_id,
        folder=identity.folder,
        sources=tuple(sources),
        shape=identity.shape,
        checkpoint=checkpoint,
        entry=entry,
        mode=identity.mode,
        keys=identity.keys,
        unique_by=identity.unique_by,
        has_rows=has_rows,
        is_companion=identity.is_companion,
        accept_data_loss=accept_data_loss,
        deletes=identity.deletes,
        moved=moved,
        written=written,
    )


def _now_called(stream: str, sources: Sequence[SourceState]) -> str:
    """The present name of a stream that had this name when its position was written:
    its model may have been renamed since."""
    if any(source.name == stream for source in sources):
        return stream
    return next((source.name for source in sources if stream in source.formers), stream)


def _was_renamed(source: SourceState) -> bool:
    return bool(source.formers)


@dataclass(frozen=True, slots=True)
class Fresh:
    """There is neither a checkpoint nor a batch in the table: a new checkpoint starts
    where the streams say."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The checkpoint continues. `last` is its newest batch in the table, -1 if there is
    none."""

    last: int


@dataclass(frozen=True, slots=True)
class StartFrom:
    """A new checkpoint is made that continues at `positions`, after the batch `follows`
    of the table's ledger.

    `start_ms` is the time at which sources without a position start, if it replaces the
    streams' own `start`. `because` is the reason in words; `accepted` names the records
    that are lost by it.
    """

    positions: Positions
    follows: Batch | None
    because: str
    start_ms: int | None = None
    accepted: str = ""


Decision = Fresh | Resume | StartFrom


def newest_batch(entry: Entry | None) -> Batch | None:
    """The batch that a ledger entry records; None without an entry."""
    return Batch(entry.checkpoint, entry.batch) if entry else None


def query_identities(select: Select, folder: str) -> tuple[QueryIdentity, ...]:
    """Where the model's query keeps its progress and, if the model is stateful, where
    its companion query for dead letters does."""
    model = select.model
    identity = QueryIdentity(
        model.name,
        model.name,
        model.table,
        folder,
        select.query.state,
        select.writing.mode,
        batches_of(select).identity,
        unique_by=select.writing.keys,
        deletes=select.writing.deletes,
    )
    if not select.query.stateful:
        return (identity,)
    owner, beside = model.name + DEAD_LETTER_SUFFIX, folder + DEAD_LETTER_SUFFIX
    return identity, QueryIdentity(
        model.name, owner, model.table.dead_letter, beside, is_companion=True
    )
