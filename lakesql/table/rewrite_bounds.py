"""The bounds of one rewrite of data files: which files it spares, and how many it may
take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.project.procedures import (
    RECENT,
    SIZE_RATIO,
    WHOLE_EVERY,
    RewriteDataFiles,
    group_files,
    spared_bytes,
)
from lakesql.table.maintenance_record import MaintenanceRecord
from lakesql.table.metadata import TableMetadata
from lakesql.table.uncompacted import measure_uncompacted

MAX_FILES = "max-files-to-rewrite"
"""Iceberg's option that limits a rewrite to the bytes and the time that are left for
it."""

MIN_BYTES = "min-file-size-bytes"
"""Iceberg's option by which a rewrite spares the files that earlier rewrites have
made."""

MIN_FILES = "min-input-files"
"""Iceberg's option by which a rewrite of all small files already takes two in a
partition, instead of five."""


def bound_files(
    task: MaintenanceTask,
    options: RewriteDataFiles,
    metadata: TableMetadata,
    is_asked_for: bool,
) -> dict[str, str]:
    """The options of Iceberg that select the files of a rewrite: the size from which on
    files are spared, or how many small files suffice to rewrite them all. All files
    with equality deletes are taken.

    `is_asked_for`: somebody has asked for the rewrite, so no small file is spared.
    """
    return _bound_sizes(task, options, metadata, is_asked_for) | _bound_foreign_deletes(
        options, metadata
    )


def _bound_sizes(
    task: MaintenanceTask,
    options: RewriteDataFiles,
    metadata: TableMetadata,
    is_asked_for: bool,
) -> dict[str, str]:
    since_whole = metadata.record.since_whole
    may_leave_files = not is_asked_for and not task.is_by_time
    if may_leave_files:
        uncompacted = measure_uncompacted(metadata)
        spared = spared_bytes(
            options,
            metadata.target_bytes,
            since_whole,
            files=uncompacted.small_files,
            partition_bytes=uncompacted.partition_bytes,
            most_bytes=uncompacted.most_bytes,
        )
        if spared is not None:
            return {MIN_BYTES: str(round(spared))}
    if is_asked_for or since_whole >= WHOLE_EVERY:
        return {MIN_FILES: str(group_files(options, is_whole=True))}
    return {}


def _bound_foreign_deletes(
    options: RewriteDataFiles, metadata: TableMetadata
) -> dict[str, str]:
    """The options by which a rewrite takes every data file with equality deletes, which
    other engines have written.

    The new files are newer than the deletes, which then apply to nothing and are
    removed: pyiceberg reads no table that has any.
    """
    head = metadata.head
    if head is None or not head.count("total-equality-deletes"):
        return {}
    bound = {"delete-file-threshold": "1"}
    if "remove-dangling-deletes" not in options.options:
        bound["remove-dangling-deletes"] = "true"
    if "use-starting-sequence-number" not in options.options:
        bound["use-starting-sequence-number"] = "false"
    return bound


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many bytes one rewrite may take (`allowed_bytes`), of a table that has
    `table_bytes`."""

    allowed_bytes: float
    table_bytes: int

    @property
    def is_enough(self) -> bool:
        """Whether the whole table is within the allowance, so that the size of the
        rewrite need not be found out."""
        return self.table_bytes <= self.allowed_bytes


def allow_bytes(
    options: RewriteDataFiles,
    metadata: TableMetadata,
    time_ms: float,
    bytes_per_ms: float,
) -> Allowance:
    """How many bytes a rewrite may take in `time_ms`, and at most by its option."""
    table_bytes = (
        metadata.head.count("total-files-size") if metadata.head is not None else 0
    )
    in_time = max(0.0, time_ms) * bytes_per_ms
    return Allowance(min(float(options.max_bytes.size_bytes), in_time), table_bytes)


def expect_bytes(
    allowance: Allowance, metadata: TableMetadata, bound: Mapping[str, str]
) -> float:
    """The expected number of bytes that a rewrite takes of a table that is within its
    allowance."""
    if MIN_BYTES not in bound:
        return allowance.table_bytes
    small_bytes = measure_uncompacted(metadata).small_bytes
    return min(allowance.table_bytes, SIZE_RATIO * small_bytes or allowance.table_bytes)


def bound_number(
    options: RewriteDataFiles, allowance: Allowance, files: int, size_bytes: int
) -> dict[str, str]:
    """The option that limits the number of files of a rewrite that would take `files`
    files of `size_bytes`; empty if all are within the allowance."""
    if size_bytes <= allowance.allowed_bytes:
        return {}
    most = max(group_files(options), int(files * allowance.allowed_bytes / size_bytes))
    return {MAX_FILES: str(min(most, options.max_files_to_rewrite or most))}


def record_rewrite(
    options: RewriteDataFiles,
    bound: Mapping[str, str],
    counts: Mapping[str, int],
    metadata: TableMetadata,
) -> MaintenanceRecord:
    """The maintenance record after a rewrite with the options `bound` and the result
    `counts`; `metadata` are the table's before it."""
    record = metadata.record
    limit = bound.get(MAX_FILES, options.max_files_to_rewrite)
    is_cut = limit is not None and counts.get("rewritten_data_files_count", 0) >= int(
        limit
    )
    if is_cut or counts.get("failed_data_files_count"):
        # the sizes of the files that it has left are unknown
        return replace(record, since_whole=WHOLE_EVERY)
    is_of_all_partitions = options.where in ("", RECENT)
    if is_of_all_partitions:
        record = replace(record, rewritten=metadata.sequence)
    is_whole = MIN_FILES in bound or options.rewrite_all is True
    if not is_whole:
        return replace(record, since_whole=record.since_whole + 1)
    if is_of_all_partitions:
        record = replace(record, rewritten_whole=metadata.sequence)
    return replace(record, since_whole=1)
