"""What has been added to a table since its data files were last rewritten, from the
summaries of its commits alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from lakesql.ledger.entry import Snapshot
from lakesql.project.procedures import (
    SMALL_FILE_SHARE,
    RewritePositionDeleteFiles,
    name_of,
)
from lakesql.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Uncompacted:
    """What has been added to a table since its data files were last rewritten.

    `small_files` is the number of small files for each partition that commits wrote to,
    as far as the summaries tell, and `partition_bytes` their bytes; `small_bytes` are
    those of all partitions, `most_bytes` those of the largest commit. `deleted_ratio`
    is the share of the rows that was deleted since, and `delete_files` the number of
    additional delete files. `new_delete_files` is the same since delete files were last
    rewritten, or looked at without a result. `has_left_deletes`: the rewrite of data
    files has left delete files that nobody has looked at since.
    """

    small_files: float = 0
    small_bytes: float = 0
    partition_bytes: float = 0
    most_bytes: float = 0
    deleted_ratio: float = 0
    delete_files: float = 0
    new_delete_files: float = 0
    has_left_deletes: bool = False


NO_COMMIT = Snapshot(0, {})


def measure_uncompacted(metadata: TableMetadata) -> Uncompacted:
    """What has been added to the table since the last rewrite of its data files."""
    head = metadata.head
    if head is None:
        return Uncompacted()
    since = list(
        takewhile(lambda snapshot: not _is_rewrite(snapshot), metadata.history)
    )
    is_rewritten = len(since) < len(metadata.history)
    base = metadata.history[len(since)] if is_rewritten else NO_COMMIT
    # The fewest since then, as deletes of files that the rewrite has replaced still
    # count until they are removed.
    fewest_deleted = min(snapshot.deleted_rows for snapshot in (base, *since))
    delete_files = [snapshot.delete_files for snapshot in (*since, base)]
    looked_at = _newest_look_at_deletes(metadata, since)
    small = [small_files_of(snapshot, metadata.target_bytes) for snapshot in since]
    return Uncompacted(
        small_files=sum(each.in_partition for each in small),
        small_bytes=sum(each.size_bytes for each in small),
        partition_bytes=sum(each.bytes_in_partition for each in small),
        most_bytes=max((each.size_bytes for each in small), default=0),
        deleted_ratio=(head.deleted_rows - fewest_deleted) / max(1, head.total),
        delete_files=head.delete_files - min(delete_files),
        new_delete_files=head.delete_files - min(delete_files[: looked_at + 1]),
        has_left_deletes=base.delete_files > 0
        and looked_at == len(since)
        and base.at_ms > _looked_ms(metadata),
    )


def count_commit(
    start: Uncompacted,
    known: Uncompacted,
    metadata: TableMetadata,
    summary: Mapping[str, str],
) -> Uncompacted:
    """What has been added after one more commit with this summary. `start` is what had
    been added by the `metadata`, `known` what has been added including the commits
    since then."""
    head, commit = metadata.head or NO_COMMIT, Snapshot(0, summary)
    small = small_files_of(commit, metadata.target_bytes)
    deleted = commit.deleted_rows - head.deleted_rows
    more = commit.delete_files - head.delete_files
    return replace(
        known,
        small_files=known.small_files + small.in_partition,
        small_bytes=known.small_bytes + small.size_bytes,
        partition_bytes=known.partition_bytes + small.bytes_in_partition,
        most_bytes=max(known.most_bytes, small.size_bytes),
        deleted_ratio=max(0.0, start.deleted_ratio + deleted / max(1, commit.total)),
        delete_files=max(0, start.delete_files + more),
        new_delete_files=max(0, start.new_delete_files + more),
    )


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """The small data files that a commit has added: their number, the number of
    partitions that the commit wrote to, and the bytes of all."""

    files: int
    partitions: int
    size_bytes: int

    @property
    def in_partition(self) -> float:
        """The average number of small files in each partition that the commit wrote
        to."""
        return self.files / self.partitions

    @property
    def bytes_in_partition(self) -> float:
        """The average bytes of its small files in each of these partitions."""
        return self.size_bytes / self.partitions


def small_files_of(commit: Snapshot, target_bytes: int) -> SmallFiles:
    """The small data files of a commit. All of its files count, or none, by their
    average size."""
    files, size_bytes = (
        commit.count("added-data-files"),
        commit.count("added-files-size"),
    )
    partitions = max(1, commit.count("changed-partition-count"))
    is_small = files > 0 and size_bytes / files < SMALL_FILE_SHARE * target_bytes
    return (
        SmallFiles(files, partitions, size_bytes)
        if is_small
        else SmallFiles(0, partitions, 0)
    )


def _newest_look_at_deletes(metadata: TableMetadata, since: list[Snapshot]) -> int:
    """The number of commits since delete files were last rewritten, or looked at
    without a result; all commits of `since` if they were not."""
    looked_ms = _looked_ms(metadata)
    for number, snapshot in enumerate(since):
        if _is_cleaning(snapshot) or snapshot.at_ms <= looked_ms:
            return number
    return len(since)


def _looked_ms(metadata: TableMetadata) -> int:
    return metadata.record.done.get(name_of(RewritePositionDeleteFiles()), 0)


def _is_rewrite(snapshot: Snapshot) -> bool:
    """Whether a commit only replaced data files by others, whoever did the rewrite."""
    return (
        snapshot.summary.get("operation") == "replace"
        and "deleted-data-files" in snapshot.summary
    )


def _is_cleaning(snapshot: Snapshot) -> bool:
    """Whether a commit only replaced or removed delete files."""
    return (
        snapshot.summary.get("operation") == "replace"
        and "removed-delete-files" in snapshot.summary
    )
