"""What a table's metadata says of its files and snapshots. No file of the table is read for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from lakesql.ledger.entry import SOURCE_SNAPSHOT, walk_back
from lakesql.model.retention import Retention, keeps_files, read_retention
from lakesql.model.upkeep import UnknownFiles, is_left, read_unknown
from lakesql.names import LEDGER_BATCH, LEDGER_MODEL, MAINTENANCE_PROPERTY
from lakesql.plan.thresholds import TARGET_FILE_SIZE_BYTES
from lakesql.project.procedures import SMALL_FILE_SHARE, WHOLE_EVERY, RewritePositionDeleteFiles, name_of

CREATED, KEPT = "manifests-created", "manifests-kept"
"""Where the summary of a commit counts the manifests of its snapshot."""

MAIN = "main"
"""The branch that readers see."""

UNSORTED = 0
"""The id of the sort order that is none."""


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A snapshot, its parent, when it was committed, and its summary."""

    id: int
    parent: int | None
    at_ms: int
    summary: Mapping[str, str]

    def count(self, key: str) -> int:
        """A number of the summary; 0 where it has none."""
        return int(self.summary.get(key, 0))

    @property
    def delete_files(self) -> int:
        """How many delete files the table has."""
        return self.count("total-delete-files")


@dataclass(frozen=True, slots=True)
class Work:
    """What maintenance has done before: when each procedure ran last.

    With the model's own table stand what all of its tables share: how long the last strokes took (`spent`), until when
    a task that has failed waits, by its name (`rests`), and how many bytes a rewrite takes in a millisecond (`speed`).

    `rewritten` is the sequence number of the newest commit whose files a rewrite has looked at, all of them, and
    `taken_in` that of the newest whose files one has taken in, however large for small ones. `since_whole` counts the
    rewrites from such a one on; as many as there may be, if nothing is said. `since` is when the oldest snapshot was
    made that was there when this was kept first: it stays when that one has expired.
    `unknown` are the files that the last removal of orphans has left.
    """

    done: Mapping[str, int] = field(default_factory=dict)
    spent: tuple[tuple[int, int], ...] = ()
    rewritten: int | None = None
    taken_in: int | None = None
    since_whole: int = WHOLE_EVERY
    since: int | None = None
    speed: int | None = None
    rests: Mapping[str, int] = field(default_factory=dict)
    unknown: UnknownFiles = UnknownFiles()

    def may(self, task: str, now_ms: int) -> bool:
        """Whether a task may be called again: it has not failed, or found nothing to do, a short time ago."""
        return now_ms >= self.rests.get(task, 0)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table's metadata. `history` goes from the head to the root, as far as it is there; `refs` are by name.

    `is_shared`: other tables may have its files too, so that none may be deleted. `is_ordered`: it has a sort order.
    `is_left`: its property says that somebody else maintains it. `sequence` is the number of its newest commit.
    `retention`: how long its properties keep its snapshots.
    """

    version: int
    target_bytes: int
    history: tuple[SnapshotFacts, ...]
    snapshots: Mapping[int, SnapshotFacts]
    refs: Mapping[str, int]
    work: Work
    size_bytes: int
    is_shared: bool = False
    is_ordered: bool = True
    is_left: bool = False
    sequence: int = 0
    retention: Retention = Retention()

    @property
    def head(self) -> SnapshotFacts | None:
        """The current snapshot; None where there is none yet."""
        return self.history[0] if self.history else None

    @property
    def manifests(self) -> int | None:
        """How many manifests the current snapshot has; None where its summary does not say it."""
        summary = self.head.summary if self.head is not None else {}
        return int(summary[CREATED]) + int(summary[KEPT]) if {CREATED, KEPT} <= summary.keys() else None

    @property
    def start_ms(self) -> int:
        """Since when the table has been written to, as far as it is known: no expiry moves it once it is kept."""
        oldest = min((each.at_ms for each in self.snapshots.values()), default=0)
        return oldest if self.work.since is None else self.work.since

    @property
    def is_start_moving(self) -> bool:
        """Whether the oldest snapshot is not the first one any more, and nobody has kept when one was made before."""
        return self.work.since is None and bool(self.history) and self.history[-1].parent is not None


@dataclass(frozen=True, slots=True)
class Level:
    """What has come to a table since its data files were rewritten last.

    `small_files` counts those of each partition that a commit wrote to, as far as the commits' summaries tell, and
    `partition_bytes` their bytes; `small_bytes` are those of all partitions, `most_bytes` those of the largest commit.
    `deleted` is the share of its rows that was deleted since, `delete_files` how many it has more, and
    `new_delete_files` how many more than when delete files were rewritten last, or looked at in vain.
    """

    small_files: float = 0
    small_bytes: int = 0
    partition_bytes: float = 0
    most_bytes: int = 0
    deleted: float = 0
    delete_files: int = 0
    new_delete_files: int = 0
    has_left: bool = False
    """Whether that rewrite has left delete files that have not been looked at since."""


def parse_facts(text: str) -> TableFacts:
    """The facts in the JSON of a table's metadata, as Iceberg's parser writes it."""
    return facts_of(json.loads(text), len(text))


def facts_of(metadata: Mapping[str, Any], size_bytes: int) -> TableFacts:
    """The facts in a table's metadata, whose JSON is so large."""
    snapshots = {found.id: found for found in map(_snapshot, metadata.get("snapshots", ()))}
    properties = metadata.get("properties", {})
    head = metadata.get("current-snapshot-id")
    return TableFacts(
        version=metadata["format-version"],
        target_bytes=int(properties.get("write.target-file-size-bytes", TARGET_FILE_SIZE_BYTES)),
        history=tuple(walk_back(snapshots, head)),
        snapshots=snapshots,
        refs={name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()},
        work=parse_work(properties.get(MAINTENANCE_PROPERTY, "")),
        size_bytes=size_bytes,
        is_ordered=metadata.get("default-sort-order-id") != UNSORTED,
        is_shared=keeps_files(properties),
        is_left=is_left(properties),
        sequence=metadata.get("last-sequence-number", 0),
        retention=read_retention(properties, metadata.get("refs", {}).get(MAIN, {}).get("max-snapshot-age-ms")),
    )


def level_of(facts: TableFacts) -> Level:
    """What has come to the table since the last rewrite of its data files, by the summaries of its commits."""
    head = facts.head
    if head is None:
        return Level()
    since = list(takewhile(lambda snapshot: not _is_rewrite(snapshot), facts.history))
    base = facts.history[len(since)] if len(since) < len(facts.history) else SnapshotFacts(0, None, 0, {})
    added = [(snapshot, *added_small(snapshot, facts.target_bytes)) for snapshot in since]
    # The fewest since then: deletes of files that the rewrite has replaced are counted until they are removed.
    fewest_rows = min(map(deleted_rows, (base, *since)))
    deletes = [snapshot.delete_files for snapshot in (*since, base)]
    looked_ms = facts.work.done.get(name_of(RewritePositionDeleteFiles()), 0)
    is_looked = [_is_cleaning(snapshot) or snapshot.at_ms <= looked_ms for snapshot in since]
    looked = next((at for at, is_it in enumerate(is_looked) if is_it), len(since))
    return Level(
        small_files=sum(files for _, files, _ in added),
        small_bytes=sum(size for _, _, size in added),
        partition_bytes=sum(size / _partitions(snapshot) for snapshot, _, size in added),
        most_bytes=max((size for _, _, size in added), default=0),
        deleted=(deleted_rows(head) - fewest_rows) / max(1, head.count("total-records")),
        delete_files=head.delete_files - min(deletes),
        new_delete_files=head.delete_files - min(deletes[: looked + 1]),
        has_left=base.delete_files > 0 and not any(is_looked) and base.at_ms > looked_ms,
    )


def deleted_rows(snapshot: SnapshotFacts) -> int:
    """How many rows the delete files of a snapshot delete."""
    return snapshot.count("total-position-deletes") + snapshot.count("total-equality-deletes")


def added_small(snapshot: SnapshotFacts, target_bytes: int) -> tuple[float, int]:
    """How many small data files a commit has added to each partition that it wrote to, and the bytes of all of them."""
    added, size = snapshot.count("added-data-files"), snapshot.count("added-files-size")
    if not added or size / added >= SMALL_FILE_SHARE * target_bytes:
        return 0, 0
    return added / _partitions(snapshot), size


def _partitions(snapshot: SnapshotFacts) -> int:
    return max(1, snapshot.count("changed-partition-count"))


def newest_by_owner(facts: TableFacts) -> dict[str, SnapshotFacts]:
    """The snapshot with the newest ledger entry of each query that has written to the table.

    A commit that was replayed on top of a foreign one has the entry in its source.
    """
    return {owner: found[0] for owner, found in _entries(facts).items()}


def last_entries(facts: TableFacts, owner: str, count: int) -> list[SnapshotFacts]:
    """The snapshots with the newest ledger entries of a query, newest first; its tag's, where the others are gone."""
    found = _entries(facts).get(owner, [])
    return found[:count]


def _entries(facts: TableFacts) -> dict[str, list[SnapshotFacts]]:
    entries: dict[str, list[SnapshotFacts]] = {}
    tagged = (facts.snapshots[id_] for id_ in facts.refs.values() if id_ in facts.snapshots)
    for snapshot in (*facts.history, *tagged):
        source = snapshot
        if LEDGER_MODEL not in snapshot.summary and SOURCE_SNAPSHOT in snapshot.summary:
            source = facts.snapshots.get(int(snapshot.summary[SOURCE_SNAPSHOT]), snapshot)
        if LEDGER_MODEL in source.summary and LEDGER_BATCH in source.summary:
            of_owner = entries.setdefault(source.summary[LEDGER_MODEL], [])
            if source not in of_owner:
                of_owner.append(source)
    return entries


_NUMBERS = ("rewritten", "taken_in", "since_whole", "since", "speed")
_NO_WORK = Work()


def parse_work(text: str) -> Work:
    """What the table's property says of earlier maintenance; nothing, where it cannot be read."""
    try:
        found: Any = json.loads(text or "{}")
        done = {str(name): int(at_ms) for name, at_ms in found.get("done", {}).items()}
        spent = tuple((int(at_ms), int(took_ms)) for at_ms, took_ms in found.get("spent", ()))
        rests = {str(task): int(until_ms) for task, until_ms in found.get("rests", {}).items()}
        unknown = read_unknown(found.get("unknown"))
        return Work(
            done, spent, **{name: int(found[name]) for name in _NUMBERS if name in found}, rests=rests, unknown=unknown
        )
    except (ValueError, TypeError, AttributeError):
        return Work()


def render_work(work: Work) -> str:
    """The text of the property."""
    said: dict[str, object] = {"done": dict(work.done), "spent": [list(each) for each in work.spent]}
    said |= {name: getattr(work, name) for name in _NUMBERS if getattr(work, name) != getattr(_NO_WORK, name)}
    said |= {"rests": dict(work.rests)} if work.rests else {}
    if work.unknown.count:
        said["unknown"] = [work.unknown.count, work.unknown.bytes, work.unknown.example, work.unknown.listed]
    return json.dumps(said, separators=(",", ":"))


def _is_rewrite(snapshot: SnapshotFacts) -> bool:
    """Whether a commit only replaced data files by others: an own rewrite, or somebody else's."""
    return snapshot.summary.get("operation") == "replace" and "deleted-data-files" in snapshot.summary


def _is_cleaning(snapshot: SnapshotFacts) -> bool:
    """Whether a commit only replaced delete files, by others or by none."""
    return snapshot.summary.get("operation") == "replace" and "removed-delete-files" in snapshot.summary


def _snapshot(found: Mapping[str, Any]) -> SnapshotFacts:
    return SnapshotFacts(
        found["snapshot-id"], found.get("parent-snapshot-id"), found["timestamp-ms"], found.get("summary", {})
    )
