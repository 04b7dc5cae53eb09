"""Where a model continues if an operator decides it, by `lakesql rewind`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from lakesql.errors import RunError, quoted
from lakesql.progress.advice import (
    fix_by_refill,
    fix_by_reread,
    fix_by_rewind,
    rewind_command,
    say_entry,
)
from lakesql.progress.position import (
    find_replaced,
    positions_now,
    rebuilt_starts,
)
from lakesql.progress.state import Batch, ProgressState, StartFrom, newest_batch
from lakesql.progress.topics import check_snapshots, known_topics
from lakesql.source.kinds import SOURCES
from lakesql.source.source import offsets_of
from lakesql.source.stream_state import NO_ID, Position, Positions

RewindTo = Literal["ledger", "checkpoint", "start"] | int
"""Where an operator has a model continue: where its table is, where its checkpoint is,
at the start of its streams, or at a time in milliseconds since the epoch."""


def choose_start(
    state: ProgressState, to: RewindTo, allow_duplicates: bool = False
) -> StartFrom:
    """The start that an operator asks for. Raises `RunError` (`rewind-impossible`,
    `rewind-duplicates`)."""
    follows = newest_batch(state.entry)
    match to:
        case "ledger" | "checkpoint":
            there = (
                _ledger_stands(state) if to == "ledger" else _checkpoint_stands(state)
            )
            renamed = _find_renamed(state, there)
            if state.would_duplicate and not allow_duplicates:
                _check_renamed(state, there, renamed, to)
            there = replace(there, positions={**there.positions, **renamed})
            positions = positions_now(state.sources, there.positions, there.topics)
            says = [
                f"continues where {there.said}",
                *_say_renamed(renamed),
                *_say_replaced(state, there),
            ]
            start = StartFrom(
                positions, follows, "; ".join(says), accepted=state.accepted
            )
            check_snapshots(state, start)
            return start
        case _:
            start_ms = None if to == "start" else to
            if start_ms is not None and any(
                not SOURCES[source.kind].has_times for source in state.sources
            ):
                raise _impossible(
                    state,
                    "a stream that is a table or a generator cannot be read from a time on",
                    "",
                )
            if state.would_duplicate and not allow_duplicates:
                if to == "start":
                    read = "reading all again would write a second row for each record that is in it"
                    first, command = (
                        "Drop the table first",
                        rewind_command(state, "start"),
                    )
                else:
                    read = "each record since that time that is in it would get a second row"
                    first, command = (
                        "Delete those rows first",
                        rewind_command(state, "TIME"),
                    )
                raise RunError.of(
                    "rewind-duplicates",
                    f"Table {state.table} holds rows, and stands at {say_entry(state.entry)}: {read}.",
                    why="In mode 'append' no row replaces another.",
                    fix=f"{first}. Where its rows are gone already, or may stand twice: {command}",
                )
            again = f"reads the streams from {'their start' if to == 'start' else 'that time'} on"
            return StartFrom(rebuilt_starts(state.sources), follows, again, start_ms)


@dataclass(frozen=True, slots=True)
class _Stands:
    """The positions of streams, by their former names; the ids that topics had then;
    and a clause that says whose positions they are."""

    positions: Positions
    topics: Mapping[str, str]
    said: str


def _left_topics(state: ProgressState, there: _Stands) -> dict[str, list[Position]]:
    """By topic, the offsets of streams that the model no longer reads under their old
    names."""
    now = {source.name for source in state.sources}
    found: dict[str, list[Position]] = {}
    for name, position in there.positions.items():
        if name in now:
            continue
        for topic, offsets in (offsets_of(position) or {}).items():
            found.setdefault(topic, []).append(offsets)
    return found


def _find_renamed(state: ProgressState, there: _Stands) -> dict[str, Position]:
    """The positions of present streams whose topics were read under another stream
    name: the stream was renamed.

    Topics are matched by their ids, as another cluster may have topics of the same
    names.
    """
    left = _left_topics(state, there)
    certain = {
        topic: offsets
        for topic, (offsets, *others) in left.items()
        if all(each == offsets for each in others)
    }
    found = {
        source.name: {
            topic: certain[topic]
            for topic, id_ in source.topics.items()
            if topic in certain and NO_ID not in (id_, there.topics.get(topic, NO_ID))
        }
        for source in state.sources
        if source.name not in there.positions
    }
    return {name: position for name, position in found.items() if position}


def _check_renamed(
    state: ProgressState,
    there: _Stands,
    renamed: Positions,
    to: Literal["ledger", "checkpoint"],
) -> None:
    """Raise `RunError` (`rewind-duplicates`) if topics were read under another stream
    name and it is not known up to which offsets."""
    left = _left_topics(state, there)
    for source in state.sources:
        unknown = sorted(
            (source.topics.keys() & left.keys()) - renamed.get(source.name, {}).keys()
        )
        if source.name not in there.positions and unknown:
            raise RunError.of(
                "rewind-duplicates",
                f"Stream '{source.name}' reads topics that model '{state.model}' has read by another name of the "
                f"stream: {', '.join(unknown)}. How far is not known.",
                why="Their ids are not known, or two streams have read them up to different offsets. Table "
                f"{state.table} holds rows, and in mode 'append' no row replaces another.",
                fix="Give the stream its name back. To read them by the stream's `start`, where their rows are gone or "
                f"may stand twice: lakesql rewind {state.model} --to {to} --allow-duplicates",
            )


def _say_renamed(renamed: Positions) -> Iterator[str]:
    for name, position in renamed.items():
        yield f"stream '{name}' continues {quoted(position)}, which another stream of the model had read"


def _say_replaced(state: ProgressState, there: _Stands) -> Iterator[str]:
    for source in state.sources:
        replaced = find_replaced(source, there.positions.get(source.name), there.topics)
        for topic in sorted(replaced.anew):
            yield f"topic '{topic}' was deleted and made again, and is read from its beginning"
        for topic in sorted(replaced.gone):
            yield f"topic '{topic}' is not there any more, and left out"


def _ledger_stands(state: ProgressState) -> _Stands:
    entry, checkpoint = state.entry, state.checkpoint
    if state.shape:
        raise _impossible(
            state,
            "the model keeps state between batches, which is not in the ledger",
            fix_by_refill(state),
        )
    if entry is None:
        raise _impossible(
            state, f"table {state.table} has no batch of it", fix_by_refill(state)
        )
    positions = entry.positions
    _check_kinds(state, positions)
    is_known = checkpoint is not None and checkpoint.id == entry.checkpoint
    for source in state.sources:
        position = positions.get(source.name)
        if position is None or SOURCES[source.kind].can_start_from(position):
            continue
        if not SOURCES[source.kind].keeps_lists or not is_known:
            raise _impossible(
                state,
                f"the ledger alone does not say what of stream '{source.name}' has been read",
                fix_by_reread(state),
            )
    return _Stands(
        positions, entry.topics, f"the table stands, after {say_entry(entry)}"
    )


def _checkpoint_stands(state: ProgressState) -> _Stands:
    checkpoint, entry = state.checkpoint, state.entry
    if state.shape:
        raise _impossible(
            state,
            "the model keeps state between batches, which a new checkpoint has not",
            fix_by_refill(state),
        )
    stands = None
    if checkpoint is not None:
        is_planned = entry is not None and newest_batch(entry) == Batch(
            checkpoint.id, checkpoint.newest_planned
        )
        stands = checkpoint.positions.get(
            checkpoint.newest_planned if is_planned else checkpoint.newest_committed
        )
    if checkpoint is None or stands is None:
        raise _impossible(
            state,
            f"no checkpoint at {state.folder} says where it stands",
            fix_by_rewind(state),
        )
    names = (
        checkpoint.origin.streams
        if checkpoint.origin
        else tuple(source.name for source in state.sources)
    )
    if len(names) != len(stands):
        raise _impossible(
            state, "its checkpoint has another number of streams", fix_by_rewind(state)
        )
    positions = dict(zip(names, stands, strict=True))
    _check_kinds(state, positions)
    return _Stands(positions, known_topics(state), "the checkpoint stands")


def _check_kinds(state: ProgressState, positions: Positions) -> None:
    moved = state.find_moved(positions)
    if moved is not None:
        because = f"stream '{moved.name}' reads {SOURCES[moved.kind].label} now, and stood elsewhere"
        raise _impossible(state, because, fix_by_reread(state))


def _impossible(state: ProgressState, because: str, fix: str) -> RunError:
    return RunError.of(
        "rewind-impossible",
        f"Model '{state.model}' cannot continue from there: {because}.",
        why="",
        fix=fix,
    )
