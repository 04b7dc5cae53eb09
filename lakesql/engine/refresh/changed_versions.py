"""Which versions a refresh of a history ends and begins: the rows of the SELECT
compared with the current versions, and the time at which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakesql.clock import epoch_ms
from lakesql.compile.select import Select
from lakesql.compile.storable import find_misused
from lakesql.compile.table import TableSpec
from lakesql.engine.spark.internals import replace_view
from lakesql.errors import Problem, RunError, did_you_mean
from lakesql.ledger.entry import Entry
from lakesql.model.model import Model
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.modes.batches.table_versions import TableVersions
from lakesql.names import AT, DIFFERENCES_VIEW, ENDS, HISTORY_VIEW, TIME_VIEW, VERSION
from lakesql.table.table_state import TableState


def versions_of(
    select: Select, spec: TableSpec, state: TableState | None
) -> TableVersions:
    """The statements for the columns of the SELECT that the table has, or will have.

    What a `*` selects is known only here. Raises `RunError`: `duplicate-column` for a
    column that occurs twice, or that the mode adds too; `key-not-selected` and
    `unknown-column` for one that an option names and the SELECT lacks; `key-type` for
    one that cannot be compared.
    """
    model = select.model
    names = [
        column.name for column in spec.columns[: len(spec.columns) - len(spec.added)]
    ]
    if problems := [
        *_find_twice(model, spec),
        *_find_unknown(model, select.compared, names),
    ]:
        raise RunError(problems)
    if state is not None and model.config.on_schema_change == "ignore":
        stored = {column.name.lower() for column in state.columns}
        names = [name for name in names if name.lower() in stored]
    versions = refreshes_of(select).versions(tuple(names))
    assert versions is not None, "the rows of this mode are exchanged"
    types = {column.name.lower(): column.type or "" for column in spec.columns}
    compared = {"keys": select.writing.keys, "track_columns": versions.tracked}
    if problems := [*find_misused(model.name, types, (), compared, model.option_place)]:
        raise RunError(problems)
    return versions


def _find_twice(model: Model, spec: TableSpec) -> Iterator[Problem]:
    counts = Counter(column.name.lower() for column in spec.columns)
    for name in (name for name, times in counts.items() if times > 1):
        what = f"The table of model '{model.name}' would have two columns '{name}'."
        why = "A * brings all columns of a table, and the mode adds those that say when a version is valid."
        fix = f"Leave one out: * EXCEPT ({name}); or give the mode's another name by its option."
        yield Problem("duplicate-column", what, why, fix, model.option_place("mode"))


def _find_unknown(
    model: Model, compared: Mapping[str, tuple[str, ...]], names: Sequence[str]
) -> Iterator[Problem]:
    known = {name.lower() for name in names}
    for option, columns in compared.items():
        for column in (column for column in columns if column.lower() not in known):
            condition = "key-not-selected" if option == "keys" else "unknown-column"
            what = f"'{column}' in {option} is not a column of the SELECT."
            yield Problem(
                condition,
                what,
                "",
                did_you_mean(column, names),
                model.option_place(option),
            )


def newest_version_ms(
    session: SparkSession, former: Entry | None, versions: TableVersions
) -> int:
    """When the newest version of the table began or ended, at the latest, in
    milliseconds since the epoch; 0 if it has none.

    It is recorded in the entry of the former refresh. Without one, because another
    writer wrote the versions, they are read.
    """
    if former is not None and former.event_time:
        return epoch_ms(datetime.fromisoformat(former.event_time))
    found = session.sql(versions.newest).head()
    return int(found[0]) if found is not None and found[0] is not None else 0


def time_text(at_ms: int) -> str:
    """The time of versions as the ledger has it, in ISO 8601; '' for 0."""
    return (
        datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        if at_ms
        else ""
    )


def show_time(session: SparkSession, at_ms: int) -> None:
    """Register the view of the time at which versions begin and end."""
    replace_view(session.sql(f"SELECT timestamp_millis({at_ms}L) AS {AT}"), TIME_VIEW)


def compare_rows(session: SparkSession, versions: TableVersions) -> tuple[int, int]:
    """How many versions begin, and how many end. Registers the view of both that the
    MERGE reads."""
    differences = session.sql(versions.differences).localCheckpoint()
    replace_view(differences, DIFFERENCES_VIEW)
    begun, ended = (differences.where(which).count() for which in (VERSION, ENDS))
    replace_view(session.sql(versions.changed), HISTORY_VIEW)
    return begun, ended
