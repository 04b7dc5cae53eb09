"""Finds out without Java that a run has nothing new to read, by comparing ledgers,
checkpoints and sources.

A model counts as up to date only if a run would do nothing at all for it: read, alter,
maintain, adopt or refuse. Whatever cannot be decided here is left to Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import reduce

from lakesql.catalog.checkpoint_files import open_stored
from lakesql.catalog.connect import check_warehouse
from lakesql.catalog.metadata_text import ReadMetadata, open_metadata, open_views
from lakesql.clock import now_ms
from lakesql.compile.quote import whole_name
from lakesql.compile.select import Select
from lakesql.events import Emit, FilesLeftOut, RunFinished, RunStarted, StreamEmpty
from lakesql.graph.manifest import Manifest
from lakesql.ledger.entry import is_untouched, ledger_tag
from lakesql.ledger.inputs import InputSnapshot, read_inputs, table_of
from lakesql.model.maintenance_tasks import maintenance_tasks, own_tasks
from lakesql.model.model import Model
from lakesql.modes.batches.all_batches import refreshes_of, view_of
from lakesql.names import LEASE_SUFFIX, REBUILD_SUFFIX, VIEW_MODEL
from lakesql.observe.tally import ModelTally, count_model_event
from lakesql.progress.analyzed import read_analyzed
from lakesql.progress.holder import is_released
from lakesql.project.procedures import AT_END, RewriteManifests
from lakesql.project.profiles import Catalog
from lakesql.run.start.analysis import find_analysis, is_comparable
from lakesql.run.start.existing import UNREADABLE, Existing, FindTable
from lakesql.run.start.read_to_end import has_read_all, sources_now
from lakesql.run.streams.bind import BoundSelect, bind_selects
from lakesql.run.streams.stream_notes import empty_streams, left_out_files
from lakesql.table.due import KnownAmounts, find_due, time_left_ms
from lakesql.table.maintenance_record import MaintenanceRecord
from lakesql.table.uncompacted import measure_uncompacted


def report_nothing_new(
    manifest: Manifest,
    selects: Mapping[str, Select],
    open_events: Callable[[], AbstractContextManager[Emit]],
    fail_if_empty: bool = False,
) -> bool:
    """Whether a run that reads what has arrived certainly finds nothing new for any
    model; if so, its events are emitted as well.

    With `fail_if_empty` it is also False if a model's streams have nothing at all, as
    the run then fails. Tables and checkpoints are never changed.
    """
    started, started_ms = time.monotonic(), now_ms()
    try:
        looked = _look_at_all(manifest, selects)
    except UNREADABLE:
        return False  # what is wrong is said by the run itself
    if looked is None or (
        fail_if_empty and any(each.tally.has_nothing for each in looked)
    ):
        return False
    with open_events() as emit:
        emit(RunStarted(manifest.target.name, tuple(selects), False, at_ms=started_ms))
        for each in looked:
            each.tell(emit)
        emit(RunFinished(_since(started), False))
    return True


@dataclass(frozen=True, slots=True)
class UpToDate:
    """A model that has nothing new to read: the events about its streams, how long the
    check took, and the end offset of each partition of its topics."""

    model: str
    said: tuple[StreamEmpty | FilesLeftOut, ...]
    took_ms: int
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def tally(self) -> ModelTally:
        """The tally of the model in a run that finds nothing new."""
        return reduce(count_model_event, self.said, ModelTally(self.model))

    def tell(self, emit: Emit) -> None:
        """Emit the events of a run of the model that finds nothing new."""
        for event in self.said:
            emit(event)
        emit(self.tally.finish("success", self.took_ms, now_ms()))


def find_up_to_date(
    manifest: Manifest, selects: Mapping[str, Select]
) -> dict[str, UpToDate]:
    """The models that certainly have nothing new to read, by name. Returns none if
    reading fails, as the run reports the error."""
    try:
        return {
            each.model: each for each in _look(manifest, selects) if each is not None
        }
    except UNREADABLE:
        return {}


def _look_at_all(
    manifest: Manifest, selects: Mapping[str, Select]
) -> Sequence[UpToDate] | None:
    """The models, if none has anything new; None if one may have."""
    looked: list[UpToDate] = []
    for each in _look(manifest, selects):
        if each is None:
            return None
        looked.append(each)
    return looked


def _look(
    manifest: Manifest, selects: Mapping[str, Select]
) -> Iterator[UpToDate | None]:
    """For each model its `UpToDate`, or None if it may have something new."""
    bound = bind_selects(manifest, selects)
    check_warehouse(manifest.target.catalog)
    streams = {
        each.stream.name: each.stream
        for model in bound.values()
        for each in model.bindings
    }
    catalog = manifest.target.catalog
    found = Existing(
        open_metadata(catalog),
        open_views(catalog),
        manifest.target.connections,
        list(streams.values()),
    )
    for name, each in bound.items():
        started = time.monotonic()
        if not is_comparable(each) or not _has_nothing_to_do(manifest, each, found):
            yield None
            continue
        sources = sources_now(each, found)
        said: tuple[StreamEmpty | FilesLeftOut, ...] = empty_streams(name, sources)
        said += left_out_files(name, sources)
        ends = {
            topic: offsets
            for source in sources
            for topic, offsets in source.ends.items()
        }
        yield UpToDate(name, said, _since(started), ends)


def _has_nothing_to_do(manifest: Manifest, bound: BoundSelect, found: Existing) -> bool:
    target, model = manifest.target, bound.select.model
    folder = target.checkpoint_of(model.name)
    suffixes = ("", LEASE_SUFFIX, REBUILD_SUFFIX)
    files, lease, rebuild = (
        open_stored(target.catalog, folder + suffix) for suffix in suffixes
    )
    if files is None or lease is None or rebuild is None:
        return False
    known = find_analysis(manifest, bound, found.find)
    return (
        is_released(lease)
        and not rebuild.names()
        and known is not None
        and read_analyzed(files) == known
        and not _is_due(model, found.find)
        and _is_right(bound, folder, target.catalog, found)
    )


def _is_right(
    bound: BoundSelect, folder: str, catalog: Catalog, found: Existing
) -> bool:
    """Whether the table or view is up to date with everything that the model reads."""
    if bound.select.model.config.reads == "streams":
        return has_read_all(bound, folder, catalog, found)
    if not bound.select.model.config.is_stored:
        return _is_view_of(bound.select, found.read_view)
    return _is_made_of_newest(bound.select, found.find)


def _is_view_of(select: Select, read: ReadMetadata) -> bool:
    """Whether the catalog has the model's view with the current SELECT."""
    text = read(select.model.table)
    if text is None:
        return False
    view = json.loads(text)
    current = [
        each
        for each in view["versions"]
        if each["version-id"] == view["current-version-id"]
    ]
    said = [
        each["sql"]
        for version in current
        for each in version["representations"]
        if each["dialect"] == "spark"
    ]
    return view["properties"].get(VIEW_MODEL) == select.model.name and said == [
        view_of(select).sql
    ]


def _is_made_of_newest(select: Select, find: FindTable) -> bool:
    """Whether a model over tables was last refreshed with the current SELECT, from the
    newest snapshots and schemas of its inputs."""
    own = find(select.model.table)
    entry = own.metadata.newest_entry(select.model.name) if own is not None else None
    if (
        own is None
        or entry is None
        or entry.query != select.query_hash
        or refreshes_of(select).plan.is_timed
    ):
        return False
    model = select.model.name
    if not is_untouched(own.metadata.ledger(ledger_tag(model)), model):
        return False
    now: dict[str, InputSnapshot] = {}
    for name in map(whole_name, select.query.tables):
        table = find(table_of(name))
        if table is None:
            return False
        head = table.metadata.head
        at_ms = head.at_ms if head is not None else 0
        id_, schema = head.id if head is not None else None, table.metadata.schema.id
        now[name] = InputSnapshot(table.metadata.id, id_, at_ms, schema)
    return read_inputs(entry.inputs) == now


def _is_due(model: Model, find: FindTable) -> bool:
    """Whether maintenance is due at the end of a run, or a run would emit a note that
    it leaves the tables unmaintained."""
    tasks = maintenance_tasks(model)
    if tasks and not own_tasks(model):
        return True
    own, at_ms = find(model.table), now_ms()
    shared = own.metadata.record if own is not None else MaintenanceRecord()
    for name in dict.fromkeys(task.table for task in tasks):
        table = find(name)
        if table is None:
            continue
        metadata = table.metadata
        if metadata.is_left:
            return True
        if (
            time_left_ms(
                shared.spent,
                model.config.maintenance.max_time_ratio,
                metadata.start_ms,
                at_ms,
            )
            <= 0
        ):
            continue
        may = [
            task
            for task in tasks
            if task.table == name and shared.may(task.name, at_ms)
        ]
        is_counted = metadata.manifests is not None
        if not is_counted and any(
            isinstance(task.options, RewriteManifests) for task in may
        ):
            return True
        amounts = KnownAmounts(
            metadata, measure_uncompacted(metadata), metadata.manifests or 0
        )
        if find_due(may, amounts, at_ms, AT_END):
            return True
    return False


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
