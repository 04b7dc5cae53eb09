"""Prepares a checked model for its query: decides where it continues, and creates or
alters its table."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lakesql.clock import now_ms
from lakesql.engine.batch.analyze import analyze_select
from lakesql.engine.batch.sink import Sink, Step
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.maintenance.partitions import check_specs
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.inspect import read_sources, read_state
from lakesql.engine.progress.open import check_starts, open_progress, restart
from lakesql.engine.progress.seen_files import (
    explain_changes,
    follow_files,
    forget_unmeant,
    keep_paths,
)
from lakesql.events import FilesLeftOut, Noted
from lakesql.graph.manifest import stored_refs
from lakesql.progress.decide import check_rebuilt, decide_all
from lakesql.progress.remarks import remark_on
from lakesql.progress.state import StartFrom, query_identities
from lakesql.run.seeds.seed_statuses import outdated_seeds
from lakesql.run.start.analysis import keep_analysis
from lakesql.run.start.context import RunContext
from lakesql.run.start.model_maintenance import open_keeper
from lakesql.run.start.tables_read import check_tables
from lakesql.run.streams.bind import BoundSelect
from lakesql.run.streams.stream_notes import empty_streams, left_out_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prepare_model(
    context: RunContext,
    session: SparkSession,
    bound: BoundSelect,
    folder: str,
    known: str = "",
) -> Sink:
    """Decide where the model's query continues, and create or alter its table. Returns
    the sink for its batches.

    `session` is the model's own, `folder` its checkpoint's. `known` is the checkpoint
    from which this process has run the model before; '' if it has not. Raises what
    `decide`, `check_starts`, planning and analysis raise; steps already applied stay
    applied.
    """
    select, bindings = bound.select, bound.bindings

    def say(text: str) -> None:
        context.emit(Noted(text, select.model.name))

    check_tables(context.manifest, context.catalog, select)
    for text in outdated_seeds(
        context.manifest,
        context.catalog,
        (found.name for found in stored_refs(context.manifest, select.model)),
    ):
        context.emit(Noted(text, select.model.name))
    sources = read_sources(session, context.brokers, bindings)
    for empty in empty_streams(select.model.name, sources):
        context.emit(empty)
    for left_out in left_out_files(select.model.name, sources):
        context.emit(left_out)
    if not known:  # a retry has nothing else to say
        for text in chain.from_iterable(map(remark_on, sources)):
            say(text)
    identities = query_identities(select, folder)
    moved = [
        follow_files(session, identity.folder, bindings, say) for identity in identities
    ]
    for identity in identities:
        forget_unmeant(session, identity.folder, bindings)
    for stream, why in explain_changes(session, identities[0].folder, bindings):
        context.emit(FilesLeftOut(select.model.name, stream, why))
    states = [
        read_state(session, identity, sources, context.accept_data_loss, found)
        for identity, found in zip(identities, moved, strict=True)
    ]
    query_hash = select.query_hash
    check_rebuilt(states[0], known, query_hash)
    decisions = decide_all(states)
    for found, decision in zip(states, decisions, strict=True):
        check_starts(found, decision, bindings, now_ms())
    table = TableSync(context.session, context.catalog, select, context.emit)
    table.make()
    schema = analyze_select(session, select, bindings)
    table.columns(schema)
    check_specs(session, select.model)
    for decision in decisions:
        if isinstance(decision, StartFrom):
            say(decision.because)
    progress, *companion = [
        open_progress(
            session, context.brokers, identity, found, decision, bindings, query_hash
        )
        for identity, found, decision in zip(identities, states, decisions, strict=True)
    ]
    for identity in identities:
        keep_paths(session, identity.folder, bindings)
    keep_analysis(
        context.manifest, context.catalog, bound, CheckpointFiles(session, folder)
    )
    name = select.model.name

    def reach(step: Step) -> None:
        context.check_lease(name)
        context.reached(name, step)

    return Sink(
        select=select,
        bindings=restart(bindings, progress),
        progress=progress,
        table=table,
        emit=context.emit,
        companion=next(iter(companion), None),
        keeper=open_keeper(context, select),
        follow=context.follow,
        found=partial(context.found.note, context.manifest),
        reached=reach,
    )


def check_progress(context: RunContext, bound: BoundSelect, folder: str) -> None:
    """Raise what `decide` raises for the model's checkpoint and ledger as they are
    now."""
    sources = read_sources(context.session, context.brokers, bound.bindings)
    decide_all(
        [
            read_state(context.session, each, sources)
            for each in query_identities(bound.select, folder)
        ]
    )
