"""A run that finds nothing new, without Java: ledger, checkpoint and sources as the files and the catalog have them.

That nothing is new is said only where a run would do nothing at all: read, alter, maintain, take over or refuse.
Whatever cannot be known here is left to Spark.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from importlib.metadata import version
from itertools import permutations

from lakesql import __version__
from lakesql.catalog.checkpoint_files import open_stored
from lakesql.catalog.connect import OpenCatalog, check_warehouse
from lakesql.catalog.metadata_text import ReadMetadata, open_metadata, open_views, read_opened
from lakesql.clock import now_ms
from lakesql.compile.quote import whole_name
from lakesql.compile.select import Select
from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import LakesqlError, Place, first_line
from lakesql.events import Emit, FilesLeftOut, RunFinished, RunStarted, StreamEmpty
from lakesql.graph.manifest import Manifest, read_table, reads_model, stored_refs
from lakesql.ledger.entry import is_untouched, ledger_tag, newest_entry
from lakesql.ledger.inputs import InputSnapshot, read_inputs, table_of
from lakesql.model.maintenance_tasks import maintenance_tasks, own_tasks
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.modes.batches.all_batches import refreshes_of, view_of
from lakesql.names import LEASE_SUFFIX, REBUILD_SUFFIX, VIEW_MODEL
from lakesql.observe.tally import ModelTally, count_model_event
from lakesql.progress.analyzed import Analyzed, WritableFiles, keep_analyzed, read_analyzed, shape_of
from lakesql.progress.decide import decide_all
from lakesql.progress.holder import is_released
from lakesql.progress.state import Checkpoint, Origin, ProgressState, QueryIdentity, Resume, state_of
from lakesql.progress.stored import is_watermark_behind, read_checkpoint
from lakesql.project.cache import digest
from lakesql.project.codec import encode
from lakesql.project.procedures import AT_END, RewriteManifests
from lakesql.project.profiles import Catalog, checkpoint_of
from lakesql.run.bind import BoundSelect, bind_selects
from lakesql.run.identities import hash_of, query_identities
from lakesql.run.topics import read_topics
from lakesql.secrets import find_secrets
from lakesql.source.seen_files import StoredFiles
from lakesql.source.source import Source
from lakesql.source.stream_state import Position, SourceState
from lakesql.stream.stream import Stream
from lakesql.table.due import KnownAmounts, find_due, time_left_ms
from lakesql.table.maintenance_record import MaintenanceRecord
from lakesql.table.metadata import TableMetadata, read_metadata
from lakesql.table.uncompacted import measure_uncompacted

_UNREADABLE = (LakesqlError, ImportError, OSError, ValueError, LookupError, sqlite3.Error)
"""What is raised where something is not as it should be, or not to be read."""

_log = logging.getLogger(__name__)


def report_nothing_new(
    manifest: Manifest,
    selects: Mapping[str, Select],
    open_events: Callable[[], AbstractContextManager[Emit]],
    fail_if_empty: bool = False,
) -> bool:
    """Say that a run that takes what is there finds nothing new for any of the models, if it surely does; whether so.

    Otherwise nothing is said, and with `fail_if_empty` neither where the streams of a model have nothing at all. Tables
    and checkpoints stay as they are either way.
    """
    started, started_ms = time.monotonic(), now_ms()
    try:
        looked = _look_at_all(manifest, selects)
    except _UNREADABLE:
        return False  # what is wrong is said by the run itself
    if looked is None or (fail_if_empty and any(each.tally.has_nothing for each in looked)):
        return False
    with open_events() as emit:
        emit(RunStarted(manifest.target.name, tuple(selects), False, started_ms))
        for each in looked:
            each.tell(emit)
        emit(RunFinished(_since(started), False, now_ms()))
    return True


def empty_streams(model: str, sources: Sequence[SourceState]) -> tuple[StreamEmpty, ...]:
    """What is said of those streams of a model that have nothing to read."""
    others_have = any(not source.nothing for source in sources)
    empty = [source for source in sources if source.nothing]
    return tuple(StreamEmpty(model, source.name, source.nothing, others_have, now_ms()) for source in empty)


def left_out_files(model: str, sources: Sequence[SourceState]) -> tuple[FilesLeftOut, ...]:
    """What is said of those streams of a model of whose files some are not read."""
    return tuple(FilesLeftOut(model, source.name, source.left_out, now_ms()) for source in sources if source.left_out)


def keep_analysis(manifest: Manifest, catalog: OpenCatalog, bound: BoundSelect, files: WritableFiles) -> None:
    """Keep beside the checkpoint that the SELECT was analysed, and that its table takes its rows as both are now."""
    if not _is_comparable(bound):
        return
    try:
        found = _analysis(manifest, bound, _finder(partial(read_opened, catalog)))
    except _UNREADABLE as error:
        _log.warning("The next run of %s asks Spark whatever is new: %s", bound.select.model.name, first_line(error))
        return
    if found is not None:
        keep_analyzed(files, found)


@dataclass(frozen=True, slots=True)
class UpToDate:
    """A model that has nothing new to read: what is said of its streams, what it took to see that, and the offset
    behind the last record of each partition of its topics."""

    model: str
    said: tuple[StreamEmpty | FilesLeftOut, ...]
    took_ms: int
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def tally(self) -> ModelTally:
        """What its run comes to."""
        return reduce(count_model_event, self.said, ModelTally(self.model))

    def tell(self, emit: Emit) -> None:
        """Say that it is done, as a run does that has found nothing new."""
        for event in self.said:
            emit(event)
        emit(self.tally.finish("success", self.took_ms, now_ms()))


@dataclass(frozen=True, slots=True)
class _MetadataTable:
    """A table: its metadata, and the digest of what decides which rows it takes."""

    metadata: TableMetadata
    shape: str


_FindTable = Callable[[TableName], _MetadataTable | None]


class _Existing:
    """What is there. Each table is read once, and each connection is asked once, for all of its streams."""

    def __init__(
        self, read: ReadMetadata, read_view: ReadMetadata, connections: Mapping[str, Source], streams: Sequence[Stream]
    ) -> None:
        self.find = _finder(read)
        """What finds a table of this name, with the digest of what decides which rows it takes."""
        self.read_view = read_view
        """What reads the metadata of a view of this name."""
        self._connections = connections
        self._streams = streams
        self._states: Mapping[str, SourceState] | None = None

    def table(self, name: str) -> TableMetadata | None:
        """The table of this name, if it is there."""
        found = self.find(TableName(*name.split(".")))
        return found.metadata if found is not None else None

    def found(self, stream: str) -> SourceState | None:
        """What its connection says of a stream; None where a topic of it is not to be had."""
        if self._states is None:
            read, _ = read_topics(self._connections, self._streams)
            self._states = {name: each.source for name, each in read.items() if not each.problems}
        return self._states.get(stream)


def _finder(read: ReadMetadata) -> _FindTable:
    """What reads each table once."""

    @cache
    def find(name: TableName) -> _MetadataTable | None:
        text = read(name)
        if text is None:
            return None
        try:
            metadata = json.loads(text)
            return _MetadataTable(read_metadata(metadata), shape_of(metadata))
        except (TypeError, AttributeError) as error:  # a value is of another kind than Iceberg writes
            raise ValueError(f"the metadata of {name} is none of Iceberg's: {error}") from error

    return find


def find_up_to_date(manifest: Manifest, selects: Mapping[str, Select]) -> dict[str, UpToDate]:
    """Those of the models, by their names, of which surely nothing is new. What is wrong is said by the run."""
    try:
        return {each.model: each for each in _look(manifest, selects) if each is not None}
    except _UNREADABLE:
        return {}


def _look_at_all(manifest: Manifest, selects: Mapping[str, Select]) -> Sequence[UpToDate] | None:
    """The models, of each of which nothing is new; None where that is not so of one."""
    looked: list[UpToDate] = []
    for each in _look(manifest, selects):
        if each is None:
            return None
        looked.append(each)
    return looked


def _look(manifest: Manifest, selects: Mapping[str, Select]) -> Iterator[UpToDate | None]:
    """The models one by one; None for one of which something may be new."""
    bound = bind_selects(manifest, selects)
    check_warehouse(manifest.target.catalog)
    streams = {each.stream.name: each.stream for model in bound.values() for each in model.bindings}
    catalog = manifest.target.catalog
    found = _Existing(open_metadata(catalog), open_views(catalog), manifest.target.connections, list(streams.values()))
    for name, each in bound.items():
        started = time.monotonic()
        if not _is_comparable(each) or not _has_nothing_to_do(manifest, each, found):
            yield None
            continue
        sources = _sources(each, found)
        said: tuple[StreamEmpty | FilesLeftOut, ...] = empty_streams(name, sources)
        said += left_out_files(name, sources)
        ends = {topic: offsets for source in sources for topic, offsets in source.ends.items()}
        yield UpToDate(name, said, _since(started), ends)


def _is_comparable(bound: BoundSelect) -> bool:
    """Whether Spark need not be asked what a model would read."""
    return all(binding.source.can_be_seen() for binding in bound.bindings)


def _has_nothing_to_do(manifest: Manifest, bound: BoundSelect, found: _Existing) -> bool:
    target, model = manifest.target, bound.select.model
    folder = checkpoint_of(target, model.name)
    suffixes = ("", LEASE_SUFFIX, REBUILD_SUFFIX)
    files, lease, rebuild = (open_stored(target.catalog, folder + suffix) for suffix in suffixes)
    if files is None or lease is None or rebuild is None:
        return False
    known = _analysis(manifest, bound, found.find)
    return (
        is_released(lease)
        and not rebuild.names()
        and known is not None
        and read_analyzed(files) == known
        and not _is_due(model, found.find)
        and _is_right(bound, folder, target.catalog, found)
    )


def _is_right(bound: BoundSelect, folder: str, catalog: Catalog, found: _Existing) -> bool:
    """Whether the table has all that the model reads, as it is now."""
    if bound.select.model.config.reads == "streams":
        return _has_read_all(bound, folder, catalog, found)
    if not bound.select.model.config.is_stored:
        return _is_view_of(bound.select, found.read_view)
    return _is_made_of_newest(bound.select, found.find)


def _is_view_of(select: Select, read: ReadMetadata) -> bool:
    """Whether the view of a model is there, with the SELECT that the model has now."""
    text = read(select.model.table)
    if text is None:
        return False
    view = json.loads(text)
    current = [each for each in view["versions"] if each["version-id"] == view["current-version-id"]]
    said = [each["sql"] for version in current for each in version["representations"] if each["dialect"] == "spark"]
    return view["properties"].get(VIEW_MODEL) == select.model.name and said == [view_of(select).sql]


def _is_made_of_newest(select: Select, find: _FindTable) -> bool:
    """Whether a table that is made of others is made by this SELECT, of the newest snapshots that these have."""
    own = find(select.model.table)
    entry = own.metadata.newest_entry(select.model.name) if own is not None else None
    if own is None or entry is None or entry.query != hash_of(select) or refreshes_of(select).plan.is_timed:
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
        now[name] = InputSnapshot(table.metadata.id, head.id if head is not None else None, at_ms)
    return read_inputs(entry.inputs) == now


def _analysis(manifest: Manifest, bound: BoundSelect, find: _FindTable) -> Analyzed | None:
    """What is to be as it was when Spark analysed the SELECT; None while one of the tables is not there."""
    select = bound.select
    model, facts = select.model, select.model.facts
    streams = (reads_model(manifest, found.name) for found in facts.streams)
    names = {read_table(manifest, found.name) for found in stored_refs(manifest, model)}
    names |= {model.table} if model.config.is_stored else set()
    names |= {read.table for read in streams if read is not None}
    names |= {model.table.tombstones} if select.writing.retention is not None else set()
    shapes = {str(name): found.shape for name in sorted(names, key=str) if (found := find(name)) is not None}
    target = manifest.target
    decides = (
        select.text,
        str(model.table),
        model.config,
        model.properties,
        select.writing,
        select.checks,
        tuple(replace(each, stream=replace(each.stream, place=Place(""))) for each in bound.bindings),
        (target.name, target.catalog.type, target.catalog.uri, target.catalog.warehouse),
        (target.spark.master, target.spark.conf),
    )
    text = find_secrets(os.environ).redact(json.dumps(encode(decides)))
    said = digest(__version__, version("pyspark"), text)
    return Analyzed(said, shapes) if len(shapes) == len(names) else None


def _has_read_all(bound: BoundSelect, folder: str, catalog: Catalog, found: _Existing) -> bool:
    """Whether each query of a model would continue from its checkpoint, behind all that its streams have."""
    sources = _sources(bound, found)
    if len(sources) < len(bound.bindings):
        return False
    queries = [_read_query(identity, catalog, found, sources) for identity in query_identities(bound.select, folder)]
    there = [query for query in queries if query is not None]
    if len(there) < len(queries):
        return False
    decisions = decide_all([query.state for query in there])
    return all(
        isinstance(decision, Resume) and _is_behind_all(query, bound, found)
        for query, decision in zip(there, decisions, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _FormerQuery:
    """A query that has run before: what it is, its checkpoint with the files of it, and what is compared."""

    identity: QueryIdentity
    files: StoredFiles
    checkpoint: Checkpoint
    origin: Origin
    state: ProgressState


def _read_query(
    identity: QueryIdentity, catalog: Catalog, found: _Existing, sources: Sequence[SourceState]
) -> _FormerQuery | None:
    """A query as its checkpoint and its table have it; None where one of them is not there. That of dead letters may
    be without a table."""
    files, table = open_stored(catalog, identity.folder), found.find(identity.table)
    checkpoint = read_checkpoint(files) if files is not None else None
    if files is None or checkpoint is None or checkpoint.origin is None:
        return None
    if table is None and not identity.is_companion:
        return None
    metadata = table.metadata if table is not None else None
    entry = written = None
    if metadata is not None:
        entry = newest_entry(metadata.ledger(ledger_tag(identity.owner)), identity.owner, metadata.find)
        written = newest_entry(metadata.ledger(), None, metadata.find)
    state = state_of(
        identity,
        sources,
        checkpoint,
        table_id=metadata.id if metadata is not None else "",
        entry=entry,
        has_rows=metadata is not None and metadata.has_rows,
        written=written,
    )
    return _FormerQuery(identity, files, checkpoint, checkpoint.origin, state)


def _is_behind_all(query: _FormerQuery, bound: BoundSelect, found: _Existing) -> bool:
    """Whether a query that resumes has no batch to make: none is planned, and its streams have nothing behind it."""
    checkpoint, origin = query.checkpoint, query.origin
    batch = checkpoint.newest_committed
    positions = checkpoint.positions.get(batch, ())
    return (
        checkpoint.newest_planned == batch
        and (query.identity.is_companion or origin.table_id == query.state.table_id)
        and origin.streams == tuple(source.name for source in query.state.sources)
        and len(positions) == len(bound.bindings)
        and not (query.identity.shape and is_watermark_behind(query.files, batch))
        and _are_read(query, positions, bound.bindings, found)
    )


def _are_read(
    query: _FormerQuery, positions: Sequence[Position], bindings: Sequence[StreamBinding], found: _Existing
) -> bool:
    """Whether no stream has anything behind its position.

    Spark may order the streams of a stateful query otherwise than its FROM does: none has in one order at least.
    """
    if not query.identity.shape:
        return all(
            binding.source.is_read(binding.stream, number, position, query.files, found)
            for number, (binding, position) in enumerate(zip(bindings, positions, strict=True))
        )
    read = [
        [binding.source.is_read(binding.stream, number, position, query.files, found) for binding in bindings]
        for number, position in enumerate(positions)
    ]
    orders = permutations(range(len(bindings)))
    return any(all(read[number][place] for number, place in enumerate(order)) for order in orders)


def _sources(bound: BoundSelect, found: _Existing) -> Sequence[SourceState]:
    """The streams as they are now, without those whose topics are not to be had."""
    states = (binding.source.state_now(binding.stream, found) for binding in bound.bindings)
    return [state for state in states if state is not None]


def _is_due(model: Model, find: _FindTable) -> bool:
    """Whether the end of a run would maintain a table of the model, or say that it does not."""
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
        if time_left_ms(shared.spent, model.config.maintenance.max_time_ratio, metadata.start_ms, at_ms) <= 0:
            continue
        may = [task for task in tasks if task.table == name and shared.may(task.name, at_ms)]
        is_counted = metadata.manifests is not None
        if not is_counted and any(isinstance(task.options, RewriteManifests) for task in may):
            return True
        amounts = KnownAmounts(metadata, measure_uncompacted(metadata), metadata.manifests or 0)
        if find_due(may, amounts, at_ms, AT_END):
            return True
    return False


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
