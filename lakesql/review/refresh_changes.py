"""What a change means for a model over tables: nothing is lost by it, as its rows are made of what others have."""

from __future__ import annotations

from collections.abc import Iterator

from lakesql.compile.select import Select
from lakesql.review.causes import ModelVersions, changed_option_place, sql_place
from lakesql.review.option_changes import find_option_changes
from lakesql.review.table_changes import find_table_changes
from lakesql.review.verdicts import ColumnChanges, ModelReview, Reason, Statements, hardest_first
from lakesql.select.differences import find_differences, first_change


def has_refreshes(*selects: Select) -> bool:
    """Whether one of the SELECTs reads tables."""
    return any(select.model.config.reads == "tables" for select in selects)


def review_refreshed(change: ModelVersions) -> ModelReview:
    """The review of a model of which one version at least reads tables."""
    texts = Statements(change.old.compiled_text(change.before), change.new.compiled_text(change.after))
    was, config = change.before.model.config, change.model.config
    if (was.reads, was.is_stored) != (config.reads, config.is_stored):
        return ModelReview(change.model.name, (_mode_changed(change),), statements=texts)
    if not config.is_stored:
        return ModelReview(change.model.name, tuple(_find_other_view(change)), statements=texts)
    columns = find_table_changes(change).columns
    reasons = hardest_first((*_find_made_anew(change, columns), *find_option_changes(change)))
    return ModelReview(change.model.name, reasons, columns, texts)


def _find_made_anew(change: ModelVersions, columns: ColumnChanges) -> Iterator[Reason]:
    """That the next refresh makes all rows anew, and by what it does."""
    before, after = change.before.query.sql, change.after.query.sql
    if find_differences(before, after):
        what = "The SELECT is another one: the next refresh makes all rows of the table anew, in one commit."
        yield Reason("next-batch", "view-changed", what, sql_place(change, first_change(before, after)))
    elif columns.names or change.before.model.config.partition_by != change.model.config.partition_by:
        what = "The table has other columns or partitions: the next refresh makes it anew, in one commit."
        yield Reason("next-batch", "view-changed", what, change.model.place)


def _find_other_view(change: ModelVersions) -> Iterator[Reason]:
    """That the next run puts a view in the place of the former one."""
    before, after = change.before.query.sql, change.after.query.sql
    if find_differences(before, after):
        what = "The SELECT is another one: the next run puts the view in the place of the former one."
        yield Reason("next-batch", "view-changed", what, sql_place(change, first_change(before, after)))
    elif change.before.model.properties != change.model.properties:
        what = "What is said of the view is other than before: the next run says it in the catalog."
        yield Reason("next-batch", "view-changed", what, change.model.place)


def _mode_changed(change: ModelVersions) -> Reason:
    model, was = change.model, change.before.model.config.mode
    what = f"The table was written in mode '{was}', and mode '{model.config.mode}' does not continue it."
    if not change.before.model.config.is_stored:
        what = f"It was a view, and mode '{model.config.mode}' makes a table of that name."
    elif not model.config.is_stored:
        what = f"The table of mode '{was}' has the name that the view is to have."
    do = f"If its rows may go: lakesql drop {model.name}, then lakesql run --select {model.name}"
    return Reason("breaks", "mode-changed", what, changed_option_place(change, "mode"), do)
