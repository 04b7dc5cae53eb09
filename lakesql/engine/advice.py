"""What an operator is told where a checkpoint and its table do not agree: the command that mends it. Pure."""

from __future__ import annotations

from typing import Literal

from lakesql.engine.facts import Facts
from lakesql.engine.ledger import Entry


def mend(facts: Facts) -> str:
    """What to do where the table is right, and its checkpoint is not."""
    if not facts.is_companion and (facts.state or facts.entry is None):
        return refill(facts)
    return f"To go on where the table stands: lakesql rewind {facts.model}. The old checkpoint is kept."


def refill(facts: Facts) -> str:
    """What to do where the table must be filled from the start. A table of dead letters never must."""
    if facts.is_companion:
        return mend(facts)
    start = f"lakesql rewind {facts.model} --to start"
    if facts.doubles:
        again = f"Drop the table, or its rows would stand there twice, and read all again: {start}"
    else:
        again = f"To read all again: {start}"
    checkpoint = facts.checkpoint
    if facts.state or checkpoint is None or checkpoint.damage or not checkpoint.positions:
        return again
    return f"{again}. To go on with what has not been read yet: lakesql rewind {facts.model} --to checkpoint"


def reread(facts: Facts) -> str:
    """What to do where neither table nor checkpoint says what of the streams has been read."""
    if facts.state or facts.is_companion:
        return refill(facts)
    start = f"To read the streams from their start: {again_from(facts, 'start')}"
    if any(source.kind in ("table", "rate") for source in facts.sources):
        return start
    return f"{start}. {from_time(facts)}"


def again_from(facts: Facts, place: Literal["start", "TIME"]) -> str:
    """The command that reads the streams again from there on, whatever the table holds."""
    return f"lakesql rewind {facts.model} --to {place}{' --allow-doubles' if facts.doubles else ''}"


def from_time(facts: Facts) -> str:
    """The command that reads the streams from a time on, and what such a time looks like."""
    return f"From a time on, such as 2026-01-31T12:00:00Z: {again_from(facts, 'TIME')}"


def say_entry(entry: Entry | None) -> str:
    """Where a table stands, in words."""
    return f"batch {entry.batch} of checkpoint {entry.checkpoint}" if entry else "no batch of the model"
