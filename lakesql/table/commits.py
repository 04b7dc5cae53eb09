"""The commits that brought rows to a table, from the summaries of its snapshots: what
each wrote, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesql.ledger.entry import (
    Snapshot,
    read_rescued,
    rows_carried,
    rows_written,
    whole,
)
from lakesql.names import (
    LEDGER_BACKLOG,
    LEDGER_EVENT_TIME,
    LEDGER_LATE,
    LEDGER_MODEL,
    LEDGER_OLDER,
    REPLAY_SUFFIX,
    TAG_PREFIX,
)
from lakesql.table.metadata import TableMetadata

if TYPE_CHECKING:
    from lakesql.events import RescuedFields

Summary = Mapping[str, str]

KINDS = ("position", "equality")
"""The kinds of deletes, as the keys of summaries name them."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """What a commit did to a table's delete files: how many it `added` and `removed`,
    the `total` after it, and by how many the number of deleted `rows` grew."""

    added: int
    removed: int
    total: int
    rows: int


@dataclass(frozen=True, slots=True)
class ReplacedFiles:
    """How many data files a commit rewrote, and how many of their rows it changed or
    deleted."""

    files: int
    rows: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a table's main branch that brought rows: how many, and in how many
    data files of how many bytes.

    `event_ms` is the time of the newest event, None if the ledger does not have it, as
    it may be known only by the next commit. `late` counts the rows that a watermark has
    dropped, `older` those left out because the table had newer rows of their keys.
    `backlog` is what the source had left when Spark last looked, such as `1200
    records`; '' if unknown. It wrote to `partitions` partitions. `deletes` is None if
    it added no delete file, `replaced` if it rewrote no data file. `rescued` counts the
    records with fields that their contract does not know.
    """

    at_ms: int
    rows: int
    files: int
    size_bytes: int
    event_ms: int | None = None
    late: int = 0
    older: int = 0
    backlog: str = ""
    partitions: int = 1
    deletes: Deletes | None = None
    replaced: ReplacedFiles | None = None
    rescued: tuple[RescuedFields, ...] = ()

    @property
    def newest_ms(self) -> int | None:
        """The time of its newest event, at most the time of the commit; None if
        unknown."""
        return None if self.event_ms is None else known_event(self.event_ms, self.at_ms)

    @property
    def latency_ms(self) -> int | None:
        """The time from the newest event to the commit, never negative, as clocks
        differ; None if unknown."""
        return None if self.newest_ms is None else self.at_ms - self.newest_ms


def read_branch(metadata: TableMetadata) -> list[Snapshot]:
    """The snapshots of the main branch, the oldest first, as far as they still exist.

    If snapshots on the way have expired, those with the ledgers' tags come before, as
    tagged snapshots do not expire; and so do those that the table carries in a property
    for catalogs that return only the head.
    """
    found = [*metadata.history]
    known = {each.id for each in found}
    if found and found[-1].parent is not None:
        tagged = {
            id_ for name, id_ in metadata.refs.items() if name.startswith(TAG_PREFIX)
        }
        held = [
            metadata.snapshots[id_]
            for id_ in tagged - known
            if id_ in metadata.snapshots
        ]
        found += sorted(held, key=lambda each: each.at_ms, reverse=True)
    known = {each.id for each in found}
    found += [each for each in metadata.carried if each.id not in known]
    return found[::-1]


def summary_with_entry(snapshot: Snapshot, metadata: TableMetadata) -> Summary:
    """The summary of a commit. If the commit was replayed on top of another one, it
    includes the ledger entry of its source snapshot."""
    source = metadata.source_of(snapshot)
    return (
        snapshot.summary
        if source is snapshot
        else {**source.summary, **snapshot.summary}
    )


def read_commits(metadata: TableMetadata) -> tuple[bool, tuple[Commit, ...]]:
    """Whether any snapshot of a table has a ledger entry, and the table's commits, the
    oldest first: those with an entry or, in a table without, all that brought rows."""
    branch = [
        (snapshot, summary_with_entry(snapshot, metadata))
        for snapshot in read_branch(metadata)
    ]
    is_ours = any(LEDGER_MODEL in summary for _, summary in branch)
    counts = _is_batch if is_ours else brings_rows
    return is_ours, tuple(
        _commit(snapshot, summary) for snapshot, summary in branch if counts(summary)
    )


def read_letters(metadata: TableMetadata) -> tuple[tuple[int, int], ...]:
    """The times at which dead letters were added to their table, each with how many.

    A commit that marks dead letters as replayed rewrites them, and does not count.
    """
    letters: list[tuple[int, int]] = []
    for snapshot in read_branch(metadata):
        summary = summary_with_entry(snapshot, metadata)
        if LEDGER_MODEL in summary and summary.get("operation") == "append":
            letters.append((snapshot.at_ms, whole(summary, "added-records") or 0))
    return tuple(letters)


def event_ms(text: str) -> int | None:
    """The time of a newest event, in milliseconds since the epoch, from the ISO 8601
    text in the ledger; None if it is no time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def known_event(event_ms: int, committed_at_ms: int) -> int:
    """The time of an event, but not later than the commit: an event with a later time
    has a wrong clock."""
    return min(event_ms, committed_at_ms)


def _is_batch(summary: Summary) -> bool:
    """Whether the commit is a batch of a model. A replay of dead letters is not, as its
    events are old."""
    return LEDGER_MODEL in summary and not summary[LEDGER_MODEL].endswith(REPLAY_SUFFIX)


def brings_rows(summary: Summary) -> bool:
    """Whether a commit added or changed rows."""
    return summary.get("operation") in ("append", "overwrite")


def _commit(snapshot: Snapshot, summary: Summary) -> Commit:
    return Commit(
        at_ms=snapshot.at_ms,
        rows=rows_written(summary),
        files=whole(summary, "added-data-files") or 0,
        size_bytes=whole(summary, "added-files-size") or 0,
        event_ms=event_ms(summary.get(LEDGER_EVENT_TIME, "")),
        backlog=summary.get(LEDGER_BACKLOG, ""),
        late=whole(summary, LEDGER_LATE) or 0,
        older=whole(summary, LEDGER_OLDER) or 0,
        partitions=whole(summary, "changed-partition-count") or 1,
        deletes=_deletes(summary),
        replaced=_replaced(summary),
        rescued=read_rescued(summary),
    )


def _deletes(summary: Summary) -> Deletes | None:
    added = whole(summary, "added-delete-files")
    if not added:
        return None
    rows = [
        sum(whole(summary, f"{way}-{kind}-deletes") or 0 for kind in KINDS)
        for way in ("added", "removed")
    ]
    removed, total = (
        whole(summary, key) or 0
        for key in ("removed-delete-files", "total-delete-files")
    )
    return Deletes(added, removed, total, rows[0] - rows[1])


def _replaced(summary: Summary) -> ReplacedFiles | None:
    files = whole(summary, "deleted-data-files")
    if not files:
        return None
    return ReplacedFiles(
        files, max(0, (whole(summary, "deleted-records") or 0) - rows_carried(summary))
    )
