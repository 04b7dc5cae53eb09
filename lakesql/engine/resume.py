"""Where a model's query goes on: its checkpoint and its table's ledger, compared before anything is written. Pure.

A query may go on only where the two agree. Where they do not, somebody has rolled a table back, lost, copied or
restored a checkpoint, or changed what the checkpoint was made for: each has a condition that names both sides and the
command that mends it. A checkpoint that is gone is made again from the ledger, which needs no command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lakesql.engine.ledger import Entry
from lakesql.errors import RunError

Position = Any
"""Where a source stands, as Spark's JSON has it: the value of `lakesql.offsets` for one stream."""

Positions = Mapping[str, Position]
"""By stream; one that is missing starts where the stream says."""

SourceKind = Literal["kafka", "recorded", "table", "files", "rate"]

THROUGH = "through"
"""In the position of a recorded stream: by topic, the last file that was read. Spark's own position counts batches of
files, which means nothing without the list of them in its checkpoint."""

RETAINED = 100
"""How many of the newest batches Spark keeps the files of; older ones may go in any order."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a checkpoint."""

    checkpoint: str
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What lakesql keeps in a checkpoint beside Spark's files: what it was made for, and what it follows.

    `table_id` is the table's UUID. `follows` is the newest batch in the table's ledger when the checkpoint was made,
    `topics` the ids of Kafka's topics then. `accepted` names the records that were known to be lost. `start_ms` stands
    in the place of the streams' `start`. The batches after `empty_after`, up to `empty_through`, have no row and so no
    commit.
    """

    model: str
    table_id: str
    streams: tuple[str, ...]
    state: str
    follows: Batch | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    accepted: str = ""
    start_ms: int | None = None
    empty_after: int = -1
    empty_through: int = -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as its files are.

    `id` is empty where the file that holds it is gone. `planned` are the batches in `offsets/`, `committed` those in
    `commits/`. `positions` are where the sources stand after the newest of each. `damage` says what cannot be read.
    """

    id: str
    planned: frozenset[int]
    committed: frozenset[int]
    positions: Mapping[int, tuple[Position, ...]]
    origin: Origin | None = None
    damage: str = ""

    @property
    def newest_planned(self) -> int:
        """The newest batch whose positions are fixed; -1 before the first."""
        return max(self.planned, default=-1)

    @property
    def newest_committed(self) -> int:
        """The newest batch that Spark knows to be done; -1 before the first."""
        return max(self.committed, default=-1)


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of the model as it is now. For Kafka: the id of each topic, and the first offset that is still there."""

    name: str
    kind: SourceKind
    topics: Mapping[str, str] = field(default_factory=dict)
    beginnings: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is compared. `table_id` is empty where there is no table, `state` where the model is stateless.

    `is_keyed`: the table's rows are replaced by key, so that reading again doubles none. `is_sparse`: batches without
    a row leave no trace, neither in the table nor in the checkpoint (a table of dead letters).
    """

    model: str
    table: str
    table_id: str
    folder: str
    sources: tuple[Source, ...]
    state: str
    checkpoint: Checkpoint | None
    entry: Entry | None
    is_keyed: bool = False
    is_sparse: bool = False
    accept_data_loss: bool = False


@dataclass(frozen=True, slots=True)
class Fresh:
    """There is neither a checkpoint nor a batch: a new checkpoint starts where the streams say."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The checkpoint goes on. `last` is its newest batch in the table, -1 before the first."""

    last: int


@dataclass(frozen=True, slots=True)
class StartFrom:
    """A new checkpoint is made that goes on at `positions`, after the batch `follows` of the table's ledger.

    `start_ms` is the time at which sources without a position start, if not the streams' own. `because` says why, for
    people; `accepted` which records are lost by it.
    """

    positions: Positions
    follows: Batch | None
    because: str
    start_ms: int | None = None
    accepted: str = ""


Decision = Fresh | Resume | StartFrom


def decide(facts: Facts) -> Decision:
    """Where the query goes on. Raises `RunError` where the checkpoint and the ledger do not agree."""
    checkpoint, entry = facts.checkpoint, facts.entry
    decision: Decision
    if checkpoint is None or _has_never_run(facts, checkpoint):
        decision = Fresh() if entry is None else _start_from_ledger(facts, entry)
    else:
        decision = _resume(facts, checkpoint)
    return _check_topics(facts, decision)


def newest_batch(entry: Entry | None) -> Batch | None:
    """The batch that an entry records."""
    return Batch(entry.checkpoint, entry.batch) if entry else None


def spark_position(position: Position) -> Position:
    """A position without what lakesql adds to it."""
    if isinstance(position, dict) and THROUGH in position:
        return {key: value for key, value in position.items() if key != THROUGH}
    return position


def can_start_from(kind: SourceKind, position: Position) -> bool:
    """Whether a position alone says what has been read. A position of plain files needs Spark's list of them."""
    match kind:
        case "kafka" | "table":
            return isinstance(position, dict)
        case "recorded":
            return isinstance(position, dict) and THROUGH in position
        case "files" | "rate":
            return False


def ledger_positions(sources: tuple[Source, ...], entry: Entry) -> dict[str, Position]:
    """Where the ledger says that each of the streams stands, without topics that were deleted or made anew."""
    stands = entry.positions
    found = {}
    for source in sources:
        if source.name not in stands:
            continue
        position = stands[source.name]
        if source.kind == "kafka":
            gone = {topic for topic, id_ in entry.topics.items() if source.topics.get(topic) != id_}
            position = {topic: offsets for topic, offsets in position.items() if topic not in gone}
        found[source.name] = position
    return found


Target = Literal["ledger", "checkpoint", "start"] | int
"""Where an operator has a model go on: where its table stands, where its checkpoint stands, where its streams start, or
at a time, in milliseconds since the epoch."""


def choose_start(facts: Facts, to: Target, allow_doubles: bool = False) -> StartFrom:
    """The start that an operator asks for. Raises `RunError` (`rewind-impossible`, `rewind-doubles`)."""
    follows = newest_batch(facts.entry)
    again = f"reads the streams from {'their start' if to == 'start' else 'that time'} on"
    match to:
        case "ledger":
            positions = _ledger_start(facts)
            return StartFrom(
                positions,
                follows,
                f"goes on where the table stands, after {_shown(facts.entry)}",
                accepted=_loss(facts),
            )
        case "checkpoint":
            positions = _checkpoint_start(facts)
            return StartFrom(positions, follows, "goes on where the checkpoint stands", accepted=_loss(facts))
        case _:
            start_ms = None if to == "start" else to
            if start_ms is not None and any(source.kind in ("table", "rate") for source in facts.sources):
                raise _impossible(facts, "a stream that is a table or a generator cannot be read from a time on", "")
            if facts.entry is not None and not facts.is_keyed and to == "start" and not allow_doubles:
                raise _refusal(
                    "rewind-doubles",
                    f"Reading all again would write a second row for each record that table {facts.table} holds: it "
                    f"stands at {_shown(facts.entry)}.",
                    "In mode 'append' no row replaces another.",
                    f"Drop the table first. Where its rows are gone already, or may stand twice: lakesql rewind "
                    f"{facts.model} --to start --allow-doubles",
                )
            return StartFrom({}, follows, again, start_ms)


def _loss(facts: Facts) -> str:
    return facts.entry.accepted if facts.entry else ""


def _ledger_start(facts: Facts) -> Positions:
    entry, checkpoint = facts.entry, facts.checkpoint
    if facts.state:
        raise _impossible(facts, "the model keeps state between batches, which is not in the ledger", _refill(facts))
    if entry is None:
        raise _impossible(facts, f"table {facts.table} has no batch of it", _refill(facts))
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
                f"Name a time: lakesql rewind {facts.model} --to 2026-01-31T12:00:00Z, or read all again: lakesql "
                f"rewind {facts.model} --to start",
            )
    return positions


def _checkpoint_start(facts: Facts) -> Positions:
    checkpoint, entry = facts.checkpoint, facts.entry
    if facts.state:
        raise _impossible(
            facts, "the model keeps state between batches, which a new checkpoint has not", _refill(facts)
        )
    stands = None
    if checkpoint is not None:
        is_planned = entry is not None and newest_batch(entry) == Batch(checkpoint.id, checkpoint.newest_planned)
        stands = checkpoint.positions.get(checkpoint.newest_planned if is_planned else checkpoint.newest_committed)
    if checkpoint is None or stands is None:
        raise _impossible(facts, f"no checkpoint at {facts.folder} says where it stands", _mend(facts))
    names = checkpoint.origin.streams if checkpoint.origin else tuple(source.name for source in facts.sources)
    if len(names) != len(stands):
        raise _impossible(facts, "its checkpoint has another number of streams", _mend(facts))
    now = {source.name for source in facts.sources}
    return {name: position for name, position in zip(names, stands, strict=True) if name in now}


def _impossible(facts: Facts, because: str, fix: str) -> RunError:
    return _refusal("rewind-impossible", f"Model '{facts.model}' cannot go on from there: {because}.", "", fix)


# --- a checkpoint that is there


def _has_never_run(facts: Facts, checkpoint: Checkpoint) -> bool:
    """Whether no batch was planned in it, and nothing says that it is to be kept."""
    if checkpoint.planned or checkpoint.committed or checkpoint.damage:
        return False
    origin, entry = checkpoint.origin, facts.entry
    if entry is not None and entry.checkpoint == checkpoint.id:
        return False
    return origin is None or origin.follows != newest_batch(entry) or origin.table_id not in ("", facts.table_id)


def _resume(facts: Facts, checkpoint: Checkpoint) -> Resume:
    origin = checkpoint.origin
    if origin is not None and origin.model != facts.model:
        raise _refusal(
            "checkpoint-foreign",
            f"The checkpoint at {facts.folder} was made for model '{origin.model}', not for '{facts.model}'.",
            "It was copied.",
            _mend(facts),
        )
    _check_files(facts, checkpoint)
    if origin is not None and origin.table_id not in ("", facts.table_id) and not facts.is_sparse:
        raise _refusal(
            "table-recreated",
            f"Table {facts.table} {_has_id(facts.table_id)}; the checkpoint at {facts.folder} has filled a table with "
            f"the id {origin.table_id}.",
            "The table was dropped, and made again if there is one: what it held is not in it.",
            _refill(facts),
        )
    last = _last_batch(facts, checkpoint)
    _check_order(facts, checkpoint, last)
    _check_shape(facts, checkpoint)
    return Resume(last)


def _check_files(facts: Facts, checkpoint: Checkpoint) -> None:
    damage = checkpoint.damage or next(_damages(checkpoint), "")
    if damage:
        raise _refusal(
            "checkpoint-inconsistent",
            f"The checkpoint at {facts.folder} cannot be gone on with: {damage}.",
            f"Table {facts.table} stands at {_shown(facts.entry)}.",
            _mend(facts),
        )


def _damages(checkpoint: Checkpoint) -> Iterator[str]:
    planned, committed = checkpoint.newest_planned, checkpoint.newest_committed
    if not checkpoint.id:
        yield "its file `metadata`, which has its id, is gone"
    if planned - committed not in (0, 1):
        yield f"{_ends('offsets/', planned)} and {_ends('commits/', committed)}, which lie one batch apart at most"
    oldest = max(0, min(checkpoint.planned, default=0), planned - RETAINED + 1)
    missing = [number for number in range(oldest, planned) if number not in checkpoint.planned]
    if missing or (planned > 0 and planned - 1 not in checkpoint.planned):
        yield f"offsets/{missing[0] if missing else planned - 1} is missing"


def _ends(what: str, newest: int) -> str:
    return f"{what} ends at batch {newest}" if newest >= 0 else f"{what} has no batch"


def _last_batch(facts: Facts, checkpoint: Checkpoint) -> int:
    """The newest batch of this checkpoint in the table."""
    entry, origin = facts.entry, checkpoint.origin
    if entry is not None and entry.checkpoint == checkpoint.id:
        return entry.batch
    if origin is not None and newest_batch(entry) == origin.follows:
        return -1
    if facts.is_sparse and entry is None:
        return -1
    if entry is None:
        raise _refusal(
            "ledger-missing",
            f"The checkpoint at {facts.folder} has run up to batch {checkpoint.newest_committed}, and table "
            f"{facts.table} has no batch of model '{facts.model}' in its history.",
            "The table was made anew, rolled back to before them, or its history was expired by somebody else.",
            _refill(facts),
        )
    raise _refusal(
        "checkpoint-foreign",
        f"Table {facts.table} stands at {_shown(entry)}; the checkpoint at {facts.folder} is {checkpoint.id}.",
        "The checkpoint was copied or put back from elsewhere, or the table was rolled back to before it.",
        _mend(facts),
    )


def _check_order(facts: Facts, checkpoint: Checkpoint, last: int) -> None:
    done, origin = checkpoint.newest_committed, checkpoint.origin
    if last > checkpoint.newest_planned:
        raise _refusal(
            "checkpoint-behind",
            f"Table {facts.table} stands at batch {last}; the checkpoint at {facts.folder} ends at batch "
            f"{checkpoint.newest_planned}.",
            "Files of the checkpoint are gone, or an older copy of it was put back.",
            _mend(facts),
        )
    planned = checkpoint.positions.get(last)
    if facts.entry is not None and last >= 0 and planned is not None:
        written = tuple(spark_position(position) for position in facts.entry.positions.values())
        if written != planned:
            raise _refusal(
                "checkpoint-inconsistent",
                f"Batch {last} of the checkpoint at {facts.folder} ends elsewhere than batch {last} in table "
                f"{facts.table}.",
                f"The checkpoint says {_short(planned)}, the table {_short(written)}.",
                _mend(facts),
            )
    has_rows = done > last and not (origin and origin.empty_after == last and origin.empty_through >= done)
    if has_rows and not facts.is_sparse:
        raise _refusal(
            "table-behind",
            f"Table {facts.table} stands at {f'batch {last}' if last >= 0 else 'no batch'}; the checkpoint at "
            f"{facts.folder} has written up to batch {done}.",
            "Somebody has rolled the table back, or restored it.",
            f"To write again what is missing: lakesql rewind {facts.model}. To leave it out, and go on after it: "
            f"lakesql rewind {facts.model} --to checkpoint"
            if facts.entry is not None and not facts.state
            else _refill(facts),
        )


def _check_shape(facts: Facts, checkpoint: Checkpoint) -> None:
    """What the checkpoint was made for against what the model is now."""
    origin, entry = checkpoint.origin, facts.entry
    if origin is not None:
        streams, state = origin.streams, origin.state
    elif entry is not None:
        streams, state = tuple(entry.positions), entry.state
    else:
        return
    _check_streams(facts, streams)
    if state != facts.state:
        raise _refusal(
            "state-changed",
            f"Model '{facts.model}' {_keeps(facts.state)}, and its checkpoint at {facts.folder} {_keeps(state)}.",
            "What the query keeps between batches follows its GROUP BY, its aggregates, its joins and DISTINCT. What "
            "was kept for the old ones is of no use to the new ones.",
            _refill(facts) if facts.state else _mend(facts),
        )


def _check_streams(facts: Facts, before: tuple[str, ...]) -> None:
    now = tuple(source.name for source in facts.sources)
    if before == now or any(name.isdigit() for name in before):  # a query that Spark reads its streams in twice
        return
    raise _refusal(
        "streams-changed",
        f"Model '{facts.model}' reads {_list(now)}, and its checkpoint at {facts.folder} was made for {_list(before)}.",
        "A checkpoint numbers its streams by their place in the SELECT.",
        _refill(facts)
        if facts.state
        else f"To go on with those that stay, and begin with those that are new: lakesql rewind {facts.model}",
    )


# --- a checkpoint that is gone


def _start_from_ledger(facts: Facts, entry: Entry) -> StartFrom:
    if facts.checkpoint is None or not facts.checkpoint.id:
        gone = f"There is no checkpoint at {facts.folder}"
    else:
        gone = f"The checkpoint at {facts.folder} has never run"
    because = f"{gone}: a new one goes on where table {facts.table} stands, after {_shown(entry)}"
    if facts.state:
        raise _refusal(
            "checkpoint-lost",
            f"{gone}, and table {facts.table} stands at {_shown(entry)}.",
            "The model keeps state between batches, which was in the checkpoint.",
            _refill(facts),
        )
    _check_streams(facts, tuple(entry.positions))
    lacking = [source for source in facts.sources if not can_start_from(source.kind, entry.positions.get(source.name))]
    if lacking:
        what = {"files": "plain files", "rate": "a generator"}.get(lacking[0].kind, "what it is now")
        again = "Or read all again" if facts.is_keyed else "Or drop the table and read all again"
        raise _refusal(
            "checkpoint-lost",
            f"{gone}, and table {facts.table} stands at {_shown(entry)}.",
            f"Stream '{lacking[0].name}' reads {what}: which of it had been read stood in the checkpoint alone.",
            "Put the checkpoint back if there is a copy. Else take what is older than a time as read, such as: lakesql "
            f"rewind {facts.model} --to 2026-01-31T12:00:00Z. {again}: lakesql rewind {facts.model} --to start",
        )
    return StartFrom(entry.positions, newest_batch(entry), because, accepted=entry.accepted)


# --- Kafka's topics


def _check_topics(facts: Facts, decision: Decision) -> Decision:
    """Topics that were made anew, and records that the broker no longer has. They are known by what was read last."""
    known = _known_topics(facts)
    positions = _next_positions(facts, decision)
    anew = [
        (topic, known[topic], id_)
        for source in facts.sources
        for topic, id_ in source.topics.items()
        if known.get(topic, id_) != id_ and topic in (positions.get(source.name) or {})
    ]
    if anew:
        topic, before, now = anew[0]
        raise _refusal(
            "topic-recreated",
            f"Topic '{topic}' has the id {now}; model '{facts.model}' has read a topic of that name with the id "
            f"{before}.",
            "It was deleted and made again. Going on at the old offsets would skip its first records.",
            f"To read the new topic from its beginning: lakesql rewind {facts.model}"
            if not facts.state
            else _refill(facts),
        )
    lost = [found for source in facts.sources for found in _lost(source, positions.get(source.name))]
    if not lost:
        if facts.accept_data_loss:
            raise _refusal(
                "nothing-lost",
                f"Model '{facts.model}' was to go on with a loss of records, and none is lost.",
                "Accepting a loss that nobody has seen would hide the next one.",
                "Run it without --accept-data-loss.",
            )
        return decision
    shown = ", ".join(f"{topic}-{partition}: {first} to {end - 1}" for topic, partition, first, end in lost)
    if not facts.accept_data_loss:
        count = sum(end - first for _, _, first, end in lost)
        raise _refusal(
            "data-lost",
            f"{count} offsets that model '{facts.model}' has not read are gone from the broker: {shown}.",
            "The topic's retention is shorter than the time since the last run, or its records were deleted.",
            f"Bring them back if there is a copy, or go on without them, which the table's ledger keeps: lakesql run "
            f"--select {facts.model} --accept-data-loss",
        )
    if facts.state:
        raise _refusal(
            "data-lost",
            f"Offsets that model '{facts.model}' has not read are gone from the broker: {shown}.",
            "The model keeps state between batches, which a new checkpoint does not have.",
            _refill(facts),
        )
    moved = {**positions}
    for source in facts.sources:
        moved[source.name] = _move(positions.get(source.name), _lost(source, positions.get(source.name)))
    accepted = ", ".join(filter(None, [facts.entry.accepted if facts.entry else "", shown]))
    return StartFrom(
        moved, newest_batch(facts.entry), f"Records are lost, and that is accepted: {shown}", None, accepted
    )


def _known_topics(facts: Facts) -> dict[str, str]:
    origin = facts.checkpoint.origin if facts.checkpoint else None
    return {**(origin.topics if origin else {}), **(facts.entry.topics if facts.entry else {})}


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
            stands = checkpoint.positions.get(max(last, checkpoint.newest_committed))
            if stands is None or len(stands) != len(facts.sources):
                return {}
            return dict(zip((source.name for source in facts.sources), stands, strict=True))


def _lost(source: Source, position: Position) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, first offset and end of what lies between a position and where the partitions begin now."""
    if source.kind != "kafka" or not isinstance(position, dict):
        return
    for topic, partitions in sorted(position.items()):
        for partition, at in sorted((int(number), at) for number, at in partitions.items()):
            begins = source.beginnings.get(topic, {}).get(partition, at)
            if begins > at >= 0:
                yield topic, partition, at, begins


def _move(position: Position, lost: Iterator[tuple[str, int, int, int]]) -> Position:
    if not isinstance(position, dict):
        return position
    moved = {
        topic: dict(partitions) if isinstance(partitions, dict) else partitions
        for topic, partitions in position.items()
    }
    for topic, partition, _, end in lost:
        moved[topic][str(partition)] = end
    return moved


# --- words


def _refusal(condition: str, what: str, why: str, fix: str) -> RunError:
    return RunError.of(condition, what, why=why, fix=fix)


def _mend(facts: Facts) -> str:
    """What to do where the table is right, and its checkpoint is not."""
    if facts.state or facts.entry is None:
        return _refill(facts)
    return f"To go on where the table stands: lakesql rewind {facts.model}. The old checkpoint is kept."


def _refill(facts: Facts) -> str:
    """What to do where the table must be filled from the start."""
    start = f"lakesql rewind {facts.model} --to start"
    if facts.is_keyed or not facts.table_id or (facts.entry is None and not facts.state):
        again = f"To read all again: {start}"
    else:
        again = f"Drop the table, or its rows would stand there twice, and read all again: {start}"
    checkpoint = facts.checkpoint
    if facts.state or checkpoint is None or checkpoint.damage or not checkpoint.positions:
        return again
    return f"{again}. To go on with what has not been read yet: lakesql rewind {facts.model} --to checkpoint"


def _shown(entry: Entry | None) -> str:
    return f"batch {entry.batch} of checkpoint {entry.checkpoint}" if entry else "no batch of the model"


def _has_id(table_id: str) -> str:
    return f"has the id {table_id}" if table_id else "does not exist"


def _keeps(state: str) -> str:
    return f"keeps state of the shape {state}" if state else "keeps no state"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _short(positions: tuple[Position, ...]) -> str:
    text = ", ".join(map(str, positions))
    return text if len(text) < 200 else text[:200] + "…"
