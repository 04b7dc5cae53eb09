"""How tables are, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lakesql.model.maintenance_tasks import UnknownFiles
from lakesql.observe.status_text import Checked, remarks
from lakesql.plan.table_status import Known, TableStatus
from lakesql.table.maintenance_plan import Wait


def render_status_lines(statuses: Iterable[TableStatus]) -> str:
    """An object for each table. Times are in milliseconds, sizes in bytes; null where
    nothing is known."""
    return "".join(
        f"{json.dumps(_fields(status), ensure_ascii=False, allow_nan=False)}\n"
        for status in statuses
    )


def render_check_lines(checked: Iterable[Checked]) -> str:
    """An object for each limit that was checked, in the units of `Figures`."""
    return "".join(
        f"{json.dumps(asdict(each), ensure_ascii=False, allow_nan=False)}\n"
        for each in checked
    )


def _fields(status: TableStatus) -> dict[str, Any]:
    table, state = status.model.table, status.state
    return {
        "model": status.model.name,
        "table": str(table),
        "health": status.health,
        "remarks": list(remarks(status)),
        "by_lakesql": state.facts.is_ours if isinstance(state, Known) else None,
        "unknown_files": _unknown(state.facts.metadata.record.unknown)
        if isinstance(state, Known)
        else None,
        "waits": [_wait(wait) for wait in state.waits]
        if isinstance(state, Known)
        else [],
        "inputs": [asdict(lag) for lag in state.lags]
        if isinstance(state, Known)
        else [],
        "findings": [asdict(finding) for finding in state.findings]
        if isinstance(state, Known)
        else [],
        "figures": asdict(state.figures) if isinstance(state, Known) else None,
        "problems": [asdict(problem) for problem in status.problems],
    }


def _wait(wait: Wait) -> dict[str, Any]:
    return {
        "task": wait.task.name,
        "why": wait.why,
        "waits_for": wait.waits_for,
        "until_ms": wait.until_ms,
    }


def _unknown(files: UnknownFiles) -> dict[str, Any]:
    return {"count": files.count, "bytes": files.bytes, "example": files.example}
