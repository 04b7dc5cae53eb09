"""Where a model goes on by an operator's word: `lakesql rewind`. Pure."""

from __future__ import annotations

from typing import Literal

from lakesql.engine.advice import again_from, mend, refill, reread, say_entry
from lakesql.engine.facts import Batch, Facts, StartFrom, newest_batch
from lakesql.engine.position import KIND_NAMES, Positions, can_start_from, ledger_positions
from lakesql.errors import RunError

RewindTo = Literal["ledger", "checkpoint", "start"] | int
"""Where an operator has a model go on: where its table stands, where its checkpoint stands, where its streams start, or
at a time, in milliseconds since the epoch."""


def choose_start(facts: Facts, to: RewindTo, allow_doubles: bool = False) -> StartFrom:
    """The start that an operator asks for. Raises `RunError` (`rewind-impossible`, `rewind-doubles`)."""
    follows = newest_batch(facts.entry)
    match to:
        case "ledger":
            positions = _ledger_start(facts)
            stands = f"goes on where the table stands, after {say_entry(facts.entry)}"
            return StartFrom(positions, follows, stands, accepted=_loss(facts))
        case "checkpoint":
            positions = _checkpoint_start(facts)
            return StartFrom(positions, follows, "goes on where the checkpoint stands", accepted=_loss(facts))
        case _:
            start_ms = None if to == "start" else to
            if start_ms is not None and any(source.kind in ("table", "rate") for source in facts.sources):
                raise _impossible(facts, "a stream that is a table or a generator cannot be read from a time on", "")
            if facts.doubles and not allow_doubles:
                if to == "start":
                    read = "reading all again would write a second row for each record that is in it"
                    first, command = "Drop the table first", again_from(facts, "start")
                else:
                    read = "each record since that time that is in it would get a second row"
                    first, command = "Delete those rows first", again_from(facts, "TIME")
                raise RunError.of(
                    "rewind-doubles",
                    f"Table {facts.table} holds rows, and stands at {say_entry(facts.entry)}: {read}.",
                    why="In mode 'append' no row replaces another.",
                    fix=f"{first}. Where its rows are gone already, or may stand twice: {command}",
                )
            again = f"reads the streams from {'their start' if to == 'start' else 'that time'} on"
            return StartFrom({}, follows, again, start_ms)


def _loss(facts: Facts) -> str:
    return facts.entry.accepted if facts.entry else ""


def _ledger_start(facts: Facts) -> Positions:
    entry, checkpoint = facts.entry, facts.checkpoint
    if facts.state:
        raise _impossible(facts, "the model keeps state between batches, which is not in the ledger", refill(facts))
    if entry is None:
        raise _impossible(facts, f"table {facts.table} has no batch of it", refill(facts))
    _check_kinds(facts, entry.positions)
    positions = ledger_positions(facts.sources, entry)
    is_known = checkpoint is not None and checkpoint.id == entry.checkpoint
    for source in facts.sources:
        position = positions.get(source.name)
        if position is None or can_start_from(source.kind, position):
            continue
        if source.kind == "rate" or not is_known:
            raise _impossible(
                facts,
                f"the ledger alone does not say what of stream '{source.name}' has been read",
                reread(facts),
            )
    return positions


def _checkpoint_start(facts: Facts) -> Positions:
    checkpoint, entry = facts.checkpoint, facts.entry
    if facts.state:
        raise _impossible(facts, "the model keeps state between batches, which a new checkpoint has not", refill(facts))
    stands = None
    if checkpoint is not None:
        is_planned = entry is not None and newest_batch(entry) == Batch(checkpoint.id, checkpoint.newest_planned)
        stands = checkpoint.positions.get(checkpoint.newest_planned if is_planned else checkpoint.newest_committed)
    if checkpoint is None or stands is None:
        raise _impossible(facts, f"no checkpoint at {facts.folder} says where it stands", mend(facts))
    names = checkpoint.origin.streams if checkpoint.origin else tuple(source.name for source in facts.sources)
    if len(names) != len(stands):
        raise _impossible(facts, "its checkpoint has another number of streams", mend(facts))
    now = {source.name for source in facts.sources}
    positions = {name: position for name, position in zip(names, stands, strict=True) if name in now}
    _check_kinds(facts, positions)
    return positions


def _check_kinds(facts: Facts, positions: Positions) -> None:
    moved = facts.find_moved(positions)
    if moved is not None:
        because = f"stream '{moved.name}' reads {KIND_NAMES[moved.kind]} now, and stood elsewhere"
        raise _impossible(facts, because, reread(facts))


def _impossible(facts: Facts, because: str, fix: str) -> RunError:
    return RunError.of(
        "rewind-impossible", f"Model '{facts.model}' cannot go on from there: {because}.", why="", fix=fix
    )
