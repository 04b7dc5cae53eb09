"""Whether a model's running query can continue after a change: what `run` will decide,
found out beforehand.

`decide` compares a checkpoint and a ledger with a model. Here it is given those that
the old version would leave behind: a table with rows, and a checkpoint whose batches
are all committed. So a refusal here is the same that a run would raise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakesql.compile.select import Select
from lakesql.conditions import CONDITIONS
from lakesql.errors import Place, Problem, RunError
from lakesql.graph.manifest import reads_model
from lakesql.ledger.entry import Entry
from lakesql.modes.batches.all_batches import batches_of
from lakesql.progress.advice import rename_command
from lakesql.progress.decide import (
    OtherKindError,
    OtherStreamsError,
    check_identity,
    decide,
)
from lakesql.progress.state import Checkpoint, Origin, ProgressState
from lakesql.review.causes import (
    ModelVersions,
    changed_option_place,
    connection_place,
    option_place,
    sql_place,
    stream_place,
    target_place,
)
from lakesql.review.verdicts import Reason, Verdict
from lakesql.review.version import Version
from lakesql.select.differences import first_change
from lakesql.source.kinds import SOURCES, model_table, project_files
from lakesql.source.stream_state import Position, SourceState, spark_position
from lakesql.stream.stream import Stream

_REBUILD = frozenset({"mode-changed", "keys-changed"})
"""The refusals whose remedy is to fill the table again from the start, with a new
checkpoint."""

_COSTS: Mapping[str, str] = {
    "mode-changed": "It reads the streams again from their start; what they do not hold any more is lost to the table.",
    "keys-changed": "It reads the streams again from their start; what they do not hold any more is lost to the table.",
    "streams-changed": "What stays is read on, a new stream from its `start`, and nothing more of one that is gone.",
    "state-changed": "It reads the streams again from their start; groups whose records they do not hold any more are "
    "lost to the table.",
    "data-lost": "What was not read yet of the former topic is lost to the model.",
    "files-moved": "Taken for others, all files that are there are read, and their rows may stand twice.",
    "table-recreated": "The former table stays as it is, and is kept fresh no longer.",
}
"""What is lost, or happens to the data, if one continues after a refusal, by
condition."""


def verdict_of(condition: str, after: Select) -> Verdict:
    """The verdict for a condition by which a run refuses to continue a query; `after`
    is the SELECT of the new version.

    It is `rebuild` if the remedy is to fill the table again, else `breaks`: so for
    `state-changed` of a SELECT that is stateful no longer, where rewinding the
    checkpoint is enough.
    """
    is_filled = condition in _REBUILD or (
        condition == "state-changed" and after.query.stateful
    )
    return "rebuild" if is_filled else "breaks"


def find_refusals(change: ModelVersions) -> Iterator[Reason]:
    """The reasons why the query cannot be continued, then a reason for each stream that
    reads further topics. Empty if nothing hinders it."""
    for error in _decide(change):
        yield _refusal(change, error)
    olds, news = _reads(change.old, change.before), _reads(change.new, change.after)
    for name, read in news.items():
        former, stream = olds.get(name), change.new.manifest.streams.get(name)
        if (
            former is None
            or stream is None
            or former.kind != read.kind
            or not set(former.names) < set(read.names)
        ):
            continue
        what = f"Stream '{name}' reads {', '.join(it for it in read.names if it not in former.names)} too."
        place = stream_place(change.new, stream, stream.origin.option)
        yield Reason(
            "next-batch",
            "topic-added",
            what,
            place,
            "It is read from its beginning, with the next batch.",
        )


def find_identity_refusals(change: ModelVersions) -> tuple[Reason, ...]:
    """The reason why a model must not write to the rows of a table whose writer had
    another name: other keys, mode or deletes. Empty if it may."""
    try:
        check_identity(old_progress(change))
    except RunError as error:
        return (_refusal(change, error),)
    return ()


def is_refusal(reason: Reason) -> bool:
    """Whether a reason means that a run refuses to start the model, so that it does not
    alter the table either.

    `upstream-rebuilt` is no such reason: the run goes on once the table upstream is
    rebuilt.
    """
    return reason.condition in CONDITIONS and reason.condition != "upstream-rebuilt"


def sources_of(version: Version, select: Select) -> tuple[SourceState, ...]:
    """The streams of a model with their kinds of source, and nothing known of their
    topics or of tables that were rebuilt."""
    return tuple(
        SourceState(name, read.kind, is_asked=False)
        for name, read in _reads(version, select).items()
    )


def find_fresh_refusal(change: ModelVersions) -> str:
    """The condition by which a run refuses the new version if it has no checkpoint and
    its table has rows; '' if it does not refuse."""
    state = old_progress(change)
    try:
        decide(replace(state, checkpoint=None, entry=None, has_rows=True))
    except RunError as error:
        return error.problems[0].condition
    return ""


def old_progress(change: ModelVersions) -> ProgressState:
    """The progress that the old version's query leaves behind, together with the new
    version of the model, as `decide` compares them."""
    before, after = change.before, change.after
    model, writing = after.model, after.writing
    is_same_table = change.is_same_table
    olds, news = _reads(change.old, before), _reads(change.new, after)
    positions = {
        name: _position(_kind(olds[name], news.get(name)), olds[name]) for name in olds
    }
    names = tuple(olds)
    spark = tuple(map(spark_position, positions.values()))
    entry = Entry(
        model=before.model.name,
        checkpoint=_CHECKPOINT,
        batch=0,
        offsets=json.dumps(positions),
        query="",
        state=before.query.state,
        mode=before.writing.mode,
        keys=batches_of(before).identity,
        deletes=before.writing.deletes,
    )
    checkpoint = Checkpoint(
        id=_CHECKPOINT,
        planned=frozenset({0}),
        committed=frozenset({0}),
        positions={0: spark},
        origin=Origin(model.name, str(before.model.table), names, before.query.state),
    )
    checkpoints = [
        version.manifest.target.checkpoint_of(model.name)
        for version in (change.old, change.new)
    ]
    return ProgressState(
        model=model.name,
        owner=model.name,
        table=str(model.table),
        table_id=str(model.table) if is_same_table else "",
        folder=checkpoints[1],
        sources=tuple(
            SOURCES[_kind(read, olds.get(name))].supposed_state(name, read.names)
            for name, read in news.items()
        ),
        shape=after.query.state,
        checkpoint=checkpoint if checkpoints[0] == checkpoints[1] else None,
        entry=entry if is_same_table else None,
        mode=writing.mode,
        keys=batches_of(after).identity,
        unique_by=writing.keys,
        has_rows=is_same_table,
        deletes=writing.deletes,
        written=entry if is_same_table else None,
    )


_CHECKPOINT = "former"


@dataclass(frozen=True, slots=True)
class _Read:
    """What a stream is read from: the kind of its source, and the names of its records'
    places, such as topics, a path or a table."""

    kind: str
    names: tuple[str, ...]


def _reads(version: Version, select: Select) -> dict[str, _Read]:
    return {
        name: _read(version, select.streams[name], name)
        for name in select.query.streams_read
    }


def _read(version: Version, stream: Stream, name: str) -> _Read:
    read = reads_model(version.manifest, name)
    if read is not None:
        return _Read(
            model_table(str(read.table), stream.has_table_changes).kind,
            (str(read.table),),
        )
    target = version.manifest.target
    connection = target.connections.get(stream.connection) or project_files("")
    events = (
        target.connections.get(stream.notifications.connection)
        if stream.notifications
        else None
    )
    return _Read(connection.as_asked(stream, events).kind, stream.origin.given)


def _kind(read: _Read, other: _Read | None) -> str:
    """The kind of source by whose rules a stream is compared with its other version."""
    return SOURCES[read.kind].compared_as(other.kind if other is not None else None)


def _position(kind: str, read: _Read) -> Position:
    return SOURCES[kind].supposed_position(read.names)


def _refusal(change: ModelVersions, error: RunError) -> Reason:
    (problem, *_) = error.problems
    renamed = _renamed_streams(change) if problem.condition == "streams-changed" else ()
    if renamed:
        commands = ", ".join(
            f"`{rename_command(former, name)}`" for former, name in renamed
        )
        do = f"Take along what the former names have, and it goes on where it stands: {commands}"
    else:
        do = " ".join(filter(None, (problem.fix, _COSTS.get(problem.condition, ""))))
    verdict = verdict_of(problem.condition, change.after)
    return Reason(
        verdict,
        problem.condition,
        _what(change, error, problem),
        _place(change, problem.condition),
        do,
    )


def _renamed_streams(change: ModelVersions) -> tuple[tuple[str, str], ...]:
    """The models streamed by the SELECT that were renamed, as (former name, new name);
    empty if its streams differ in anything else."""
    before, after = (
        list(select.query.streams_read) for select in (change.before, change.after)
    )
    renamed = tuple(
        (former, name)
        for name, former in change.renames.items()
        if name in after
        if former in before
    )
    names = dict(renamed)
    return renamed if [names.get(name, name) for name in before] == after else ()


def _decide(change: ModelVersions) -> Iterator[RunError]:
    """All refusals of `decide`: each one is treated as settled so that the next can be
    found. Then the refusals of streams with other topics or paths."""
    state, seen = old_progress(change), set[str]()
    while True:
        try:
            decide(state)
            break
        except RunError as raised:
            refusal = raised
        condition = refusal.problems[0].condition
        if condition in seen:
            return
        seen.add(condition)
        yield refusal
        settled = _settle(state, condition)
        if settled is None:
            return
        state = settled
    yield from (RunError([problem]) for problem in _moved_names(change))


def _settle(state: ProgressState, condition: str) -> ProgressState | None:
    """The state as if the refusal with this condition were settled; None if no query is
    left to continue."""
    entry, checkpoint = state.entry, state.checkpoint
    if entry is None or checkpoint is None or checkpoint.origin is None:
        return None
    origin = checkpoint.origin
    match condition:
        case "mode-changed" | "keys-changed":
            entry = replace(
                entry, mode=state.mode, keys=state.keys, deletes=state.deletes
            )
        case "state-changed":
            entry, origin = (
                replace(entry, state=state.shape),
                replace(origin, state=state.shape),
            )
        case "streams-changed" | "data-lost":
            reads = {
                source.name: _Read(source.kind, tuple(source.topics))
                for source in state.sources
            }
            positions = {
                name: _position(read.kind, read) for name, read in reads.items()
            }
            entry = replace(entry, offsets=json.dumps(positions))
            spark = tuple(map(spark_position, positions.values()))
            checkpoint = replace(checkpoint, positions={0: spark})
            origin = replace(origin, streams=tuple(reads))
        case _:
            return None
    return replace(
        state, entry=entry, written=entry, checkpoint=replace(checkpoint, origin=origin)
    )


def _moved_names(change: ModelVersions) -> Iterator[Problem]:
    """Problems of streams whose topic or path is another one of the same kind of
    source, which a position does not show."""
    olds, news = _reads(change.old, change.before), _reads(change.new, change.after)
    for name, read in news.items():
        former = olds.get(name)
        if former is None or former.kind != read.kind or former.names == read.names:
            continue
        model = change.model.name
        problem = SOURCES[read.kind].explain_other_names(
            name, model, former.names, read.names
        )
        if problem is not None:
            yield problem


def _what(change: ModelVersions, error: RunError, problem: Problem) -> str:
    """The text of a refusal. It leaves out positions and paths, since the checkpoint
    that `decide` was given is invented."""
    before, after, name = change.before, change.after, change.model.name
    match problem.condition:
        case "table-recreated" if before.model.table == after.model.table:
            return (
                f"Table {after.model.table} is looked for in another catalog than the one in which the checkpoint has "
                "filled it. If that is the same one at another address, nothing changes."
            )
        case "table-recreated":
            return f"Model '{name}' writes {after.model.table} now, and its checkpoint has filled {before.model.table}."
        case "streams-changed" if isinstance(error, OtherStreamsError):
            old, new = (
                ", ".join(before.query.streams_read),
                ", ".join(after.query.streams_read),
            )
            return f"Model '{name}' reads {new} now, and its checkpoint was made for {old}."
        case "streams-changed" if isinstance(error, OtherKindError):
            return f"{error.reads}, and its checkpoint was made for another kind."
        case "state-changed":
            kept, keeps = bool(before.query.state), bool(after.query.state)
            if kept and keeps:
                return f"Model '{name}' keeps other state between batches than its checkpoint has."
            return f"Model '{name}' keeps {'state between batches now' if keeps else 'no state between batches now'}."
        case "data-lost":
            lost, found = _topics(change)
            return f"Model '{name}' reads {found} now, and its checkpoint stands in {lost}."
        case "checkpoint-lost":
            return f"There is no checkpoint of model '{name}' at the target's new `checkpoints`."
        case _:
            return problem.what


def _topics(change: ModelVersions) -> tuple[str, str]:
    olds, news = _reads(change.old, change.before), _reads(change.new, change.after)
    names = [
        name
        for name in news
        if name in olds and set(olds[name].names) - set(news[name].names)
    ]
    lost = [
        topic
        for name in names
        for topic in olds[name].names
        if topic not in news[name].names
    ]
    return ", ".join(lost), ", ".join(
        topic for name in names for topic in news[name].names
    )


def _place(change: ModelVersions, condition: str) -> Place:
    match condition:
        case "mode-changed":
            is_other = change.before.writing.mode != change.after.writing.mode
            return changed_option_place(change, "mode" if is_other else "apply_deletes")
        case "keys-changed":
            is_other = set(change.before.writing.keys) != set(change.after.writing.keys)
            return changed_option_place(change, "keys" if is_other else "sequence_by")
        case "table-recreated":
            return _table_place(change)
        case "checkpoint-lost":
            return target_place(change.new, "checkpoints")
        case "state-changed":
            old, new = change.before.query.sql, change.after.query.sql
            return (
                sql_place(change, first_change(old, new))
                if old != new
                else _contract_place(change)
            )
        case _:
            return _stream_place(change)


def _contract_place(change: ModelVersions) -> Place:
    """The place of the first changed column in the contract of a stream that the model
    reads; the model's place if there is none."""
    for name in change.after.query.streams_read:
        before, after = change.before.streams.get(name), change.after.streams[name]
        if (
            name in change.new.manifest.streams
            and before is not None
            and before.columns != after.columns
        ):
            former = {column.name: column.type for column in before.columns}
            odd = (
                column.name
                for column in after.columns
                if former.get(column.name) != column.type
            )
            return stream_place(change.new, after, "columns", next(odd, ""))
    return change.model.place


def _table_place(change: ModelVersions) -> Place:
    before, after = change.before.model, change.model
    if before.table.name != after.table.name:
        return changed_option_place(change, "table")
    if before.table.namespace != after.table.namespace:
        return option_place(change.new, after, "namespace")
    was, now = (version.manifest.target.catalog for version in (change.old, change.new))
    key = next(
        (
            it
            for it in ("name", "type", "uri", "warehouse")
            if getattr(was, it) != getattr(now, it)
        ),
        "name",
    )
    return target_place(change.new, "catalog", key)


def _stream_place(change: ModelVersions) -> Place:
    """The place of the reference to a stream that is new, or where a stream's changed
    source is declared; if there is neither, that of the first reference to a stream."""
    olds, news = _reads(change.old, change.before), _reads(change.new, change.after)
    for name, read in news.items():
        reference = next(
            (it for it in change.model.facts.streams if it.name == name), None
        )
        former = olds.get(name)
        if former is None and reference is not None:
            return reference.place
        if former is None or former == read:
            continue
        stream = change.new.manifest.streams.get(name)
        upstream = reads_model(change.new.manifest, name)
        if upstream is not None:
            return option_place(change.new, upstream, "namespace")
        if stream is not None:
            if former.names != read.names:
                return stream_place(change.new, stream, stream.origin.option)
            was = change.old.manifest.streams.get(name)
            if was is not None and was.connection != stream.connection:
                return stream_place(change.new, stream, "connection")
            return connection_place(change.new, stream.connection)
    references = change.model.facts.streams
    return references[0].place if references else change.model.place
