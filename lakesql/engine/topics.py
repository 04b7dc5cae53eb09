"""Whether what a query is to read next is still what Kafka's topics hold. Pure.

Topics may have been made anew, and records may be gone from the broker. Topics are known by what was read last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.engine.advice import from_start, refill, reread
from lakesql.engine.facts import Decision, Facts, Fresh, Resume, StartFrom, newest_batch
from lakesql.engine.position import Position, Positions, Source
from lakesql.errors import RunError


def check_topics(facts: Facts, decision: Decision) -> Decision:
    """The decision as it was, or with `accept_data_loss` a start behind the records that are gone.

    Raises `RunError`: `topic-recreated`, `data-lost`, `nothing-lost`.
    """
    positions = _next_positions(facts, decision)
    _check_ids(facts, positions)
    lost = {source.name: _find_lost(source, positions.get(source.name)) for source in facts.sources}
    if any(lost.values()):
        return _go_on_without(facts, positions, lost)
    if facts.accept_data_loss:
        raise RunError.of(
            "nothing-lost",
            f"Model '{facts.model}' was to go on with a loss of records, and none is lost.",
            why="Accepting a loss that nobody has seen would hide the next one.",
            fix="Run it without --accept-data-loss. Where that says that records are gone all the same, read again. "
            f"{reread(facts)}",
        )
    return decision


def _next_positions(facts: Facts, decision: Decision) -> Positions:
    """Where the next batch that is read begins; nothing where the streams' `start` says it."""
    match decision:
        case Fresh():
            return {}
        case StartFrom(positions=positions):
            return positions
        case Resume(last=last):
            checkpoint = facts.checkpoint
            assert checkpoint is not None
            # A stateful query reads a batch again that is in the table already: its state must see it.
            done = checkpoint.newest_committed if facts.state else max(last, checkpoint.newest_committed)
            stands = checkpoint.positions.get(done)
            if stands is None or len(stands) != len(facts.sources):
                return {}
            positions = dict(zip((source.name for source in facts.sources), stands, strict=True))
            return {source.name: _position_of(source, positions) for source in facts.sources}


def _position_of(source: Source, positions: Positions) -> Position:
    """The source's own position: that of its topics. Spark may order a stateful query's sources as it likes."""
    own = positions[source.name]
    if source.kind != "kafka":
        return own
    read = [each for each in (own, *positions.values()) if isinstance(each, dict)]
    return next((each for each in read if each.keys() & source.topics.keys()), own)


def _check_ids(facts: Facts, positions: Positions) -> None:
    known = _known_topics(facts)
    for source in facts.sources:
        for topic, id_ in source.topics.items():
            if known.get(topic, id_) != id_ and topic in (positions.get(source.name) or {}):
                raise RunError.of(
                    "topic-recreated",
                    f"Topic '{topic}' has the id {id_}; model '{facts.model}' has read a topic of that name with the "
                    f"id {known[topic]}.",
                    why="It was deleted and made again. Going on at the old offsets would skip its first records.",
                    fix=refill(facts)
                    if facts.state
                    else "To read the new topic from its beginning: "
                    + (f"lakesql rewind {facts.model}" if facts.entry or facts.is_companion else from_start(facts)),
                )


def _known_topics(facts: Facts) -> dict[str, str]:
    origin = facts.checkpoint.origin if facts.checkpoint else None
    made = origin.topics if origin else {}
    written = facts.entry.topics if facts.entry else {}
    is_newer = origin is not None and origin.follows == newest_batch(facts.entry)
    return {**written, **made} if is_newer else {**made, **written}


@dataclass(frozen=True, slots=True)
class _Lost:
    """Offsets of a partition that are gone from the broker, from `first` up to and without `end`."""

    topic: str
    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.first} to {self.end - 1}"


def _find_lost(source: Source, position: Position) -> tuple[_Lost, ...]:
    """What lies between a position and where the partitions begin now. One that it does not know is read from 0 on."""
    if source.kind != "kafka" or not isinstance(position, dict) or not position:
        return ()
    return tuple(
        _Lost(topic, partition, at, begins)
        for topic, partitions in sorted(source.beginnings.items())
        for partition, begins in sorted(partitions.items())
        if begins > (at := int(position.get(topic, {}).get(str(partition), 0))) >= 0
    )


def _go_on_without(facts: Facts, positions: Positions, lost: Mapping[str, tuple[_Lost, ...]]) -> StartFrom:
    gone = [each for found in lost.values() for each in found]
    shown = ", ".join(map(str, gone))
    what = f"{sum(each.end - each.first for each in gone)} offsets that model '{facts.model}' has not read are gone "
    what += f"from the broker: {shown}."
    if facts.state:
        why = "The model keeps state between batches, which a new checkpoint does not have."
        raise RunError.of("data-lost", what, why=why, fix=refill(facts))
    if not facts.accept_data_loss:
        raise RunError.of(
            "data-lost",
            what,
            why="The topic's retention is shorter than the time since the last run, or its records were deleted.",
            fix="Bring them back if there is a copy, or go on without them, which the table's ledger keeps: lakesql "
            f"run --select {facts.model} --accept-data-loss",
        )
    moved = {name: _move(positions.get(name), found) for name, found in lost.items()}
    accepted = ", ".join(filter(None, [facts.entry.accepted if facts.entry else "", shown]))
    because = f"Records are lost, and that is accepted: {shown}"
    return StartFrom({**positions, **moved}, newest_batch(facts.entry), because, accepted=accepted)


def _move(position: Position, lost: tuple[_Lost, ...]) -> Position:
    """The position with the partitions of `lost` where they begin now."""
    if not lost:
        return position
    moved = {topic: dict(partitions) for topic, partitions in position.items()}
    for each in lost:
        moved.setdefault(each.topic, {})[str(each.partition)] = each.end
    return moved
