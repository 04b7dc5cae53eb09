"""Checks whether a rebuild may begin: its streams still hold the records that it is to
read, and the disk has room for a second copy of the table."""

from __future__ import annotations

import shutil
from datetime import datetime
from functools import partial

from lakesql.engine.ledger.snapshots import load_table, read_history
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.inspect import read_sources
from lakesql.engine.progress.taken_files import check_taken, files_read
from lakesql.engine.sources.spark_sources import spark_source
from lakesql.errors import RunError
from lakesql.location import local_folder
from lakesql.run.replacement.replacement_table import RebuildFrom
from lakesql.run.start.context import RunContext
from lakesql.run.streams.bind import BoundSelect


def check_rebuild(
    context: RunContext,
    live: BoundSelect,
    bound: BoundSelect,
    start_at: RebuildFrom,
    accept_data_loss: bool,
) -> str:
    """A description of how much the rebuild would read. Raises `RunError`:
    `rebuild-impossible`, `data-lost`, `files-taken`, `no-space`."""
    name = live.select.model.name
    latest = [
        b.stream
        for b in bound.bindings
        if b.source.looks_up_start and b.stream.start == "latest"
    ]
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
    files = CheckpointFiles(
        context.session, context.manifest.target.checkpoint_of(name)
    )
    gone: list[str] = []
    said: list[str] = []
    for binding, source in zip(bound.bindings, sources, strict=True):
        seen = partial(files_read, files, binding.stream.name)
        missing, there = spark_source(binding.source).holdings(
            context.session, binding, source, seen
        )
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
    """Raise `RunError` (`files-taken`) if files that the live table was made of were
    moved or deleted, as its streams are configured to do after reading."""
    model = live.select.model
    files = CheckpointFiles(
        context.session, context.manifest.target.checkpoint_of(model.name)
    )
    for binding in live.bindings:
        check_taken(
            context.session, model.name, binding, files_read(files, binding.stream.name)
        )


SHOWN = 5
"""How many of the missing records or files an error names."""


def _check_space(context: RunContext, live: BoundSelect) -> None:
    """Raise `RunError` (`no-space`) if the disk has no room for a second copy of the
    table. Only local disks are checked."""
    table = load_table(context.session, live.select.model.table)
    folder = local_folder(str(table.location()))
    head = next(read_history(table), None)
    if folder is None or head is None or not folder.exists():
        return
    needed, free = (
        int(head.summary.get("total-files-size", 0)),
        shutil.disk_usage(folder).free,
    )
    if needed > free:
        raise RunError.of(
            "no-space",
            f"Table {live.select.model.table} has {needed // 1_000_000:,} MB, and its disk has "
            f"{free // 1_000_000:,} MB left.",
            why="A rebuild writes the table once more before the old rows can go.",
            fix="Make room, or drop what nobody reads: lakesql ls --orphans",
        )
