"""How a table grows under commits at a steady rate, with and without maintenance:
arithmetic over a table's counts and sizes, for forecasts.

The simulated table answers what `Amounts` asks, so that `table/due.py` decides what
maintenance is due on it, as in a run.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never

from lakesql.project.procedures import (
    BYTES_PER_MS,
    DAY_MS,
    DELETION_VECTORS,
    HOUR_MS,
    LEAST_EXPIRY_MS,
    RETRY_AFTER_MS,
    SMALL_FILE_SHARE,
    WHOLE_EVERY,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    group_files,
    spared_bytes,
)
from lakesql.table.due import find_due, follows, time_left_ms
from lakesql.table.terms import Terms
from lakesql.table.uncompacted import Uncompacted

MOST_STEPS = 200_000
"""The maximum number of simulated steps; of more commits, several are simulated as one
step."""

PROCEDURE_MS = 1_500.0
"""The assumed duration of a maintenance procedure, without the time for the bytes that
it rewrites."""

_MAINTENANCE_SNAPSHOT = 950.0
"""Bytes in the metadata file of a snapshot that a maintenance procedure has committed;
its summary is short."""

_EULER = 0.5772


@lru_cache(maxsize=1024)
def grow(
    writes: Writes,
    terms: Terms,
    sizes: Sizes,
    stock: Stock,
    maintenance: Maintained | None,
    span_ms: float,
) -> TableGrowth:
    """The table's growth within `span_ms` under commits at a steady rate.

    Maintenance runs as soon as it is due and its time budget allows, and delays no
    commit. `maintenance` is None, or has no tasks, if nobody maintains the table.
    """
    batches = int(span_ms / writes.interval_ms + 1e-6)
    table = _GrowingTable(terms, sizes, stock)
    most = table.figures()
    at_step = max(1, math.ceil(batches / MOST_STEPS))
    done = 0
    while done < batches:
        step = min(at_step, batches - done)
        done += step
        table.commit(writes, step)
        most = tuple(map(max, most, table.figures()))
        if maintenance is not None:
            table.maintain(maintenance)
    end = table.figures()
    most = tuple(map(max, most, end))
    return TableGrowth(
        batches=batches,
        maintenance=table.maintenance,
        end=TableCounts(*map(round, end)),
        most=TableCounts(*map(round, most)),
        written_bytes=round(table.written),
    )


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """A procedure that maintenance runs on the table. If `is_by_time`, it is due by its
    trigger alone, and its thresholds are ignored."""

    procedure: str
    options: Procedure
    is_by_time: bool = False


@dataclass(frozen=True, slots=True)
class Maintained:
    """How a table is maintained: the tasks, the maximum share of the time that they may
    take, and a factor by which their thresholds are multiplied."""

    tasks: tuple[SimulatedTask, ...]
    max_time_ratio: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Writes:
    """What one commit of a model does to its table, on average.

    Commits are `interval_ms` apart. Each writes `rows` of `row_bytes` bytes into
    `files` data files in `partitions` partitions; `new_partitions` partitions are
    opened a day. It deletes `deleted` stored rows, which lie in as many data files as
    `scattered` randomly chosen rows do. It adds at least `delete_files` delete files;
    or, if it `rewrites`, it rewrites the affected data files, with the rows in them
    that stay.
    """

    interval_ms: float
    rows: float
    row_bytes: float
    files: float = 1
    partitions: float = 1
    new_partitions: float = 0
    deleted: float = 0
    scattered: float = 0
    delete_files: float = 0
    rewrites: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of metadata: of the metadata file without its lists (`table`), each
    snapshot and each earlier metadata file in it (`snapshot`, `log_entry`), a manifest
    list and each manifest in it, a manifest and each file in it (`entry`)."""

    table: float = 1_420
    snapshot: float = 1_250
    log_entry: float = 166
    manifest_list: float = 4_410
    list_entry: float = 42
    manifest: float = 7_120
    entry: float = 66


MERGE_SNAPSHOT_BYTES = 2_000.0
"""Bytes in the metadata file of a snapshot that a MERGE has committed; Spark writes a
longer summary for it."""


@dataclass(frozen=True, slots=True)
class Stock:
    """The table before the first commit; empty by default.

    `small_files` are the data files that a rewrite would take, in `small_partitions`
    partitions, of `small_bytes` in all; `uncompacted` is what has been added since the
    last rewrite. `ages_ms` are the ages of its snapshots, the oldest first. `log` is
    the number of earlier metadata files.
    """

    data_files: float = 0
    small_files: float = 0
    small_bytes: float = 0
    small_partitions: float = 0
    uncompacted: Uncompacted = Uncompacted()
    rows: float = 0
    deleted: float = 0
    delete_files: float = 0
    data_manifests: float = 0
    delete_manifests: float = 0
    ages_ms: tuple[float, ...] = ()
    log: int = 0


@dataclass(frozen=True, slots=True)
class TableCounts:
    """Counts of a table's files and snapshots at one moment. `metadata_bytes` is what a
    reader has to read before it knows the table's files."""

    data_files: int
    delete_files: int
    snapshots: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class TableGrowth:
    """A table's growth over a time span: `end` are its counts at the end, `most` the
    maximum of each count at any moment.

    `batches` counts the model's commits, `maintenance` those of maintenance.
    `written_bytes` is all metadata that both write.
    """

    batches: int
    maintenance: int
    end: TableCounts
    most: TableCounts
    written_bytes: int

    @property
    def commits(self) -> int:
        """All commits."""
        return self.batches + self.maintenance


@dataclass(slots=True)
class _Snapshots:
    """The snapshots of the simulated table by age, the oldest first, those of one step
    as one entry of (time, count, bytes of each).

    `young` ones never expire; `grown` ones expire if there are too many snapshots;
    `aged` ones expire by their age.
    """

    young: deque[tuple[float, int, float]] = field(default_factory=deque)
    grown: deque[tuple[float, int, float]] = field(default_factory=deque)
    aged: deque[tuple[float, int, float]] = field(default_factory=deque)
    count: int = 0
    grown_count: int = 0
    aged_count: int = 0
    size_bytes: float = 0

    def add(self, at_ms: float, count: int, size_bytes: float) -> None:
        self.young.append((at_ms, count, size_bytes))
        self.count += count
        self.size_bytes += count * size_bytes

    def grow_older(self, now_ms: float, aged_ms: float) -> None:
        """Move snapshots to the next age group at the time `now_ms`; one is `aged` once
        it is older than `aged_ms`."""
        while self.young and self.young[0][0] < now_ms - LEAST_EXPIRY_MS:
            self.grown.append(self.young.popleft())
            self.grown_count += self.grown[-1][1]
        while self.grown and self.grown[0][0] < now_ms - aged_ms:
            self.aged.append(self.grown.popleft())
            self.grown_count -= self.aged[-1][1]
            self.aged_count += self.aged[-1][1]

    def old(self, retained: int, most: int | None) -> int:
        """How many snapshots an expiry would remove: the aged ones beyond the
        `retained` newest, or those beyond `most` if that is more."""
        by_age = min(self.aged_count, self.count - retained)
        by_count = (
            0
            if most is None
            else min(self.aged_count + self.grown_count, self.count - most)
        )
        return max(0, by_age, by_count)

    def expire(self, old: int) -> None:
        """Remove the `old` oldest snapshots."""
        self.count -= old
        aged = min(old, self.aged_count)
        self.aged_count -= aged
        self.grown_count -= old - aged
        while old > 0:
            oldest = self.aged or self.grown
            at_ms, count, size_bytes = oldest.popleft()
            gone = min(count, old)
            old -= gone
            self.size_bytes -= gone * size_bytes
            if gone < count:
                oldest.appendleft((at_ms, count - gone, size_bytes))


@dataclass(frozen=True, slots=True)
class _Left:
    """Files of one size that earlier rewrites have made: the average `count` in each
    partition that is still written to, and the `size` of each in bytes."""

    count: float
    size: float


class _GrowingTable:
    """The simulated table: it answers what `Amounts` asks of a table, and counts its
    metadata.

    Data files are `large` or `small`; of the small ones, those written since the last
    rewrite are `fresh`. Delete files belong to data files that were rewritten
    (`bulk_deletes`), to fresh ones (`fresh_deletes`), or to no live rows (`dangling`).
    """

    def __init__(self, terms: Terms, sizes: Sizes, stock: Stock) -> None:
        self.terms, self.sizes = terms, sizes
        self.now = 0.0
        self.start = -max(stock.ages_ms, default=0.0)
        known = stock.uncompacted
        self.large = stock.data_files - stock.small_files
        self.small, self.small_bytes = stock.small_files, stock.small_bytes
        self.partitions, self.new_small = stock.small_partitions, known.small_files
        self.rows, self.deleted = stock.rows, stock.deleted
        self.hot = 0.0
        self.fresh = min(stock.small_files, known.small_files * stock.small_partitions)
        self.bulk_deletes = min(stock.delete_files, stock.data_files - self.fresh)
        self.fresh_deletes = stock.delete_files - self.bulk_deletes
        self.dangling, self.dangling_rows, self.row_bytes, self.commit_bytes = (
            0.0,
            0.0,
            0.0,
            0.0,
        )
        self.data_manifests, self.delete_manifests = (
            stock.data_manifests,
            stock.delete_manifests,
        )
        self.since_whole, self.left = WHOLE_EVERY, list[_Left]()
        self.log = stock.log
        self.snapshots = _Snapshots()
        for age_ms in stock.ages_ms:
            self.snapshots.add(-age_ms, 1, sizes.snapshot)
        self.maintenance, self.written = 0, 0.0
        self.done: dict[str, float] = {}
        self.retry_at: dict[str, float] = {}
        self.spent: deque[tuple[float, float]] = deque()
        self.spent_ms = 0.0
        self.fewest_deleted = stock.deleted - known.deleted_ratio * stock.rows
        self.fewest_delete_files = stock.delete_files - known.delete_files
        self.fewest_since_cleaned = stock.delete_files - known.new_delete_files
        self.has_left_deletes = known.has_left_deletes
        self._known: Uncompacted | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no snapshot yet."""
        return not self.snapshots.count

    @property
    def is_shared(self) -> bool:
        """Whether other tables may reference its files."""
        return self.terms.is_shared

    @property
    def version(self) -> int:
        """Iceberg's format version."""
        return self.terms.version

    @property
    def has_vectors(self) -> bool:
        """Whether its deletes are deletion vectors: one for each data file, dropped
        when the file is rewritten."""
        return self.terms.version >= DELETION_VECTORS

    @property
    def deletes(self) -> float:
        """The number of delete files that delete live rows, in rewritten and in fresh
        data files."""
        return self.bulk_deletes + self.fresh_deletes

    @property
    def delete_files(self) -> float:
        """The number of all delete files, dangling ones included."""
        return self.bulk_deletes + self.fresh_deletes + self.dangling

    @property
    def manifests(self) -> float:
        """The number of its manifests, of data files and of delete files."""
        return self.data_manifests + self.delete_manifests

    @property
    def uncompacted(self) -> Uncompacted:
        """The small files and deletes added since its data files were last
        rewritten."""
        if self._known is not None:
            return self._known
        delete_files = self.delete_files
        self._known = Uncompacted(
            small_files=self.new_small,
            deleted_ratio=(self.deleted + self.dangling_rows - self.fewest_deleted)
            / max(1.0, self.rows),
            delete_files=delete_files - self.fewest_delete_files,
            new_delete_files=delete_files - self.fewest_since_cleaned,
            has_left_deletes=self.has_left_deletes,
        )
        return self._known

    def since_ms(self, procedure: str) -> float:
        """The time at which a procedure last ran; 0, the beginning, if it never ran."""
        return self.done.get(procedure, 0.0)

    def is_changed_since(self, procedure: str) -> bool:
        """Whether the model has committed since a procedure last ran."""
        return self.now > self.done.get(procedure, -1.0)

    def count_old(self, options: ExpireSnapshots, now_ms: float) -> int:
        """The number of snapshots that an expiry would remove."""
        self.snapshots.grow_older(now_ms, options.older_than.length_ms)
        return self.snapshots.old(options.retain_last, options.most)

    def figures(self) -> tuple[float, ...]:
        """The values of `TableCounts` now, not rounded."""
        return (
            self.large + self.small,
            self.delete_files,
            self.snapshots.count,
            self._metadata_file() + self._list() + self._manifests()
            if self.snapshots.count
            else 0,
        )

    # --- commits of the model

    def commit(self, writes: Writes, times: int) -> None:
        """Simulate `times` commits of the model."""
        terms, files = self.terms, writes.files * times
        self.now += writes.interval_ms * times
        self._known = None
        self.row_bytes, self.commit_bytes = (
            writes.row_bytes,
            writes.rows * writes.row_bytes,
        )
        filtered = (
            self._replace(writes, times)
            if writes.rewrites
            else self._delete(writes, times)
        )
        self._open_partitions(writes, times)
        if not writes.rewrites:
            self._add(files, writes.rows * writes.row_bytes * times, writes.partitions)
            self.rows += writes.rows * times
            self.data_manifests += times
        merged = 0.0
        if terms.merge_manifests and self.data_manifests >= terms.merge_manifests:
            self.data_manifests = 1
            merged = self.sizes.entry * (self.large + self.small)
        self.snapshots.add(self.now, times, self.sizes.snapshot)
        self._log(times)
        made = self.sizes.manifest * (1 + filtered) + self.sizes.entry * (
            writes.files + writes.delete_files
        )
        self.written += times * (self._metadata_file() + self._list() + made) + merged

    def _add(self, files: float, size_bytes: float, partitions: float) -> None:
        """Add new data files, as large or small ones by their size."""
        if size_bytes / files >= SMALL_FILE_SHARE * self.terms.target_bytes:
            self.large += files
            return
        self.small += files
        self.fresh += files
        self.small_bytes += size_bytes
        self.new_small += files / partitions

    def _replace(self, writes: Writes, times: int) -> float:
        """Simulate commits that rewrite every data file in which they delete rows.
        Returns how many manifests each of them filters.

        A manifest stays as long as one of its files does; there is one more for the
        files that the last commit removed.
        """
        filtered = 0.0
        for _ in range(times):
            had = self.large + self.small
            taken = (
                had * (1 - max(0.0, 1 - 1 / had) ** writes.scattered)
                if had and writes.deleted
                else 0.0
            )
            share = taken / had if had else 0.0
            size_bytes = share * (
                self.small_bytes + self.large * self.terms.target_bytes
            )
            self.large, self.small, self.fresh = (
                (1 - share) * count for count in (self.large, self.small, self.fresh)
            )
            self.small_bytes, self.new_small = (
                (1 - share) * self.small_bytes,
                (1 - share) * self.new_small,
            )
            deleted = min(self.rows, writes.deleted)
            self.rows += writes.rows - deleted
            size_bytes = (
                max(size_bytes - deleted * writes.row_bytes, 0.0)
                + writes.rows * writes.row_bytes
            )
            self._add(
                max(writes.files, size_bytes / self.terms.target_bytes),
                size_bytes,
                writes.partitions,
            )
            filtered = share * self.data_manifests
            self.data_manifests = min(
                self.data_manifests + 1, had - taken + 1 + (taken > 0)
            )
        return filtered

    def _open_partitions(self, writes: Writes, times: int) -> None:
        """Account for new partitions: the partitions that were written to before are
        closed, and their files are not rewritten any more."""
        opened = writes.new_partitions * writes.interval_ms * times / DAY_MS
        hot = writes.partitions if opened else max(self.partitions, writes.partitions)
        closed = max(0.0, (self.hot or self.partitions) - hot) + opened
        if closed:
            stays = hot / (hot + closed)
            self.small_bytes *= stays
            self.left = [_Left(each.count * stays, each.size) for each in self.left]
        self.hot = hot
        self.partitions = max(self.partitions, writes.partitions) + opened

    def _delete(self, writes: Writes, times: int) -> float:
        """Simulate the deletes of commits. Returns how many manifests of delete files
        each of them writes.

        A manifest of delete files stays until each of its files has been replaced.
        """
        if not writes.deleted or not self.rows:
            return 0
        self.deleted = min(self.rows, self.deleted + writes.deleted * times)
        if not self.terms.deletes_by_file:
            self.fresh_deletes += writes.partitions * times
            self._add_delete_manifests(times)
            return 1
        live = max(1.0, self.rows - self.deleted)
        bulk = self.large + self.small - self.fresh
        in_fresh = min(live / max(1.0, self.fresh), writes.rows / writes.files)
        in_bulk = max(0.0, live - in_fresh * self.fresh) / max(1.0, bulk)
        kept_fresh, kept_bulk = (
            float((1 - min(1.0, rows / live)) ** writes.scattered)
            for rows in (in_fresh, in_bulk)
        )
        found = self.fresh_deletes + (self.fresh - self.fresh_deletes) * (
            1 - kept_fresh**times
        )
        self.fresh_deletes = min(
            self.fresh, max(found, self.fresh_deletes + writes.delete_files * times)
        )
        self.bulk_deletes += max(0.0, bulk - self.bulk_deletes) * (1 - kept_bulk**times)
        made = self.fresh * (1 - kept_fresh)
        if kept_fresh <= 0 or not made:
            self._add_delete_manifests(times, most=2)
            return self.delete_manifests
        tries = made if made < 1 else math.log(made) + _EULER + 0.5 / made
        lasting = min(tries / -math.log(kept_fresh), self.fresh_deletes)
        self._add_delete_manifests(times, most=1 + lasting)
        # A manifest with many entries surely loses one of them in each commit; its last
        # entry is lost as seldom as any.
        return min(1 + lasting * (2 - kept_fresh) / 2, self.delete_manifests)

    def _add_delete_manifests(self, count: int, most: float = math.inf) -> None:
        self.delete_manifests = min(self.delete_manifests + count, most)
        if (
            self.terms.merge_manifests
            and self.delete_manifests >= self.terms.merge_manifests
        ):
            self.delete_manifests = 1

    # --- maintenance

    def maintain(self, maintenance: Maintained) -> None:
        """Run the tasks that are due, as far as the time budget allows."""
        if self._time_left(maintenance) <= 0:
            return
        may: Sequence[SimulatedTask] = maintenance.tasks
        if self.retry_at:
            may = [
                task
                for task in may
                if self.now >= self.retry_at.get(task.procedure, 0.0)
            ]
        before: SimulatedTask | None = None
        is_done = False
        for task, _ in find_due(may, self, self.now, maintenance.factor):
            is_part_of_last = before is not None and follows(task, before)
            if not is_part_of_last and self._time_left(maintenance) <= 0:
                break
            is_done = self._call(task) or is_done
            before = task
        if is_done:
            self._note()  # when it was done stands in a property of the table

    def _time_left(self, maintenance: Maintained) -> float:
        while self.spent and self.now - self.spent[0][0] >= HOUR_MS:
            self.spent_ms -= self.spent.popleft()[1]
        return time_left_ms(
            ((self.now, self.spent_ms),),
            maintenance.max_time_ratio,
            self.start,
            self.now,
        )

    def _call(self, task: SimulatedTask) -> bool:
        """Run a procedure, and record when it ran and how long it took. Returns whether
        it found something to do."""
        rewritten_bytes = 0.0
        match task.options:
            case RewriteDataFiles() as options:
                if not self._finds_files(options):
                    self.retry_at[task.procedure] = self.now + RETRY_AFTER_MS
                    return False
                rewritten_bytes = self._rewrite(options, task.is_by_time)
            case RewritePositionDeleteFiles():
                self._clean()
            case RewriteManifests():
                self.data_manifests, self.delete_manifests = (
                    1,
                    min(1.0, self.delete_manifests),
                )
                self._commit_maintenance(self._manifests())
            case ExpireSnapshots() as options:
                self.snapshots.expire(self.count_old(options, self.now))
                self._note()
            case RemoveOrphanFiles():
                pass  # files that no version has are in no figure
            case _:
                assert_never(task.options)
        self.done[task.procedure] = self.now
        took_ms = PROCEDURE_MS + rewritten_bytes / BYTES_PER_MS
        self.spent.append((self.now, took_ms))
        self.spent_ms += took_ms
        return True

    def _finds_files(self, rewrite: RewriteDataFiles) -> bool:
        """Whether Iceberg would find enough files to rewrite in a partition."""
        # the new files and the one that the last rewrite has left
        in_partition = min(self.small, self.new_small + 1)
        group = group_files(rewrite, is_whole=self.since_whole >= WHOLE_EVERY)
        return self._takes_all(rewrite) or in_partition >= group

    def _rewrite(self, rewrite: RewriteDataFiles, is_by_time: bool) -> float:
        """Simulate `rewrite_data_files`; returns the bytes that it writes.

        The small files of each partition that is written to become one file, or several
        of the target size, without deletes. Files that earlier rewrites have made
        (`left`) are spared if they are large enough; none is spared in every n-th
        rewrite, or if many rows are deleted.
        """
        target = (
            rewrite.target_file_size.size_bytes
            if rewrite.target_file_size
            else self.terms.target_bytes
        )
        partitions, hot = max(1.0, self.partitions), max(1.0, self.hot)
        kept_bytes = max(0.0, self.small_bytes - self.deleted * self.row_bytes) / hot
        takes_all = self._takes_all(rewrite)
        spared = None
        if not takes_all and not is_by_time:
            spared = spared_bytes(
                rewrite,
                self.terms.target_bytes,
                self.since_whole,
                files=self.new_small,
                partition_bytes=kept_bytes
                - sum(each.count * each.size for each in self.left),
                most_bytes=self.commit_bytes,
            )
        is_whole = spared is None
        left = [
            each for each in self.left if spared is not None and each.size >= spared
        ]
        taken = sum(each.count for each in self.left) - sum(each.count for each in left)
        left_bytes = sum(each.count * each.size for each in left)
        whole, rest = divmod(kept_bytes - left_bytes, target)
        is_large = rest >= SMALL_FILE_SHARE * target
        taken_bytes = hot * (kept_bytes - left_bytes)
        self._drop_deletes(
            1 if takes_all else taken_bytes / max(1.0, self.rows * self.row_bytes)
        )
        is_all = self.since_whole >= WHOLE_EVERY or rewrite.rewrite_all is True
        self.since_whole = 1 if is_all else self.since_whole + 1
        self.large += hot * (whole + is_large)
        self.small = (
            partitions - hot if is_whole else self.small - self.fresh - hot * taken
        )
        self.small += 0 if is_large else hot
        self.left = left if is_large else [*left, _Left(1, rest)]
        self.small_bytes = hot * (left_bytes + (0 if is_large else rest))
        read = self.data_manifests
        self.fresh = self.new_small = 0
        self.data_manifests = 2 if self.large or left else 1
        self._commit_maintenance((read + 1) * self.sizes.manifest)
        return hot * (whole * target + rest)

    def _takes_all(self, rewrite: RewriteDataFiles) -> bool:
        """Whether a rewrite takes files of any size: because of their deletes, or
        because `rewrite_all` is set."""
        if rewrite.rewrite_all is True:
            return True
        is_deleted = self.deleted >= rewrite.delete_ratio_threshold * max(
            1.0, self.rows
        )
        has_many = (
            not self.terms.deletes_by_file
            and self.deletes >= rewrite.delete_file_threshold * self.partitions
        )
        return self.deleted > 0 and (is_deleted or has_many)

    def _clean(self) -> None:
        """Simulate `rewrite_position_delete_files`: one delete file remains for each
        data file with deletes, or for each partition, and none is dangling."""
        if not self.terms.deletes_by_file:
            self.fresh_deletes = min(self.fresh_deletes, max(1.0, self.partitions))
        self.dangling, self.dangling_rows, self.delete_manifests = (
            0,
            0,
            min(1.0, self.deletes),
        )
        self.fewest_deleted = min(self.fewest_deleted, self.deleted)
        self.fewest_delete_files = min(self.fewest_delete_files, self.deletes)
        self.fewest_since_cleaned = self.deletes
        self.has_left_deletes = False
        self._commit_maintenance(self.sizes.manifest)

    def _drop_deletes(self, share: float) -> None:
        """Remove the deletes of the `share` of the table that was rewritten. Unless
        they are deletion vectors, their delete files stay as dangling ones."""
        stays = max(0.0, 1 - share)
        kept = stays * self.bulk_deletes
        dropped_rows = (1 - stays) * self.deleted
        self.rows -= dropped_rows
        if not self.has_vectors:
            self.dangling += self.deletes - kept
            self.dangling_rows += dropped_rows
        self.deleted, self.bulk_deletes, self.fresh_deletes = (
            stays * self.deleted,
            kept,
            0,
        )
        self.fewest_deleted = self.deleted + self.dangling_rows
        self.fewest_delete_files = self.fewest_since_cleaned = self.delete_files
        self.has_left_deletes = self.delete_files > 0
        if self.has_vectors:
            self.delete_manifests = min(1.0, kept)

    # --- metadata

    def _commit_maintenance(self, manifests_bytes: float) -> None:
        self.maintenance += 1
        self.snapshots.add(self.now, 1, min(_MAINTENANCE_SNAPSHOT, self.sizes.snapshot))
        self._note()
        self.written += self._list() + manifests_bytes

    def _note(self) -> None:
        self._log(1)
        self.written += self._metadata_file()

    def _log(self, files: int) -> None:
        self.log = min(self.terms.log, self.log + files)

    def _metadata_file(self) -> float:
        return (
            self.sizes.table
            + self.snapshots.size_bytes
            + self.log * self.sizes.log_entry
        )

    def _list(self) -> float:
        return self.sizes.manifest_list + self.sizes.list_entry * self.manifests

    def _manifests(self) -> float:
        files = self.large + self.small + self.delete_files
        return self.sizes.manifest * self.manifests + self.sizes.entry * files
