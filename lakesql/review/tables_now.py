"""A review's findings on real tables, checkpoints and topics: whether they exist,
whether a run can continue with them, what it does to the tables, and whether changed
keys matter for the rows they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesql.compile.select import Select
from lakesql.compile.table import TableSpec
from lakesql.errors import RunError
from lakesql.modes.batches.all_batches import batches_of
from lakesql.plan.steps import Step, plan_table
from lakesql.plan.table_status import Unknown
from lakesql.progress.advice import say_entry
from lakesql.progress.decide import check_identity, compare_progress
from lakesql.progress.position import count_between
from lakesql.progress.state import (
    Checkpoint,
    Decision,
    Fresh,
    ProgressState,
    StartFrom,
    newest_batch,
)
from lakesql.progress.topics import check_topics, next_positions
from lakesql.review.continuation import is_refusal, sources_of, verdict_of
from lakesql.review.rebuilds import follow_rebuilds
from lakesql.review.refresh_changes import has_refreshes
from lakesql.review.table_changes import created_spec
from lakesql.review.verdicts import (
    ModelReview,
    Reason,
    Review,
    hardest_first,
    models_in_order,
)
from lakesql.review.version import Version
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import FoundTopics
from lakesql.table.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Unread:
    """A checkpoint that could not be read, with the cause. The cause is '' if a run is
    writing the checkpoint at the moment: that run was able to continue it."""

    why: str


@dataclass(frozen=True, slots=True)
class LiveModel:
    """What exists of a model: its table, and the checkpoint in `folder`; None for what
    does not exist."""

    table: TableMetadata | Unknown | None
    checkpoint: Checkpoint | Unread | None
    folder: str


def add_live(
    review: Review,
    old: Version | None,
    new: Version,
    live: Mapping[str, LiveModel],
    topics: Mapping[str, FoundTopics] | None = None,
) -> Review:
    """The review, completed with the present state of the models in `live`, and of the
    topics in `topics`, by the streams' names.

    A reason whose remedy is a rebuild is dropped if the table has no rows.
    """
    known = topics or {}
    judged = {
        it.name: _judge(it, old, new, live[it.name], known) if it.name in live else it
        for it in (*review.models, *review.upstream)
    }
    if old is not None:
        judged = follow_rebuilds(new, judged)
    models, upstream = (
        [judged[it.name] for it in each] for each in (review.models, review.upstream)
    )
    return replace(
        review, models=models_in_order(models), upstream=models_in_order(upstream)
    )


def _judge(
    model: ModelReview,
    old: Version | None,
    new: Version,
    found: LiveModel,
    topics: Mapping[str, FoundTopics],
) -> ModelReview:
    after = new.select(model.name)
    if not isinstance(after, Select) or not after.model.config.is_stored:
        return model
    table = found.table
    if isinstance(table, Unknown):
        place = after.model.place
        unread = [
            Reason("breaks", it.condition, it.what, it.place or place, it.fix)
            for it in table.problems
        ]
        return _with(model, model.reasons, unread)
    if has_refreshes(after):
        return _judge_refreshed(model, after, found, table)
    progress, decision = _progress(after, new, found, table, topics)
    kept = [it for it in model.reasons if _still_counts(it, table, decision)]
    if table is None:
        return _with(model, kept, [*progress, *_absent(model, after, found)])
    now = progress
    is_refused = any(
        it.verdict in ("rebuild", "breaks") and is_refusal(it) for it in (*kept, *now)
    )
    try:
        steps = () if is_refused else _plan(after, table)
    except RunError as error:
        steps, place = (), after.model.place
        now += [
            Reason("refused", it.condition, it.what, it.place or place, it.fix)
            for it in error.problems
        ]
    before = (
        old.select(model.name)
        if old is not None and model.name in old.manifest.models
        else ()
    )
    if isinstance(before, Select) and before.model.table == after.model.table:
        now += _drift(before, table)
    return replace(_with(model, kept, now), steps=steps)


def _judge_refreshed(
    model: ModelReview, after: Select, found: LiveModel, table: TableMetadata | None
) -> ModelReview:
    """The review of a model whose SELECT reads tables. If all rows of its table can be
    recomputed and replaced, the present state of the table does not matter."""
    if table is None:
        return _with(model, model.reasons, _absent(model, after, found))
    if after.model.config.is_exchanged or any(
        it.verdict == "breaks" for it in model.reasons
    ):
        return model
    try:
        return replace(model, steps=_plan(after, table))
    except RunError as error:
        place = after.model.place
        now = (
            Reason("refused", it.condition, it.what, it.place or place, it.fix)
            for it in error.problems
        )
        return replace(_with(model, model.reasons, now), steps=())


def _with(
    model: ModelReview, kept: Sequence[Reason], now: Iterable[Reason]
) -> ModelReview:
    """The review with `kept` of its own reasons, and those in `now` whose conditions
    `kept` does not have."""
    told = {it.condition for it in kept}
    reasons = (*kept, *(it for it in now if it.condition not in told))
    return replace(model, reasons=hardest_first(reasons))


def _still_counts(
    reason: Reason, table: TableMetadata | None, decision: Decision | None
) -> bool:
    """Whether a reason, which was found by assuming a table with rows and its
    checkpoint, also holds for the real ones."""
    if reason.verdict == "rebuild":
        return table is not None and table.has_rows
    if reason.condition == "table-recreated" and decision is not None:
        return False  # the checkpoint is of the table that is there
    is_begun = not isinstance(decision, Fresh)
    return is_begun or reason.verdict != "breaks" or not is_refusal(reason)


def _absent(model: ModelReview, after: Select, found: LiveModel) -> Iterator[Reason]:
    if any(it.condition == "model-added" for it in model.reasons):
        return
    what = f"There is no table {after.model.table}: the run makes it."
    do = "If a checkpoint of the model is left, the run says what to do with it."
    is_unread = isinstance(found.checkpoint, Unread)
    yield Reason(
        "added", "table-absent", what, after.model.place, do if is_unread else ""
    )


def _plan(select: Select, table: TableMetadata) -> tuple[Step, ...]:
    """The steps of a run for the table. Types that only Spark can determine are taken
    from the table."""
    config, state = select.model.config, table.state(select.model.table)
    namespaces = frozenset({state.name.namespace})
    return plan_table(
        select.model.name,
        _typed(select, table),
        config.on_schema_change,
        state,
        namespaces,
        select.compared,
    )


def _typed(select: Select, table: TableMetadata) -> TableSpec:
    types = {column.name.lower(): column.type for column in table.schema.columns}
    return created_spec(select, types)


def _progress(
    after: Select,
    new: Version,
    found: LiveModel,
    table: TableMetadata | None,
    topics: Mapping[str, FoundTopics],
) -> tuple[list[Reason], Decision | None]:
    """The reasons found by comparing the real checkpoint, ledger and topics as a run
    does, and where the run would continue; None for the latter if that is not known."""
    model, checkpoint = after.model, found.checkpoint
    state = ProgressState(
        model=model.name,
        owner=model.name,
        table=str(model.table),
        table_id=table.id if table is not None else "",
        folder=found.folder,
        sources=tuple(
            topics[it.name].source if it.name in topics else it
            for it in sources_of(new, after)
        ),
        shape=after.query.state,
        checkpoint=checkpoint if isinstance(checkpoint, Checkpoint) else None,
        entry=table.newest_entry(model.name) if table is not None else None,
        mode=after.writing.mode,
        keys=batches_of(after).identity,
        unique_by=after.writing.keys,
        has_rows=table is not None and table.has_rows,
        deletes=after.writing.deletes,
        written=table.newest_entry(None) if table is not None else None,
    )
    missing = [
        Reason(
            "breaks",
            problem.condition,
            problem.what,
            problem.place or model.place,
            problem.fix,
        )
        for source in state.sources
        if source.name in topics
        for problem in topics[source.name].problems
    ]
    try:
        if isinstance(checkpoint, Unread):
            check_identity(state)
            unread = [*missing, *_unread(after, found.folder, checkpoint, table)]
            if not checkpoint.why or state.entry is None:
                return unread, None
            supposed = StartFrom(state.entry.positions, newest_batch(state.entry), "")
            return [*unread, *_topics(after, state, supposed)], None
        decision = compare_progress(state)
    except RunError as error:
        return [*missing, *_refusals(after, error)], None
    reasons = [*missing, *_topics(after, state, decision)]
    if isinstance(decision, StartFrom):
        reasons.append(
            Reason(
                "next-batch", "checkpoint-absent", f"{decision.because}.", model.place
            )
        )
    return reasons, decision


def _refusals(after: Select, error: RunError) -> list[Reason]:
    place = after.model.place
    return [
        Reason(verdict_of(it.condition, after), it.condition, it.what, place, it.fix)
        for it in error.problems
    ]


def _topics(
    after: Select, state: ProgressState, decision: Decision
) -> Iterator[Reason]:
    """The reasons found by a run's own comparison with the topics: whether they still
    hold what is to be read next, which topics and partitions are new, and how many
    offsets the model is behind."""
    try:
        check_topics(state, decision)
    except RunError as error:
        yield from _refusals(after, error)
        return
    positions = next_positions(state, decision)
    for source in state.sources:
        position, place = positions.get(source.name), after.streams[source.name].place
        offsets = SOURCES[source.kind].offsets(position)
        if not source.is_asked or not offsets:
            continue
        if topics := sorted(source.ends.keys() - offsets.keys()):
            what = f"Stream '{source.name}' has topics that were not read yet: {', '.join(topics)}."
            yield Reason(
                "next-batch",
                "topic-added",
                what,
                place,
                "They are read from their beginning.",
            )
        partitions = [
            f"{topic}-{number}"
            for topic, ends in sorted(source.ends.items())
            for number in sorted(ends)
            if topic in offsets and str(number) not in offsets[topic]
        ]
        if partitions:
            what = f"Stream '{source.name}' has partitions that were not read yet: {', '.join(partitions)}."
            yield Reason(
                "next-batch",
                "partition-added",
                what,
                place,
                "They are read from their beginning.",
            )
        behind = count_between({source.name: offsets}, {source.name: source.end})
        if behind:
            what = f"The model is {behind:,} {'offset' if behind == 1 else 'offsets'} behind stream '{source.name}'."
            yield Reason("none", "topic-backlog", what, place)


def _unread(
    after: Select, folder: str, checkpoint: Unread, table: TableMetadata | None
) -> Iterator[Reason]:
    """The reasons for a checkpoint that could not be read: that it was not compared,
    and a rollback if the table's history alone shows one."""
    if not checkpoint.why:
        return
    model = after.model
    entry = table.newest_entry(model.name) if table is not None else None
    left = table.entry_rolled_back(model.name) if table is not None else None
    what = f"The checkpoint at {folder} has not been compared with the table: {checkpoint.why}."
    yield Reason(
        "none",
        "checkpoint-unread",
        what,
        model.place,
        "The run compares them before it reads anything.",
    )
    if left is not None and (
        entry is None
        or (entry.checkpoint == left.checkpoint and entry.batch < left.batch)
    ):
        what = f"Table {model.table} stands at {say_entry(entry)}, and has stood at {say_entry(left)}."
        do = f"Somebody has rolled it back. To write again what is missing: lakesql rewind {model.name}"
        yield Reason("breaks", "table-rolled-back", what, model.place, do)


def _drift(before: Select, table: TableMetadata) -> Iterator[Reason]:
    """The reason for a table that differs from what the former version creates: either
    it was altered by hand, or that version has not run."""
    try:
        found = "; ".join(step.text for step in _plan(before, table))
    except RunError as error:
        found = "; ".join(problem.what for problem in error.problems)
    if found:
        what = f"The table is not as the former version leaves it, by a run of which: {found}."
        do = "Somebody has altered it by hand, or the former version has not run yet."
        yield Reason("alter", "table-drifted", what, before.model.place, do)
