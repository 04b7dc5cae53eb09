"""Where a model's query goes on: its checkpoint and its table's ledger, compared before anything is written. Pure.

A query may go on only where the two agree. Where they do not, somebody has rolled a table back, lost, copied or
restored a checkpoint, or changed what the checkpoint was made for: each has a condition that names both sides and the
command that mends it. A checkpoint that is gone is made again from the ledger, which needs no command.

What is compared is in `facts.py`. Where a decision reads on from topics of Kafka, `topics.py` checks them. Where an
operator says where to go on, `rewind.py` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakesql.engine.advice import from_time, mend, refill, reread, say_entry
from lakesql.engine.facts import Checkpoint, Decision, Facts, Fresh, Resume, StartFrom, newest_batch
from lakesql.engine.ledger import Entry
from lakesql.engine.position import KIND_NAMES, Position, Positions, can_start_from, spark_position
from lakesql.engine.topics import check_topics
from lakesql.errors import RunError

RETAINED = 100
"""How many of the newest batches Spark keeps the files of; older ones may go in any order."""


def decide(facts: Facts) -> Decision:
    """Where the query goes on. Raises `RunError` where the checkpoint and the ledger do not agree."""
    checkpoint, entry = facts.checkpoint, facts.entry
    decision: Decision
    if checkpoint is None or _has_never_run(facts, checkpoint):
        decision = _start_afresh(facts) if entry is None else _start_from_ledger(facts, entry)
    else:
        decision = _resume(facts, checkpoint)
    return check_topics(facts, decision)


def decide_all(queries: Sequence[Facts]) -> list[Decision]:
    """Where each of a model's queries goes on. A loss that is accepted may be any one's."""
    decisions: list[Decision] = []
    unlost: list[RunError] = []
    for facts in queries:
        try:
            decisions.append(decide(facts))
        except RunError as error:
            if error.problems[0].condition != "nothing-lost":
                raise
            unlost.append(error)
            decisions.append(decide(replace(facts, accept_data_loss=False)))
    if unlost and len(unlost) == len(queries):
        raise unlost[0]
    return decisions


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
    if origin is not None and origin.model != facts.owner:
        raise RunError.of(
            "checkpoint-foreign",
            f"The checkpoint at {facts.folder} was made for model '{origin.model}', not for '{facts.owner}'.",
            why="It was copied.",
            fix=mend(facts),
        )
    _check_files(facts, checkpoint)
    if origin is not None and origin.table_id not in ("", facts.table_id) and not facts.is_companion:
        raise RunError.of(
            "table-recreated",
            f"Table {facts.table} {_has_id(facts.table_id)}; the checkpoint at {facts.folder} has filled a table with "
            f"the id {origin.table_id}.",
            why="The table was dropped, and made again if there is one: what it held is not in it.",
            fix=refill(facts),
        )
    last = _last_batch(facts, checkpoint)
    _check_order(facts, checkpoint, last)
    _check_shape(facts, checkpoint)
    return Resume(last)


def _check_files(facts: Facts, checkpoint: Checkpoint) -> None:
    damage = checkpoint.damage or next(_damages(checkpoint), "")
    if damage:
        raise RunError.of(
            "checkpoint-inconsistent",
            f"The checkpoint at {facts.folder} cannot be gone on with: {damage}.",
            why=f"Table {facts.table} stands at {say_entry(facts.entry)}.",
            fix=mend(facts),
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
    if facts.is_companion and entry is None:
        return -1
    if entry is None:
        raise _without_ledger(facts, checkpoint)
    raise RunError.of(
        "checkpoint-foreign",
        f"Table {facts.table} stands at {say_entry(entry)}; the checkpoint at {facts.folder} is {checkpoint.id}.",
        why="The checkpoint was copied or put back from elsewhere, or the table was rolled back to before it.",
        fix=mend(facts),
    )


def _without_ledger(facts: Facts, checkpoint: Checkpoint) -> RunError:
    return RunError.of(
        "ledger-missing",
        f"The checkpoint at {facts.folder} has run up to batch {checkpoint.newest_committed}, and table "
        f"{facts.table} has no batch of model '{facts.owner}' in its history.",
        why="The table was made anew, rolled back to before them, or its history was expired by somebody else.",
        fix=refill(facts),
    )


def _check_order(facts: Facts, checkpoint: Checkpoint, last: int) -> None:
    done, origin = checkpoint.newest_committed, checkpoint.origin
    if last > checkpoint.newest_planned:
        raise RunError.of(
            "checkpoint-behind",
            f"Table {facts.table} stands at batch {last}; the checkpoint at {facts.folder} ends at batch "
            f"{checkpoint.newest_planned}.",
            why="Files of the checkpoint are gone, or an older copy of it was put back.",
            fix=mend(facts),
        )
    planned = checkpoint.positions.get(last)
    if facts.entry is not None and last >= 0 and planned is not None:
        written = tuple(spark_position(position) for position in facts.entry.positions.values())
        if written != planned:
            raise RunError.of(
                "checkpoint-inconsistent",
                f"Batch {last} of the checkpoint at {facts.folder} ends elsewhere than batch {last} in table "
                f"{facts.table}.",
                why=f"The checkpoint says {_short(planned)}, the table {_short(written)}.",
                fix=mend(facts),
            )
    has_rows = done > last and not (origin and origin.empty_after == last and origin.empty_through >= done)
    if has_rows and not facts.is_companion:
        if facts.entry is None:
            raise _without_ledger(facts, checkpoint)
        raise RunError.of(
            "table-behind",
            f"Table {facts.table} stands at {f'batch {last}' if last >= 0 else 'no batch'}; the checkpoint at "
            f"{facts.folder} has written up to batch {done}.",
            why="Somebody has rolled the table back, or restored it.",
            fix=f"To write again what is missing: lakesql rewind {facts.model}. To leave it out, and go on after it: "
            f"lakesql rewind {facts.model} --to checkpoint"
            if not facts.state
            else refill(facts),
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
    for positions in checkpoint.positions.values():
        if len(positions) == len(streams):  # a query may read a stream in twice
            _check_kinds(facts, dict(zip(streams, positions, strict=True)))
    if state != facts.state:
        raise RunError.of(
            "state-changed",
            f"Model '{facts.model}' {_keeps(facts.state)}, and its checkpoint at {facts.folder} {_keeps(state)}.",
            why="What the query keeps between batches follows its GROUP BY, its aggregates, its joins and DISTINCT. "
            "What was kept for the old ones is of no use to the new ones.",
            fix=refill(facts) if facts.state else mend(facts),
        )


def _check_streams(facts: Facts, before: tuple[str, ...]) -> None:
    now = tuple(source.name for source in facts.sources)
    if before == now or any(name.isdigit() for name in before):  # a query that Spark reads its streams in twice
        return
    raise RunError.of(
        "streams-changed",
        f"Model '{facts.model}' reads {_list(now)}, and its checkpoint at {facts.folder} was made for {_list(before)}.",
        why="A checkpoint numbers its streams by their place in the SELECT.",
        fix=refill(facts)
        if facts.state
        else f"To go on with those that stay, and begin with those that are new: lakesql rewind {facts.model}",
    )


def _check_kinds(facts: Facts, positions: Positions) -> None:
    moved = facts.find_moved(positions)
    if moved is not None:
        raise RunError.of(
            "streams-changed",
            f"Stream '{moved.name}' reads {KIND_NAMES[moved.kind]} now; model '{facts.model}' has read something "
            "else of it.",
            why=f"It stood at {_short((positions[moved.name],))}, which is no place there.",
            fix=reread(facts),
        )


# --- a checkpoint that is gone


def _start_afresh(facts: Facts) -> Fresh:
    if facts.doubles and facts.may_be_forgotten:
        raise RunError.of(
            "ledger-missing",
            f"There is no checkpoint at {facts.folder}, and what is left of the history of table {facts.table}, which "
            f"holds rows, has no batch of model '{facts.model}'.",
            why="Its older snapshots were expired. With fence='lease' nothing keeps the newest batch of the model from "
            "that, so it may be among them: to read the streams from their start would double its rows.",
            fix=f"{reread(facts)}. That is right too where the model has never written the table.",
        )
    return Fresh()


def _start_from_ledger(facts: Facts, entry: Entry) -> StartFrom:
    if facts.checkpoint is None or not facts.checkpoint.id:
        gone = f"There is no checkpoint at {facts.folder}"
    else:
        gone = f"The checkpoint at {facts.folder} has never run"
    because = f"{gone}: a new one goes on where table {facts.table} stands, after {say_entry(entry)}"
    if facts.state:
        raise RunError.of(
            "checkpoint-lost",
            f"{gone}, and table {facts.table} stands at {say_entry(entry)}.",
            why="The model keeps state between batches, which was in the checkpoint.",
            fix=refill(facts),
        )
    _check_streams(facts, tuple(entry.positions))
    _check_kinds(facts, entry.positions)
    lacking = [source for source in facts.sources if not can_start_from(source.kind, entry.positions.get(source.name))]
    if lacking:
        raise RunError.of(
            "checkpoint-lost",
            f"{gone}, and table {facts.table} stands at {say_entry(entry)}.",
            why=f"Stream '{lacking[0].name}' reads {KIND_NAMES[lacking[0].kind]}: what had been read of it stood in "
            "the checkpoint alone.",
            fix=mend(facts)
            if facts.is_companion
            else f"Put the checkpoint back if there is a copy, or read again what is newer than a time. "
            f"{from_time(facts)}. {refill(facts)}",
        )
    return StartFrom(entry.positions, newest_batch(entry), because, accepted=entry.accepted)


# --- words of the refusals


def _has_id(table_id: str) -> str:
    return f"has the id {table_id}" if table_id else "does not exist"


def _keeps(state: str) -> str:
    return f"keeps state of the shape {state}" if state else "keeps no state"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _short(positions: tuple[Position, ...]) -> str:
    text = ", ".join(map(str, positions))
    return text if len(text) < 200 else text[:200] + "…"
