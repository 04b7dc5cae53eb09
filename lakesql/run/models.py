"""`lakesql run`: runs models in one Spark session, one job per model, in the order in
which models read each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesql.catalog.connect import OpenCatalog, check_checkpoints
from lakesql.clock import now_ms
from lakesql.compile.select import Select
from lakesql.engine.progress.lease import Leases
from lakesql.engine.progress.writer import name_files
from lakesql.engine.spark.session import Opening
from lakesql.events import Emit, Noted, RunFinished, RunStarted, SessionStarted
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.model.config import AvailableNow
from lakesql.model.maintenance_tasks import rewrite_of
from lakesql.model.model import Model
from lakesql.observe.tally import ModelTally
from lakesql.plan.run_health import TableLimits
from lakesql.run.interrupt import Interrupt, catch_signals
from lakesql.run.job import RunOptions
from lakesql.run.model_jobs import JobsBy, ModelJobs, compile_again
from lakesql.run.start.context import RunContext
from lakesql.run.start.nothing_new import UpToDate, find_up_to_date
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.streams.bind import BoundSelect, bind_selects
from lakesql.run.streams.found_values import FoundValues, new_members, tell_found
from lakesql.run.supervise import Supervisor
from lakesql.run.together import check_whole, consistent_group

if TYPE_CHECKING:  # what tests seeds needs DuckDB, and a run without tests does not
    from lakesql.run.group_watch import GroupWatch
    from lakesql.run.seeds_first import SeedsFirst


@dataclass(frozen=True, slots=True)
class Order:
    """What the models of a run wait for in addition to those that they read.

    Models in `waits_for` must have succeeded; those in `after` must have ended,
    whatever their status.
    """

    waits_for: Mapping[str, frozenset[str]] = field(default_factory=dict)
    after: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def within(self, names: frozenset[str]) -> Order:
        """The same order, restricted to a run of these models."""
        waits_for = {
            name: others & names
            for name, others in self.waits_for.items()
            if name in names
        }
        after = {
            name: others & names for name, others in self.after.items() if name in names
        }
        return Order(waits_for, after)


def run_models(
    manifest: Manifest,
    selects: Mapping[str, Select],
    options: RunOptions,
    emit: Emit,
    *,
    jobs_by: JobsBy | None = None,
    first: Callable[[OpenCatalog], None] | None = None,
    order: Order | None = None,
    ahead: Opening | None = None,
    seeds: SeedsFirst | None = None,
    reload: Callable[[], Manifest] | None = None,
) -> bool:
    """Run the models of `selects` until all that has arrived is read, or with
    `continuous` until the run is interrupted. Returns whether no model and no seed
    failed.

    Without `continuous`, at most the target's `threads` models run at once. A model
    that fails transiently is retried as the target's `retries` allows; any other
    failure ends that model alone, and those that wait for it are skipped. `jobs_by`
    replaces the models' own jobs, and `first` is called once the session is open.
    `order` is what models wait for in addition to those that they read, and `ahead` a
    session that is already being opened. `seeds` are filled and tested first, and
    models that read one that failed are skipped. `reload` reads the project again, for
    tables that appear in feeds during the run. Raises `ProjectError` and `ProfileError`
    before anything is started or written.
    """
    if jobs_by is None:
        check_whole(manifest, selects)
    bound = bind_selects(manifest, selects)
    bindings = [binding for each in bound.values() for binding in each.bindings]

    def say(text: str) -> None:
        emit(Noted(text))

    is_shared = not options.continuous
    settings = session_settings(
        manifest, bindings, say, options.is_brief, is_shared=is_shared
    )
    started = time.monotonic()
    ending = tuple(
        name
        for name in selects
        if options.continuous and manifest.models[name].trigger == AvailableNow()
    )
    seed_names = seeds.names if seeds is not None else ()
    emit(
        RunStarted(
            manifest.target.name, tuple(selects), options.continuous, ending, seed_names
        )
    )
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    if seeds is not None:
        seeds.fill(emit)
    with (
        catch_signals() as interrupt,
        open_spark(settings, say, ahead) as (session, catalog),
    ):
        interrupt.arm()  # not before: a SparkContext sets a handler of its own
        emit(SessionStarted(_since(started)))
        if first is not None:
            first(catalog)
        context = RunContext(manifest, session, catalog, emit, options.accept_data_loss)
        skipped = seeds.test(context, tuple(bound), emit) if seeds is not None else {}
        for name, because in skipped.items():
            emit(ModelTally(name).finish("skipped", 0, now_ms(), because=because))
        wanted = {name: each for name, each in bound.items() if name not in skipped}
        succeeded = run_selects(
            context, wanted, options, interrupt, jobs_by, order, reload
        )
        succeeded = succeeded and not (seeds is not None and seeds.failed)
    emit(RunFinished(_since(started), interrupt.is_set()))
    return succeeded


def run_selects(
    context: RunContext,
    selects: Mapping[str, BoundSelect],
    options: RunOptions,
    interrupt: Interrupt,
    jobs_by: JobsBy | None = None,
    order: Order | None = None,
    reload: Callable[[], Manifest] | None = None,
) -> bool:
    """Run the models in a session that is open and stays open, as `run_models` does
    after opening it; returns whether none failed."""
    name_files(context.session, context.manifest.target.checkpoints)
    up_to_date = _find_up_to_date(context, selects) if jobs_by is None else {}
    watch = None
    if options.continuous and jobs_by is None:
        watch = _watch_groups(context, selects, up_to_date, reload)
    elif not options.fail_if_empty:
        for each in up_to_date.values():
            each.tell(context.emit)
        selects = {
            name: each for name, each in selects.items() if name not in up_to_date
        }
    jobs = ModelJobs(
        context,
        dict(selects),
        options.continuous,
        Leases(context.session),
        jobs_by,
        watch,
    )
    order = _order_of(context.manifest, selects, order or Order())
    try:
        resting = frozenset(name for name in up_to_date if jobs.rests(name))
        runs = _supervisor(jobs, selects, options, interrupt).run(
            order.waits_for, order.after, resting
        )
    finally:
        if watch is not None:
            watch.close()
        jobs.rounds.close()
        jobs.leases.close()
        context.brokers.close()
    succeeded = all(run.status != "error" for run in runs.values())
    if not context.found.values or reload is None or interrupt.is_set():
        return succeeded
    known = context.manifest if watch is None else watch.manifest
    names = frozenset(selects) | up_to_date.keys()
    context.found.keep(context.manifest)
    manifest = reload()
    new = (
        new_members(context.manifest, manifest, names)
        if jobs_by is None and not options.continuous
        else ()
    )
    succeeded = (
        tell_found(context.found, context.emit, known, manifest, names, new)
        and succeeded
    )
    if not new:
        return succeeded
    found = replace(context, manifest=manifest, found=FoundValues())
    bound = {name: compile_again(name, manifest) for name in new}
    return run_selects(found, bound, options, interrupt, reload=reload) and succeeded


def _find_up_to_date(
    context: RunContext, selects: Mapping[str, BoundSelect]
) -> dict[str, UpToDate]:
    """The models of groups that certainly have nothing new to read, with what was found
    of their streams."""
    of_groups = {
        name: each.select
        for name, each in selects.items()
        if context.manifest.models[name].member
    }
    if not of_groups:
        return {}
    return _of_whole_groups(
        context.manifest, of_groups, find_up_to_date(context.manifest, of_groups)
    )


def _watch_groups(
    context: RunContext,
    selects: Mapping[str, BoundSelect],
    up_to_date: Mapping[str, UpToDate],
    reload: Callable[[], Manifest] | None,
) -> GroupWatch | None:
    """The started thread that watches the feeds of the models' groups; None if no model
    is in a group."""
    members = [context.manifest.models[name].member for name in selects]
    feeds = {member.feed for member in members if member is not None}
    if not feeds:
        return None
    # imported only here: few projects have a group
    from lakesql.run.group_watch import GroupWatch

    ends = {
        topic: offsets
        for each in up_to_date.values()
        for topic, offsets in each.ends.items()
    }
    watch = GroupWatch(
        context.session,
        context.brokers,
        context.manifest,
        feeds,
        reload,
        context.emit,
        ends,
        context.found,
    )
    watch.start()
    return watch


def _order_of(
    manifest: Manifest, selects: Mapping[str, BoundSelect], order: Order
) -> Order:
    """What each model waits for: the models of the run that it reads, and those in
    `order`."""
    ids = manifest.graph.predecessors_within(node_id("model", name) for name in selects)
    order = order.within(frozenset(selects))
    waits_for = {}
    for name in selects:
        read = frozenset(id_.split(".", 1)[1] for id_ in ids[node_id("model", name)])
        waits_for[name] = read | order.waits_for.get(name, frozenset())
    return replace(order, waits_for=waits_for)


def _supervisor(
    jobs: ModelJobs,
    selects: Mapping[str, BoundSelect],
    options: RunOptions,
    interrupt: Interrupt,
) -> Supervisor:
    manifest = jobs.context.manifest
    return Supervisor(
        jobs=jobs,
        emit=jobs.context.emit,
        retries=manifest.target.retries,
        limit=len(selects) if options.continuous else manifest.target.threads,
        interrupt=interrupt,
        options=options,
        limits={name: _limits_of(manifest.models[name]) for name in selects},
        group_of=jobs.group_of,
        group_limit=manifest.target.threads,
    )


def _limits_of(model: Model) -> TableLimits:
    return TableLimits(model.properties.freshness, rewrite_of(model))


def _of_whole_groups(
    manifest: Manifest,
    selects: Mapping[str, Select],
    up_to_date: Mapping[str, UpToDate],
) -> dict[str, UpToDate]:
    """`up_to_date` without the models of groups whose tables change together and of
    which another model has something new."""
    at_work = selects.keys() - up_to_date.keys()
    groups = {
        group.name
        for name in at_work
        if (group := consistent_group(manifest, name)) is not None
    }
    return {
        name: each
        for name, each in up_to_date.items()
        if name.partition(".")[0] not in groups
    }


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
