"""The output of `lakesql forecast` as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lakesql.model.config import trigger_text
from lakesql.plan.forecast import Forecast, Outlook
from lakesql.table.simulation import TableGrowth


def render_forecast_lines(forecasts: Iterable[Forecast]) -> str:
    """A line of JSON for each model. Times are in milliseconds, sizes in bytes; values
    that do not exist are null."""
    return "".join(
        f"{json.dumps(_fields(each), ensure_ascii=False, allow_nan=False)}\n"
        for each in forecasts
    )


def _fields(found: Forecast) -> dict[str, Any]:
    return {
        "model": found.model.name,
        "table": str(found.model.table),
        "after_ms": found.span_ms,
        "now": asdict(found.now) if found.now else None,
        "inputs": [asdict(each) for each in found.inputs],
        "freshness_limit_ms": found.limit.length_ms if found.limit else None,
        "triggers": [_outlook(each) for each in found.triggers],
    }


def _outlook(outlook: Outlook) -> dict[str, Any]:
    return {
        "trigger": trigger_text(outlook.trigger),
        "is_own": outlook.is_own,
        "is_fresh": outlook.is_fresh,
        "is_cheapest": outlook.is_cheapest,
        "is_behind": outlook.is_behind,
        "interval_ms": round(outlook.interval_ms),
        "freshness_ms": round(outlook.freshness_ms),
        "rows_per_commit": outlook.rows,
        "unmaintained": _growth(outlook.unkept),
        "maintained": _growth(outlook.kept) if outlook.kept else None,
    }


def _growth(growth: TableGrowth) -> dict[str, Any]:
    return {
        "commits": growth.commits,
        "batches": growth.batches,
        **asdict(growth.end),
        "metadata_written_bytes": growth.written_bytes,
        "most": asdict(growth.most),
    }
