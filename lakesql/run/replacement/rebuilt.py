"""Finishes a rebuild after its swap: its dead letters, tombstones and checkpoint become
the model's.

Each step is idempotent, so that the rebuild or the next run of the model can finish an
interrupted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lakesql.compile.quote import table_name
from lakesql.compile.select import Select
from lakesql.compile.table import (
    DEFAULT_PROPERTIES,
    TableSpec,
    create_table,
    dead_letter_spec,
    properties_text,
)
from lakesql.engine.ledger.commit import until_published
from lakesql.engine.ledger.snapshots import (
    head_of,
    load_table,
    read_entry,
    read_ledger,
    table_exists,
    table_id,
)
from lakesql.engine.ledger.swap import drop_table, swap
from lakesql.engine.progress.checkpoint import CheckpointFiles, move_aside, save_origin
from lakesql.events import Noted
from lakesql.ledger.entry import Entry, summary_of
from lakesql.model.retention import GC_ENABLED
from lakesql.model.table_name import TableName
from lakesql.names import (
    DEAD_LETTER_SUFFIX,
    DELETED_AT,
    LEASE_SUFFIX,
    LEDGER_REBUILD,
    MEMORY_SUFFIXES,
    REBUILD_SUFFIX,
)
from lakesql.progress.state import newest_batch
from lakesql.progress.stored import read_checkpoint
from lakesql.run.start.context import RunContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild_folder(context: RunContext, model: str) -> str:
    """The checkpoint folder of the model's rebuild."""
    return context.manifest.target.checkpoint_of(model) + REBUILD_SUFFIX


def find_swapped(context: RunContext, select: Select) -> str:
    """The checkpoint id of a rebuild that has swapped its rows into the model's table
    but is unfinished; '' if there is none."""
    checkpoint = read_checkpoint(
        CheckpointFiles(context.session, rebuild_folder(context, select.model.name))
    )
    if (
        checkpoint is None
        or not checkpoint.id
        or not table_exists(context.session, select.model.table)
    ):
        return ""
    entry = read_entry(
        load_table(context.session, select.model.table), select.model.name
    )
    return (
        checkpoint.id if entry is not None and entry.checkpoint == checkpoint.id else ""
    )


def finish_rebuild(context: RunContext, select: Select) -> bool:
    """Finish a rebuild that was interrupted after its swap; whether there was one. The
    caller holds the model's lease.

    Its dead letters and the tables that remember deleted and moved keys become the
    model's. Its checkpoint is moved last, because it shows that there is a rebuild to
    finish.
    """
    swapped = find_swapped(context, select)
    if not swapped:
        return False
    session, model = context.session, select.model
    folder, live_folder = (
        rebuild_folder(context, model.name),
        context.manifest.target.checkpoint_of(model.name),
    )
    entry = _swap_dead_letters(session, model.table, swapped, select)
    _swap_memories(session, model.table, swapped)
    for suffix, table in (
        (DEAD_LETTER_SUFFIX, model.table.dead_letter),
        ("", model.table),
    ):
        moved = CheckpointFiles(session, folder + suffix)
        found = read_checkpoint(moved)
        if found is None:
            continue
        if found.origin is not None:
            id_ = (
                table_id(load_table(session, table))
                if table_exists(session, table)
                else ""
            )
            origin = replace(found.origin, table_id=id_)
            if suffix and (entry is None or entry.checkpoint != found.id):
                origin = replace(origin, follows=newest_batch(entry))
            save_origin(moved, origin)
        if not suffix:
            context.reached(model.name, "drop-replacement")
            for left in (*model.table.rebuild.beside, model.table.rebuild):
                drop_table(session, left)
        context.reached(model.name, "move-checkpoint")
        move_aside(CheckpointFiles(session, live_folder + suffix))
        moved.move_to(live_folder + suffix)
    CheckpointFiles(session, folder + LEASE_SUFFIX).remove_all()
    context.emit(
        Noted(
            "its table has been rebuilt: it continues with the new one's checkpoint",
            model.name,
        )
    )
    return True


def set_property(session: SparkSession, table: TableName, key: str, value: str) -> None:
    """Set one property of a table, in a commit of its own."""
    load_table(session, table).updateProperties().set(key, value).commit()


def _swap_whatever_comes(
    session: SparkSession,
    live: TableName,
    replacement: TableName,
    spec: TableSpec,
    summary: Mapping[str, str],
    owner: str,
) -> None:
    def attempt() -> None:
        table = load_table(session, live)
        swap(
            table,
            load_table(session, replacement),
            spec,
            summary,
            owner,
            head_of(table),
        )

    until_published(attempt, live)


def _swap_dead_letters(
    session: SparkSession, live: TableName, checkpoint: str, select: Select
) -> Entry | None:
    """Make the rebuild's dead letters the model's. Returns the newest ledger entry of
    the query that writes dead letters, None if there is none."""
    replacement, model = live.rebuild.dead_letter, select.model.name
    owner = model + DEAD_LETTER_SUFFIX if select.query.stateful else model
    letters = live.dead_letter
    if table_exists(session, replacement):
        spec = dead_letter_spec(live)
        if not table_exists(session, letters):
            for statement in create_table(spec):
                session.sql(statement)
        history = read_ledger(load_table(session, letters), ())
        if all(
            snapshot.summary.get(LEDGER_REBUILD) != checkpoint for snapshot in history
        ):
            entry = read_entry(load_table(session, replacement), owner)
            summary = {
                **(summary_of(entry) if entry else {}),
                LEDGER_REBUILD: checkpoint,
            }
            set_property(session, replacement, GC_ENABLED, "false")
            _swap_whatever_comes(session, letters, replacement, spec, summary, owner)
    return (
        read_entry(load_table(session, letters), owner)
        if table_exists(session, letters)
        else None
    )


def _swap_memories(session: SparkSession, live: TableName, checkpoint: str) -> None:
    """Replace what the model remembers of deleted and moved keys by what the rebuild
    remembers, which has read exactly what the table now holds.

    A table that the rebuild does not have is dropped. One that is marked as swapped is
    kept, as its replacement may be gone already.
    """
    for kind in MEMORY_SUFFIXES:
        name, replacement = live.memory(kind), live.rebuild.memory(kind)
        if table_exists(session, replacement):
            properties = properties_text(
                {**DEFAULT_PROPERTIES, LEDGER_REBUILD: checkpoint}
            )
            session.sql(
                f"CREATE OR REPLACE TABLE {table_name(name)} USING iceberg PARTITIONED BY (days({DELETED_AT})) "
                f"{properties} AS SELECT * FROM {table_name(replacement)}"
            )
        elif (
            table_exists(session, name)
            and load_table(session, name).properties().get(LEDGER_REBUILD) != checkpoint
        ):
            drop_table(session, name)
