"""`lakesql replay`: processes a model's dead letters again with the model as it is now,
exactly once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakesql.catalog.connect import check_checkpoints
from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.engine.batch.analyze import analyze_select
from lakesql.engine.batch.letters import (
    count_taken,
    find_unfinished,
    finish_letters,
    raw_letters,
    read_letters,
)
from lakesql.engine.batch.preview import preview_batch
from lakesql.engine.batch.sink import Sink, Step
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.batch.write import write_batch
from lakesql.engine.batch.write_letters import make_letter_table
from lakesql.engine.ledger.snapshots import load_table, read_entry, table_exists
from lakesql.engine.progress.inspect import read_state
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases
from lakesql.engine.progress.progress import open_replay, replay_owner
from lakesql.engine.progress.writer import name_files
from lakesql.engine.sources.parsed import pack
from lakesql.engine.spark.failure import explained
from lakesql.errors import RunError, TransientError
from lakesql.events import BatchCommitted, Emit, Event, Noted, StepApplied
from lakesql.graph.manifest import Manifest
from lakesql.modes.batches.all_batches import batches_of
from lakesql.progress.decide import check_identity
from lakesql.progress.state import QueryIdentity, query_identities
from lakesql.run.replacement.rebuilt import finish_rebuild
from lakesql.run.start.context import RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.start.tables_read import check_tables
from lakesql.run.streams.bind import BoundSelect, bind_select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay, or what it would be in a dry run.

    `reasons` counts the dead letters by reason; `done` is how many of them need not be
    read again, and `rows` how many rows they have produced. `failing` counts those that
    remain: in a dry run by the reason for which they fail now, else by that for which
    they were rejected. `finished` counts the dead letters of an earlier replay that was
    interrupted after its rows were written.
    """

    reasons: Mapping[str, int]
    done: int
    rows: int
    failing: Mapping[str, int]
    finished: int = 0


def replay(
    manifest: Manifest, name: str, *, dry_run: bool, say: Callable[[str], None]
) -> Replayed:
    """Open Spark and run `replay_letters` under the model's lease; `say` is called with
    notes on long steps.

    Raises what that, compiling and opening Spark raise, and `RunError` (`lease-held`)
    if the model is running.
    """
    bound = bind_letters(bind_select(manifest, build_select(manifest, name)))
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    settings = session_settings(manifest, bound.bindings, say)

    def hear(event: Event) -> None:
        if isinstance(event, Noted | StepApplied):
            say(event.text)

    with (
        open_spark(settings, say) as (session, catalog),
        closing(Leases(session)) as leases,
        explained(bound.select),
    ):
        name_files(session, manifest.target.checkpoints)
        while not dry_run and not leases.claim(
            name, manifest.target.checkpoint_of(name), say
        ):
            time.sleep(LOOK_EVERY_S)
        context = RunContext(manifest, session, catalog, hear, check_lease=leases.check)
        with closing(context.brokers):
            return replay_followed(context, session, bound, dry_run=dry_run)


def replay_followed(
    context: RunContext, session: SparkSession, bound: BoundSelect, *, dry_run: bool
) -> Replayed:
    """Replay with the current columns of streams whose contracts were pulled, and again
    if the dead letters have schemas with other columns."""
    name = bound.select.model.name

    def build(manifest: Manifest) -> BoundSelect:
        return bind_letters(bind_select(manifest, build_select(manifest, name)))

    bound = context.current(bound, build)
    while True:
        try:
            return replay_letters(context, session, bound, dry_run=dry_run)
        except TransientError:
            followed = context.current(bound, build)
            if followed is bound:  # it is about something else
                raise
            bound = followed


def bind_letters(bound: BoundSelect) -> BoundSelect:
    """The model bound to its dead letters. Raises `RunError` (`replay-impossible`) for
    a model for which a replay could give wrong rows."""
    bindings = tuple(replace(binding, is_replayed=True) for binding in bound.bindings)
    select, rows = (
        bound.select,
        [binding.stream.name for binding in bindings if binding.has_rows],
    )
    again = f"lakesql rebuild {select.model.name}"
    if select.query.stateful:
        raise _impossible(
            select,
            "it keeps state between batches, and a record that is read alone is not added to its group",
            f"Fill the table again: {again}",
        )
    if batches_of(select).identity and not select.writing.sequence_by:
        raise _impossible(
            select,
            "without sequence_by the record that arrived last decides, and nothing says whether the row in the table "
            "came before or after a dead letter",
            f"Say in sequence_by what orders the rows of a key, or fill the table again: {again}",
        )
    if "headers" in select.query.record_fields:
        raise _impossible(
            select,
            "it reads _record.headers, which dead letters do not have",
            f"Fill the table again: {again}",
        )
    if rows:
        raise _impossible(
            select,
            f"the records of stream '{rows[0]}' arrive as rows, of which a dead letter has no bytes to read",
            f"Fill the table again: {again}",
        )
    return replace(bound, bindings=bindings)


def replay_letters(
    context: RunContext, session: SparkSession, bound: BoundSelect, *, dry_run: bool
) -> Replayed:
    """Process the model's dead letters again, as one batch. `session` is the model's
    own.

    The steps, and what a crash after each leaves:

    1. Finish a replay that has written its rows.  Dead letters marked as done.
    2. Stage the rows, mark the dead letters that no longer fail as taken, publish the
       rows (`write_batch`).  Dead letters that are taken, with or without their rows:
       the ledger tells which, and the next replay continues at 1 or 2.
    3. Mark them as done.  Everything.

    With `dry_run` nothing is written; only the result is computed.
    """
    select, model = bound.select, bound.select.model
    letters_table = model.table.dead_letter
    check_tables(context.manifest, context.catalog, select)
    if not dry_run:
        finish_rebuild(context, select)
    identity, *_ = query_identities(
        select, context.manifest.target.checkpoint_of(model.name)
    )
    check_identity(read_state(session, identity, ()))
    if not table_exists(session, letters_table):
        return Replayed({}, 0, 0, {})
    if not dry_run:
        make_letter_table(session, model)
    finished, written, unfinished = 0, None, find_unfinished(session, letters_table)
    if unfinished is not None and _is_written(session, identity, unfinished):
        finished = (count_taken if dry_run else finish_letters)(
            session, letters_table, unfinished
        )
        written, unfinished = unfinished, None
    letters = read_letters(session, letters_table, bound.bindings, written)
    reasons = _by_reason(letters)
    if not reasons:
        return Replayed({}, 0, 0, {}, finished)
    rows: list[int] = []

    def hear(event: Event) -> None:
        if isinstance(event, BatchCommitted):
            rows.append(event.rows)
        context.emit(event)

    sink = _open_sink(
        context, session, bound, identity, letters, unfinished, hear, dry_run
    )
    arrived = pack([raw_letters(letters, binding) for binding in bound.bindings])
    if dry_run:
        would_be, failing = preview_batch(sink, arrived)
        return Replayed(
            reasons,
            sum(reasons.values()) - sum(failing.values()),
            would_be,
            failing,
            finished,
        )
    write_batch(sink, arrived, 0)
    done = finish_letters(session, letters_table, sink.progress.checkpoint)
    left = _by_reason(read_letters(session, letters_table, bound.bindings))
    return Replayed(reasons, done, sum(rows), left, finished)


def _open_sink(
    context: RunContext,
    session: SparkSession,
    bound: BoundSelect,
    identity: QueryIdentity,
    letters: DataFrame,
    unfinished: str | None,
    emit: Emit,
    dry_run: bool,
) -> Sink:
    select, name = bound.select, bound.select.model.name
    table = TableSync(context.session, context.catalog, select, emit)
    if not dry_run:
        table.make()
        table.columns(analyze_select(session, select, bound.bindings))
    owned = replace(identity, owner=replay_owner(name))
    there = load_table(session, select.model.table)

    def reach(step: Step) -> None:
        context.check_lease(name)
        context.reached(name, step)

    return Sink(
        select=select,
        bindings=bound.bindings,
        progress=open_replay(there, owned, unfinished, select.query_hash),
        table=table,
        emit=emit,
        letters=letters,
        reached=reach,
        found=partial(context.found.note, context.manifest),
    )


def _is_written(
    session: SparkSession, identity: QueryIdentity, unfinished: str
) -> bool:
    """Whether the rows of the replay `unfinished` are in the table."""
    if not table_exists(session, identity.table):
        return False
    return (
        read_entry(
            load_table(session, identity.table),
            replay_owner(identity.model),
            unfinished,
        )
        is not None
    )


def _by_reason(letters: DataFrame) -> dict[str, int]:
    counts = Counter(
        {
            row["reason"]: row["count"]
            for row in letters.groupBy("reason").count().collect()
        }
    )
    return dict(sorted(counts.items()))


def _impossible(select: Select, because: str, fix: str) -> RunError:
    name = select.model.name
    return RunError.of(
        "replay-impossible",
        f"The dead letters of model '{name}' cannot be replayed: {because}.",
        fix=fix,
        place=select.model.place,
    )
