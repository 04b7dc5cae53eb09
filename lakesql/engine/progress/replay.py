"""The progress of a replay of dead letters: one batch, which its own ledger entry makes
exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from lakesql.engine.ledger.snapshots import JavaTable, read_entry
from lakesql.events import ReadRange
from lakesql.ledger.entry import Entry, overtaken
from lakesql.names import REPLAY_SUFFIX
from lakesql.progress.state import Batch, QueryIdentity, newest_batch


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """A replay whose id stands in the place of a checkpoint's, after the replay
    `follows` of the table's ledger.

    Its entry has a name of its own, so that the model's query does not see it: its
    batches are counted as before. `planned` is how many records the batch has, if that
    is known.
    """

    identity: QueryIdentity
    checkpoint: str
    follows: Batch | None
    query_hash: str
    planned: int | None = None

    @property
    def reads(self) -> tuple[ReadRange, ...]:
        """What it takes in of streams: nothing."""
        return ()

    @property
    def planned_before(self) -> int:
        """The newest batch that an earlier replay has planned: each replay is its
        own."""
        return -1

    def entry(self, batch: int) -> Entry:
        """The entry that records the replay. It has no positions: no stream is read."""
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

        Raises `RunError` (`batch-published`) where another one has come between.
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
        """Nothing: the table says it."""

    def backlog_of(self, stream: str) -> None:
        """How much of a stream is left to read: none is read."""

    def note_backlog(self, backlog: str) -> None:
        """Nothing: no stream is read."""

    def note_empty(self, entry: Entry) -> None:
        """Nothing: a replay without a row needs no commit to be done once."""

    def check_topics(self) -> None:
        """Nothing: no topic is read."""


def open_replay(
    table: JavaTable, identity: QueryIdentity, unfinished: str | None, query_hash: str
) -> ReplayProgress:
    """The progress of the replay `unfinished`, or of a new one."""
    follows = newest_batch(read_entry(table, identity.owner))
    return ReplayProgress(identity, unfinished or uuid4().hex, follows, query_hash)


def replay_owner(model: str) -> str:
    """The name of a model's replays in the ledger of its table."""
    return model + REPLAY_SUFFIX
