"""Whole batches give the same rows, dead letters and remembered keys on DuckDB as on
Spark, wherever DuckDB answers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lakesql.graph.manifest import Manifest
from lakesql.unit.outcomes import NeedsSpark
from lakesql.unit.run import run_tests
from tests.spark.project import Lake
from tests.spark.test_unit_tests_of_models import load, run_on
from tests.unit.unit_project import left_by

STREAMS = """
streams:
  - name: orders
    topic: orders
    connection: kafka
    columns:
      id: {type: bigint, required: true}
      at: int
      status: string
      amount: decimal(12,2)
      seen: timestamp
      score: double
"""
CONFIGS = (
    "mode='append'",
    "mode='append', keys='id'",
    "mode='upsert', keys='id'",
    "mode='upsert', keys=['id', 'status'], sequence_by='at'",
    """mode='upsert', keys='id', sequence_by='at', delete_when="status = 'gone'" """,
    """mode='upsert', keys='id', sequence_by=['at', 'amount'], ignore_null_updates=true, delete_when="amount < 0" """,
    """mode='upsert', keys='id', delete_when="status = 'gone'", exclude_columns='amount'""",
    """mode='upsert', keys='id', update_columns='status', when_matched="target.at <= source.at" """,
    "mode='scd2', keys='id', sequence_by='at'",
    "mode='scd2', keys='id', sequence_by='at', track_columns='status'",
)
SELECTS = (
    "SELECT id, at, status, amount FROM {{ stream('orders') }}",
    """SELECT id, CASE WHEN at > 3 THEN 3 ELSE at END AS at, lower(trim(status)) AS status, amount * 2 AS amount,
  score / 2 AS half
FROM {{ stream('orders') }} WHERE at IS NULL OR at <> 2""",
    """SELECT o.id, o.at, coalesce(o.status, n.name) AS status, o.amount, date_trunc('hour', o.seen) AS hour,
  current_timestamp() AS made
FROM {{ stream('orders') }} AS o LEFT JOIN {{ ref('names') }} AS n ON n.id = o.id""",
)
NAMES = """{{ config(mode='upsert', keys='id') }}
SELECT id, status AS name FROM {{ stream('orders') }}"""
CHECKS = """
models:
  - name: m
    expect:
      - {that: amount < 9, on_fail: dead_letter}
      - {that: at < 5, on_fail: stop}
"""

times = st.sampled_from(
    ["2026-03-01T10:00:00Z", "2026-03-01T10:59:59.999999Z", "2026-03-29T03:00:00+02:00"]
)
columns: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(1, 3),
    "at": st.integers(1, 4),
    "status": st.sampled_from(["a", " B", "gone", ""]),
    "amount": st.sampled_from([0, 1.5, -2.25, 8.99]),
    "seen": times,
    "score": st.sampled_from([0.1, -0.0, 1e300]),
}
others = {name: values for name, values in columns.items() if name not in ("id", "at")}
usual = st.fixed_dictionaries(
    {"id": columns["id"], "at": columns["at"]}, optional=others
)
odd = st.one_of(
    st.fixed_dictionaries({}, optional=columns),
    st.just({"id": 1, "at": 5, "amount": 10}),
    st.sampled_from(
        [
            "{",
            '{"id": 1, "at": 2, "status": "raw"}',
            '{"id": true}',
            '{"at": 1}',
            "1",
            "null",
        ]
    ),
    st.none(),
)
records = st.lists(st.one_of(usual, usual, usual, odd), min_size=1, max_size=7)
stored = st.fixed_dictionaries(
    {name: columns[name] for name in ("id", "at", "status", "amount")}
)


@dataclass(frozen=True)
class Case:
    """A model with what is expected of its rows, and a test that expects nothing to be
    left by it."""

    model: str
    checks: str
    test: dict[str, Any]

    def load(self, folder: Path) -> Manifest:
        (folder / "models").mkdir()
        (folder / "models" / "checks.yml").write_text(self.checks, "utf-8")
        return load(folder, {"m": self.model, "names": NAMES}, [self.test], STREAMS)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    config, select, arrived = (
        draw(st.sampled_from(CONFIGS)),
        draw(st.sampled_from(SELECTS)),
        draw(records),
    )
    cuts = sorted(
        {0, *draw(st.lists(st.integers(1, len(arrived)), max_size=2)), len(arrived)}
    )
    batches = [arrived[start:end] for start, end in pairwise(cuts)]
    given_here: list[dict[str, Any]] = [{"stream": "orders", "batches": batches}]
    if "scd2" not in config:  # a row of a history also says until when it is valid
        rows = draw(st.lists(stored, max_size=3, unique_by=lambda row: row["id"]))
        given_here.append({"table": "this", "rows": rows})
    if "ref(" in select:
        given_here.append(
            {"ref": "names", "rows": [{"id": 1, "name": "one"}, {"id": 2}]}
        )
    remembers = "scd2" in config or (
        "sequence_by" in config and "delete_when" in config
    )
    expect: dict[str, Any] = {"rows": [], **({"tombstones": []} if remembers else {})}
    now = {"now": "2026-03-05T12:00:00Z"}
    test = {
        "name": "t",
        "model": "m",
        "overrides": now,
        "given": given_here,
        "expect": expect,
    }
    ratio = draw(st.sampled_from([1, 1, 1, 0.5]))
    model = f"{{{{ config(max_dead_letter_ratio={ratio}, {config}) }}}}\n{select}"
    # a join may make rows of no record
    checks = CHECKS.replace("dead_letter", "warn") if "ref(" in select else CHECKS
    return Case(model, checks if draw(st.booleans()) else "models: []", test)


@pytest.mark.long
@settings(max_examples=max(4, settings.default.max_examples // 12), deadline=None)
@given(case=cases())
def test_duckdb_leaves_what_spark_leaves(
    case: Case, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    manifest = case.load(tmp_path_factory.mktemp("units"))
    (fast,) = run_tests(manifest, manifest.unit_tests)
    assume(not isinstance(fast.outcome, NeedsSpark))
    (slow,) = run_on(lake, manifest)
    assert left_by(fast.outcome) == left_by(slow.outcome)
