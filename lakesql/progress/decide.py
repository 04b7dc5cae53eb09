"""Where a model's query continues: its checkpoint and its table's ledger are compared
before anything is written. Pure.

A query may continue only if the two agree. They disagree if a table was rolled back, if
a checkpoint was lost, copied or restored, or if the model is no longer what the
checkpoint was made for. Each of these has a condition that names both sides and the
command that fixes it. A lost checkpoint is created again from the ledger, which needs
no command.

The values that are compared are in `state.py`. `topics.py` checks Kafka's topics before
they are read on; `start.py` decides where an operator names a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakesql.errors import Problem, RunError, quoted
from lakesql.ledger.entry import Entry
from lakesql.modes.written_as import find_break
from lakesql.names import REPLAY_SUFFIX
from lakesql.progress.advice import (
    fix_by_fill,
    fix_by_refill,
    fix_by_reread,
    fix_by_rewind,
    fix_by_time,
    rename_command,
    say_entry,
)
from lakesql.progress.position import rebuilt_starts
from lakesql.progress.state import (
    Checkpoint,
    Decision,
    Fresh,
    ProgressState,
    Resume,
    StartFrom,
    newest_batch,
)
from lakesql.progress.topics import (
    check_snapshots,
    check_topics,
    check_upstream,
    find_cut,
)
from lakesql.select.same_state import is_same_state
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import Position, Positions, spark_position

RETAINED = 100
"""The number of the newest batches whose files Spark keeps in a checkpoint; older files
may be deleted in any order."""


class OtherStreamsError(RunError):
    """A model reads other streams than those that its checkpoint was made for."""


class OtherKindError(RunError):
    """A stream is read from another kind of source than before, where its position
    means nothing. `reads` is a clause that names the stream and its present kind."""

    def __init__(self, problem: Problem, reads: str) -> None:
        super().__init__([problem])
        self.reads = reads


def decide(state: ProgressState) -> Decision:
    """Where the query continues. Raises `RunError` if checkpoint and ledger disagree,
    or if the sources no longer hold what is to be read next."""
    decision = compare_progress(state)
    check_upstream(state, decision)
    check_snapshots(state, decision)
    cut = find_cut(state, decision)
    if cut and not state.accept_data_loss:
        raise _begins_late(state, cut)
    return check_topics(state, decision, has_lost=bool(cut))


def compare_progress(state: ProgressState) -> Decision:
    """Where the query continues by its checkpoint and ledger alone, without looking at
    what topics and tables hold; of the sources only the kinds are compared.

    Raises `RunError` as `decide` does, except for the state of topics and tables.
    """
    checkpoint, entry = state.checkpoint, state.entry
    check_identity(state)
    if checkpoint is None or _has_never_run(state, checkpoint):
        return _begin(state) if entry is None else _start_from_ledger(state, entry)
    return _resume(state, checkpoint)


def _begin(state: ProgressState) -> Fresh | StartFrom:
    _check_writer(state)
    starts = rebuilt_starts(state.sources)
    tables = ", ".join(starts)
    return (
        StartFrom(starts, None, f"begins with the rows that a rebuild gave {tables}")
        if starts
        else Fresh()
    )


def _check_writer(state: ProgressState) -> None:
    """Raise `RunError` (`table-of-another`) if another model has written the rows of
    the table, and this one would add those of its streams from their start."""
    writer = (
        state.written.model.removesuffix(REPLAY_SUFFIX)
        if state.written
        else state.owner
    )
    if writer == state.owner or not state.would_duplicate or state.is_companion:
        return
    raise RunError.of(
        "table-of-another",
        f"Model '{state.model}' has no batch in table {state.table}, whose rows model '{writer}' has written.",
        why="It would read its streams from their start, and in mode 'append' every row that is there already would "
        "stand twice.",
        fix=f"If it was '{writer}' before: {rename_command(writer, state.model)}. If its streams hold other "
        f"records, or rows may stand twice, begin all the same. {fix_by_reread(state)}",
    )


def _begins_late(state: ProgressState, cut: Sequence[str]) -> RunError:
    """The error of a stream over a table that would begin after rows that nobody can
    read any more.

    Iceberg's stream begins with the oldest snapshot that still exists, and returns the
    rows that were added since.
    """
    return RunError.of(
        "upstream-expired",
        f"Model '{state.model}' is to begin with the table of {quoted(cut)}, whose first snapshots have expired: a "
        "stream gives only the rows that were added after them.",
        fix="To have all rows, rebuild that model: a stream begins with the rows of a rebuild. To begin with the "
        f"rows that the stream still gives: lakesql run --select {state.model} --accept-data-loss",
    )


def decide_all(queries: Sequence[ProgressState]) -> list[Decision]:
    """Where each of a model's queries continues. With `accept_data_loss` it suffices if
    one of them has lost records."""
    decisions: list[Decision] = []
    unlost: list[RunError] = []
    for state in queries:
        try:
            decisions.append(decide(state))
        except RunError as error:
            if error.problems[0].condition != "nothing-lost":
                raise
            unlost.append(error)
            decisions.append(decide(replace(state, accept_data_loss=False)))
    if unlost and len(unlost) == len(queries):
        raise unlost[0]
    return decisions


def check_rebuilt(state: ProgressState, known: str, query: str) -> None:
    """Raise `RunError` (`table-rebuilt`) if the table was rebuilt from another SELECT
    than `query`, while this run has written it from the checkpoint `known`."""
    entry = state.entry
    if (
        known
        and entry is not None
        and entry.checkpoint != known
        and entry.query != query
    ):
        raise RunError.of(
            "table-rebuilt",
            f"Table {state.table} has been rebuilt from another version of model '{state.model}' than this run has.",
            fix="Start the run again, to continue with the version that is in the project now.",
        )


def check_identity(state: ProgressState) -> None:
    """Raise `RunError` if the table's rows were written with a mode or keys that the
    model's present ones contradict, whichever model wrote them.

    A table without rows is not checked, nor one whose ledger entry has no mode, nor a
    companion's table of dead letters, which have no keys.
    """
    entry = state.written or state.entry
    if entry is None or not entry.mode or not state.has_rows or state.is_companion:
        return
    by = (
        f" by model '{entry.model}'"
        if entry.model.removesuffix(REPLAY_SUFFIX) != state.owner
        else ""
    )
    found = find_break(entry.written_as, state.written_as, state.table, by)
    if found is not None:
        raise RunError.of(
            found.condition,
            f"Model '{state.model}' {found.model_says}, and {found.table_was}.",
            why=found.why,
            fix=f"{found.fix} {fix_by_fill(state)}",
        )


# --- a checkpoint that is there


def _has_never_run(state: ProgressState, checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint has no batch and can be replaced, as it was not made to
    follow the newest batch of the table's ledger."""
    if checkpoint.planned or checkpoint.committed or checkpoint.damage:
        return False
    origin, entry = checkpoint.origin, state.entry
    if entry is not None and entry.checkpoint == checkpoint.id:
        return False
    return (
        origin is None
        or origin.follows != newest_batch(entry)
        or origin.table_id not in ("", state.table_id)
    )


def _resume(state: ProgressState, checkpoint: Checkpoint) -> Resume:
    origin = checkpoint.origin
    if origin is not None and origin.model != state.owner:
        raise RunError.of(
            "checkpoint-foreign",
            f"The checkpoint at {state.folder} was made for model '{origin.model}', not for '{state.owner}'.",
            why="It was copied.",
            fix=fix_by_rewind(state),
        )
    _check_files(state, checkpoint)
    if (
        origin is not None
        and origin.table_id not in ("", state.table_id)
        and not state.is_companion
    ):
        raise RunError.of(
            "table-recreated",
            f"Table {state.table} {_has_id(state.table_id)}; the checkpoint at {state.folder} has filled a table with "
            f"the id {origin.table_id}.",
            why="The table was dropped, and made again if there is one: what it held is not in it.",
            fix=fix_by_refill(state),
        )
    last = _last_batch(state, checkpoint)
    _check_order(state, checkpoint, last)
    _check_shape(state, checkpoint)
    _check_moved(state)
    return Resume(last)


def _check_files(state: ProgressState, checkpoint: Checkpoint) -> None:
    damage = checkpoint.damage or next(_damages(checkpoint), "")
    if damage:
        raise RunError.of(
            "checkpoint-inconsistent",
            f"The checkpoint at {state.folder} cannot be continued: {damage}.",
            why=f"Table {state.table} stands at {say_entry(state.entry)}.",
            fix=fix_by_rewind(state),
        )


def _damages(checkpoint: Checkpoint) -> Iterator[str]:
    planned, committed = checkpoint.newest_planned, checkpoint.newest_committed
    if not checkpoint.id:
        yield "its file `metadata`, which has its id, is gone"
    if planned - committed not in (0, 1):
        yield f"{_ends('offsets/', planned)} and {_ends('commits/', committed)}, which lie one batch apart at most"
    oldest = max(0, min(checkpoint.planned, default=0), planned - RETAINED + 1)
    missing = [
        number for number in range(oldest, planned) if number not in checkpoint.planned
    ]
    if missing or (planned > 0 and planned - 1 not in checkpoint.planned):
        yield f"offsets/{missing[0] if missing else planned - 1} is missing"


def _ends(what: str, newest: int) -> str:
    return f"{what} ends at batch {newest}" if newest >= 0 else f"{what} has no batch"


def _last_batch(state: ProgressState, checkpoint: Checkpoint) -> int:
    """The newest batch of this checkpoint that the table has; -1 if it has none. Raises
    `RunError` if the table's ledger is of another checkpoint or missing."""
    entry, origin = state.entry, checkpoint.origin
    if entry is not None and entry.checkpoint == checkpoint.id:
        return entry.batch
    if origin is not None and newest_batch(entry) == origin.follows:
        return -1
    if state.is_companion and entry is None:
        return -1
    if entry is None:
        raise _without_ledger(state, checkpoint)
    raise RunError.of(
        "checkpoint-foreign",
        f"Table {state.table} stands at {say_entry(entry)}; the checkpoint at {state.folder} is {checkpoint.id}.",
        why="The checkpoint was copied or put back from elsewhere, or the table was rolled back to before it.",
        fix=fix_by_rewind(state),
    )


def _without_ledger(state: ProgressState, checkpoint: Checkpoint) -> RunError:
    return RunError.of(
        "ledger-missing",
        f"The checkpoint at {state.folder} has run up to batch {checkpoint.newest_committed}, and table "
        f"{state.table} has no batch of model '{state.owner}' in its history.",
        why="The table was created again, rolled back to before them, or its history was expired by somebody else.",
        fix=fix_by_refill(state),
    )


def _check_order(state: ProgressState, checkpoint: Checkpoint, last: int) -> None:
    done, origin = checkpoint.newest_committed, checkpoint.origin
    if last > checkpoint.newest_planned:
        raise RunError.of(
            "checkpoint-behind",
            f"Table {state.table} stands at batch {last}; the checkpoint at {state.folder} ends at batch "
            f"{checkpoint.newest_planned}.",
            why="Files of the checkpoint are gone, or an older copy of it was put back.",
            fix=fix_by_rewind(state),
        )
    planned = checkpoint.positions.get(last)
    if state.entry is not None and last >= 0 and planned is not None:
        written = tuple(
            spark_position(position) for position in state.entry.positions.values()
        )
        if written != planned:
            raise RunError.of(
                "checkpoint-inconsistent",
                f"Batch {last} of the checkpoint at {state.folder} ends elsewhere than batch {last} in table "
                f"{state.table}.",
                why=f"The checkpoint says {_short(planned)}, the table {_short(written)}.",
                fix=fix_by_rewind(state),
            )
    has_rows = done > last and not (
        origin and origin.empty_after == last and origin.empty_through >= done
    )
    if has_rows and not state.is_companion:
        if state.entry is None:
            raise _without_ledger(state, checkpoint)
        raise RunError.of(
            "table-behind",
            f"Table {state.table} stands at {f'batch {last}' if last >= 0 else 'no batch'}; the checkpoint at "
            f"{state.folder} has written up to batch {done}.",
            why="Somebody has rolled the table back, or restored it.",
            fix=f"To write again what is missing: `lakesql rewind {state.model}`. To leave it out: "
            f"`lakesql rewind {state.model} --to checkpoint`"
            if not state.shape
            else fix_by_refill(state),
        )


def _check_shape(state: ProgressState, checkpoint: Checkpoint) -> None:
    """Raise `RunError` if the model's streams, kinds of source or state are not those
    that the checkpoint was made for."""
    origin, entry = checkpoint.origin, state.entry
    if origin is not None:
        streams, shape = origin.streams, origin.state
    elif entry is not None:
        streams, shape = tuple(entry.positions), entry.state
    else:
        return
    _check_streams(state, streams)
    for positions in checkpoint.positions.values():
        if len(positions) == len(streams):  # a query may read a stream in twice
            _check_kinds(state, dict(zip(streams, positions, strict=True)))
    if not is_same_state(shape, state.shape):
        raise RunError.of(
            "state-changed",
            f"Model '{state.model}' {_keeps(state.shape)}, and its checkpoint at {state.folder} {_keeps(shape)}.",
            why="What the query keeps between batches follows its GROUP BY, its aggregates, the WHERE below them, its "
            "joins and DISTINCT, and the types and columns of what these read. What was kept for the old ones is of no "
            "use to the new ones.",
            fix=fix_by_fill(state) if state.shape else fix_by_rewind(state),
        )


def _check_moved(state: ProgressState) -> None:
    moved = state.moved
    if moved is None:
        return
    raise RunError.of(
        "files-moved",
        f"The files that model '{state.model}' has read last are not where its streams read now, and {moved.count} of "
        f"their names are: {moved.old} was read, and {moved.new} is there.",
        why="Read again, they would bring the same records twice; passed over, new ones would be lost.",
        fix=f"If they are the same files: `lakesql rewind {state.model} --files same`. If they are others: "
        f"`lakesql rewind {state.model} --files new`",
    )


def _check_streams(state: ProgressState, before: tuple[str, ...]) -> None:
    now = tuple(source.name for source in state.sources)
    # Spark reads a stream of such a query twice
    if before == now or any(name.isdigit() for name in before):
        return
    raise OtherStreamsError.of(
        "streams-changed",
        f"Model '{state.model}' reads {quoted(now)}, and its checkpoint at {state.folder} was made for "
        f"{quoted(before)}.",
        why="A checkpoint numbers its streams by their place in the SELECT.",
        fix=fix_by_fill(state)
        if state.shape
        else "To continue with the streams and topics that stay, and begin with those that are new: "
        f"`lakesql rewind {state.model}`",
    )


def _check_kinds(state: ProgressState, positions: Positions) -> None:
    moved = state.find_moved(positions)
    if moved is not None:
        reads = f"Stream '{moved.name}' reads {SOURCES[moved.kind].label} now"
        problem = Problem(
            "streams-changed",
            f"{reads}; model '{state.model}' has read something else of it.",
            why=f"It stood at {_short((positions[moved.name],))}, which is no place there.",
            fix=fix_by_reread(state),
        )
        raise OtherKindError(problem, reads)


# --- a checkpoint that is gone


def _start_from_ledger(state: ProgressState, entry: Entry) -> StartFrom:
    if state.checkpoint is None or not state.checkpoint.id:
        gone = f"There is no checkpoint at {state.folder}"
    else:
        gone = f"The checkpoint at {state.folder} has never run"
    because = f"{gone}: a new one continues where table {state.table} stands, after {say_entry(entry)}"
    if state.shape:
        raise RunError.of(
            "checkpoint-lost",
            f"{gone}, and table {state.table} stands at {say_entry(entry)}.",
            why="The model keeps state between batches, which was in the checkpoint.",
            fix=fix_by_refill(state),
        )
    _check_streams(state, tuple(entry.positions))
    _check_kinds(state, entry.positions)
    lacking = [
        source
        for source in state.sources
        if not SOURCES[source.kind].can_start_from(entry.positions.get(source.name))
    ]
    if lacking:
        raise RunError.of(
            "checkpoint-lost",
            f"{gone}, and table {state.table} stands at {say_entry(entry)}.",
            why=f"Stream '{lacking[0].name}' reads {SOURCES[lacking[0].kind].label}: what had been read of it stood in "
            "the checkpoint alone.",
            fix=fix_by_rewind(state)
            if state.is_companion
            else f"Put the checkpoint back if there is a copy, or read again what is newer than a time. "
            f"{fix_by_time(state)}. {fix_by_refill(state)}",
        )
    return StartFrom(
        entry.positions, newest_batch(entry), because, accepted=state.accepted
    )


# --- words of the refusals


def _has_id(table_id: str) -> str:
    return f"has the id {table_id}" if table_id else "does not exist"


def _keeps(shape: str) -> str:
    return f"keeps state of the shape {shape}" if shape else "keeps no state"


def _short(positions: tuple[Position, ...]) -> str:
    text = ", ".join(map(str, positions))
    return text if len(text) < 200 else text[:200] + "…"
