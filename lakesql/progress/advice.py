"""What an operator is told where a checkpoint and its table do not agree: the command
that fixes it. Pure."""

from __future__ import annotations

from typing import Literal

from lakesql.ledger.entry import Entry
from lakesql.progress.state import ProgressState
from lakesql.source.kinds import SOURCES


def fix_by_rewind(state: ProgressState) -> str:
    """What to do where the table is right, and its checkpoint is not."""
    if not state.is_companion and (state.shape or state.entry is None):
        return fix_by_refill(state)
    return f"To continue where the table stands: `lakesql rewind {state.model}`. The old checkpoint is kept."


def fix_by_refill(state: ProgressState) -> str:
    """What to do where the table must be filled from the start. A table of dead letters
    never must."""
    if state.is_companion:
        return fix_by_rewind(state)
    start = f"`lakesql rewind {state.model} --to start`"
    if state.would_duplicate:
        again = f"Drop the table, or its rows would stand there twice, and read all again: {start}"
    else:
        again = f"To read all again: {start}"
    checkpoint = state.checkpoint
    if (
        state.shape
        or checkpoint is None
        or checkpoint.damage
        or not checkpoint.positions
    ):
        return again
    return f"{again}. To continue with what has not been read yet: `lakesql rewind {state.model} --to checkpoint`"


def fix_by_fill(state: ProgressState) -> str:
    """What to do where rows of the table would stay that nothing replaces, however
    often the streams are read."""
    if state.is_companion:
        return fix_by_rewind(state)
    return f"To fill the table again from what the streams have: `lakesql rebuild {state.model}`"


def fix_by_reread(state: ProgressState) -> str:
    """What to do where neither table nor checkpoint says what of the streams has been
    read."""
    if state.shape or state.is_companion:
        return fix_by_refill(state)
    start = f"To read the streams from their start: `{rewind_command(state, 'start')}`"
    if any(not SOURCES[source.kind].has_times for source in state.sources):
        return start
    return f"{start}. {fix_by_time(state)}"


def rewind_command(state: ProgressState, place: Literal["start", "TIME"]) -> str:
    """The command that reads the streams again from there on, whatever the table
    holds."""
    return f"lakesql rewind {state.model} --to {place}{' --allow-duplicates' if state.would_duplicate else ''}"


def rename_command(old: str, new: str) -> str:
    """The command by which a model of another name takes its ledger and its checkpoint
    along."""
    return f"lakesql rename {old} {new}"


def fix_by_time(state: ProgressState) -> str:
    """The command that reads the streams from a time on, and what such a time looks
    like."""
    return f"From a time on, such as 2026-01-31T12:00:00Z: `{rewind_command(state, 'TIME')}`"


def say_entry(entry: Entry | None) -> str:
    """Where a table stands, in words."""
    return (
        f"batch {entry.batch} of checkpoint {entry.checkpoint}"
        if entry
        else "no batch of the model"
    )
