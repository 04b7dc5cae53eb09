"""`lakesql rewind`: a new checkpoint for a model, that goes on elsewhere. No row of a table is written or removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakesql.catalog.connect import check_checkpoints
from lakesql.compile.select import Select, build_select
from lakesql.engine.checkpoint import CheckpointFiles, Planted, create_checkpoint, move_aside
from lakesql.engine.facts import Facts, Origin, StartFrom
from lakesql.engine.failure import explained
from lakesql.engine.kafka import Brokers
from lakesql.engine.lease import LOOK_EVERY_S, Leases
from lakesql.engine.progress import Home
from lakesql.engine.recover import new_origin, plant, read_facts, read_sources
from lakesql.engine.resume import decide
from lakesql.engine.rewind import RewindTo, choose_start
from lakesql.engine.source import Reading
from lakesql.engine.topics import check_topics
from lakesql.errors import RunError
from lakesql.graph.manifest import Manifest
from lakesql.run.prepare import checkpoint_of, find_homes, find_readings
from lakesql.run.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Rewound:
    """A new checkpoint: where its model goes on, by stream, and where the old one is now, if there was one."""

    because: str
    positions: tuple[tuple[str, str], ...]
    aside: str | None


def rewind(
    manifest: Manifest, name: str, to: RewindTo, *, allow_doubles: bool, dry_run: bool, say: Callable[[str], None]
) -> Rewound:
    """Open Spark and do `rewind_model` under the model's lease; `say` hears of what takes long.

    Raises what that, compiling and opening Spark raise, and `RunError` (`lease-held`) where the model is being run.
    """
    select = build_select(manifest, name)
    check_checkpoints(manifest.target.checkpoints, manifest.target.catalog)
    opening = open_spark(manifest, find_readings(manifest, select), say)
    with opening as (session, _), closing(Leases(session)) as leases, explained(select):
        while not dry_run and not leases.claim(name, checkpoint_of(manifest.target, name), say):
            time.sleep(LOOK_EVERY_S)
        return rewind_model(manifest, session, select, to, allow_doubles=allow_doubles, dry_run=dry_run)


def rewind_model(
    manifest: Manifest,
    session: SparkSession,
    select: Select,
    to: RewindTo,
    *,
    allow_doubles: bool = False,
    dry_run: bool = False,
) -> Rewound:
    """Make a checkpoint that goes on at `to`; the old one is renamed. With `dry_run` only say what would be done.

    A stateful model's companion query, which sets bad records aside, keeps its checkpoint if that is sound. If it is
    not, and the model's own is, to go on where the table stands means the companion alone: state is in no ledger.
    Raises `RunError`: `rewind-impossible`, `rewind-doubles`.
    """
    readings = find_readings(manifest, select)
    with closing(Brokers()) as brokers:
        sources = read_sources(session, brokers, readings)
    (home, facts), *companions = [
        (home, read_facts(session, home, sources)) for home in find_homes(manifest.target, select)
    ]
    moves = [(home, found, _companion_start(found)) for home, found in companions if not _is_sound(found)]
    because = "keeps its state; what sets its bad records aside "
    if not moves or to != "ledger" or not _is_sound(facts):
        moves.insert(0, (home, facts, choose_start(facts, to, allow_doubles)))
        because = ""
    planted = [_plant(session, *move, readings) for move in moves]  # all of them, before the first is replaced
    asides = [None if dry_run else _replace(*made) for made in planted]
    start = moves[0][2]
    positions = tuple((reading.stream.name, _shown(start, reading)) for reading in readings)
    return Rewound(f"{because}{start.because}", positions, asides[0])


def _plant(
    session: SparkSession, home: Home, facts: Facts, start: StartFrom, readings: tuple[Reading, ...]
) -> tuple[CheckpointFiles, Origin, Sequence[Planted]]:
    files = CheckpointFiles(session, home.folder)
    old = facts.checkpoint.origin if facts.checkpoint else None
    return files, *plant(session, start, new_origin(facts, facts.table_id), readings, files, old)


def _replace(files: CheckpointFiles, origin: Origin, planted: Sequence[Planted]) -> str | None:
    aside = move_aside(files)
    create_checkpoint(files, origin, planted)
    return aside


def _is_sound(facts: Facts) -> bool:
    try:
        decide(facts)
    except RunError:
        return False
    return True


def _companion_start(facts: Facts) -> StartFrom:
    """Where its table of dead letters stands, without records that are gone from their topic; else from the start."""
    try:
        start = choose_start(facts, "ledger")
        try:
            found = check_topics(facts, start)
        except RunError:
            found = check_topics(replace(facts, accept_data_loss=True), start)
    except RunError:
        return choose_start(facts, "start", allow_doubles=True)
    assert isinstance(found, StartFrom)
    return found


def _shown(start: StartFrom, reading: Reading) -> str:
    position = start.positions.get(reading.stream.name)
    if position is not None:
        return str(position)
    return "at the time given" if start.start_ms is not None else f"at its start ({reading.stream.start})"
