"""The record of progress: it stands in the table's own snapshots, in the commit that
holds the data.

There is no other state beside Spark's checkpoint, so data and progress cannot disagree.
Pure: reading snapshots from a table is `snapshots.py`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from lakesql.errors import RunError
from lakesql.events import RescuedFields, TableTotals
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

SOURCE_SNAPSHOT = "source-snapshot-id"
"""What Iceberg leaves in a snapshot that a cherry-pick replayed on top of a foreign
commit, instead of our keys."""

ROWS_COPIED = "spark.merge-into.num-target-rows-copied"
"""What Spark says of a MERGE: how many rows it has carried over, unchanged, from files
that it wrote anew."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of one model, as its commit records it.

    `model` is the name of its query (`ProgressState.owner`). `offsets` is JSON: the
    source positions after the batch, by stream. `query` and `state` are hashes of the
    SELECT and of its stateful shape. `event_time` is the newest event, ISO 8601 in UTC,
    or empty where no record has a time. `topics` are the ids of Kafka's topics,
    `accepted` the records that somebody has accepted to lose. `mode` and `keys` are the
    model's when it wrote the batch, both empty where dead letters are written. `late`
    are the rows that a watermark has dropped, and `violations` count the rows that fail
    each expectation. `remembered` are the rows that the batch has put into the
    tombstones, `older` those that it has left out, as the table has newer ones of their
    keys. `deletes`: what became of rows that the source had deleted. `backlog` is what
    its source still had when Spark last looked: `1200 records`, or files.
    `newest_place` is the greatest place in a database's log that was read, and the time
    of its record, as JSON. `source_table` is
    the table of a database whose changes the model's batches have had, if all of them
    must be of one. `inputs` are the snapshots of the tables of which the rows are made,
    as JSON (`ledger/inputs.py`), where the model reads tables: its refreshes are its
    batches, and have no checkpoint. `rescued` are the records with fields that their
    contract does not know.
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
        """How the model wrote the rows of the batch."""
        return WrittenAs(
            self.mode, self.keys, self.deletes, "tables" if self.inputs else "streams"
        )

    @property
    def positions(self) -> dict[str, Any]:
        """`offsets` by stream."""
        return dict(json.loads(self.offsets or "{}"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of an Iceberg table: its id, its summary, the id of the one that it
    was made on, and when that was."""

    id: int
    summary: Mapping[str, str]
    parent: int | None = None
    at_ms: int = 0

    def count(self, key: str) -> int:
        """A number of the summary; 0 where it has none."""
        return int(self.summary.get(key, 0))

    @property
    def delete_files(self) -> int:
        """How many delete files the table has."""
        return self.count("total-delete-files")

    @property
    def deleted_rows(self) -> int:
        """How many rows the delete files of the table delete: some of them twice, where
        others write to it too."""
        return self.count("total-position-deletes") + self.count(
            "total-equality-deletes"
        )

    @property
    def added(self) -> int:
        """How many rows its commit wrote, those among them that were in the table
        before, in files that it removed."""
        return self.count("added-records")

    @property
    def rewrote(self) -> bool:
        """Whether its commit wrote files anew: some of the rows that it wrote were in
        the table before."""
        return "deleted-data-files" in self.summary

    @property
    def is_empty(self) -> bool:
        """Whether the table certainly has no row in it."""
        return self.summary.get("total-records") == "0"

    @property
    def total(self) -> int:
        """How many rows the table has in it, deleted ones among them of which files
        still hold the data."""
        return self.count("total-records")

    @property
    def live(self) -> int:
        """How many rows a reader sees. A table that something else writes may count a
        row as deleted twice."""
        return max(0, self.total - self.deleted_rows)


def snapshot_of(found: Mapping[str, Any]) -> Snapshot:
    """A snapshot in Iceberg's JSON."""
    return Snapshot(
        found["snapshot-id"],
        found.get("summary", {}),
        found.get("parent-snapshot-id"),
        found.get("timestamp-ms", 0),
    )


def rows_written(summary: Mapping[str, str]) -> int:
    """How many rows a commit has inserted or updated: none of those that it has carried
    over from files that it wrote anew."""
    return max(0, (whole(summary, "added-records") or 0) - rows_carried(summary))


def rows_carried(summary: Mapping[str, str]) -> int:
    """How many rows a commit has carried over from files that it wrote anew; all of
    these files if it does not say."""
    copied = whole(summary, ROWS_COPIED)
    return copied if copied is not None else whole(summary, "deleted-records") or 0


def totals_of(summary: Mapping[str, str]) -> TableTotals:
    """What a table holds with the snapshot that has this summary, whoever wrote it."""
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
    """A number of a summary that others wrote; None where it is none."""
    text = summary.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None


class Follower(Protocol):
    """What knows the snapshot that it was made on."""

    @property
    def parent(self) -> int | None:
        """Its id."""


S = TypeVar("S", bound=Follower)


def walk_back(snapshots: Mapping[int, S], head: int | None) -> Iterator[S]:
    """From the head of a branch to its root, as far as the snapshots are left."""
    while head is not None and (found := snapshots.get(head)) is not None:
        yield found
        head = found.parent


def summary_of(entry: Entry) -> dict[str, str]:
    """The summary keys that record `entry`; an empty value is left out."""
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
    """The records of a batch with fields that their contract does not know, by the
    summary of its commit."""
    found = json.loads(summary.get(LEDGER_RESCUED, "{}"))
    return tuple(
        RescuedFields(stream, it["records"], tuple(it["fields"]))
        for stream, it in found.items()
    )


def ledger_tag(model: str) -> str:
    """The tag of the snapshot with the newest ledger entry of `model`."""
    return f"{TAG_PREFIX}{model}"


def newest_entry(
    history: Iterable[Snapshot],
    model: str | None,
    find: Callable[[int], Snapshot | None],
    checkpoint: str | None = None,
) -> Entry | None:
    """The newest entry of `model`, or of whichever one (None). `history` walks from the
    head of the branch to its root; `find` looks a snapshot up.

    With `checkpoint` the newest one of that checkpoint: where two queries of a model
    write into one table. A snapshot that a cherry-pick replayed carries no entry of its
    own: its source's is taken.
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
    """The id of the snapshot that has brought a batch; None where it is not among those
    of `history`."""
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
    `model`: a rewrite changes none.

    `history` walks from the head of the branch to its root, as that of `newest_entry`.
    What snapshots have done that have expired, nobody knows.
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
    """The error of a runner that would write what another one has written; `what` says
    how it is known."""
    return RunError.of("batch-published", what)
