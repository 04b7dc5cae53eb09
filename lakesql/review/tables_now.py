"""What a review has of real tables: whether they are there, what a run does to them, and by what their rows are told
apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakesql.catalog.live_tables import LiveTable
from lakesql.compile.select import Select
from lakesql.compile.table import TableSpec
from lakesql.engine.progress.decide import check_identity
from lakesql.engine.progress.state import ProgressState
from lakesql.errors import RunError
from lakesql.plan.steps import Step, plan_table
from lakesql.review.continuation import REBUILD, is_refusal
from lakesql.review.table_changes import created_spec
from lakesql.review.verdicts import VERDICTS, ModelReview, Reason, Review
from lakesql.review.version import Version


def add_live(review: Review, old: Version | None, new: Version, live: Mapping[str, LiveTable | None]) -> Review:
    """The review with what the tables in `live` are now, by their models; None of a table that is not there.

    Where a table has no row, nothing is said of how its rows are told apart: it follows its model.
    """
    models = tuple(_judge(it, old, new, live[it.name]) if it.name in live else it for it in review.models)
    ordered = sorted(models, key=lambda it: (-VERDICTS.index(it.verdict), it.name))
    return replace(review, models=tuple(ordered))


def _judge(model: ModelReview, old: Version | None, new: Version, table: LiveTable | None) -> ModelReview:
    after = new.select(model.name)
    if not isinstance(after, Select):
        return model
    if table is None:
        return _absent(model, after)
    kept = [it for it in model.reasons if table.has_rows or it.condition not in REBUILD]
    found = list(_identity(after, table))
    is_refused = bool(found) or any(it.verdict in ("rebuild", "breaks") and is_refusal(it) for it in kept)
    try:
        steps = () if is_refused else _plan(after, table)
    except RunError as error:
        steps, place = (), after.model.place
        found += [Reason("refused", it.condition, it.what, it.place or place, it.fix) for it in error.problems]
    before = old.select(model.name) if old is not None and model.name in old.manifest.models else ()
    if isinstance(before, Select) and before.model.table == after.model.table:
        found += _drift(before, table)
    told = {it.condition for it in kept}
    reasons = (*kept, *(it for it in found if it.condition not in told))
    ordered = sorted(reasons, key=lambda it: -VERDICTS.index(it.verdict))
    return replace(model, reasons=tuple(ordered), steps=steps)


def _absent(model: ModelReview, after: Select) -> ModelReview:
    if any(it.condition == "model-added" for it in model.reasons):
        return model
    what = f"There is no table {after.model.table}: the run makes it."
    do = "If a checkpoint of the model is left, the run says what to do with it."
    reason = Reason("added", "table-absent", what, after.model.place, do)
    ordered = sorted((*model.reasons, reason), key=lambda it: -VERDICTS.index(it.verdict))
    return replace(model, reasons=tuple(ordered))


def _plan(select: Select, table: LiveTable) -> tuple[Step, ...]:
    """What a run of the model does to the table, types that Spark alone knows taken to be those of the table."""
    config, state = select.model.config, table.state
    namespaces = frozenset({state.name.namespace})
    return plan_table(
        select.model.name, _typed(select, table), config.on_schema_change, state, namespaces, select.compared
    )


def _typed(select: Select, table: LiveTable) -> TableSpec:
    types = {column.name.lower(): column.type for column in table.state.columns}
    return created_spec(select, types)


def _identity(after: Select, table: LiveTable) -> Iterator[Reason]:
    """What the engine says of how the rows of the table are told apart."""
    model = after.model
    state = ProgressState(
        model=model.name,
        owner=model.name,
        table=str(model.table),
        table_id="",
        folder="",
        sources=(),
        shape=after.query.state,
        checkpoint=None,
        entry=table.entry,
        mode=after.writing.mode,
        keys=after.identity,
        is_idempotent=after.writing.is_idempotent,
        has_rows=table.has_rows,
        marks_deletes=after.writing.marks_deletes,
    )
    try:
        check_identity(state)
    except RunError as error:
        for problem in error.problems:
            yield Reason("rebuild", problem.condition, problem.what, model.place, problem.fix)


def _drift(before: Select, table: LiveTable) -> Iterator[Reason]:
    """Whether the table is another one than the former version makes: somebody has altered it, or it has not run."""
    try:
        found = "; ".join(step.text for step in _plan(before, table))
    except RunError as error:
        found = "; ".join(problem.what for problem in error.problems)
    if found:
        what = f"The table is not as the former version leaves it, by a run of which: {found}."
        do = "Somebody has altered it by hand, or the former version has not run yet."
        yield Reason("alter", "table-drifted", what, before.model.place, do)
