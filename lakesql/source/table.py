"""Another model's table as a source of new rows, read snapshot by snapshot as the table
grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from lakesql.errors import Problem
from lakesql.names import LEDGER_REBUILD
from lakesql.source.origin import Brings
from lakesql.source.source import (
    AskedStream,
    Now,
    SnapshotNow,
    Source,
    TableNow,
    has_mark,
)

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position, SourceState, StoredFiles

SNAPSHOT = "snapshot_id"
"""The key in a position for the snapshot that is being read, or was read last."""

CHANGES = "changes"
"""The key in a position that is set if all changes up to the snapshot have been
read."""

NO_SNAPSHOT = -1
"""The snapshot in the position of a stream that began before the table had one."""


@dataclass(frozen=True, slots=True)
class TableSource(Source):
    """Another model's table, read as it grows. `since_ms` is the time from which it is
    read if it was rebuilt, in milliseconds since the epoch."""

    name: str
    since_ms: int | None = None

    kind: ClassVar[str] = "table"
    label: ClassVar[str] = "a table"
    brings: ClassVar[Brings] = "rows"
    has_offsets: ClassVar[bool] = False
    has_times: ClassVar[bool] = False

    def rebuilt_since(self, at_ms: int | None) -> Source:
        """This table, where Iceberg's stream of it begins at a time."""
        return replace(self, since_ms=at_ms)

    def check(self) -> str:
        """The table's name."""
        return self.name

    def can_be_seen(self) -> bool:
        """True: the catalog has its snapshots."""
        return True

    def state_now(self, stream: AskedStream, now: Now) -> SourceState | None:
        """The state with whether it was rebuilt, and whether its first snapshots still
        exist."""
        from lakesql.source.stream_state import SourceState

        found = now.table(self.name)
        rebuilt, is_cut = (
            find_rebuilt(found.ledger()) if found is not None else ((), False)
        )
        return SourceState(stream.name, self.kind, rebuilt=rebuilt, is_cut=is_cut)

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
        return found is not None and _is_table_read(found, position)

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """Whether the position names a snapshot of whose files some may have been read,
        or is none."""
        is_of_changes = has_mark(position, CHANGES)
        return not isinstance(position, dict) or (
            has_mark(position, SNAPSHOT) and not is_of_changes
        )

    @classmethod
    def can_start_from(cls, position: Position) -> bool:
        """Whether there is a position: a snapshot says what has been read."""
        return isinstance(position, dict)

    @classmethod
    def rebuilt_start(cls, state: SourceState) -> Position:
        """The position at the snapshot that holds the rebuilt rows; None if it was not
        rebuilt."""
        return _position_at(state.rebuilt[0]) if state.rebuilt else None

    @classmethod
    def is_at_start(cls, position: Position) -> bool:
        """Whether none of its snapshots has been read."""
        return position is None or (
            isinstance(position, dict) and position.get(SNAPSHOT) == NO_SNAPSHOT
        )

    @classmethod
    def find_position(
        cls,
        state: SourceState,
        own: Position,
        stands: Sequence[Position],
        is_ordered: bool,
    ) -> Position:
        """`own` if there is one, else the first position that names a snapshot; one of
        a snapshot since the table's rebuild is preferred."""
        if own is not None or is_ordered:
            return own
        read = [each for each in stands if isinstance(each, dict) and SNAPSHOT in each]
        return next(
            (each for each in read if each[SNAPSHOT] in state.rebuilt),
            read[0] if read else None,
        )

    @classmethod
    def noted_start(cls, position: Position) -> Position:
        """The position before the first file of the snapshot that is being read; None
        if none of its files has been read.

        Iceberg records the snapshot at which a stream has begun, and looks for the
        newest one from there on whenever a query takes what exists. After that snapshot
        has expired such a query could never run again, so the record is moved forward.
        If nothing follows its start, Iceberg 1.12 raises a NullPointerException.
        """
        if (
            not has_mark(position, SNAPSHOT)
            or has_mark(position, CHANGES)
            or position["position"] <= 0
        ):
            return None
        return {**position, "position": 0}

    @classmethod
    def supposed_position(cls, names: Sequence[str]) -> Position:
        """A position at which a snapshot was read."""
        return _position_at(1)

    @classmethod
    def explain_other_names(
        cls, stream: str, model: str, former: Sequence[str], names: Sequence[str]
    ) -> Problem | None:
        """The problem that the stream is another table now, which has other
        snapshots."""
        what = f"Stream '{stream}' is table {names[0]} now; model '{model}' has read {former[0]}."
        return Problem(
            "streams-changed",
            what,
            fix=f"To read it from its start: lakesql rewind {model} --to start",
        )


def _position_at(snapshot: int) -> Position:
    """The position at which a snapshot is read next, from its first row on."""
    return {"version": 1, SNAPSHOT: snapshot, "position": 0, "scan_all_files": False}


def find_rebuilt(history: Iterable[SnapshotNow]) -> tuple[tuple[int, ...], bool]:
    """The table's snapshots since it was rebuilt, the oldest first, empty if it never
    was; and whether its first snapshots have expired without a rebuild since. `history`
    is the snapshots from the head to the root."""
    since: list[int] = []
    parent = None
    for snapshot in history:
        since.append(snapshot.id)
        parent = snapshot.parent
        if LEDGER_REBUILD in snapshot.summary:
            return tuple(reversed(since)), False
    return (), parent is not None


def _is_table_read(table: TableNow, position: Position) -> bool:
    """Whether only rewrites of files have been committed to a table since the position;
    Iceberg's stream skips those."""
    if not isinstance(position, dict) or position.get("scan_all_files") is not False:
        return False
    for snapshot in table.history:
        if snapshot.id == position.get(SNAPSHOT):
            return bool(
                position.get("position")
                == int(snapshot.summary.get("added-data-files", 0))
            )
        if snapshot.summary.get("operation") != "replace":
            return False
    return False
