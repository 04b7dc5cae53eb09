"""The progress of a query, or of a replay of dead letters: the ledger entry of each
batch, and whether the table already holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import JavaTable, read_entry
from lakesql.engine.progress.checkpoint import CheckpointFiles, save_origin
from lakesql.errors import RunError, TransientError
from lakesql.events import ReadRange
from lakesql.ledger.entry import Entry, overtaken
from lakesql.names import REPLAY_SUFFIX
from lakesql.progress.position import (
    count_between,
    first_positions,
    ranges_between,
    topic_ids,
)
from lakesql.progress.state import Batch, Origin, QueryIdentity, newest_batch
from lakesql.progress.stored import read_offsets
from lakesql.source.cluster import lag_of, numbered, total_of
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import (
    Position,
    SeenFile,
    SourceState,
    is_another,
    read_seen,
    spark_position,
)


class QueryProgress:
    """Where a query stands between its checkpoint and its table's ledger. Used only by
    the thread of its batches.

    `last` is the newest batch of this checkpoint in the table, -1 before the first;
    `positions` is where the streams stand by the ledger. `planned` is the most offsets
    that the batch of the last `entry` call can have, None if unknown, and `reads` are
    its ranges. Spark had planned the batches up to `planned_before` when the query was
    prepared. `look` returns the ids of each source's topics; new topics may appear
    while the query runs.
    """

    def __init__(
        self,
        session: SparkSession,
        identity: QueryIdentity,
        checkpoint: str,
        origin: Origin,
        sources: Sequence[SourceState],
        look: Callable[[], Sequence[Mapping[str, str]]],
        query_hash: str,
        last: int = -1,
        positions: dict[str, Position] | None = None,
        planned_before: int = -1,
    ) -> None:
        self.identity = identity
        self.last = last
        self.planned: int | None = None
        self.reads: tuple[ReadRange, ...] = ()
        self.planned_before = planned_before
        self._asked = -1
        self._before: Mapping[str, Position] = {}
        self._backlog = ""
        self._files = CheckpointFiles(session, identity.folder)
        self._checkpoint = checkpoint
        self._origin = origin
        self._sources = tuple(sources)
        self._look = look
        self._query_hash = query_hash
        self._positions = positions or {}

    @property
    def checkpoint(self) -> str:
        """The id of the checkpoint."""
        return self._checkpoint

    @property
    def sources(self) -> tuple[SourceState, ...]:
        """The streams as they were when the query was prepared, with the topics that
        were found since."""
        return self._sources

    @property
    def origin(self) -> Origin:
        """What the checkpoint was made for."""
        return self._origin

    def entry(self, batch: int) -> Entry:
        """The ledger entry for a batch that Spark has planned.

        Ids of new topics are saved in the checkpoint too: if the batch has no row, no
        table will have them.
        """
        offsets = self._read_offsets(batch)
        names = [source.name for source in self._sources]
        # a stream that a stateful SELECT joins with itself is two sources of Spark's
        if len(names) != len(offsets):
            names = [str(index) for index in range(len(offsets))]
        else:
            offsets = [
                self._complete(index, source, offsets[index])
                for index, source in enumerate(self._sources)
            ]
            self._learn_topics(offsets)
        topics = topic_ids(self._sources)
        if topics != self._origin.topics:
            self._save(replace(self._origin, topics=topics))
        positions = dict(zip(names, offsets, strict=True))
        if positions != self._positions:  # else it is taken again
            self.planned = count_between(
                {**first_positions(self._sources), **self._positions}, positions
            )
        if batch != self._asked:  # one is begun anew where a new schema is found in it
            self._asked, self._before = batch, self._positions
        self.reads = ranges_between(self._before, positions)
        self._positions = positions
        return Entry(
            model=self.identity.owner,
            checkpoint=self._checkpoint,
            batch=batch,
            offsets=json.dumps(self._positions, separators=(",", ":")),
            query=self._query_hash,
            state=self._origin.state,
            topics=topics,
            accepted=self._origin.accepted,
            mode=self.identity.mode,
            keys=self.identity.keys,
            deletes=self.identity.deletes,
            backlog=self._backlog,
        )

    def holds(self, table: JavaTable, entry: Entry) -> bool:
        """Whether the table, as it was loaded, holds the batch.

        Raises `RunError` if the table is not as this query has left it: it was rolled
        back (`table-behind`, `ledger-missing`), or has later batches from another
        checkpoint or runner (`batch-published`). So a runner that was suspended, and
        continues after another has taken over, writes nothing.
        """
        newest = read_entry(table, self.identity.owner)
        if newest is not None and newest.checkpoint == entry.checkpoint:
            if newest.batch == entry.batch:
                check_same(newest, entry, self.identity.model)
                return True
            if newest.batch > entry.batch:
                raise _overtaken(entry, newest)
            if newest.batch >= self.last:
                return False
        elif self.last < 0 and newest_batch(newest) == self._origin.follows:
            return False
        elif newest is not None and newest_batch(newest) != self._origin.follows:
            raise _overtaken(entry, newest)
        model = self.identity.model
        can_rewind = newest is not None and not self._origin.state
        raise RunError.of(
            "table-behind" if newest else "ledger-missing",
            f"Table {table.name()} stands at {f'batch {newest.batch}' if newest else 'no batch'} of model "
            f"'{model}', which has written up to batch {self.last} in this run.",
            why="Somebody has rolled the table back, or restored it, or expired its history.",
            fix=f"To write again what is missing: `lakesql rewind {model}`. To leave it out: `lakesql rewind {model} "
            "--to checkpoint`"
            if can_rewind
            else f"Run it again, to hear which command continues: lakesql run --select {model}",
        )

    def backlog_of(self, stream: str) -> int | None:
        """How many offsets of a stream had not been read when the query was prepared;
        None if unknown."""
        for source in self._sources:
            if source.name == stream and source.ends:
                begun = numbered(
                    SOURCES[source.kind].offsets(self._positions.get(stream))
                )
                start = {
                    topic: {**each, **begun.get(topic, {})}
                    for topic, each in source.beginnings.items()
                }
                return total_of(lag_of(start, source.ends))
        return None

    def note_written(self, entry: Entry) -> None:
        """Record that the table has the batch."""
        self.last = max(self.last, entry.batch)

    def note_backlog(self, backlog: str) -> None:
        """Keep the source's backlog, for the next ledger entry."""
        self._backlog = backlog

    def note_empty(self, entry: Entry) -> None:
        """Record in the checkpoint that the batch has no row, because no table has an
        entry for it."""
        if (
            self._origin.empty_after == self.last
            and self._origin.empty_through >= entry.batch
        ):
            return
        self._save(
            replace(self._origin, empty_after=self.last, empty_through=entry.batch)
        )

    def check_topics(self) -> None:
        """Raise `TransientError` if a topic was created again since its id was learnt:
        the records read may be the new topic's.

        Spark continues at the old offset, so the first records of the new topic would
        be skipped. What to do depends on more than is known here: the next try reports
        it.
        """
        if not _topics(self._sources):
            return
        try:
            found = self._look()
        except RunError as error:  # a topic is gone, or is being created again just now
            raise TransientError(error.problems) from None
        for source, ids in zip(self._sources, found, strict=True):
            for topic in ids.keys() & source.topics.keys():
                if source.topics[topic] and is_another(
                    source.topics[topic], ids[topic]
                ):
                    raise TransientError.of(
                        "topic-recreated",
                        f"Topic '{topic}' was deleted and made again while it was read.",
                        fix="The next try says what to do.",
                    )

    def _read_offsets(self, batch: int) -> list[Position]:
        try:
            return read_offsets(self._files, batch)
        except ValueError:
            raise TransientError.of(
                "checkpoint-lost",
                f"The file offsets/{batch} of the checkpoint at {self._files.folder} was removed while it was used.",
                why="Spark has just written it. Nothing of the batch is visible to readers.",
                fix="The next try says what to do.",
            ) from None

    def _save(self, origin: Origin) -> None:
        self._origin = origin
        save_origin(self._files, origin)

    def _learn_topics(self, offsets: Sequence[Position]) -> None:
        """Ask the broker for the ids of new topics; the id of one that is already gone
        is ''."""
        read = {
            name
            for source, position in zip(self._sources, offsets, strict=True)
            for name in SOURCES[source.kind].offsets(position) or ()
        }
        if read <= _topics(self._sources):
            return
        looked = zip(self._sources, self._look(), strict=True)
        sources = [
            replace(source, topics={**ids, **source.topics}) for source, ids in looked
        ]
        gone = dict.fromkeys(read - _topics(sources), "")
        self._sources = tuple(
            replace(source, topics={**source.topics, **gone}) for source in sources
        )

    def _complete(
        self, index: int, source: SourceState, position: Position
    ) -> Position:
        """A position of Spark's, completed with what the ledger keeps beside it."""

        def read(first: int, last: int) -> Sequence[SeenFile]:
            return read_seen(self._files, index, first, last)

        return SOURCES[source.kind].complete(
            position, self._positions.get(source.name), read
        )


def _topics(sources: Iterable[SourceState]) -> set[str]:
    return {topic for source in sources for topic in source.topics}


def check_same(written: Entry, planned: Entry, model: str) -> None:
    """Raise if a batch that is in the table ended at another position than planned
    here: skipping this one would lose records."""
    there = [spark_position(position) for position in written.positions.values()]
    here = [spark_position(position) for position in planned.positions.values()]
    if there != here:
        raise RunError.of(
            "checkpoint-inconsistent",
            f"Batch {planned.batch} of the checkpoint ends at {here}, in the table it ends at {there}.",
            fix=f"To continue where the table stands: `lakesql rewind {model}`. The old checkpoint is kept.",
        )


def _overtaken(entry: Entry, newest: Entry) -> RunError:
    return overtaken(
        f"Another runner has continued model '{entry.model}': its table stands at batch {newest.batch} of "
        f"checkpoint {newest.checkpoint}. This one was to write batch {entry.batch} of checkpoint {entry.checkpoint}."
    )


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The progress of a replay of dead letters. Its id is used like a checkpoint's; in
    the table's ledger it comes after the replay `follows`.

    Its entry has an owner of its own, so that the model's query does not see it and its
    batches are numbered as before. `planned` is how many records the batch has, if
    known.
    """

    identity: QueryIdentity
    checkpoint: str
    follows: Batch | None
    query_hash: str
    planned: int | None = None

    @property
    def reads(self) -> tuple[ReadRange, ...]:
        """The ranges that it reads of streams: none."""
        return ()

    @property
    def planned_before(self) -> int:
        """The newest batch that an earlier replay has planned: none, as each replay is
        separate."""
        return -1

    def entry(self, batch: int) -> Entry:
        """The ledger entry for the replay. It has no positions, as no stream is
        read."""
        identity = self.identity
        return Entry(
            model=identity.owner,
            checkpoint=self.checkpoint,
            batch=batch,
            offsets="",
            query=self.query_hash,
            mode=identity.mode,
            keys=identity.keys,
            deletes=identity.deletes,
        )

    def holds(self, table: JavaTable, entry: Entry) -> bool:
        """Whether the table, as it was loaded, holds the replay.

        Raises `RunError` (`batch-published`) if another replay came in between.
        """
        newest = newest_batch(read_entry(table, entry.model))
        if newest == Batch(entry.checkpoint, entry.batch):
            return True
        if newest != self.follows:
            raise overtaken(
                f"Another runner has replayed the dead letters of model '{self.identity.model}' meanwhile."
            )
        return False

    def note_written(self, entry: Entry) -> None:
        """Nothing: the table has the entry."""

    def backlog_of(self, stream: str) -> None:
        """None: no stream is read."""

    def note_backlog(self, backlog: str) -> None:
        """Nothing: no stream is read."""

    def note_empty(self, entry: Entry) -> None:
        """Nothing: a replay without a row needs no record."""

    def check_topics(self) -> None:
        """Nothing: no topic is read."""


def open_replay(
    table: JavaTable, identity: QueryIdentity, unfinished: str | None, query_hash: str
) -> ReplayProgress:
    """The progress of the replay `unfinished`, or of a new one if that is None."""
    follows = newest_batch(read_entry(table, identity.owner))
    return ReplayProgress(identity, unfinished or uuid4().hex, follows, query_hash)


def replay_owner(model: str) -> str:
    """The owner of the entries of a model's replays in the ledger of its table."""
    return model + REPLAY_SUFFIX
