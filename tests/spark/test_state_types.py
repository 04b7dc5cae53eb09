"""Edits of contracts below stateful SELECTs: what the state's text says beside what
Spark does with the state."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakesql.compile.build_select import build_select
from lakesql.progress import decide
from lakesql.select.same_state import is_same_state
from tests.spark.project import Project

pytestmark = pytest.mark.long

COLUMNS = {
    "id": "int",
    "k": "string",
    "x": "int",
    "d": "decimal(8,2)",
    "f": "float",
    "at": "timestamp",
}
WATERMARK = {"column": "at", "delay": "1 minute"}
ROW = {"id": 1, "k": "a", "x": 2, "d": "3.50", "f": 0.5}

SELECTS: Mapping[str, tuple[str, list[str]]] = {
    "by_x": ("SELECT x, count(*) AS n FROM {s} GROUP BY x", ["x"]),
    "sums": (
        "SELECT k, sum(x) AS n, avg(f) AS m, count(d) AS c FROM {s} GROUP BY k",
        ["k"],
    ),
    "sum_d": ("SELECT k, sum(d) AS n FROM {s} GROUP BY k", ["k"]),
    "most": ("SELECT k, max(x) AS n FROM {s} GROUP BY k", ["k"]),
    "most_f": ("SELECT k, max(f) AS n FROM (SELECT k, f FROM {s}) GROUP BY k", ["k"]),
    "listed": ("SELECT k, collect_set(x) AS n FROM {s} GROUP BY k", ["k"]),
    "hours": (
        "SELECT window(at, '1 hour').start AS h, min(x) AS n FROM {s} GROUP BY window(at, '1 hour')",
        [],
    ),
    "once": ("SELECT DISTINCT x, at FROM {s}", []),
    "all_once": ("SELECT DISTINCT * FROM {s}", []),
    "joined": (
        "SELECT l.x, r.k FROM {s} l JOIN {o} r ON l.id = r.id AND l.at = r.at WHERE l.f > 0",
        [],
    ),
    "kept": (
        "SELECT l.*, r.k AS other FROM {s} l JOIN {o} r ON l.id = r.id AND l.at = r.at",
        [],
    ),
}
EDITS: Mapping[str, Mapping[str, str]] = {
    "wider_x": {"x": "bigint"},
    "wider_d": {"d": "decimal(12,2)"},
    "wider_f": {"f": "double"},
    "more": {"more": "int"},
}
STRICTER = {("sum_d", "wider_d"), ("listed", "wider_x")}
"""What Spark would continue and misread: the digits of a short decimal are a whole
number to it, whatever the scale, and what is collected are bytes, whatever the type."""


@pytest.mark.parametrize("edit", EDITS)
def test_what_spark_does_with_state_is_what_its_text_says(
    project: Project, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s", "o"):
        project.stream(name, COLUMNS, watermark=WATERMARK)
        project.record(name, [{**ROW, "at": "2026-03-01T00:00:00Z"}])
    for name, (sql, keys) in SELECTS.items():
        mode = {"mode": "upsert", "keys": keys} if keys else {"mode": "append"}
        project.model(name, sql, **mode)
    before = states(project)
    for name in SELECTS:
        project.run(name).check()

    project.stream("s", {**COLUMNS, **EDITS[edit]}, watermark=WATERMARK)
    project.record("s", [{**ROW, "more": 1, "at": "2026-03-01T00:00:00Z"}])
    says = {
        name: is_same_state(before[name], now) for name, now in states(project).items()
    }
    found = {name: project.run(name).conditions(name) for name in SELECTS}
    assert found == {name: [] if says[name] else ["state-changed"] for name in SELECTS}

    # What is refused: whether Spark would have continued it.
    monkeypatch.setattr(decide, "is_same_state", lambda written, now: True)
    refused = [name for name in SELECTS if not says[name]]
    assert refused, "an edit that changes no state tries nothing"
    too_strict = {
        (name, edit) for name in refused if not project.run(name).conditions(name)
    }
    assert too_strict <= STRICTER


def states(project: Project) -> dict[str, str]:
    manifest = project.manifest()
    return {name: build_select(manifest, name).query.state for name in SELECTS}
