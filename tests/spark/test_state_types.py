"""Edits of contracts below stateful SELECTs: what the state's text says beside what Spark does with the state."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakesql.compile.select import build_select
from lakesql.engine.progress import decide
from lakesql.select.state import is_same_state
from tests.spark.project import Project

pytestmark = pytest.mark.long

COLUMNS = {"id": "int", "k": "string", "x": "int", "d": "decimal(8,2)", "f": "float", "at": "timestamp"}
WATERMARK = {"column": "at", "delay": "1 minute"}
ROW = {"id": 1, "k": "a", "x": 2, "d": "3.50", "f": 0.5}

SELECTS: Mapping[str, tuple[str, list[str]]] = {
    "by_x": ("SELECT x, count(*) AS n FROM {s} GROUP BY x", ["x"]),
    "sums": ("SELECT k, sum(x) AS n, avg(f) AS m, count(d) AS c FROM {s} GROUP BY k", ["k"]),
    "sum_d": ("SELECT k, sum(d) AS n FROM {s} GROUP BY k", ["k"]),
    "most": ("SELECT k, max(x) AS n FROM {s} GROUP BY k", ["k"]),
    "most_f": ("SELECT k, max(f) AS n FROM (SELECT k, f FROM {s}) GROUP BY k", ["k"]),
    "listed": ("SELECT k, collect_set(x) AS n FROM {s} GROUP BY k", ["k"]),
    "hours": ("SELECT window(at, '1 hour').start AS h, min(x) AS n FROM {s} GROUP BY window(at, '1 hour')", []),
    "once": ("SELECT DISTINCT x, at FROM {s}", []),
    "all_once": ("SELECT DISTINCT * FROM {s}", []),
    "joined": ("SELECT l.x, r.k FROM {s} l JOIN {o} r ON l.id = r.id AND l.at = r.at WHERE l.f > 0", []),
    "kept": ("SELECT l.*, r.k AS other FROM {s} l JOIN {o} r ON l.id = r.id AND l.at = r.at", []),
}
EDITS: Mapping[str, Mapping[str, str]] = {
    "wider_x": {"x": "bigint"},
    "wider_d": {"d": "decimal(12,2)"},
    "wider_f": {"f": "double"},
    "more": {"more": "int"},
}
STRICTER = {("sum_d", "wider_d")}
"""Spark sums the digits of short decimals as whole numbers: their state is of one type whatever the precision."""


@pytest.mark.whole
def test_what_spark_does_with_state_is_what_its_text_says(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.stream("o", COLUMNS, watermark=WATERMARK)
    project.record("o", [{**ROW, "at": "2026-03-01T00:00:00Z"}])
    names = {}
    for edit in EDITS:
        stream = f"s_{edit}"
        project.stream(stream, COLUMNS, watermark=WATERMARK)
        project.record(stream, [{**ROW, "at": "2026-03-01T00:00:00Z"}])
        for select, (sql, keys) in SELECTS.items():
            name = names[select, edit] = f"{select}_{edit}"
            mode = {"mode": "upsert", "keys": keys} if keys else {"mode": "append"}
            project.model(name, sql.replace("{s}", f"{{{stream}}}"), on_schema_change="append_new_columns", **mode)
    manifest = project.manifest()
    before = {case: build_select(manifest, name).query.state for case, name in names.items()}
    project.run().check()

    for edit, changed in EDITS.items():
        project.stream(f"s_{edit}", {**COLUMNS, **changed}, watermark=WATERMARK)
        project.record(f"s_{edit}", [{**ROW, "more": 1, "at": "2026-03-01T00:00:00Z"}])
    manifest = project.manifest()
    says = {case: is_same_state(before[case], build_select(manifest, name).query.state) for case, name in names.items()}
    refused = project.run()
    found = {case: refused.conditions(name) for case, name in names.items()}
    assert {case for case, conditions in found.items() if conditions == ["state-changed"]} == {
        case for case, is_same in says.items() if not is_same
    }
    assert all(conditions in ([], ["state-changed"]) for conditions in found.values()), found

    monkeypatch.setattr(decide, "is_same_state", lambda written, now: True)
    ran = project.run()
    fails = {case for case, name in names.items() if ran.conditions(name)}
    too_loose = {case for case in fails if says[case]}
    too_strict = {case for case, is_same in says.items() if not is_same and case not in fails}
    assert (too_loose, too_strict) == (set(), STRICTER)
