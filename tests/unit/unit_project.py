"""A project whose models have unit tests, for tests of these."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import yaml

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.unit.outcomes import Failed, Outcome
from lakesql.unit.run import run_tests

PROFILES = """
shop:
  target: dev
  outputs:
    dev:
      catalog: {name: lake, type: sql, uri: "sqlite:///lake.db", warehouse: lake}
      namespace: shop
"""
STREAMS = """
streams:
  - name: orders
    topic: orders
    connection: kafka
    columns:
      id: {type: bigint, required: true}
      at: int
      n: int
      status: string
      amount: decimal(12,2)
  - name: tagged
    topic: tagged
    connection: kafka
    columns: {id: bigint, a: string, tags: binary, marks: binary}
  - name: nested
    topic: nested
    connection: kafka
    columns: {id: bigint, tags: "array<string>", marks: "map<string,int>", items: "array<struct<sku:string,n:int>>"}
  - name: parcels
    topic: parcels
    connection: kafka
    columns: {id: bigint, sentAt: timestamp, Weight: int}
  - name: rescuing
    topic: orders
    connection: kafka
    unknown_fields: rescue
    columns: {id: {type: bigint, required: true}, a: string}
  - name: refusing
    topic: orders
    connection: kafka
    unknown_fields: dead_letter
    columns: {id: {type: bigint, required: true}, a: string}
  - name: views
    topic: views
    connection: kafka
    columns: {id: bigint, page: string, viewed_at: timestamp, score: double, ok: boolean, day: date}
"""


def make_project(folder: Path, models: dict[str, str], tests: object) -> None:
    files = {
        "pyproject.toml": "[tool.lakesql]\nname = 'shop'\nprofile = 'shop'\n[tool.lakesql.vars]\nlimit = 10\n",
        "profiles.yml": PROFILES,
        "streams/streams.yml": STREAMS,
        "models/tests.yml": tests
        if isinstance(tests, str)
        else yaml.safe_dump({"unit_tests": tests}, sort_keys=False),
        **{f"models/{name}.sql": text for name, text in models.items()},
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


def run_one(folder: Path, models: dict[str, str], test: dict[str, object]) -> Outcome:
    model = next(iter(models))
    make_project(folder, models, [{"name": "t", "model": model, **test}])
    manifest = load_project(Options(project_dir=folder))
    (result,) = run_tests(manifest, manifest.unit_tests)
    return result.outcome


def left_by(outcome: Outcome) -> dict[str, Counter[str]]:
    """All that is there where nothing is expected; or the condition of the batch that
    fails."""
    if not isinstance(outcome, Failed):
        return {}
    failing = re.findall(r"^The batch fails: ([\w-]+)", outcome.what)
    assert bool(failing) == bool(outcome.what), outcome.what
    rows = {
        it.what: Counter(repr(sorted(odd.row.items())) for odd in it.rows)
        for it in outcome.differences
    }
    return {**rows, **{what: Counter() for what in failing}}
