"""`lakesql rewind`: gives a model a new checkpoint that continues elsewhere. No row of
a table is written or removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesql.catalog.connect import check_checkpoints
from lakesql.compile.build_select import build_select
from lakesql.engine.progress.begin import new_origin, seed
from lakesql.engine.progress.checkpoint import (
    CheckpointFiles,
    create_checkpoint,
    move_aside,
)
from lakesql.engine.progress.inspect import read_sources, read_state
from lakesql.engine.progress.lease import LOOK_EVERY_S, Leases
from lakesql.engine.progress.seen_files import settle_files
from lakesql.engine.progress.taken_files import check_taken, files_read
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.broker import Brokers
from lakesql.engine.spark.failure import explained
from lakesql.errors import RunError
from lakesql.events import Event, Noted
from lakesql.graph.manifest import Manifest
from lakesql.model.model import Model
from lakesql.progress.decide import decide
from lakesql.progress.start import RewindTo, choose_start
from lakesql.progress.state import (
    Origin,
    ProgressState,
    QueryIdentity,
    StartFrom,
    query_identities,
)
from lakesql.progress.topics import check_offsets
from lakesql.run.replacement.rebuilt import find_swapped, finish_rebuild
from lakesql.run.start.context import RunContext
from lakesql.run.start.spark import open_spark, session_settings
from lakesql.run.streams.bind import BoundSelect, bind_select
from lakesql.source.stream_state import SeededSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rewound:
    """The result of a rewind: where the model continues, by stream, and in `aside` the
    new path of the old checkpoint, if there was one."""

    because: str
    positions: tuple[tuple[str, str], ...]
    aside: str | None


def settle(
    manifest: Manifest, name: str, are_same: bool, say: Callable[[str], None]
) -> bool:
    """Open Spark, and record whether files that were moved are the same files as those
    already read (`are_same`). Returns whether any file was moved."""
    bound = bind_select(manifest, build_select(manifest, name))
    with _opened(manifest, bound, False, say) as session:
        identities = query_identities(bound.select, manifest.target.checkpoint_of(name))
        return (
            sum(
                settle_files(session, each.folder, bound.bindings, are_same)
                for each in identities
            )
            > 0
        )


def check_reads_streams(manifest: Manifest, name: str) -> None:
    """Raise `RunError` (`rewind-impossible`) for a model over tables, which has no
    position in a stream."""
    model = manifest.models[name]
    if model.config.reads == "tables":
        raise RunError.of(
            "rewind-impossible",
            f"Model '{name}' has mode '{model.config.mode}': its table is made of others as they are, and there is no "
            "position to begin from.",
            fix=_say_instead(model),
            place=model.place,
        )


def _say_instead(model: Model) -> str:
    """The advice on what to do instead of a rewind for a model over tables."""
    if not model.config.is_stored:
        return "A view has no rows of its own: rewind, or rebuild, the models that it reads."
    if model.config.is_exchanged:
        return f"To make all of its rows anew: lakesql rebuild {model.name}"
    return (
        f"A run compares all rows with its versions: lakesql run --select {model.name}"
    )


def rewind(
    manifest: Manifest,
    name: str,
    to: RewindTo,
    *,
    allow_duplicates: bool,
    dry_run: bool,
    say: Callable[[str], None],
) -> Rewound:
    """Open Spark and run `rewind_model` under the model's lease; `say` is called with
    notes on long steps.

    A rebuild that was interrupted after its swap is finished first. Raises what that,
    compiling and opening Spark raise, and `RunError`: `lease-held` if the model is
    running, and with `dry_run` `rewind-impossible` if there is such a rebuild.
    """
    check_reads_streams(manifest, name)
    bound = bind_select(manifest, build_select(manifest, name))
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    with _opened(manifest, bound, dry_run, say) as session, explained(bound.select):
        return rewind_model(
            manifest,
            session,
            bound,
            to,
            allow_duplicates=allow_duplicates,
            dry_run=dry_run,
        )


@contextmanager
def _opened(
    manifest: Manifest, bound: BoundSelect, dry_run: bool, say: Callable[[str], None]
) -> Iterator[SparkSession]:
    """Yields a Spark session while holding the model's lease, after finishing a rebuild
    that was interrupted. With `dry_run` it claims no lease, and raises if there is such
    a rebuild."""

    def hear(event: Event) -> None:
        if isinstance(event, Noted):
            say(event.text)

    name = bound.select.model.name
    settings = session_settings(manifest, bound.bindings, say)
    with (
        open_spark(settings, say) as (session, catalog),
        closing(Leases(session)) as leases,
    ):
        context = RunContext(manifest, session, catalog, hear)
        if not dry_run:
            while not leases.claim(name, manifest.target.checkpoint_of(name), say):
                time.sleep(LOOK_EVERY_S)
            finish_rebuild(context, bound.select)
        elif find_swapped(context, bound.select):
            raise RunError.of(
                "rewind-impossible",
                f"A rebuild of model '{name}' broke off after it had replaced the rows of its table.",
                why="The model continues with the rebuild's checkpoint, once that is finished.",
                fix=f"Finish it: lakesql rebuild {name} --abandon. Without --dry-run `rewind` does so first.",
            )
        yield session


def rewind_model(
    manifest: Manifest,
    session: SparkSession,
    bound: BoundSelect,
    to: RewindTo,
    *,
    allow_duplicates: bool = False,
    dry_run: bool = False,
) -> Rewound:
    """Create a checkpoint that continues at `to`, and rename the old one. With
    `dry_run` only the result is computed.

    The checkpoint of a stateful model's companion query, which writes its dead letters,
    is kept if it is sound. If only the companion's is not and `to` is `ledger`, the
    companion alone is rewound, because Spark's state is in no ledger and would be lost.
    Raises `RunError`: `rewind-impossible`, `rewind-duplicates`, `files-taken`.
    """
    bindings = bound.bindings
    with closing(Brokers()) as brokers:
        sources = read_sources(session, brokers, bindings)
    (identity, state), *companions = [
        (identity, read_state(session, identity, sources))
        for identity in query_identities(
            bound.select, manifest.target.checkpoint_of(bound.select.model.name)
        )
    ]
    moves = [
        (identity, found, _companion_start(found))
        for identity, found in companions
        if not _is_sound(found)
    ]
    because = "keeps its state; the query of its dead letters "
    if not moves or to != "ledger" or not _is_sound(state):
        moves.insert(0, (identity, state, choose_start(state, to, allow_duplicates)))
        because = ""
    # all are prepared before the first checkpoint is replaced
    seeded = [_seed(session, *move, bindings) for move in moves]
    if to not in ("ledger", "checkpoint"):
        _check_files(session, bound, moves[0], seeded[0])
    asides = [None if dry_run else _replace(*made) for made in seeded]
    start = moves[0][2]
    positions = tuple(
        (binding.stream.name, _shown(start, binding)) for binding in bindings
    )
    return Rewound(f"{because}{start.because}", positions, asides[0])


def _check_files(
    session: SparkSession,
    bound: BoundSelect,
    move: tuple[QueryIdentity, ProgressState, StartFrom],
    made: tuple[CheckpointFiles, Origin, Sequence[SeededSource]],
) -> None:
    """Raise `RunError` (`files-taken`) if files that would be read again were moved or
    deleted."""
    (_, _, start), (files, _, seeded) = move, made
    for binding, source in zip(bound.bindings, seeded, strict=True):
        passed = {file.path for file in source.seen}
        again = [
            file
            for file in files_read(files, binding.stream.name)
            if file.path not in passed
        ]
        since_ms = (
            start.start_ms if start.positions.get(binding.stream.name) is None else None
        )
        check_taken(
            session,
            bound.select.model.name,
            binding,
            [
                file
                for file in again
                if since_ms is None or file.modified_ms >= since_ms
            ],
        )


def _seed(
    session: SparkSession,
    identity: QueryIdentity,
    state: ProgressState,
    start: StartFrom,
    bindings: tuple[StreamBinding, ...],
) -> tuple[CheckpointFiles, Origin, Sequence[SeededSource]]:
    files = CheckpointFiles(session, identity.folder)
    old = state.checkpoint.origin if state.checkpoint else None
    return files, *seed(
        session, start, new_origin(state, state.table_id), bindings, files, old
    )


def _replace(
    files: CheckpointFiles, origin: Origin, seeded: Sequence[SeededSource]
) -> str | None:
    aside = move_aside(files)
    create_checkpoint(files, origin, seeded)
    return aside


def _is_sound(state: ProgressState) -> bool:
    try:
        decide(state)
    except RunError:
        return False
    return True


def _companion_start(state: ProgressState) -> StartFrom:
    """Where the companion query starts: where its dead-letter table stands, skipping
    records that are gone from their topics; else at the streams' start."""
    try:
        start = choose_start(state, "ledger", allow_duplicates=True)
        try:
            found = check_offsets(state, start)
        except RunError:
            found = check_offsets(replace(state, accept_data_loss=True), start)
    except RunError:
        return choose_start(state, "start", allow_duplicates=True)
    assert isinstance(found, StartFrom)
    return found


def _shown(start: StartFrom, binding: StreamBinding) -> str:
    position = start.positions.get(binding.stream.name)
    if position is not None:
        return str(position)
    return (
        "at the time given"
        if start.start_ms is not None
        else f"at its start ({binding.stream.start})"
    )
