"""How a table grows by the commits of a model, with its maintenance and without. Arithmetic alone: nothing is read."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from lakesql.compile.table import DEFAULT_PROPERTIES
from lakesql.model.config import AvailableNow, Every, Trigger
from lakesql.model.model import Model
from lakesql.model.retention import keeps_files
from lakesql.model.upkeep import maintenance_of
from lakesql.model.writing import TASK_RECORDS, build_writing
from lakesql.project.duration import Duration
from lakesql.project.procedures import (
    AT_END,
    BYTES_PER_MS,
    DAY_MS,
    DELETION_VECTORS,
    HOUR_MS,
    LEAST_EXPIRY_MS,
    RESTS_MS,
    SMALL_FILE_SHARE,
    WHOLE_EVERY,
    Maintenance,
    RewriteDataFiles,
    group_files,
    is_by_time,
    scale_thresholds,
    spared_bytes,
)

MOST_STEPS = 200_000
"""Of more commits than these, several are taken as one step."""

PROCEDURE_MS = 1_500.0
"""How long a procedure is taken to run, beside what it takes by the bytes that it rewrites."""

ROWS_PER_SECOND = 100.0
ROW_BYTES = 100.0
BATCH_MS = 2_000.0
RUN_MS = HOUR_MS
"""What is assumed where nobody says or has measured it: rows that arrive, bytes that one takes in a data file, how long
a batch takes, and how often a model with trigger `available_now` is run."""

REPLACED = 0.5
"""Which share of the rows that a model merges is taken to replace stored ones."""

MOST_TASKS = 8
"""In how many tasks a large batch is taken to be written."""

_MAINTENANCE_SNAPSHOT = 950.0
"""Bytes of a snapshot in the metadata file that a procedure has made, whose summary is short."""

_EULER = 0.5772


@dataclass(frozen=True, slots=True)
class Writes:
    """What a commit of a model does to its table, on average.

    `interval_ms` lies between two commits. Each writes `rows` of `row_bytes` bytes, in `files` data files of
    `partitions` partitions, of which `new_partitions` a day are new. It deletes `deleted` stored rows, in as many data
    files as `scattered` rows lie in that are taken at random. It leaves `delete_files` more than there were, at least;
    or it `rewrites` these data files, with the rows in them that stay.
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
    """Bytes of metadata: of the metadata file without its lists, of a snapshot in it and of an earlier file that it
    names, of a manifest list and each manifest in it, of a manifest and each file in it."""

    table: float = 1_420
    snapshot: float = 1_250
    log_entry: float = 166
    manifest_list: float = 4_410
    list_entry: float = 42
    manifest: float = 7_120
    entry: float = 66


MERGE_SNAPSHOT_BYTES = 2_000.0
"""Bytes of a snapshot in the metadata file that a MERGE has made: Spark says more of it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a table's properties say of its growth.

    `target_bytes` are those of data files, `deletes_target_bytes` of delete files. `log` is how many earlier metadata
    files are kept, `merge_manifests` from how many manifests on a commit brings them together, 0 if it never does.
    `deletes_by_file`: a data file has one delete file at most, and another one in its place where more of it is
    deleted; otherwise each commit leaves one in each partition. `is_shared`: other tables may have its files too, so
    that nothing of it expires.
    """

    target_bytes: float = 268_435_456
    deletes_target_bytes: float = 67_108_864
    version: int = 2
    log: int = 100
    merge_manifests: int = 100
    deletes_by_file: bool = True
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Stock:
    """What a table has before the first commit: nothing, if nothing is said.

    `small_files` are those of its data files that a rewrite takes, in `small_partitions` partitions, with `small_bytes`
    in all; `new_small` of them have come to each partition since the last rewrite. `ages_ms` are those of its
    snapshots, the oldest first, which take `snapshot_bytes` each.
    """

    data_files: float = 0
    small_files: float = 0
    small_bytes: float = 0
    small_partitions: float = 0
    new_small: float = 0
    rows: float = 0
    deleted: float = 0
    delete_files: float = 0
    data_manifests: float = 0
    delete_manifests: float = 0
    ages_ms: tuple[float, ...] = ()
    log: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """A table's metadata at one moment, in figures. `metadata_bytes` is what a reader reads to know the files."""

    data_files: int
    delete_files: int
    snapshots: int
    metadata_bytes: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What comes of a table within a time: `end` at its end, `most` at any moment of it.

    `batches` are the model's commits, `upkeep` those of maintenance. `written_bytes` is all metadata that they write.
    """

    batches: int
    upkeep: int
    end: Counts
    most: Counts
    written_bytes: int

    @property
    def commits(self) -> int:
        """All commits."""
        return self.batches + self.upkeep


def grow(
    writes: Writes, terms: Terms, sizes: Sizes, stock: Stock, maintenance: Maintenance | None, span_ms: float
) -> Growth:
    """What commits at a steady rate make of a table within `span_ms`.

    Maintenance is done as soon as it is due and there is time for it, and delays no commit. None, or no procedure in
    it: nobody maintains the table.
    """
    if maintenance is not None:  # files that nobody has are in no figure, and their options have no hash
        maintenance = replace(maintenance, remove_orphan_files=None)
    return _grow(writes, terms, sizes, stock, maintenance, span_ms)


@lru_cache(maxsize=1024)
def _grow(
    writes: Writes, terms: Terms, sizes: Sizes, stock: Stock, maintenance: Maintenance | None, span_ms: float
) -> Growth:
    batches = int(span_ms / writes.interval_ms + 1e-6)
    table = _Table(terms, sizes, stock)
    most = table.figures()
    at_step = max(1, math.ceil(batches / MOST_STEPS))
    done = 0
    while done < batches:
        step = min(at_step, batches - done)
        done += step
        table.commit(writes, step)
        most = tuple(map(max, most, table.figures()))
        if maintenance is not None:
            table.spare_ms = min(
                maintenance.max_time_ratio * HOUR_MS,
                table.spare_ms + maintenance.max_time_ratio * step * writes.interval_ms,
            )
            if table.spare_ms > 0:
                table.maintain(maintenance)
    end = table.figures()
    most = tuple(map(max, most, end))
    return Growth(batches, table.upkeep, Counts(*map(round, end)), Counts(*map(round, most)), round(table.written))


def terms_of(model: Model) -> Terms:
    """The terms of the table that the model's configuration asks for."""
    said = {**DEFAULT_PROPERTIES, **build_writing(model.config).properties, **model.config.properties}
    return read_terms(said)


def read_terms(properties: Mapping[str, str], version: int | None = None) -> Terms:
    """What a table's properties mean; Iceberg's defaults where they say nothing, or nothing that is a number."""
    plain = Terms(target_bytes=536_870_912)
    merges = properties.get("commit.manifest-merge.enabled", "true").lower() != "false"
    return Terms(
        target_bytes=_whole(properties, "write.target-file-size-bytes", int(plain.target_bytes)),
        deletes_target_bytes=_whole(properties, "write.delete.target-file-size-bytes", int(plain.deletes_target_bytes)),
        version=version or _whole(properties, "format-version", plain.version),
        log=_whole(properties, "write.metadata.previous-versions-max", plain.log),
        merge_manifests=_whole(properties, "commit.manifest.min-count-to-merge", 100) if merges else 0,
        deletes_by_file=properties.get("write.delete.granularity") != "partition",
        is_shared=keeps_files(properties),
    )


def sizes_of(model: Model) -> Sizes:
    """What metadata of the model's table takes, where no table says it."""
    merges = build_writing(model.config).is_changing
    return replace(Sizes(), snapshot=MERGE_SNAPSHOT_BYTES) if merges else Sizes()


def assume_writes(model: Model, interval_ms: float, rows_per_second: float, row_bytes: float) -> Writes:
    """What the model's commits do, as far as its configuration tells, and otherwise what is usual."""
    config, writing = model.config, build_writing(model.config)
    rows = rows_per_second * interval_ms / 1000
    partitions, new_partitions = 1.0, 1.0
    for part in config.partition_by:
        if part.transform == "bucket":
            partitions *= part.width or 1
        new_partitions *= _NEW_A_DAY.get(part.transform, 1.0)
    is_timed = any(part.transform in _NEW_A_DAY for part in config.partition_by)
    partitions = max(1.0, min(partitions, rows))
    plain = Writes(interval_ms, rows, row_bytes, partitions=partitions)
    files = commit_files(plain, terms_of(model).target_bytes, is_spread=bool(config.partition_by or writing.keys))
    deleted = REPLACED * rows if writing.is_changing else 0.0
    return replace(
        plain,
        files=files,
        new_partitions=new_partitions * partitions if is_timed else 0.0,
        deleted=deleted,
        scattered=deleted,
        rewrites=writing.is_changing and config.rewrites_files,
    )


_NEW_A_DAY = {"hours": 24.0, "days": 1.0, "months": 1 / 30.4, "years": 1 / 365.25}
"""How many partitions a day rows open that are partitioned by their time, and come in its order."""


def commit_files(writes: Writes, target_bytes: float, *, is_spread: bool) -> float:
    """How many data files a commit has: for each partition one, and one more wherever a file has the target size.

    Where the rows are not brought together by partition or key, each task writes one.
    """
    tasks = 1 if is_spread else min(MOST_TASKS, math.ceil(writes.rows / TASK_RECORDS))
    by_size = math.ceil(writes.rows * writes.row_bytes / writes.partitions / target_bytes) * writes.partitions
    return max(1.0, writes.partitions, by_size, tasks)


def interval_of(trigger: Trigger, rows_per_second: float, batch_ms: float) -> float:
    """How long it is from one commit to the next: no batch begins before the last one ends, or without a row."""
    match trigger:
        case Every(interval_ms=interval_ms):
            every = float(interval_ms)
        case AvailableNow():
            every = RUN_MS
    return max(every, batch_ms, 1000 / rows_per_second)


def falls_behind(trigger: Trigger, rows: float, most_records: int | None) -> bool:
    """Whether more rows come between two batches than one may read. With `available_now` a run takes several."""
    match trigger:
        case Every():
            return most_records is not None and rows > most_records
        case AvailableNow():
            return False


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is known of a model's new table without looking at one: the rest is assumed.

    `maintenance` is None where nobody does it.
    """

    writes: Writes
    terms: Terms
    sizes: Sizes
    maintenance: Maintenance | None


def assume(model: Model) -> Assumed:
    """The model's commits and what becomes of them, by its configuration."""
    interval_ms = interval_of(model.trigger, ROWS_PER_SECOND, BATCH_MS)
    writes = assume_writes(model, interval_ms, ROWS_PER_SECOND, ROW_BYTES)
    return Assumed(writes, terms_of(model), sizes_of(model), maintenance_by(model, model.trigger))


def maintenance_by(model: Model, trigger: Trigger) -> Maintenance | None:
    """How the model's table is maintained under a trigger: at the end of a run a part of each threshold is enough."""
    found = maintenance_of(model)
    if found is None or not isinstance(trigger, AvailableNow):
        return found
    scaled: dict[str, Any] = {name: scale_thresholds(each, AT_END) for name, each in found.procedures.items()}
    return replace(found, **scaled)


def grow_assumed(assumed: Assumed, span_ms: float) -> tuple[Growth, Growth | None]:
    """What comes of a new table within `span_ms`: without maintenance, and with the model's, None if it has none."""
    known = (assumed.writes, assumed.terms, assumed.sizes, Stock())
    kept = grow(*known, assumed.maintenance, span_ms) if assumed.maintenance is not None else None
    return grow(*known, None, span_ms), kept


def _whole(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else default


@dataclass(slots=True)
class _Snapshots:
    """Snapshots by their time, the oldest first, those of a step together.

    No `young` one expires, those that are `grown` do where there are too many, and those that are `aged` by their age.
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
        """It is `now_ms`, and of `aged_ms` on a snapshot is too old."""
        while self.young and self.young[0][0] < now_ms - LEAST_EXPIRY_MS:
            self.grown.append(self.young.popleft())
            self.grown_count += self.grown[-1][1]
        while self.grown and self.grown[0][0] < now_ms - aged_ms:
            self.aged.append(self.grown.popleft())
            self.grown_count -= self.aged[-1][1]
            self.aged_count += self.aged[-1][1]

    def old(self, retained: int, most: int | None) -> int:
        """How many an expiry would remove: those that are too old but for the newest ones, or that are too many."""
        by_age = min(self.aged_count, self.count - retained)
        by_count = 0 if most is None else min(self.aged_count + self.grown_count, self.count - most)
        return max(0, by_age, by_count)

    def expire(self, old: int) -> None:
        """Remove so many of the oldest."""
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
    """Files of one size that a rewrite has made, so many in each partition that is written to, on average."""

    count: float
    size: float


class _Table:
    """A table while it grows."""

    def __init__(self, terms: Terms, sizes: Sizes, stock: Stock) -> None:
        self.terms, self.sizes = terms, sizes
        self.now = 0.0
        self.large = stock.data_files - stock.small_files
        self.small, self.small_bytes = stock.small_files, stock.small_bytes
        self.partitions, self.new_small = stock.small_partitions, stock.new_small
        self.rows, self.deleted = stock.rows, stock.deleted
        self.hot = 0.0
        self.fresh = min(stock.small_files, stock.new_small * stock.small_partitions)
        self.bulk_deletes = min(stock.delete_files, stock.data_files - self.fresh)
        self.fresh_deletes = stock.delete_files - self.bulk_deletes
        self.dangling, self.row_bytes, self.commit_bytes = 0.0, 0.0, 0.0
        self.data_manifests, self.delete_manifests = stock.data_manifests, stock.delete_manifests
        self.since_whole, self.left = WHOLE_EVERY, list[_Left]()
        self.log = stock.log
        self.snapshots = _Snapshots()
        for age_ms in stock.ages_ms:
            self.snapshots.add(-age_ms, 1, sizes.snapshot)
        self.upkeep, self.written, self.spare_ms = 0, 0.0, 0.0
        self.rewrote_at, self.cleaned_at, self.gathered_at, self.expired_at = 0.0, 0.0, 0.0, 0.0
        self.rests_until = 0.0
        self.had_deletes, self.left_deletes, self.left_deleted = stock.delete_files, 0.0, 0.0

    @property
    def deletes(self) -> float:
        """Delete files that delete something: of data files as they were rewritten, and of fresh ones."""
        return self.bulk_deletes + self.fresh_deletes

    def figures(self) -> tuple[float, ...]:
        """The table as it is: what `Counts` has, before it is rounded. Asked after each step."""
        return (
            self.large + self.small,
            self.deletes + self.dangling,
            self.snapshots.count,
            self._metadata_file() + self._list() + self._manifests() if self.snapshots.count else 0,
        )

    def commit(self, writes: Writes, times: int) -> None:
        """So many commits of the model."""
        terms, files = self.terms, writes.files * times
        self.now += writes.interval_ms * times
        self.row_bytes, self.commit_bytes = writes.row_bytes, writes.rows * writes.row_bytes
        filtered = self._replace(writes, times) if writes.rewrites else self._delete(writes, times)
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
        made = self.sizes.manifest * (1 + filtered) + self.sizes.entry * (writes.files + writes.delete_files)
        self.written += times * (self._metadata_file() + self._list() + made) + merged

    def _add(self, files: float, size_bytes: float, partitions: float) -> None:
        """Data files that are new."""
        if size_bytes / files >= SMALL_FILE_SHARE * self.terms.target_bytes:
            self.large += files
            return
        self.small += files
        self.fresh += files
        self.small_bytes += size_bytes
        self.new_small += files / partitions

    def _replace(self, writes: Writes, times: int) -> float:
        """Commits that write each data file anew of which they delete rows; how many manifests each of them filters.

        A manifest stays as long as one of its files does, and one of what the last commit has removed.
        """
        filtered = 0.0
        for _ in range(times):
            had = self.large + self.small
            taken = had * (1 - max(0.0, 1 - 1 / had) ** writes.scattered) if had and writes.deleted else 0.0
            share = taken / had if had else 0.0
            size_bytes = share * (self.small_bytes + self.large * self.terms.target_bytes)
            self.large, self.small, self.fresh = ((1 - share) * count for count in (self.large, self.small, self.fresh))
            self.small_bytes, self.new_small = (1 - share) * self.small_bytes, (1 - share) * self.new_small
            deleted = min(self.rows, writes.deleted)
            self.rows += writes.rows - deleted
            size_bytes = max(size_bytes - deleted * writes.row_bytes, 0.0) + writes.rows * writes.row_bytes
            self._add(max(writes.files, size_bytes / self.terms.target_bytes), size_bytes, writes.partitions)
            filtered = share * self.data_manifests
            self.data_manifests = min(self.data_manifests + 1, had - taken + 1 + (taken > 0))
        return filtered

    def _open_partitions(self, writes: Writes, times: int) -> None:
        """Rows that open new partitions leave the older ones, whose files are not rewritten again."""
        opened = writes.new_partitions * writes.interval_ms * times / DAY_MS
        hot = writes.partitions if opened else max(self.partitions, writes.partitions)
        closed = max(0.0, (self.hot or self.partitions) - hot) + opened
        if closed:
            stays = hot / (hot + closed)
            self.small_bytes *= stays
            self.left = [replace(each, count=each.count * stays) for each in self.left]
        self.hot = hot
        self.partitions = max(self.partitions, writes.partitions) + opened

    def _delete(self, writes: Writes, times: int) -> float:
        """The deletes of commits; how many manifests of delete files each of them writes.

        A manifest of delete files stays until each of these has been replaced.
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
        kept_fresh, kept_bulk = (float((1 - min(1.0, rows / live)) ** writes.scattered) for rows in (in_fresh, in_bulk))
        found = self.fresh_deletes + (self.fresh - self.fresh_deletes) * (1 - kept_fresh**times)
        self.fresh_deletes = min(self.fresh, max(found, self.fresh_deletes + writes.delete_files * times))
        self.bulk_deletes += max(0.0, bulk - self.bulk_deletes) * (1 - kept_bulk**times)
        made = self.fresh * (1 - kept_fresh)
        if kept_fresh <= 0 or not made:
            self._add_delete_manifests(times, most=2)
            return self.delete_manifests
        tries = made if made < 1 else math.log(made) + _EULER + 0.5 / made
        lasting = min(tries / -math.log(kept_fresh), self.fresh_deletes)
        self._add_delete_manifests(times, most=1 + lasting)
        # One with many entries surely loses one of them, its last one is lost as seldom as any.
        return min(1 + lasting * (2 - kept_fresh) / 2, self.delete_manifests)

    def _add_delete_manifests(self, count: int, most: float = math.inf) -> None:
        self.delete_manifests = min(self.delete_manifests + count, most)
        if self.terms.merge_manifests and self.delete_manifests >= self.terms.merge_manifests:
            self.delete_manifests = 1

    def maintain(self, maintenance: Maintenance) -> None:
        """Run what is due."""
        done = 0
        rewrite, deletes = maintenance.rewrite_data_files, maintenance.rewrite_position_delete_files
        has_vectors = self.terms.version >= DELETION_VECTORS
        if rewrite is not None and self.now >= self.rests_until:
            is_time = _is_time(rewrite.trigger, self.now - self.rewrote_at)
            is_due = (
                self.new_small >= rewrite.small_files
                or self.deleted - self.left_deleted >= rewrite.delete_ratio * max(1.0, self.rows)
                or (not has_vectors and self.deletes - self.left_deletes >= rewrite.delete_files)
                or (is_time and (self.new_small > 1 or self.deletes > 0 or rewrite.rewrite_all is True))
            )
            in_partition = min(self.small, self.new_small + 1)  # with the one that the last rewrite has left
            group = group_files(rewrite, is_whole=self.since_whole >= WHOLE_EVERY)
            if is_due and (self._takes_all(rewrite) or in_partition >= group):
                had = self.deletes + self.dangling
                self._rewrite(rewrite, has_vectors)
                done += 1
                if deletes is not None and had and not has_vectors and not is_by_time(deletes):
                    self._clean()
                    done += 1
            elif is_due:
                self.rests_until = self.now + RESTS_MS
        if deletes is not None and not has_vectors:
            count = self.deletes + self.dangling
            is_time = _is_time(deletes.trigger, self.now - self.cleaned_at)
            if count - self.had_deletes >= deletes.delete_files or (is_time and count > 1):
                self._clean()
                done += 1
        manifests = maintenance.rewrite_manifests
        if manifests is not None:
            count = self.data_manifests + self.delete_manifests
            is_time = _is_time(manifests.trigger, self.now - self.gathered_at)
            if count >= max(2, manifests.manifests) or (is_time and count > 1):
                self.data_manifests, self.delete_manifests = 1, min(1.0, self.delete_manifests)
                self.gathered_at = self.now
                self._commit_upkeep(self._manifests())
                done += 1
        expire = maintenance.expire_snapshots
        if expire is not None and not self.terms.is_shared:
            is_time = _is_time(expire.trigger, self.now - self.expired_at)
            self.snapshots.grow_older(self.now, expire.older_than.length_ms)
            old = self.snapshots.old(expire.retain_last, expire.most)
            if old and (is_time or old >= expire.snapshots):
                self.expired_at = self.now
                self.snapshots.expire(old)
                self._note()
                done += 1
        self.spare_ms -= done * PROCEDURE_MS
        if done:  # when it was done stands in a property of the table
            self._note()

    def _rewrite(self, rewrite: RewriteDataFiles, has_vectors: bool) -> None:
        """What is new in each partition becomes a file, or as many of the target size as it takes, without deletes.

        Of the files that earlier rewrites have made, `left` in each partition that is written to, small ones are taken
        in; all of them now and then, or where many rows are deleted.
        """
        target = rewrite.target_file_size.size_bytes if rewrite.target_file_size else self.terms.target_bytes
        partitions, hot = max(1.0, self.partitions), max(1.0, self.hot)
        kept_bytes = max(0.0, self.small_bytes - self.deleted * self.row_bytes) / hot
        takes_all = self._takes_all(rewrite)
        spared = None
        if not takes_all and not is_by_time(rewrite):
            spared = spared_bytes(
                rewrite,
                self.terms.target_bytes,
                self.since_whole,
                files=self.new_small,
                partition_bytes=kept_bytes - sum(each.count * each.size for each in self.left),
                most_bytes=self.commit_bytes,
            )
        is_whole = spared is None
        left = [each for each in self.left if spared is not None and each.size >= spared]
        taken = sum(each.count for each in self.left) - sum(each.count for each in left)
        left_bytes = sum(each.count * each.size for each in left)
        whole, rest = divmod(kept_bytes - left_bytes, target)
        is_large = rest >= SMALL_FILE_SHARE * target
        taken_bytes = hot * (kept_bytes - left_bytes)
        self._drop_deletes(1 if takes_all else taken_bytes / max(1.0, self.rows * self.row_bytes), has_vectors)
        is_all = self.since_whole >= WHOLE_EVERY or rewrite.rewrite_all is True
        self.since_whole = 1 if is_all else self.since_whole + 1
        self.large += hot * (whole + is_large)
        self.small = partitions - hot if is_whole else self.small - self.fresh - hot * taken
        self.small += 0 if is_large else hot
        self.spare_ms -= hot * (whole * target + rest) / BYTES_PER_MS
        self.left = left if is_large else [*left, _Left(1, rest)]
        self.small_bytes = hot * (left_bytes + (0 if is_large else rest))
        read = self.data_manifests
        self.fresh = self.new_small = 0
        self.data_manifests = 2 if self.large or left else 1
        self.rewrote_at = self.now
        self._commit_upkeep((read + 1) * self.sizes.manifest)

    def _takes_all(self, rewrite: RewriteDataFiles) -> bool:
        """Whether a rewrite takes in files however large, for their deletes or as it is told to."""
        is_deleted = self.deleted >= rewrite.delete_ratio_threshold * max(1.0, self.rows)
        has_many = not self.terms.deletes_by_file and self.deletes >= rewrite.delete_file_threshold * self.partitions
        return rewrite.rewrite_all is True or (self.deleted > 0 and (is_deleted or has_many))

    def _clean(self) -> None:
        """Delete files become one for each data file that has some, or for each partition."""
        if not self.terms.deletes_by_file:
            self.fresh_deletes = min(self.fresh_deletes, max(1.0, self.partitions))
        self.dangling, self.delete_manifests, self.cleaned_at = 0, min(1.0, self.deletes), self.now
        self.had_deletes = self.deletes
        self._commit_upkeep(self.sizes.manifest)

    def _drop_deletes(self, share: float, has_vectors: bool) -> None:
        """A rewrite has taken in so much of the table."""
        stays = max(0.0, 1 - share)
        kept = stays * self.bulk_deletes
        self.rows -= (1 - stays) * self.deleted
        self.dangling += 0 if has_vectors else self.deletes - kept
        self.deleted, self.bulk_deletes, self.fresh_deletes = stays * self.deleted, kept, 0
        self.left_deleted, self.left_deletes = self.deleted, kept
        if has_vectors:
            self.delete_manifests = min(1.0, kept)

    def _commit_upkeep(self, manifests_bytes: float) -> None:
        self.upkeep += 1
        self.snapshots.add(self.now, 1, min(_MAINTENANCE_SNAPSHOT, self.sizes.snapshot))
        self._note()
        self.written += self._list() + manifests_bytes

    def _note(self) -> None:
        self._log(1)
        self.written += self._metadata_file()

    def _log(self, files: int) -> None:
        self.log = min(self.terms.log, self.log + files)

    def _metadata_file(self) -> float:
        return self.sizes.table + self.snapshots.size_bytes + self.log * self.sizes.log_entry

    def _list(self) -> float:
        return self.sizes.manifest_list + self.sizes.list_entry * (self.data_manifests + self.delete_manifests)

    def _manifests(self) -> float:
        files = self.large + self.small + self.deletes + self.dangling
        return self.sizes.manifest * (self.data_manifests + self.delete_manifests) + self.sizes.entry * files


def _is_time(trigger: Duration | None, passed_ms: float) -> bool:
    return trigger is not None and passed_ms >= trigger.length_ms
