"""What a change means for a model over tables: its rows can be computed again from the
tables it reads, so that nothing is lost, except in histories."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.select import Select
from lakesql.model.config import READ_WORDS
from lakesql.modes.written_as import Break, WrittenAs, find_break
from lakesql.plan.steps import fill_again
from lakesql.review.causes import ModelVersions, changed_option_place, sql_place
from lakesql.review.option_changes import find_option_changes
from lakesql.review.order_changes import find_moved_columns, find_order_changes
from lakesql.review.query_changes import find_query_changes
from lakesql.review.table_changes import find_table_changes, table_columns
from lakesql.review.verdicts import (
    ColumnChanges,
    ModelReview,
    Reason,
    Statements,
    hardest_first,
)
from lakesql.select.differences import find_differences, first_change


def has_refreshes(*selects: Select) -> bool:
    """Whether any of the SELECTs reads tables."""
    return any(select.model.config.reads == "tables" for select in selects)


def review_refreshed(change: ModelVersions) -> ModelReview:
    """The review of a model whose SELECT reads tables in at least one of the
    versions."""
    texts = Statements(
        change.old.compiled_text(change.before), change.new.compiled_text(change.after)
    )
    if not (change.before.model.config.is_stored and change.model.config.is_stored):
        return _review_view(change, texts)
    was, now = (_written_as(select) for select in (change.before, change.after))
    broken = find_break(was, now, str(change.model.table), "")
    if was.reads != now.reads or (broken is not None and was.mode != now.mode):
        return ModelReview(
            change.model.name, (_mode_changed(change),), statements=texts
        )
    if not change.model.config.is_exchanged:
        return _review_history(change, broken, texts)
    columns = find_table_changes(change).columns
    reasons = hardest_first(
        (*_find_made_anew(change, columns), *find_option_changes(change))
    )
    return ModelReview(change.model.name, reasons, columns, texts)


def _find_made_anew(change: ModelVersions, columns: ColumnChanges) -> Iterator[Reason]:
    """The reasons why the next refresh recomputes all rows: another SELECT, columns or
    partitions. And the reason for another mode that can continue the table."""
    before, after = change.before.query.sql, change.after.query.sql
    if change.before.writing.mode != change.after.writing.mode:
        what = "The table is kept right in another way, from the next refresh on."
        yield Reason(
            "next-batch", "view-changed", what, changed_option_place(change, "mode")
        )
    if find_differences(before, after):
        what = "The SELECT is another one: the next refresh makes all rows of the table anew, in one commit."
        yield Reason(
            "next-batch",
            "view-changed",
            what,
            sql_place(change, first_change(before, after)),
        )
    elif (moved := find_moved_columns(change)) is not None:
        what = f"{moved.what} The next refresh makes all rows of the table anew, in one commit."
        yield Reason("next-batch", "view-changed", what, moved.place)
    elif (
        columns.names
        or change.before.model.config.partition_by != change.model.config.partition_by
    ):
        what = "The table has other columns or partitions: the next refresh makes it anew, in one commit."
        yield Reason("next-batch", "view-changed", what, change.model.place)


def _review_view(change: ModelVersions, texts: Statements) -> ModelReview:
    """The review of a model that is a view of the catalog in at least one of the
    versions."""
    if change.before.model.config.is_stored or change.model.config.is_stored:
        return ModelReview(
            change.model.name, (_mode_changed(change),), statements=texts
        )
    return ModelReview(
        change.model.name, tuple(_find_other_view(change)), statements=texts
    )


def _find_other_view(change: ModelVersions) -> Iterator[Reason]:
    """The reasons why the next run replaces the view in the catalog: another SELECT, or
    other properties."""
    before, after = change.before.query.sql, change.after.query.sql
    names = [
        {column.name.lower() for column in table_columns(side)}
        for side in (change.before, change.after)
    ]
    if find_differences(before, after) or names[0] != names[1]:
        what = "The SELECT is another one: the next run puts the view in the place of the former one."
        yield Reason(
            "next-batch",
            "view-changed",
            what,
            sql_place(change, first_change(before, after)),
        )
    elif (moved := find_moved_columns(change)) is not None:
        yield Reason(
            "next-batch",
            "view-changed",
            f"{moved.what} Who reads the view has other values.",
            moved.place,
        )
    elif change.before.model.properties != change.model.properties:
        what = "What is said of the view is other than before: the next run says it in the catalog."
        yield Reason("next-batch", "view-changed", what, change.model.place)


def _review_history(
    change: ModelVersions, broken: Break | None, texts: Statements
) -> ModelReview:
    """The review of a history (`scd2`) of tables: stored versions are kept, and the
    next refresh compares all rows with them."""
    table = find_table_changes(change)
    begun = [*_find_begun_anew(change, broken)]
    select = (*find_query_changes(change), *find_order_changes(change))
    others = (*table.reasons, *select, *find_option_changes(change))
    steps = () if broken is not None else table.steps
    return ModelReview(
        change.model.name, hardest_first((*begun, *others)), table.columns, texts, steps
    )


def _find_begun_anew(change: ModelVersions, broken: Break | None) -> Iterator[Reason]:
    """The reasons why the stored versions are not continued: the history has another
    table, or other keys (`broken`)."""
    name = change.model.name
    if not change.is_same_table:
        what = f"Its versions stand in {change.before.model.table}, and {change.model.table} begins without them."
        do = "To keep them, put the former name of the table back."
        yield Reason(
            "breaks", "table-recreated", what, changed_option_place(change, "table"), do
        )
    elif broken is not None:
        what = (
            f"Model '{name}' {broken.model_says}, and {broken.table_was}. {broken.why}"
        )
        do = f"{broken.fix} Or {fill_again(name, change.model.config.versions)}."
        yield Reason(
            "breaks", broken.condition, what, changed_option_place(change, "keys"), do
        )


def _written_as(select: Select) -> WrittenAs:
    return WrittenAs(
        select.writing.mode,
        select.writing.keys,
        select.writing.deletes,
        select.model.config.reads,
    )


def _mode_changed(change: ModelVersions) -> Reason:
    model, was = change.model, change.before.model.config.mode
    what = f"The table was written in mode '{was}', and mode '{model.config.mode}' does not continue it."
    if was == model.config.mode:
        reads = READ_WORDS[model.config.reads]
        what = f"The table was written in this mode by a SELECT that read something else than {reads}."
    if not change.before.model.config.is_stored:
        what = (
            f"It was a view, and mode '{model.config.mode}' makes a table of that name."
        )
    elif not model.config.is_stored:
        what = f"The table of mode '{was}' has the name that the view is to have."
    do = f"If its rows may go: lakesql drop {model.name}, then lakesql run --select {model.name}"
    return Reason(
        "breaks", "mode-changed", what, changed_option_place(change, "mode"), do
    )
