"""Whether Kafka's topics and streamed tables still hold what a query is to read next.
Pure.

Topics may have been created again, and records may be gone from the broker. A topic is
recognized by the id that it had when it was last read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesql.errors import RunError
from lakesql.progress.advice import fix_by_refill, fix_by_reread, rewind_command
from lakesql.progress.state import (
    Decision,
    Fresh,
    ProgressState,
    Resume,
    StartFrom,
    newest_batch,
)
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import (
    NO_ID,
    Position,
    Positions,
    SourceState,
    is_another,
)


def check_topics(
    state: ProgressState, decision: Decision, has_lost: bool = False
) -> Decision:
    """The unchanged decision, or, with `accept_data_loss`, a start after the records
    that are gone.

    `has_lost`: another loss beside that of the topics has been accepted. Raises
    `RunError`: `topic-recreated`, `data-lost`, `nothing-lost`.
    """
    _check_ids(state, decision)
    return check_offsets(state, decision, has_lost)


def check_offsets(
    state: ProgressState, decision: Decision, has_lost: bool = False
) -> Decision:
    """The result of `check_topics` without comparing the topics' ids, for topics that
    are known to be the same."""
    positions = next_positions(state, decision)
    _check_ends(state, positions)
    lost = {
        source.name: _find_lost(source, positions.get(source.name))
        for source in state.sources
    }
    if any(lost.values()):
        return _go_on_without(state, positions, lost)
    if state.accept_data_loss and not has_lost:
        raise RunError.of(
            "nothing-lost",
            f"Model '{state.model}' was to continue with a loss of records, and none is lost.",
            why="Accepting a loss that nobody has seen would hide the next one.",
            fix="Run it without --accept-data-loss. Where that says that records are gone all the same, read again. "
            f"{fix_by_reread(state)}",
        )
    return decision


def check_upstream(state: ProgressState, decision: Decision) -> None:
    """Raise `RunError` (`upstream-rebuilt`) if a streamed table was rebuilt since it
    was last read."""
    positions = next_positions(state, decision)
    for source in state.sources:
        position = positions.get(source.name)
        if (
            source.rebuilt
            and isinstance(position, dict)
            and position.get("snapshot_id") not in source.rebuilt
        ):
            raise RunError.of(
                "upstream-rebuilt",
                f"Table '{source.name}', which model '{state.model}' streams, has been rebuilt since it was last read.",
                why="The rows that this model has read of it are not in it any more, and others are there in their "
                "place.",
                fix=f"To take those: lakesql rebuild {state.model}",
            )


def check_snapshots(state: ProgressState, decision: Decision) -> None:
    """Raise `RunError` if the history of a streamed table no longer has the snapshot up
    to which it was read: the table was rolled back (`upstream-rolled-back`), or the
    snapshot is gone (`upstream-expired`)."""
    positions = next_positions(state, decision)
    for source in state.sources:
        position = positions.get(source.name)
        if source.history is None:
            continue
        at = position.get("snapshot_id") if isinstance(position, dict) else None
        if at is None or at < 0 or at in source.history:
            continue
        refill = f"lakesql rebuild {state.model}"
        if at in source.abandoned:
            when = datetime.fromtimestamp(source.abandoned[at] / 1000, UTC).isoformat(
                timespec="seconds"
            )
            raise RunError.of(
                "upstream-rolled-back",
                f"Table '{source.name}', which model '{state.model}' streams, was read up to its snapshot {at} of "
                f"{when}, and no longer leads on from there: somebody has rolled it back.",
                why="The rows that were read of the snapshots since are in the model's table, and not in this one.",
                fix=f"To have what is in it now: {refill}. Or set the table forward to that snapshot again: CALL "
                f"<catalog>.system.set_current_snapshot('<namespace>.<table>', {at})",
            )
        raise RunError.of(
            "upstream-expired",
            f"Table '{source.name}', which model '{state.model}' streams, was read up to its snapshot {at}, which is "
            "gone: it has expired, or the table was rolled back, or made again.",
            why="Which rows have come since nobody can tell.",
            fix=f"To have what is in it now: {refill}",
        )


def find_cut(state: ProgressState, decision: Decision) -> list[str]:
    """The names of the streamed tables that are read from their first snapshot on,
    although it has expired.

    That can be so for a new model, one that read something else before, or one that was
    rewound.
    """
    positions = next_positions(state, decision)
    cut = [source for source in state.sources if source.is_cut]
    return [
        each.name
        for each in cut
        if SOURCES[each.kind].is_at_start(positions.get(each.name))
    ]


def next_positions(state: ProgressState, decision: Decision) -> Positions:
    """The positions at which the next batch begins; empty if the streams' `start`
    decides."""
    match decision:
        case Fresh():
            return {}
        case StartFrom(positions=positions):
            return positions
        case Resume(last=last):
            checkpoint = state.checkpoint
            assert checkpoint is not None
            # A stateful query reads a batch again that is in the table already: its
            # state needs the batch.
            done = (
                checkpoint.newest_committed
                if state.shape
                else max(last, checkpoint.newest_committed)
            )
            return _positions_after(state, done)


def _positions_after(state: ProgressState, batch: int) -> Positions:
    """The positions of the sources after a batch of the checkpoint; empty if the
    checkpoint does not have it."""
    stands = state.checkpoint.positions.get(batch) if state.checkpoint else None
    if stands is None:
        return {}
    names = [source.name for source in state.sources]
    named = dict(zip(names, stands, strict=True)) if len(stands) == len(names) else {}
    is_ordered = bool(named) and not state.shape
    return {
        source.name: SOURCES[source.kind].find_position(
            source, named.get(source.name), stands, is_ordered
        )
        for source in state.sources
    }


def _check_ids(state: ProgressState, decision: Decision) -> None:
    positions = next_positions(state, decision)
    known = (
        state.entry.topics
        if isinstance(decision, StartFrom) and state.entry
        else known_topics(state)
    )
    for source in state.sources:
        for topic, id_ in source.topics.items():
            if is_another(known.get(topic, id_), id_) and topic in (
                positions.get(source.name) or {}
            ):
                raise RunError.of(
                    "topic-recreated",
                    f"Topic '{topic}' has the id {id_}; model '{state.model}' has read a topic of that name with the "
                    f"id {known[topic]}.",
                    why="It was deleted and made again. Going on at the old offsets would skip its first records.",
                    fix=fix_by_refill(state)
                    if state.shape
                    else f"To read the new topic from its beginning: `{_from_its_beginning(state)}`",
                )


def _from_its_beginning(state: ProgressState) -> str:
    return (
        f"lakesql rewind {state.model}"
        if state.entry or state.is_companion
        else rewind_command(state, "start")
    )


def _check_ends(state: ProgressState, positions: Positions) -> None:
    """Raise `RunError` (`data-lost`) if a partition ends before the offset that was
    read, or that was planned and is to be read again."""
    planned = (
        _positions_after(state, state.checkpoint.newest_planned)
        if state.checkpoint
        else {}
    )
    cut = {
        f"{topic}-{partition} ends at {end}, {at} was reached": None
        for source in state.sources
        for position in (positions.get(source.name), planned.get(source.name))
        if (offsets := SOURCES[source.kind].offsets(position)) is not None
        for topic, ends in sorted(source.ends.items())
        for partition, end in sorted(ends.items())
        if (at := int(offsets.get(topic, {}).get(str(partition), 0))) > end
    }
    if cut:
        raise RunError.of(
            "data-lost",
            f"A topic ends before the offset up to which model '{state.model}' has read it: {', '.join(cut)}.",
            why="Its last records were lost or cut off, or an older copy of it was put back. What is written there "
            "next would be skipped.",
            fix=fix_by_reread(state),
        )


def known_topics(state: ProgressState) -> dict[str, str]:
    """The ids of the topics as the model last read them: from the newest batch in the
    ledger if this checkpoint wrote it, else from what the checkpoint was made with.
    Each completes the other."""
    checkpoint, entry = state.checkpoint, state.entry
    made = checkpoint.origin.topics if checkpoint and checkpoint.origin else {}
    written = entry.topics if entry else {}
    is_own = (
        checkpoint is not None
        and entry is not None
        and entry.checkpoint == checkpoint.id
    )
    older, newer = (made, written) if is_own else (written, made)
    return {
        **older,
        **{
            topic: id_
            for topic, id_ in newer.items()
            if id_ != NO_ID or topic not in older
        },
    }


@dataclass(frozen=True, slots=True)
class _Lost:
    """Offsets of a partition that are gone from the broker, from `first` up to but
    without `end`. `end` is None if the whole partition is gone."""

    topic: str
    partition: int
    first: int
    end: int | None

    def __str__(self) -> str:
        until = "on" if self.end is None else f"to {self.end - 1}"
        return f"{self.topic}-{self.partition}: {self.first} {until}"


@dataclass(frozen=True, slots=True)
class _LostBehind:
    """A loss after a place in a log whose records have no numbers, so that nobody can
    tell which are gone. A reader that accepts the loss continues at `follows`."""

    topic: str
    partition: str
    place: Position
    why: str
    follows: Position

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: behind {json.dumps(self.place)}"


_AnyLost = _Lost | _LostBehind


def _find_lost(source: SourceState, position: Position) -> tuple[_AnyLost, ...]:
    """The records between a position and where the partitions begin now. A partition
    that the position does not have is expected from offset 0 on."""
    if source.find_expired is not None and isinstance(position, dict):
        expired = source.find_expired(position)
        return tuple(
            _LostBehind(
                topic, partition, position[topic].get(partition), lost.why, lost.follows
            )
            for (topic, partition), lost in sorted(expired.items())
        )
    offsets = SOURCES[source.kind].offsets(position)
    if not source.is_asked or not offsets:
        return ()
    found = [
        _Lost(topic, partition, at, begins)
        for topic, partitions in source.beginnings.items()
        for partition, begins in partitions.items()
        if begins > (at := int(offsets.get(topic, {}).get(str(partition), 0))) >= 0
    ]
    found += [
        _Lost(topic, int(partition), int(at), None)
        for topic, partitions in offsets.items()
        for partition, at in partitions.items()
        if int(partition) not in source.beginnings.get(topic, {})
    ]
    return tuple(sorted(found, key=lambda lost: (lost.topic, lost.partition)))


def _go_on_without(
    state: ProgressState, positions: Positions, lost: Mapping[str, tuple[_AnyLost, ...]]
) -> StartFrom:
    all_lost = [each for found in lost.values() for each in found]
    numbered = [each for each in all_lost if isinstance(each, _Lost)]
    expired = [each for each in numbered if each.end is not None]
    deleted = [each for each in numbered if each.end is None]
    said, reasons = [], []
    for each in all_lost:
        if isinstance(each, _LostBehind):
            said.append(
                f"Of what model '{state.model}' has not read of {each.topic}-{each.partition}, {each.why}"
            )
    if expired:
        count = sum((each.end or 0) - each.first for each in expired)
        said.append(
            f"{count} offsets that model '{state.model}' has not read are gone from the broker: {_list(expired)}."
        )
        reasons.append(
            "The topic's retention is shorter than the time since the last run, or records were deleted."
        )
    if deleted:
        said.append(
            f"Model '{state.model}' has read partitions that are not found any more: {_list(deleted)}."
        )
        reasons.append(
            "Their topic was deleted, or the stream has other topics now: what was not read is lost to it."
        )
    if state.shape:
        why = "The model keeps state between batches, which a new checkpoint does not have."
        raise RunError.of(
            "data-lost", " ".join(said), why=why, fix=fix_by_refill(state)
        )
    if not state.accept_data_loss:
        raise RunError.of(
            "data-lost",
            " ".join(said),
            why=" ".join(reasons),
            fix="Bring them back if there is a copy, or continue without them, which the table's ledger keeps: lakesql "
            f"run --select {state.model} --accept-data-loss",
        )
    moved = {name: _move(positions.get(name), found) for name, found in lost.items()}
    shown = _list(all_lost)
    accepted = ", ".join(
        dict.fromkeys([*filter(None, state.accepted.split(", ")), *map(str, all_lost)])
    )
    because = f"Records are lost, and that is accepted: {shown}"
    return StartFrom(
        {**positions, **moved}, newest_batch(state.entry), because, accepted=accepted
    )


def _list(lost: Sequence[_AnyLost]) -> str:
    return ", ".join(map(str, lost))


def _move(position: Position, lost: tuple[_AnyLost, ...]) -> Position:
    """The position without the partitions that are gone, and with the others of `lost`
    at their present beginnings."""
    if not lost:
        return position
    moved = {topic: dict(partitions) for topic, partitions in position.items()}
    for each in lost:
        if isinstance(each, _LostBehind):
            moved[each.topic][each.partition] = each.follows
        elif each.end is None:
            del moved[each.topic][str(each.partition)]
        else:
            moved.setdefault(each.topic, {})[str(each.partition)] = each.end
    return {topic: partitions for topic, partitions in moved.items() if partitions}
