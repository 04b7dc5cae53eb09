"""The advice to an operator if a checkpoint and its table do not agree: the command
that fixes it. Pure."""

from __future__ import annotations

from typing import Literal

from lakesql.ledger.entry import Entry
from lakesql.progress.state import ProgressState
from lakesql.source.kinds import SOURCES


def fix_by_rewind(state: ProgressState) -> str:
    """The advice if the table is right and its checkpoint is not."""
    if not state.is_companion and (state.shape or state.entry is None):
        return fix_by_refill(state)
    return f"To continue where the table stands: `lakesql rewind {state.model}`. The old checkpoint is kept."


def fix_by_refill(state: ProgressState) -> str:
    """The advice if the table must be filled from the start. A dead-letter table never
    must."""
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
    """The advice if the table has rows that nothing would replace, however often the
    streams are read."""
    if state.is_companion:
        return fix_by_rewind(state)
    return f"To fill the table again from what the streams have: `lakesql rebuild {state.model}`"


def fix_by_reread(state: ProgressState) -> str:
    """The advice if neither table nor checkpoint tells what has been read of the
    streams."""
    if state.shape or state.is_companion:
        return fix_by_refill(state)
    start = f"To read the streams from their start: `{rewind_command(state, 'start')}`"
    if any(not SOURCES[source.kind].has_times for source in state.sources):
        return start
    return f"{start}. {fix_by_time(state)}"


def rewind_command(state: ProgressState, place: Literal["start", "TIME"]) -> str:
    """The command that reads the streams again from this place on, whatever the table
    holds."""
    return f"lakesql rewind {state.model} --to {place}{' --allow-duplicates' if state.would_duplicate else ''}"


def rename_command(old: str, new: str) -> str:
    """The command that moves a model's ledger and checkpoint to the model's new
    name."""
    return f"lakesql rename {old} {new}"


def fix_by_time(state: ProgressState) -> str:
    """The advice to read the streams again from a time on, with an example of a
    time."""
    return f"From a time on, such as 2026-01-31T12:00:00Z: `{rewind_command(state, 'TIME')}`"


def say_entry(entry: Entry | None) -> str:
    """The ledger entry at which a table is, in words."""
    return (
        f"batch {entry.batch} of checkpoint {entry.checkpoint}"
        if entry
        else "no batch of the model"
    )
