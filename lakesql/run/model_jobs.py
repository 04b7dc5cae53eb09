"""What a run does for each of its models: claims its lease, prepares its stream or its
refreshes, and starts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lakesql.catalog.tables import load_table_state
from lakesql.compile.compiled import compiled_files
from lakesql.engine.batch.streaming_query import ModelQuery
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.lease import Leases
from lakesql.engine.refresh.refresh_table import Refresh, RefreshStep
from lakesql.engine.refresh.shared_changes import SharedChanges
from lakesql.engine.spark.failure import explain
from lakesql.engine.spark.session import kill_java, new_session
from lakesql.errors import InternalError, LakesqlError, RunError, TransientError
from lakesql.events import Emit, Noted
from lakesql.graph.manifest import Manifest, reads_model, stored_refs
from lakesql.model.config import AvailableNow
from lakesql.model.group import ModelGroup
from lakesql.names import REBUILD_SUFFIX
from lakesql.run.job import Job, StartJob
from lakesql.run.refresh_job import RefreshJob
from lakesql.run.replacement.rebuilt import finish_rebuild
from lakesql.run.start.analysis import keep_analysis
from lakesql.run.start.context import RunContext
from lakesql.run.start.model_maintenance import open_keeper
from lakesql.run.start.prepare_model import check_progress, prepare_model
from lakesql.run.start.tables_read import check_tables
from lakesql.run.streams.bind import BoundSelect, bind_select
from lakesql.run.streams.found_values import new_members
from lakesql.run.supervise import POLL_S
from lakesql.run.together import (
    GroupRounds,
    Sharing,
    check_whole,
    consistent_group,
    seated_alone,
)

if TYPE_CHECKING:  # what tests seeds needs DuckDB, and a run without tests does not
    from pyspark.sql import SparkSession

    from lakesql.engine.batch.sink import Sink
    from lakesql.run.group_watch import GroupWatch


NOT_KEPT_FRESH = "takes what is there and ends, as its trigger is available_now: this run does not keep it fresh"


@dataclass(frozen=True, slots=True)
class _Started:
    """What a query was started with: its sink, its session, and the number of the lease
    that it was started under."""

    sink: Sink
    session: SparkSession
    lease: int


JobsBy = Callable[["ModelJobs"], StartJob]
"""Makes the function that starts jobs, where a run has other jobs than the models' own
or jobs around `ModelJobs.start_model`."""


@dataclass(frozen=True, slots=True)
class ModelJobs:
    """The jobs of a run, each under its model's lease: streams and refreshes, or what
    `jobs_by` puts in their place.

    `prepared` are the checkpoints that streams have run from, by model; `running` the
    queries of models that rest between two jobs, and `kept` what resting models are
    started again with. `changes` caches the changes of tables that several views read.
    `told` are the models for which it has been reported that they wait for a table, and
    `ended` those that have ended, so that nobody waits for their tables any more.
    """

    context: RunContext
    selects: dict[str, BoundSelect]
    continuous: bool
    leases: Leases
    jobs_by: JobsBy | None = None
    watch: GroupWatch | None = None
    prepared: dict[str, str] = field(default_factory=dict)
    changes: SharedChanges = field(default_factory=SharedChanges)
    running: dict[str, _Started] = field(default_factory=dict)
    kept: dict[str, _Started] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    sharing: Sharing = field(init=False)
    rounds: GroupRounds = field(init=False)

    def __post_init__(self) -> None:
        """Begin without rounds and without cached reads of shared topics."""
        object.__setattr__(self, "sharing", Sharing(self.selects))
        rounds = GroupRounds(
            self.context,
            self._newest_manifest,
            self.continuous,
            self.leases.check,
            self.sharing,
        )
        object.__setattr__(self, "rounds", rounds)

    def start(self, model: str, emit: Emit) -> Job | None:
        """Start the model's job and return it; None while the model waits for a lease
        or for a table."""
        start = self.start_model if self.jobs_by is None else self.jobs_by(self)
        return start(model, emit)

    def start_model(self, model: str, emit: Emit) -> Job | None:
        """Start the model's own job: its stream, or the refreshes of a model over
        tables. Returns None while the model waits for its lease, or for a table that
        another model of the run creates in its first refresh."""
        awaited = self._find_awaited(model) if self.continuous else ""
        if awaited:
            if model not in self.told:
                emit(
                    Noted(
                        f"waits for the table of '{awaited}', which its first refresh makes",
                        model,
                    )
                )
            self.told.add(model)
            return None
        if (
            model in self.selects
            and self.selects[model].select.model.config.reads == "tables"
        ):
            return self.start_refreshes(model, emit)
        return self.start_stream(model, emit)

    def _find_awaited(self, model: str) -> str:
        """A model over tables in this run that the model reads and whose table does not
        exist yet; '' if there is none."""
        if model not in self.selects:
            return ""
        manifest, reader = self._manifest_of(model), self.selects[model].select.model
        read = {found.name for found in stored_refs(manifest, reader)}
        read |= {
            found.name
            for found in reader.facts.streams
            if reads_model(manifest, found.name) is not None
        }
        for name in sorted(read & self.selects.keys() - self.ended):
            other = self.selects[name].select.model
            if (
                other.config.reads == "tables"
                and load_table_state(self.context.catalog, other.table) is None
            ):
                return name
        return ""

    def start_refreshes(
        self, model: str, emit: Emit, *, is_forced: bool = False
    ) -> RefreshJob | None:
        """Start the refreshes of a model over tables, in a session of their own; None
        while it waits for its lease."""
        if not self.claim(model, emit, patient=self.continuous):
            return None
        context = replace(self.context, emit=emit, check_lease=self.leases.check)
        bound = self.selects[model]
        select = bound.select
        check_tables(context.manifest, context.catalog, select)
        continuous = self.continuous and not isinstance(
            select.model.trigger, AvailableNow
        )
        if self.continuous and not continuous:
            emit(Noted(NOT_KEPT_FRESH, model))

        def reach(step: RefreshStep) -> None:
            context.check_lease(model)
            context.reached(model, step)

        refresh = Refresh(
            select, select.query_hash, context.catalog, emit, reach, self.changes
        )
        files = CheckpointFiles(
            context.session, context.manifest.target.checkpoint_of(model)
        )
        keep = partial(keep_analysis, context.manifest, context.catalog, bound, files)
        keeper = open_keeper(context, select) if select.model.config.is_stored else None
        job = RefreshJob(
            refresh, new_session(context.session), keeper, continuous, is_forced, keep
        )
        job.start()
        return job

    def claim(self, model: str, emit: Emit, patient: bool = False) -> bool:
        """Claim the model's lease; whether this runner has it now. Raises what
        `Leases.claim` raises."""
        checkpoint = self.context.manifest.target.checkpoint_of(model)
        return self.leases.claim(
            model, checkpoint, lambda text: emit(Noted(text, model)), patient
        )

    def start_stream(
        self, model: str, emit: Emit, *, alone: bool = False
    ) -> ModelQuery | None:
        """Start the model's query from where its table stands, in a session of its own;
        None while it waits for its lease or its group's.

        Unless `alone`, a model of a group whose tables change together takes its place
        in the group's rounds.
        """
        checkpoint = self.context.manifest.target.checkpoint_of(model)
        group = None if alone else self._together(model)
        if group is not None:
            check_whole(self._newest_manifest(), self.selects)
        if group is not None and not self._claim_group(group, emit):
            return None
        if not self.claim(model, emit, patient=self.continuous):
            return None
        if not alone and (again := self._start_again(model)) is not None:
            return again
        # once: a retry finds no new loss
        accept = self.context.accept_data_loss and model not in self.prepared
        manifest = self._manifest_of(model)
        context = replace(
            self.context,
            manifest=manifest,
            emit=emit,
            check_lease=self.leases.check,
            accept_data_loss=accept,
        )
        session = new_session(context.session)
        # its table has come into a feed since the run began
        if model not in self.selects:
            self.selects[model] = compile_again(model, manifest)
        bound = self.selects[model] = context.current(
            self.selects[model], partial(compile_again, model)
        )
        finish_rebuild(context, bound.select)
        if model in self.prepared:  # its topics may have been made again since
            self.sharing.clear(bound.select.model)
        sink = prepare_model(
            context, session, bound, checkpoint, self.prepared.get(model, "")
        )
        if (
            self.continuous
            and not self.rests(model)
            and isinstance(bound.select.model.trigger, AvailableNow)
        ):
            emit(Noted(NOT_KEPT_FRESH, model))
        if group is not None:
            sink = self.rounds.seated(group, sink, session)
        return self._start_query(_Started(sink, session, self.leases.number(model)))

    def _start_query(self, started: _Started) -> ModelQuery:
        """Start the query over what was prepared. If its model rests between jobs, it
        reads what is there, and what it was started with is kept."""
        sink, session, model = started.sink, started.session, started.sink.model
        rests = self.rests(model.name)
        if sink.seat is None:
            ends_of = self.watch.ends_of if self.watch is not None else None
            sink = seated_alone(
                sink, session, self.context.brokers, ends_of, self.sharing
            )
        query = ModelQuery(sink, takes_files=True, rests=rests)
        self.prepared[model.name] = query.sink.progress.checkpoint
        try:
            query.start(
                session,
                model.trigger if self.continuous and not rests else AvailableNow(),
            )
        except Exception:
            while query.is_active():  # a stateful model's second query did not start
                query.request_stop()
                time.sleep(POLL_S)
            raise
        if rests and sink.seat is not None:
            self.running[model.name] = replace(started, sink=query.sink)
        return query

    def _start_again(self, model: str) -> ModelQuery | None:
        """Start a model that has rested, with what it was prepared with. Returns None
        if that may be outdated: another runner has held the lease meanwhile, or a
        stream has other columns."""
        kept = self.kept.pop(model, None)
        if kept is None or self.leases.number(model) != kept.lease + 1:
            return None
        streams, fields = kept.sink.select.streams, self.context.schema_fields
        if any(
            streams[name].schema_fields != fields[name]
            for name in streams.keys() & fields.keys()
        ):
            return None
        return self._start_query(replace(kept, lease=kept.lease + 1))

    def _together(self, model: str) -> ModelGroup | None:
        """The group that the model belongs to, if the tables of the group change
        together; else None."""
        return consistent_group(self._manifest_of(model), model)

    def _claim_group(self, group: ModelGroup, emit: Emit) -> bool:
        """Claim the lease of a whole group; whether this runner has it. Two runners
        that each held some of its models would wait for each other forever."""
        return self.leases.holds(group.name) or self.claim(
            group.name, emit, patient=self.continuous
        )

    def explain(self, model: str, error: Exception) -> LakesqlError:
        """The error that an exception of the model's job stands for: a lost lease, a
        removed checkpoint or a refusal of its next start if there is one of these, else
        what the exception itself says."""
        if not isinstance(error, LakesqlError) and self.leases.holds(model):
            try:
                self.leases.check(model)
            except RunError as lost:
                if not lost.transient:
                    return lost
        if (
            not isinstance(error, LakesqlError)
            and (gone := self._find_gone(model)) is not None
        ):
            return gone
        if (
            not isinstance(error, LakesqlError)
            and (refusal := self._refusal(model)) is not None
        ):
            return refusal
        if model not in self.selects:  # it could not be compiled
            return (
                error
                if isinstance(error, LakesqlError)
                else InternalError.of_defect(error)
            )
        return explain(error, self.selects[model].select)

    def _find_gone(self, model: str) -> LakesqlError | None:
        """The error (`checkpoint-lost`) if somebody has removed the checkpoint that the
        model runs from; else None."""
        folder = self.context.manifest.target.checkpoint_of(model)
        if (
            model not in self.prepared
            or "metadata" in CheckpointFiles(self.context.session, folder).names()
        ):
            return None
        return TransientError.of(
            "checkpoint-lost",
            f"The checkpoint of model '{model}', {folder}, was removed while the model ran.",
            why="Nothing of the batch is visible to readers.",
            fix="The next try makes a new one where the table's ledger says how far it was, or says what to do.",
        )

    def _refusal(self, model: str) -> LakesqlError | None:
        """The error with which the next start of a model that streams tables would be
        refused, such as after a rebuild or rollback of one; else None."""
        bound = self.selects.get(model)
        if bound is None or all(binding.table is None for binding in bound.bindings):
            return None
        try:
            check_progress(
                self.context, bound, self.context.manifest.target.checkpoint_of(model)
            )
        except LakesqlError as refusal:
            return refusal
        # whatever ails it now, what has ended the query is to be told
        except Exception:
            return None
        return None

    def must_stop(self, model: str) -> RunError | None:
        """The error if the lease of the model, or of its rebuild, has passed to another
        runner; else None."""
        return self.leases.lost(model + REBUILD_SUFFIX) or self.leases.lost(model)

    def is_wanted(self, model: str) -> bool:
        """Whether another process, a rebuild, has asked for the model's lease. While
        this runner rebuilds the model itself, it gives way to nobody."""
        return self.leases.is_wanted(model) and not self.leases.holds(
            model + REBUILD_SUFFIX
        )

    def give_way(self, model: str) -> None:
        """Give the lease back until the rebuild that has asked for it is done."""
        self.leases.give_way(model)

    def rest(self, model: str) -> None:
        """Give the leases back, and keep what the model is to be started again with."""
        started = self.running.get(model)
        self.release(model)
        if started is not None:
            self.kept[model] = started

    def release(self, model: str) -> None:
        """Give the leases back, as the model has ended or rests."""
        self.running.pop(model, None)
        self.ended.add(model)
        if (group := self._together(model)) is not None:
            self.rounds.give_up(group)
        self.leases.release(model + REBUILD_SUFFIX)
        self.leases.release(model)

    def kill(self) -> None:
        """Kill Java, and with it whatever the jobs are doing."""
        kill_java()

    def rests(self, model: str) -> bool:
        """Whether the model, as a member of a watched group, reads what is there and
        then rests until its feed has more."""
        is_watched = self.watch is not None and self.watch.watches(model)
        return is_watched and not self.runs_together(model)

    def runs_together(self, model: str) -> bool:
        """Whether the model belongs to a group whose tables change together, and so
        runs as long as the others of it."""
        return self._together(model) is not None

    def woken(self) -> Sequence[str]:
        """The models whose feeds have brought new records: models of the run, or new
        ones of a group that the run has as a whole."""
        woken = self.watch.take_woken() if self.watch is not None else []
        if self.selects.keys() >= {*woken}:
            return woken
        new = new_members(
            self.context.manifest, self._newest_manifest(), self.selects.keys()
        )
        return [name for name in woken if name in self.selects or name in new]

    def group_of(self, model: str) -> str:
        """The group that the model belongs to if it rests between jobs, of which at
        most the target's `threads` run at once; else ''."""
        return model.partition(".")[0] if self.rests(model) else ""

    def _newest_manifest(self) -> Manifest:
        """The project, including tables that have appeared in feeds since the run
        began."""
        return self.context.manifest if self.watch is None else self.watch.manifest

    def _manifest_of(self, model: str) -> Manifest:
        """The project that has the model: the newest one if its source table has
        appeared in a feed since the run began."""
        if model in self.context.manifest.models or self.watch is None:
            return self.context.manifest
        return self.watch.manifest


def compile_again(model: str, manifest: Manifest) -> BoundSelect:
    """The model, compiled anew in another version of the project. Its compiled file is
    rewritten, so it shows what runs from now on."""
    compiled = compiled_files(manifest)
    compiled.compile([model])
    return bind_select(manifest, compiled.selects([model])[model])
