"""A refresh of a history: the rows of the SELECT beside the current versions, and the time at which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakesql.compile.select import Select
from lakesql.compile.storable import find_misused
from lakesql.compile.table import TableSpec
from lakesql.engine.spark.internals import replace_view
from lakesql.errors import RunError, did_you_mean
from lakesql.ledger.entry import Entry
from lakesql.model.model import Model
from lakesql.modes.batches.all_batches import refreshes_of
from lakesql.modes.batches.table_versions import TableVersions
from lakesql.names import AT, DIFFERENCES_VIEW, ENDS, HISTORY_VIEW, TIME_VIEW, VERSION
from lakesql.table.table_state import TableState


def versions_of(select: Select, spec: TableSpec, state: TableState | None) -> TableVersions:
    """The statements for the columns of the SELECT that the table has, or will have.

    Raises `RunError`: `unknown-column` of one that is tracked and not there, and `key-type` of one that cannot be
    compared.
    """
    model = select.model
    names = [column.name for column in spec.columns if column.name not in spec.added.values()]
    _check_tracked(model, names)
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


def _check_tracked(model: Model, names: Sequence[str]) -> None:
    versions, known = model.config.versions, {name.lower() for name in names}
    unknown = [name for name in (versions.tracked if versions is not None else ()) if name.lower() not in known]
    if unknown:
        what = f"'{unknown[0]}' in track_columns is not a column of the SELECT."
        place = model.option_place("track_columns")
        raise RunError.of("unknown-column", what, fix=did_you_mean(unknown[0], names), place=place)


def newest_version_ms(session: SparkSession, former: Entry | None, versions: TableVersions) -> int:
    """When the newest version of the table has begun or ended, at most; 0 where it has none.

    The entry of the refresh before this one says it; without one, where somebody else has written versions, these do.
    """
    if former is not None and former.event_time:
        return round(datetime.fromisoformat(former.event_time).timestamp() * 1000)
    found = session.sql(versions.newest).head()
    return int(found[0]) if found is not None and found[0] is not None else 0


def time_text(at_ms: int) -> str:
    """The time of versions in the ledger, in ISO 8601; '' of none."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds") if at_ms else ""


def show_time(session: SparkSession, at_ms: int) -> None:
    """Make the view of the time at which versions begin and end."""
    replace_view(session.sql(f"SELECT timestamp_millis({at_ms}L) AS {AT}"), TIME_VIEW)


def compare_rows(session: SparkSession, versions: TableVersions) -> tuple[int, int]:
    """How many versions begin, and how many end; the view that the MERGE reads has them."""
    differences = session.sql(versions.differences).localCheckpoint()
    replace_view(differences, DIFFERENCES_VIEW)
    begun, ended = (differences.where(which).count() for which in (VERSION, ENDS))
    replace_view(session.sql(versions.changed), HISTORY_VIEW)
    return begun, ended
