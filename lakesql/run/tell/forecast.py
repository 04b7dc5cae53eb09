"""Forecasts the tables of models, each from the present state of its table if that can
be read."""

from __future__ import annotations

from collections.abc import Sequence

from lakesql.graph.manifest import Manifest, most_records
from lakesql.plan.forecast import Forecast, ForecastInput, forecast
from lakesql.plan.table_status import Known, TableStatus, Unknown
from lakesql.run.tell.status import read_statuses


def read_forecasts(
    manifest: Manifest,
    names: Sequence[str],
    given: ForecastInput,
    span_ms: int,
    now_ms: int,
    *,
    offline: bool,
) -> tuple[tuple[Forecast, ...], tuple[TableStatus, ...]]:
    """The forecasts of the models, in their order, and the status of each table that
    could not be read.

    With `offline` no table is read. A table that cannot be read has a forecast only if
    `given` has everything that the table would tell about its rows.
    """
    most = {name: most_records(manifest, name) for name in names}
    if offline:
        return tuple(
            forecast(manifest.models[name], None, given, span_ms, now_ms, most[name])
            for name in names
        ), ()
    statuses = read_statuses(manifest, names, now_ms)
    unknown = tuple(status for status in statuses if isinstance(status.state, Unknown))
    is_enough = given.rows_per_second is not None and given.row_bytes is not None
    found = []
    for status in statuses:
        facts = status.state.facts if isinstance(status.state, Known) else None
        if is_enough or not isinstance(status.state, Unknown):
            found.append(
                forecast(
                    status.model, facts, given, span_ms, now_ms, most[status.model.name]
                )
            )
    return tuple(found), unknown
