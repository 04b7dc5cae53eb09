"""Another model's table whose rows are updated and deleted, as a source of changes,
read commit by commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from lakesql.source.source import AskedStream, Now, Source, has_mark
from lakesql.source.table import CHANGES, NO_SNAPSHOT, SNAPSHOT, TableSource

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position, SourceState, StoredFiles


class ChangesSource(TableSource):
    """Another model's table, each commit of which is read as the rows that it has
    changed.

    A rebuild of that model is a commit like any other: its changes are the rows that
    differ after it.
    """

    kind: ClassVar[str] = "table_changes"
    label: ClassVar[str] = "the changes of a table"

    def rebuilt_since(self, at_ms: int | None) -> Source:
        """This source: it can be read from any commit on."""
        return self

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """A state without facts: what a new reader needs is in the newest snapshot."""
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
        """Whether only rewrites of its files have been committed since."""
        found = now.table(self.name)
        if found is None or not has_mark(position, CHANGES):
            return False
        for snapshot in found.history:
            if snapshot.id == position[SNAPSHOT]:
                return True
            if snapshot.summary.get("operation") != "replace":
                return False
        return False

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position names a snapshot up to which changes were read, or is
        none."""
        return not isinstance(position, dict) or has_mark(position, CHANGES)

    @classmethod
    def rebuilt_start(cls, state: SourceState) -> Position:
        """None: the changes of a rebuild are read like any other."""
        return None

    @classmethod
    def is_at_start(cls, position: Position) -> bool:
        """Whether none of its snapshots has been read."""
        return position is None

    @classmethod
    def noted_start(cls, position: Position) -> Position:
        """None: only lakesql reads it, which records no start."""
        return None

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which a snapshot was read."""
        return changes_position(1)


def changes_position(snapshot: int) -> Position:
    """The position after all changes up to a snapshot."""
    return {CHANGES: True, SNAPSHOT: snapshot, "position": 0}


def snapshot_read(position: Position) -> int | None:
    """The snapshot up to which changes were read; None if there is none."""
    at = (
        position.get(SNAPSHOT, NO_SNAPSHOT)
        if isinstance(position, dict)
        else NO_SNAPSHOT
    )
    return None if at == NO_SNAPSHOT else int(at)
