"""The ledger: a batch's record of progress, kept in the summary of the very snapshot
that commits the batch's rows.

There is no other state beside Spark's checkpoint, so rows and progress cannot disagree.
Pure: `snapshots.py` reads the snapshots of a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakesql.errors import RunError
from lakesql.model.writing import Deletes
from lakesql.modes.written_as import WrittenAs
from lakesql.names import (
    LEDGER_ACCEPTED,
    LEDGER_BACKLOG,
    LEDGER_BATCH,
    LEDGER_CHECKPOINT,
    LEDGER_DELETES,
    LEDGER_EVENT_TIME,
    LEDGER_INPUTS,
    LEDGER_KEYS,
    LEDGER_LATE,
    LEDGER_MODE,
    LEDGER_MODEL,
    LEDGER_OFFSETS,
    LEDGER_OLDER,
    LEDGER_PLACE,
    LEDGER_QUERY,
    LEDGER_REMEMBERED,
    LEDGER_RESCUED,
    LEDGER_SOURCE_TABLE,
    LEDGER_STATE,
    LEDGER_TOPICS,
    LEDGER_VIOLATIONS,
    TAG_PREFIX,
)

if TYPE_CHECKING:
    from lakesql.events import RescuedFields, TableTotals

SOURCE_SNAPSHOT = "source-snapshot-id"
"""The summary key that Iceberg sets, instead of ours, in a snapshot that a cherry-pick
has replayed on top of another commit."""

ROWS_COPIED = "spark.merge-into.num-target-rows-copied"
"""The summary key in which Spark reports how many rows a MERGE has copied unchanged
from files that it rewrote."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of one model, as its commit records it.

    `model` is the name of the model's query (`ProgressState.owner`). `offsets` is JSON:
    the source positions after the batch, by stream. `query` and `state` are hashes of
    the SELECT and of its stateful shape. `event_time` is the newest event's time, ISO
    8601 in UTC, or empty if no record has a time. `topics` are the ids of Kafka's
    topics; `accepted` names the records whose loss somebody has accepted. `mode` and
    `keys` are the model's when it wrote the batch, both empty for dead letters.

    `late` counts the rows that a watermark has dropped, and `violations` the rows that
    fail each expectation. `remembered` counts the rows that the batch has added to the
    tombstones, `older` those that it has left out because the table has newer rows of
    their keys. `deletes` is what happened to rows that the source had deleted.
    `backlog` is what the source still had when Spark last looked, such as `1200
    records`. `newest_place` is the greatest position in a database's log that was read,
    with the time of its record, as JSON. `source_table` is the database's table whose
    changes the batches hold, if they must all be of one. `inputs` are, for a model that
    reads tables, the snapshots of the tables that its rows are made of, as JSON
    (`ledger/inputs.py`): its refreshes are its batches, and have no checkpoint.
    `rescued` counts the records with fields that their contract does not know.
    """

    model: str
    checkpoint: str
    batch: int
    offsets: str
    query: str
    state: str = ""
    event_time: str = ""
    topics: Mapping[str, str] = field(default_factory=dict)
    accepted: str = ""
    mode: str = ""
    keys: tuple[str, ...] = ()
    late: int = 0
    remembered: int = 0
    older: int = 0
    newest_place: str = ""
    source_table: str = ""
    deletes: Deletes = ""
    backlog: str = ""
    violations: tuple[tuple[str, int], ...] = ()
    inputs: str = ""
    rescued: tuple[RescuedFields, ...] = ()

    @property
    def written_as(self) -> WrittenAs:
        """The model's mode, keys and handling of deletes when it wrote the batch."""
        return WrittenAs(
            self.mode, self.keys, self.deletes, "tables" if self.inputs else "streams"
        )

    @property
    def positions(self) -> dict[str, Any]:
        """`offsets`, parsed: the source positions by stream."""
        return dict(json.loads(self.offsets or "{}"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of an Iceberg table: its id, its summary, the id of its parent, and
    its time."""

    id: int
    summary: Mapping[str, str]
    parent: int | None = None
    at_ms: int = 0

    def count(self, key: str) -> int:
        """A number in the summary; 0 if it is missing."""
        return int(self.summary.get(key, 0))

    @property
    def delete_files(self) -> int:
        """The number of the table's delete files."""
        return self.count("total-delete-files")

    @property
    def deleted_rows(self) -> int:
        """The number of rows that the table's delete files delete. A row counts twice
        if two delete files delete it, which other writers may cause."""
        return self.count("total-position-deletes") + self.count(
            "total-equality-deletes"
        )

    @property
    def added(self) -> int:
        """The number of rows that its commit wrote, including those copied from files
        that it removed."""
        return self.count("added-records")

    @property
    def rewrote(self) -> bool:
        """Whether its commit rewrote data files, so that some of the rows that it wrote
        were in the table before."""
        return "deleted-data-files" in self.summary

    @property
    def is_empty(self) -> bool:
        """Whether the table certainly has no rows."""
        return self.summary.get("total-records") == "0"

    @property
    def total(self) -> int:
        """The number of rows in the table's data files, including deleted ones."""
        return self.count("total-records")

    @property
    def live(self) -> int:
        """The number of rows that a reader sees. It may be too small if another writer
        has deleted rows twice."""
        return max(0, self.total - self.deleted_rows)


def snapshot_of(found: Mapping[str, Any]) -> Snapshot:
    """The snapshot of Iceberg's JSON for it."""
    return Snapshot(
        found["snapshot-id"],
        found.get("summary", {}),
        found.get("parent-snapshot-id"),
        found.get("timestamp-ms", 0),
    )


def rows_written(summary: Mapping[str, str]) -> int:
    """How many rows a commit has inserted or updated, without those copied from files
    that it rewrote."""
    return max(0, (whole(summary, "added-records") or 0) - rows_carried(summary))


def rows_carried(summary: Mapping[str, str]) -> int:
    """How many rows a commit has copied unchanged from files that it rewrote. If the
    summary does not say, all rows of these files count."""
    copied = whole(summary, ROWS_COPIED)
    return copied if copied is not None else whole(summary, "deleted-records") or 0


def totals_of(summary: Mapping[str, str]) -> TableTotals:
    """The totals of a table in the summary of one of its snapshots, whoever wrote
    it."""
    # only here: who compiles has no events
    from lakesql.events import TableTotals

    deletes = [
        whole(summary, key)
        for key in ("total-position-deletes", "total-equality-deletes")
    ]
    return TableTotals(
        data_files=whole(summary, "total-data-files"),
        delete_files=whole(summary, "total-delete-files"),
        rows=whole(summary, "total-records"),
        deletes=None if None in deletes else sum(filter(None, deletes)),
    )


def whole(summary: Mapping[str, str], key: str) -> int | None:
    """A non-negative number in a summary that anybody may have written; None if it is
    missing or no number."""
    text = summary.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None


class Follower(Protocol):
    """Something with the id of the snapshot that it was made on."""

    @property
    def parent(self) -> int | None:
        """The id of its parent snapshot."""


S = TypeVar("S", bound=Follower)


def walk_back(snapshots: Mapping[int, S], head: int | None) -> Iterator[S]:
    """The snapshots from `head` to the root, as far as they have not expired."""
    while head is not None and (found := snapshots.get(head)) is not None:
        yield found
        head = found.parent


def summary_of(entry: Entry) -> dict[str, str]:
    """The summary keys that record `entry`; empty values are left out."""
    summary = {
        LEDGER_MODEL: entry.model,
        LEDGER_CHECKPOINT: entry.checkpoint,
        LEDGER_BATCH: str(entry.batch),
        LEDGER_OFFSETS: entry.offsets,
        LEDGER_QUERY: entry.query,
        LEDGER_STATE: entry.state,
        LEDGER_EVENT_TIME: entry.event_time,
        LEDGER_BACKLOG: entry.backlog,
        LEDGER_TOPICS: json.dumps(entry.topics, separators=(",", ":"), sort_keys=True)
        if entry.topics
        else "",
        LEDGER_ACCEPTED: entry.accepted,
        LEDGER_MODE: entry.mode,
        LEDGER_KEYS: json.dumps(entry.keys, ensure_ascii=False) if entry.keys else "",
        LEDGER_LATE: str(entry.late or ""),
        LEDGER_VIOLATIONS: json.dumps(dict(entry.violations), ensure_ascii=False)
        if entry.violations
        else "",
        LEDGER_REMEMBERED: str(entry.remembered or ""),
        LEDGER_OLDER: str(entry.older or ""),
        LEDGER_PLACE: entry.newest_place,
        LEDGER_SOURCE_TABLE: entry.source_table,
        LEDGER_DELETES: entry.deletes,
        LEDGER_INPUTS: entry.inputs,
        LEDGER_RESCUED: _rescued_text(entry.rescued),
    }
    return {key: value for key, value in summary.items() if value}


def _rescued_text(rescued: Iterable[RescuedFields]) -> str:
    found = {
        each.stream: {"records": each.records, "fields": each.fields}
        for each in rescued
    }
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if found else ""


def read_rescued(summary: Mapping[str, str]) -> tuple[RescuedFields, ...]:
    """The records of a batch with fields that their contract does not know, from the
    summary of its commit."""
    from lakesql.events import RescuedFields

    found = json.loads(summary.get(LEDGER_RESCUED, "{}"))
    return tuple(
        RescuedFields(stream, it["records"], tuple(it["fields"]))
        for stream, it in found.items()
    )


def ledger_tag(model: str) -> str:
    """The name of the tag on the snapshot with the newest ledger entry of `model`."""
    return f"{TAG_PREFIX}{model}"


def newest_entry(
    history: Iterable[Snapshot],
    model: str | None,
    find: Callable[[int], Snapshot | None],
    checkpoint: str | None = None,
) -> Entry | None:
    """The newest ledger entry of `model`, or of any model if None; None if there is
    none. `history` is the snapshots from the head of the branch to its root; `find`
    looks up a snapshot by its id.

    With `checkpoint` the newest entry of that checkpoint, for tables that two queries
    of a model write. A snapshot that a cherry-pick has replayed has no entry of its
    own; that of its source snapshot is used.
    """
    for snapshot in history:
        summary = snapshot.summary
        if LEDGER_MODEL not in summary and SOURCE_SNAPSHOT in summary:
            source = find(int(summary[SOURCE_SNAPSHOT]))
            summary = source.summary if source else summary
        owner = summary.get(LEDGER_MODEL)
        if (
            owner
            and model in (None, owner)
            and checkpoint in (None, summary.get(LEDGER_CHECKPOINT))
        ):
            return Entry(
                model=owner,
                checkpoint=summary.get(LEDGER_CHECKPOINT, ""),
                batch=int(summary[LEDGER_BATCH]),
                offsets=summary.get(LEDGER_OFFSETS, ""),
                query=summary.get(LEDGER_QUERY, ""),
                state=summary.get(LEDGER_STATE, ""),
                event_time=summary.get(LEDGER_EVENT_TIME, ""),
                backlog=summary.get(LEDGER_BACKLOG, ""),
                topics=json.loads(summary.get(LEDGER_TOPICS, "{}")),
                accepted=summary.get(LEDGER_ACCEPTED, ""),
                mode=summary.get(LEDGER_MODE, ""),
                keys=tuple(json.loads(summary.get(LEDGER_KEYS, "[]"))),
                late=int(summary.get(LEDGER_LATE, 0)),
                remembered=int(summary.get(LEDGER_REMEMBERED, 0)),
                older=int(summary.get(LEDGER_OLDER, 0)),
                newest_place=summary.get(LEDGER_PLACE, ""),
                source_table=summary.get(LEDGER_SOURCE_TABLE, ""),
                deletes="soft" if LEDGER_DELETES in summary else "",
                violations=tuple(
                    json.loads(summary.get(LEDGER_VIOLATIONS, "{}")).items()
                ),
                inputs=summary.get(LEDGER_INPUTS, ""),
                rescued=read_rescued(summary),
            )
    return None


def find_writer(
    history: Iterable[Snapshot], model: str, checkpoint: str, batch: int
) -> int | None:
    """The id of the snapshot that committed a batch; None if it is not in `history`."""
    wanted = (model, checkpoint, str(batch))
    for snapshot in history:
        found = snapshot.summary
        if (
            found.get(LEDGER_MODEL),
            found.get(LEDGER_CHECKPOINT),
            found.get(LEDGER_BATCH),
        ) == wanted:
            return snapshot.id
    return None


def is_untouched(history: Iterable[Snapshot], model: str) -> bool:
    """Whether nobody else has changed rows of a table since the newest entry of
    `model`; rewriting files changes none.

    `history` is the snapshots from the head of the branch to its root. False if
    snapshots between have expired, as nobody knows what they did.
    """
    parent: int | None = None
    for snapshot in history:
        if parent not in (None, snapshot.id):
            return False
        if snapshot.summary.get(LEDGER_MODEL) == model:
            return True
        if snapshot.summary.get("operation") != "replace":
            return False
        parent = snapshot.parent
    return False


def overtaken(what: str) -> RunError:
    """The error of a runner whose batch another runner has already written; `what` says
    how that is known."""
    return RunError.of("batch-published", what)
