"""`lakesql rebuild`: fill a model's table again beside the live one, and give the live one its rows in one commit.

The replacement is written by the model's ordinary batches, with a ledger and a checkpoint of its own, so that a rebuild
which broke off continues where it stands. Its last pass is made under the model's own lease, so the table misses
nothing that the live one has.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lakesql.catalog.tables import load_table_state
from lakesql.clock import now_ms
from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.compile.table import TableSpec, build_table_spec, create_table, dead_letter_spec, format_version
from lakesql.engine.batch.analyze import analyze_select, landing_columns
from lakesql.engine.batch.streaming_query import Backlog, ModelQuery
from lakesql.engine.batch.sync_table import declared_columns
from lakesql.engine.ledger.commit import PUBLISH_TRIES, HeadMovedError, conflict
from lakesql.engine.ledger.snapshots import (
    head_of,
    load_table,
    read_entry,
    read_history,
    read_ledger,
    table_exists,
)
from lakesql.engine.ledger.swap import drop_table, fit, lost_partitions, swap
from lakesql.engine.progress.checkpoint import CheckpointFiles, create_checkpoint
from lakesql.engine.progress.inspect import read_sources, read_state
from lakesql.engine.progress.lease import GIVES_WAY_S, LOOK_EVERY_S, Leases
from lakesql.engine.progress.open import id_of, new_origin, seed
from lakesql.engine.progress.taken_files import check_taken, files_read
from lakesql.engine.progress.writer import name_files
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.spark_sources import spark_source
from lakesql.engine.spark.failure import explain, explained
from lakesql.engine.spark.session import new_session
from lakesql.errors import FilesSetAside, Place, RunError, TransientError
from lakesql.events import Emit, Event, Noted, RecordsRejected, StepApplied
from lakesql.ledger.entry import Entry, ledger_tag, summary_of
from lakesql.location import local_folder
from lakesql.model.config import AvailableNow
from lakesql.model.retention import GC_ENABLED
from lakesql.model.table_name import TableName
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import (
    DEAD_LETTER_SUFFIX,
    LEASE_SUFFIX,
    LEDGER_REBUILD,
    LEDGER_REBUILD_VERSION,
    REBUILD_PROPERTY,
    REBUILD_SUFFIX,
)
from lakesql.plan.steps import check_mergeable
from lakesql.progress.state import StartFrom
from lakesql.progress.stored import read_checkpoint
from lakesql.project.profiles import checkpoint_of
from lakesql.run.bind import BoundSelect, bind_select
from lakesql.run.identities import hash_of, query_identities
from lakesql.run.job import Job
from lakesql.run.models import JobsBy, ModelJobs
from lakesql.run.prepare import RunContext, check_tables, prepare_model
from lakesql.run.rebuilt import (
    find_swapped,
    finish_rebuild,
    rebuild_folder,
    set_property,
)
from lakesql.run.spark import open_spark, session_settings
from lakesql.stream.stream import Stream
from lakesql.table.table_state import TableState

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest

RebuildFrom = Literal["start", "earliest"] | int
"""Where a rebuild reads its streams from: where they start, the first record that is there, or a time, in milliseconds
since the epoch."""


def rebuild_jobs(manifest: Manifest, names: Iterable[str], start_at: RebuildFrom, accept_data_loss: bool) -> JobsBy:
    """What rebuilds the models instead of running them; a model that has no table yet is run as ever.

    Raises what `bind_rebuild` raises.
    """
    models = {name: bind_rebuild(manifest, name, start_at) for name in names}

    def start(jobs: ModelJobs, model: str, emit: Emit) -> Job | None:
        context, live = jobs.context, jobs.selects[model]
        if live.select.model.config.reads == "tables":
            return jobs.start_refreshes(model, emit, is_forced=True)
        is_begun = table_exists(context.session, models[model].select.model.table)
        bound = context.current(
            models[model],
            lambda manifest: bind_rebuild(manifest, model, start_at),
            asks=not is_begun,  # one that has begun is continued with the columns that it has
        )
        models[model] = bound
        if not table_exists(context.session, live.select.model.table):
            return jobs.start_stream(model, emit, alone=True)
        leases, claimed = jobs.leases, model + REBUILD_SUFFIX
        if not claim_rebuild(context, leases, model, lambda text: emit(Noted(text, now_ms(), model))):
            return None
        context = replace(context, emit=emit, check_lease=lambda _: leases.check(claimed), accept_data_loss=False)
        rebuild = Rebuild(context, live, bound, leases, start_at, accept_data_loss)
        with explained(bound.select):
            rebuild.begin()
        return rebuild

    return lambda jobs: partial(start, jobs)


def bind_rebuild(manifest: Manifest, name: str, start: RebuildFrom) -> BoundSelect:
    """The model as it fills the table beside its own. Raises what `build_select` raises."""
    model = manifest.models[name]
    models = {**manifest.models, name: replace(model, table=model.table.rebuild)}
    bound = bind_select(manifest, build_select(replace(manifest, models=models), name, is_full_refresh=True))
    if start == "start":
        return bound
    at: Any = start if start == "earliest" else datetime.fromtimestamp(start / 1000, UTC)
    bindings = (replace(binding, stream=replace(binding.stream, start=at)) for binding in bound.bindings)
    return replace(bound, bindings=tuple(bindings))


def claim_rebuild(context: RunContext, leases: Leases, model: str, say: Callable[[str], None]) -> bool:
    """Whether this runner may rebuild the model. Raises `RunError` (`rebuild-under-way`) where another one does."""
    try:
        return leases.claim(model + REBUILD_SUFFIX, rebuild_folder(context, model), say)
    except RunError as error:
        raise RunError.of(
            "rebuild-under-way",
            f"Model '{model}' is being rebuilt by somebody else.",
            why=error.problems[0].what,
            fix="Wait until that is done, or end it: what it has written is kept, and the next rebuild continues it.",
        ) from None


def abandon_rebuilds(
    manifest: Manifest, names: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[str, bool]]:
    """Open Spark, and `abandon_rebuild` of each model."""
    with _opened(manifest, names, "start", say) as (context, bound), closing(Leases(context.session)) as leases:
        for name in names:
            yield name, abandon_rebuild(context, bound[name].select, leases, say)


def preview_rebuilds(
    manifest: Manifest, names: Sequence[str], start_at: RebuildFrom, accept_data_loss: bool, say: Callable[[str], None]
) -> Iterator[tuple[str, str]]:
    """Open Spark, and say of each model what its rebuild would do. Writes nothing; raises what `check_rebuild` does."""
    with _opened(manifest, names, start_at, say) as (context, bound):
        for name in names:
            live = bind_select(manifest, build_select(manifest, name))
            if not live.select.model.config.is_stored:
                yield name, "is a view: it would be put in the place of the one that is there, if that is another"
                continue
            if not table_exists(context.session, live.select.model.table):
                yield name, "has no table yet: it would be run as ever"
                continue
            if live.select.model.config.reads == "tables":
                is_exchanged = live.select.model.config.is_exchanged
                yield name, "would make all rows anew" if is_exchanged else "would keep its versions, and compare them"
                continue
            found = check_rebuild(context, live, bound[name], start_at, accept_data_loss)
            yield name, f"would read {found}"


@contextmanager
def _opened(
    manifest: Manifest, names: Sequence[str], start_at: RebuildFrom, say: Callable[[str], None]
) -> Iterator[tuple[RunContext, Mapping[str, BoundSelect]]]:
    bound = {name: bind_rebuild(manifest, name, start_at) for name in names}
    bindings = [binding for each in bound.values() for binding in each.bindings]

    def hear(event: Event) -> None:
        if isinstance(event, Noted):
            say(f"{event.model}: {event.text}")

    with open_spark(session_settings(manifest, bindings, say), say) as (session, catalog):
        name_files(session, manifest.target.checkpoints)
        context = RunContext(manifest, session, catalog, hear)
        with closing(context.brokers):
            yield context, bound


def abandon_rebuild(context: RunContext, select: Select, leases: Leases, say: Callable[[str], None]) -> bool:
    """Remove what a rebuild has begun, whether there was something. One that is past its swap is finished instead."""
    session, table = context.session, select.model.table.rebuild
    folder = rebuild_folder(context, select.model.name)
    while not claim_rebuild(context, leases, select.model.name, say):
        time.sleep(LOOK_EVERY_S)
    if find_swapped(context, select):
        while not leases.claim(select.model.name, checkpoint_of(context.manifest.target, select.model.name), say):
            time.sleep(LOOK_EVERY_S)
        finish_rebuild(context, select)
        say(f"{select.model.name}: its rebuild has replaced the rows already, and is finished now")
        return True
    is_there = table_exists(session, table)
    for name in (*table.beside, table):
        if not table_exists(session, name):
            continue
        if REBUILD_PROPERTY not in load_table(session, table).properties():
            raise _foreign(table)
        if load_table(session, name).properties().get(GC_ENABLED) == "false":
            set_property(session, name, GC_ENABLED, "true")
        drop_table(session, name)
    for suffix in (DEAD_LETTER_SUFFIX, "", LEASE_SUFFIX):
        files = CheckpointFiles(session, folder + suffix)
        is_there = is_there or (suffix == "" and bool(files.names()))
        files.remove_all()
    return is_there


def check_rebuild(
    context: RunContext, live: BoundSelect, bound: BoundSelect, start_at: RebuildFrom, accept_data_loss: bool
) -> str:
    """How much is to be read, in words. Raises `RunError`: `rebuild-impossible`, `data-lost`, `no-space`."""
    name = live.select.model.name
    latest = [b.stream for b in bound.bindings if b.source.looks_up_start and b.stream.start == "latest"]
    if latest:
        raise RunError.of(
            "rebuild-impossible",
            f"Stream '{latest[0].name}' starts at `latest`: model '{name}' would begin with nothing.",
            fix=f"Say where: lakesql rebuild {name} --from earliest, or --from 2026-01-31T12:00:00Z",
        )
    unplaced = [b.stream for b in bound.bindings if not b.source.has_times]
    if unplaced and isinstance(start_at, int):
        raise RunError.of(
            "rebuild-impossible",
            f"Stream '{unplaced[0].name}' of model '{name}' is a table or a generator, and has no times to begin at.",
            fix=f"Read all of it: lakesql rebuild {name}",
        )
    if not accept_data_loss:
        check_files(context, live)
    sources = read_sources(context.session, context.brokers, bound.bindings)
    files = CheckpointFiles(context.session, checkpoint_of(context.manifest.target, name))
    gone: list[str] = []
    said: list[str] = []
    for binding, source in zip(bound.bindings, sources, strict=True):
        seen = partial(files_read, files, binding.stream.name)
        missing, there = spark_source(binding.source).holdings(context.session, binding, source, seen)
        said.append(f"{there} of stream '{source.name}'")
        if not isinstance(binding.stream.start, datetime):
            gone += missing
    if gone and not accept_data_loss:
        more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        raise RunError.of(
            "data-lost",
            f"The streams of model '{name}' do not hold their start any more: {', '.join(gone[:SHOWN])}{more}.",
            why="The table has rows of records that are gone, and would be without them.",
            fix="Bring them back if there is a copy, or take what is there: lakesql rebuild "
            f"{name} --accept-data-loss. Until snapshots expire, the rows of before can be read by time travel.",
        )
    _check_space(context, live)
    return ", ".join(said)


def check_files(context: RunContext, live: BoundSelect) -> None:
    """Raise `RunError` (`files-taken`) where files of the live table were moved or deleted as its streams say."""
    model = live.select.model
    files = CheckpointFiles(context.session, checkpoint_of(context.manifest.target, model.name))
    for binding in live.bindings:
        check_taken(context.session, model.name, binding, files_read(files, binding.stream.name))


SHOWN = 5
"""How many missing things are named."""


def _check_space(context: RunContext, live: BoundSelect) -> None:
    """Whether the disk takes the table once more. Only a disk of this machine says how much is left."""
    table = load_table(context.session, live.select.model.table)
    folder = local_folder(str(table.location()))
    head = next(read_history(table), None)
    if folder is None or head is None or not folder.exists():
        return
    needed, free = int(head.summary.get("total-files-size", 0)), shutil.disk_usage(folder).free
    if needed > free:
        raise RunError.of(
            "no-space",
            f"Table {live.select.model.table} has {needed // 1_000_000:,} MB, and its disk has "
            f"{free // 1_000_000:,} MB left.",
            why="A rebuild writes the table once more before the old rows can go.",
            fix="Make room, or drop what nobody reads: lakesql ls --orphans",
        )


def _contract(binding: StreamBinding) -> tuple[Stream, str]:
    """What a project says of how a stream's records become rows. Columns that it does not declare are found."""
    stream = binding.stream
    is_declared = not stream.is_open and binding.table is None
    said = replace(
        stream,
        description="",
        key=stream.key if stream.names_key else (),
        columns=tuple(replace(column, description="", sensitive=None) for column in stream.columns if is_declared),
        schema_fields=(),
        max_per_batch=None,
        after="leave",
        archive="",
        place=Place("", 1, 1),
    )
    return said, binding.schema


def _emit(emit: Emit, letters: str, event: Event) -> None:
    """Tell an event; of dead letters with the table that will have them."""
    emit(replace(event, table=letters, location="") if isinstance(event, RecordsRejected) else event)


def _foreign(table: TableName) -> RunError:
    return RunError.of(
        "rebuild-outdated",
        f"There is a table {table}, which no rebuild has made.",
        why="A rebuild fills a table of this name, beside the live one.",
        fix="Rename that table, or drop it.",
    )


def _broken(model: str, error: RunError) -> RunError:
    """An error of what was begun, whose own remedy is for the live table."""
    first = error.problems[0]
    begin = f"To begin again: lakesql rebuild {model} --abandon, then lakesql rebuild {model}"
    return RunError([replace(first, what=f"In the rebuild of model '{model}': {first.what}", fix=begin)])


WANTS_AGAIN_S = 3 * GIVES_WAY_S
"""How long after it a runner is asked for its lease again."""

Stage = Literal["fill", "hand over", "catch up", "swapped"]


class Rebuild:
    """The rebuild of one model: a query that fills the table, one more that catches up, and the swap."""

    def __init__(
        self,
        context: RunContext,
        live: BoundSelect,
        bound: BoundSelect,
        leases: Leases,
        start_at: RebuildFrom,
        accept_data_loss: bool,
    ) -> None:
        self.context = context
        self.stage: Stage = "fill"
        self._live = live
        self._bound = bound
        self._leases = leases
        self._start_at = start_at
        self._accept_data_loss = accept_data_loss
        self._query: ModelQuery | None = None
        self._failure: Exception | None = None
        self._is_stopping = False
        self._tries = 0
        self._head: int | None = None
        self._wanted_at = 0.0
        self._was_another = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self._live.select.model.name

    def begin(self) -> None:
        """Check what can be known before anything is written, and start to fill the table."""
        if swapped := find_swapped(self.context, self._live.select):
            self._say("its last rebuild broke off after the swap: it is finished now")
            self._was_another = self._is_another(swapped)
            return
        if self._has_begun():
            self._say("its rebuild, which broke off, is continued")
        else:
            found = check_rebuild(self.context, self._live, self._bound, self._start_at, self._accept_data_loss)
            self._say(f"is rebuilt beside its table, which stays as it is until then: reads {found}")
        self._make_tables()
        self._start()

    def step(self) -> None:
        """Once the query has ended, take the steps up to the next one: ask for the lease, catch up, swap."""
        try:
            while self._failure is None and not self._is_filling():
                if not self._advance():
                    break
        except Exception as error:  # whatever it was, it ends this model alone
            self._failure = error

    def is_active(self) -> bool:
        """Whether it is not over: neither has it failed, nor are the tables swapped."""
        return self._is_filling() or (self._failure is None and self.stage != "swapped")

    def error(self) -> Exception | None:
        """Why it has failed, in the words of the model that fills the table."""
        raised = self._failure or (self._query.error() if self._query is not None else None)
        if raised is None or isinstance(raised, FilesSetAside):
            return raised
        return explain(raised, self._bound.select)

    def _is_filling(self) -> bool:
        """Whether a query runs that writes to the table beside the live one."""
        return self._query is not None and self._query.is_active()

    def request_stop(self) -> None:
        """Let the batch that is being written finish, and begin no other."""
        self._is_stopping = True
        if self._query is not None:
            self._query.request_stop()

    def was_stopped(self) -> bool:
        """A rebuild that was stopped before its swap has failed (`rebuild-under-way`); one that is over is whole."""
        return False

    def progress(self) -> tuple[float, Backlog]:
        """Records per second of the last batch, and the backlog."""
        return self._query.progress() if self._query is not None else (0.0, Backlog(None, "records", is_busy=True))

    def _advance(self) -> bool:
        """Take the next step; False where there is nothing to do at the moment."""
        if self._query is not None and (error := self._query.error()) is not None:
            raise error
        if self.stage == "swapped":
            return False
        if self._is_stopping:
            raise TransientError.of(
                "rebuild-under-way",
                f"The rebuild of model '{self.name}' has been stopped.",
                fix=f"To continue it: lakesql rebuild {self.name}",
            )
        folder = checkpoint_of(self.context.manifest.target, self.name)
        match self.stage:
            case "fill":
                self.stage = "hand over"
                self.context.reached(self.name, "hand-over")
                self._want(folder)
                return True
            case "hand over":
                if time.monotonic() - self._wanted_at > WANTS_AGAIN_S:
                    self._want(folder)
                if not self._leases.claim(self.name, folder, self._say, patient=True):
                    return False
                self._leases.unwant(folder)
                if finish_rebuild(self.context, self._live.select):
                    self.stage = "swapped"
                    if self._was_another:
                        self.stage = "fill"
                        self._leases.release(self.name)
                        self.begin()
                    return True
                self.stage = "catch up"
                self._start()
                return True
            case "catch up":
                self._swap()
                return True

    def _want(self, folder: str) -> None:
        """Ask the model's runner, if there is one, for the lease. One that was not answered in time forgets it."""
        self._wanted_at = time.monotonic()
        self._leases.want(folder)

    def _start(self) -> None:
        table = self._live.select.model.table
        self._head = head_of(load_table(self.context.session, table))
        session = new_session(self.context.session)
        try:
            sink = prepare_model(self.context, session, self._bound, rebuild_folder(self.context, self.name))
        except TransientError:
            raise
        except RunError as error:
            raise _broken(self.name, error) from None
        if not self._accept_data_loss:
            check_files(self.context, self._live)  # again: from now on nobody moves any
        self._query = ModelQuery(replace(sink, keeper=None))  # the files of a replacement become the table's
        self._query.start(session, AvailableNow())

    def _swap(self) -> None:
        session, model, bound = self.context.session, self._live.select.model, self._bound.select
        self.context.reached(self.name, "swap")
        self._leases.check(self.name)
        if not table_exists(session, bound.model.table.dead_letter):  # those that the live table has got since go too
            self._make_dead_letters(model.table)
        checkpoint = read_checkpoint(CheckpointFiles(session, rebuild_folder(self.context, self.name)))
        assert checkpoint is not None
        set_property(session, bound.model.table, GC_ENABLED, "false")
        live, replacement = load_table(session, model.table), load_table(session, bound.model.table)
        mode, keys = bound.writing.mode, batches_of(bound).identity
        entry = read_entry(replacement, self.name) or Entry(
            self.name, checkpoint.id, -1, "{}", hash_of(bound), bound.query.state, mode=mode, keys=keys
        )
        summary = {**summary_of(entry), LEDGER_REBUILD: checkpoint.id, LEDGER_REBUILD_VERSION: self._version()}
        try:
            swap(live, replacement, self._spec(self._columns()), summary, self.name, self._head)
        except HeadMovedError:
            self._tries += 1
            if self._tries >= PUBLISH_TRIES:
                raise conflict(model.table) from None
            set_property(session, bound.model.table, GC_ENABLED, "true")
            self._say("somebody has written to its table meanwhile: reads on before the swap")
            self._start()
            return
        self.context.emit(StepApplied(self.name, f"swap in the rows of {bound.model.table}", now_ms()))
        self.context.reached(self.name, "finish-rebuild")
        finish_rebuild(self.context, self._live.select)
        self.stage = "swapped"

    def _is_another(self, checkpoint: str) -> bool:
        """Whether the rows that a rebuild from this checkpoint has given the table are of another version."""
        live = load_table(self.context.session, self._live.select.model.table)
        swaps = (each.summary for each in read_ledger(live, (ledger_tag(self.name),)))
        swaps = (summary for summary in swaps if summary.get(LEDGER_REBUILD) == checkpoint)
        return next(swaps, {}).get(LEDGER_REBUILD_VERSION) != self._version()

    def _has_begun(self) -> bool:
        """Whether there is a batch in the table that is filled: its streams have been read from their start then."""
        table = self._bound.select.model.table
        return (
            table_exists(self.context.session, table) and head_of(load_table(self.context.session, table)) is not None
        )

    def _make_tables(self) -> None:
        """The table that is filled, and the one of its dead letters, as the live ones will be; once."""
        session, model = self.context.session, self._bound.select.model
        live = self._live.select.model.table
        check_tables(self.context.manifest, self.context.catalog, self._bound.select)
        version = self._version()
        state = load_table_state(self.context.catalog, model.table)
        if state is not None and state.properties.get(REBUILD_PROPERTY, version) != version:
            raise RunError.of(
                "rebuild-outdated",
                f"A rebuild of model '{self.name}' has been begun for another version of it, or from another start.",
                fix=f"To begin again: lakesql rebuild {self.name} --abandon, then lakesql rebuild {self.name}",
            )
        if state is not None and REBUILD_PROPERTY not in state.properties:
            raise _foreign(model.table)
        spec = self._spec(self._columns())
        changes_rows = bool(batches_of(self._bound.select).identity)
        if changes_rows:
            check_mergeable(self.name, self._live_state())
        lost = lost_partitions(load_table(session, live), spec) if changes_rows else []
        if lost:
            raise RunError.of(
                "rebuild-impossible",
                f"Table {live} is or was partitioned by {', '.join(lost)}, which model '{self.name}' leaves out or "
                "gives another type.",
                why="Iceberg cannot merge into a table that has lost such a column.",
                fix="Keep the column as it is, as a CAST of NULL if it has no values any more, and give a new one "
                f"another name. Or: lakesql drop {self.name}, then lakesql run --select {self.name}",
            )
        if state is None:
            more = {**self._placed(live), REBUILD_PROPERTY: version}
            bare = replace(spec, partition_by=(), order_by=(), properties={**spec.properties, **more})
            for statement in create_table(bare):
                session.sql(statement)
            self.context.emit(StepApplied(self.name, f"create table {model.table}, to be filled", now_ms()))
        replacement = load_table(session, model.table)
        if head_of(replacement) is None:
            fit(load_table(session, live), replacement, spec)
            self._make_dead_letters(live)
            self._make_checkpoints()
        elif replacement.properties().get(GC_ENABLED) == "false":
            set_property(session, model.table, GC_ENABLED, "true")

    def _make_dead_letters(self, live: TableName) -> None:
        session = self.context.session
        if not table_exists(session, live.dead_letter):
            return
        spec = dead_letter_spec(live.rebuild)
        if not table_exists(session, spec.name):
            more = {**spec.properties, **self._placed(live.dead_letter)}
            for statement in create_table(replace(spec, partition_by=(), properties=more)):
                session.sql(statement)
        fit(load_table(session, live.dead_letter), load_table(session, spec.name), spec)

    def _make_checkpoints(self) -> None:
        """Where it is to read from a time on, the checkpoints say so: plain files need a list of those before."""
        if not isinstance(self._start_at, int):
            return
        session, bindings = self.context.session, self._bound.bindings
        sources = read_sources(session, self.context.brokers, bindings)
        for identity in query_identities(self._bound.select, rebuild_folder(self.context, self.name)):
            files = CheckpointFiles(session, identity.folder)
            state = read_state(session, identity, sources)
            if state.checkpoint is None:
                start = StartFrom({}, None, "", self._start_at)
                now = new_origin(state, id_of(session, identity.table))
                create_checkpoint(files, *seed(session, start, now, bindings, files, None))

    def _placed(self, live: TableName) -> dict[str, str]:
        """Properties that put the files of a table where the live one's are."""
        table = load_table(self.context.session, live)
        properties = table.properties()
        data = properties.get("write.data.path") or f"{str(table.location()).rstrip('/')}/data"
        return {"write.data.path": str(data)}

    def _columns(self) -> Any:
        select = self._bound.select
        if "this" in select.model.facts.reads and not table_exists(self.context.session, select.model.table):
            return declared_columns(select)
        schema = analyze_select(new_session(self.context.session), select, self._bound.bindings)
        return landing_columns(schema, select.model.properties)

    def _spec(self, columns: Any) -> TableSpec:
        """What the model wants of its table, in no older format than the live one has."""
        model = self._bound.select.model
        spec = build_table_spec(model.table, columns, model.config, model.properties.description)
        version = max(int(self._live_state().properties["format-version"]), format_version(spec.properties))
        return replace(spec, properties={**spec.properties, "format-version": str(version)})

    def _live_state(self) -> TableState:
        live = load_table_state(self.context.catalog, self._live.select.model.table)
        assert live is not None
        return live

    def _version(self) -> str:
        """What decides the rows of the table that is filled: by anything else it would be another table."""
        select = self._bound.select
        live = load_table(self.context.session, self._live.select.model.table)
        checks = [(check.name, check.column, check.condition, check.on_fail) for check in select.checks]
        streams = [_contract(binding) for binding in self._bound.bindings]
        made = repr((select.text, select.model.config, checks, streams, self._start_at, str(live.uuid())))
        return hashlib.sha256(made.encode()).hexdigest()[:16]

    def _say(self, text: str) -> None:
        self.context.emit(Noted(text, now_ms(), self.name))
