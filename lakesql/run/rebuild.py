"""`lakesql rebuild`: fills a model's table anew beside the live one, and replaces the
live rows in one commit.

The model's ordinary batches fill the replacement, with a ledger and a checkpoint of its
own, so that an interrupted rebuild continues where it stopped. The last of them run
under the model's own lease, so that no row of the live table is missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.engine.ledger.snapshots import load_table, table_exists
from lakesql.engine.ledger.swap import drop_table
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases
from lakesql.engine.progress.writer import name_files
from lakesql.engine.spark.failure import explained
from lakesql.errors import RunError
from lakesql.events import Emit, Event, Noted
from lakesql.model.retention import GC_ENABLED
from lakesql.names import (
    DEAD_LETTER_SUFFIX,
    LEASE_SUFFIX,
    REBUILD_PROPERTY,
    REBUILD_SUFFIX,
)
from lakesql.run.job import Job
from lakesql.run.model_jobs import JobsBy, ModelJobs
from lakesql.run.replacement.check_rebuild import check_rebuild
from lakesql.run.replacement.rebuild_job import Rebuild
from lakesql.run.replacement.rebuilt import (
    find_swapped,
    finish_rebuild,
    rebuild_folder,
    set_property,
)
from lakesql.run.replacement.replacement_table import (
    RebuildFrom,
    bind_rebuild,
    foreign_table,
)
from lakesql.run.start.context import RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.streams.bind import BoundSelect, bind_select

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest


def rebuild_jobs(
    manifest: Manifest,
    names: Iterable[str],
    start_at: RebuildFrom,
    accept_data_loss: bool,
) -> JobsBy:
    """The jobs that rebuild the models. A model without a table is run as usual, and
    one over tables is refreshed in full.

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
            # a rebuild that has begun continues with the columns that it has
            asks=not is_begun,
        )
        models[model] = bound
        if not table_exists(context.session, live.select.model.table):
            return jobs.start_stream(model, emit, alone=True)
        leases, claimed = jobs.leases, model + REBUILD_SUFFIX
        if not claim_rebuild(
            context, leases, model, lambda text: emit(Noted(text, model))
        ):
            return None
        context = replace(
            context,
            emit=emit,
            check_lease=lambda _: leases.check(claimed),
            accept_data_loss=False,
        )
        rebuild = Rebuild(context, live, bound, leases, start_at, accept_data_loss)
        with explained(bound.select):
            rebuild.begin()
        return rebuild

    return lambda jobs: partial(start, jobs)


def claim_rebuild(
    context: RunContext, leases: Leases, model: str, say: Callable[[str], None]
) -> bool:
    """Claim the lease of the model's rebuild; whether this runner has it now. Raises
    `RunError` (`rebuild-under-way`) if another runner rebuilds the model."""
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
    """Open Spark and abandon the rebuild of each model; yields the model's name and
    whether there was one."""
    with (
        _opened(manifest, names, "start", say) as (context, bound),
        closing(Leases(context.session)) as leases,
    ):
        for name in names:
            yield name, abandon_rebuild(context, bound[name].select, leases, say)


def preview_rebuilds(
    manifest: Manifest,
    names: Sequence[str],
    start_at: RebuildFrom,
    accept_data_loss: bool,
    say: Callable[[str], None],
) -> Iterator[tuple[str, str]]:
    """Open Spark and describe what the rebuild of each model would do; yields the
    model's name and a text. Writes nothing; raises what `check_rebuild` raises."""
    with _opened(manifest, names, start_at, say) as (context, bound):
        for name in names:
            live = bind_select(manifest, build_select(manifest, name))
            if not live.select.model.config.is_stored:
                yield (
                    name,
                    "is a view: it would be put in the place of the one that is there, if that is another",
                )
                continue
            if not table_exists(context.session, live.select.model.table):
                yield name, "has no table yet: it would be run as ever"
                continue
            if live.select.model.config.reads == "tables":
                is_exchanged = live.select.model.config.is_exchanged
                yield (
                    name,
                    "would make all rows anew"
                    if is_exchanged
                    else "would keep its versions, and compare them",
                )
                continue
            found = check_rebuild(
                context, live, bound[name], start_at, accept_data_loss
            )
            yield name, f"would read {found}"


@contextmanager
def _opened(
    manifest: Manifest,
    names: Sequence[str],
    start_at: RebuildFrom,
    say: Callable[[str], None],
) -> Iterator[tuple[RunContext, Mapping[str, BoundSelect]]]:
    bound = {name: bind_rebuild(manifest, name, start_at) for name in names}
    bindings = [binding for each in bound.values() for binding in each.bindings]

    def hear(event: Event) -> None:
        if isinstance(event, Noted):
            say(f"{event.model}: {event.text}")

    with open_spark(session_settings(manifest, bindings, say), say) as (
        session,
        catalog,
    ):
        name_files(session, manifest.target.checkpoints)
        context = RunContext(manifest, session, catalog, hear)
        with closing(context.brokers):
            yield context, bound


def abandon_rebuild(
    context: RunContext, select: Select, leases: Leases, say: Callable[[str], None]
) -> bool:
    """Remove the table and the checkpoint of an unfinished rebuild; whether there was
    one. A rebuild that has already swapped its rows in is finished instead."""
    session, table = context.session, select.model.table.rebuild
    folder = rebuild_folder(context, select.model.name)
    while not claim_rebuild(context, leases, select.model.name, say):
        time.sleep(LOOK_EVERY_S)
    if find_swapped(context, select):
        while not leases.claim(
            select.model.name,
            context.manifest.target.checkpoint_of(select.model.name),
            say,
        ):
            time.sleep(LOOK_EVERY_S)
        finish_rebuild(context, select)
        say(
            f"{select.model.name}: its rebuild has replaced the rows already, and is finished now"
        )
        return True
    is_there = table_exists(session, table)
    for name in (*table.beside, table):
        if not table_exists(session, name):
            continue
        if REBUILD_PROPERTY not in load_table(session, table).properties():
            raise foreign_table(table)
        if load_table(session, name).properties().get(GC_ENABLED) == "false":
            set_property(session, name, GC_ENABLED, "true")
        drop_table(session, name)
    for suffix in (DEAD_LETTER_SUFFIX, "", LEASE_SUFFIX):
        files = CheckpointFiles(session, folder + suffix)
        is_there = is_there or (suffix == "" and bool(files.names()))
        files.remove_all()
    return is_there
