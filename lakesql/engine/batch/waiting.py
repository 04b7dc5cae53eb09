"""What of a query's state waits as the query ends: groups whose rows the watermark has
yet to let go of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakesql.compile.select import Select
from lakesql.events import RowsWaiting

_JOINS = "symmetricHashJoin"


def find_waiting(
    select: Select, report: Mapping[str, Any], at_ms: int
) -> RowsWaiting | None:
    """What waits after the batch of which Spark gives this progress report; None where
    nothing does.

    In mode `upsert` a group's row is in the table already, so none waits. A join of
    streams keeps records for those that they are to meet; which of them have met one
    Spark does not say.
    """
    if select.writing.output_mode != "append" or not select.query.stateful:
        return None
    operators: Sequence[Mapping[str, Any]] = report.get("stateOperators") or ()
    joined = sum(
        int(it["numRowsTotal"]) for it in operators if it["operatorName"] == _JOINS
    )
    groups = sum(
        int(it["numRowsTotal"]) for it in operators if it["operatorName"] != _JOINS
    )
    groups = groups if select.query.aggregated else 0
    if not (groups or joined):
        return None
    watermark = str((report.get("eventTime") or {}).get("watermark", ""))
    return RowsWaiting(select.model.name, groups, joined, watermark, at_ms)
