"""Unit tests of models on Spark: the answers of DuckDB, and what DuckDB does not answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.run.units import build_all, on_recordings, run_in_session
from lakesql.unit.outcomes import Failed, Passed, Result
from tests.spark.project import Lake

PROJECT = "[tool.lakesql]\nname = 'units'\nprofile = 'units'\n[tool.lakesql.vars]\nlimit = 10\n"
PROFILES = """
units:
  target: dev
  outputs:
    dev:
      catalog: {name: lake, type: sql, uri: "sqlite:///lake.db", warehouse: lake}
      namespace: units
"""
STREAMS = """
streams:
  - name: orders
    topic: shop.orders
    connection: kafka
    columns:
      id: {type: bigint, required: true}
      at: int
      status: string
      amount: decimal(12,2)
      seen: timestamp
      tags: array<string>
  - {name: lines, path: lines/*.csv, format: csv, columns: {id: bigint, name: string, day: date}}
"""


def load(folder: Path, models: dict[str, str], tests: list[dict[str, Any]], streams: str = STREAMS) -> Manifest:
    """The manifest of a project with these models and tests."""
    files = {
        "pyproject.toml": PROJECT,
        "profiles.yml": PROFILES,
        "streams/streams.yml": streams,
        "models/tests.yml": yaml.safe_dump({"unit_tests": tests}, sort_keys=False),
        **{f"models/{name}.sql": text for name, text in models.items()},
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return load_project(Options(project_dir=folder))


def run_on(lake: Lake, manifest: Manifest) -> list[Result]:
    """The results of all unit tests on the shared session."""
    own = on_recordings(manifest, manifest.directory / "unit")
    build_all(own, own.unit_tests)
    return run_in_session(own, lake.session, lake.catalog, own.unit_tests)


def told(results: list[Result]) -> dict[str, str]:
    """The tests that did not pass, with what is wrong."""
    return {result.test.name: str(result.outcome) for result in results if not isinstance(result.outcome, Passed)}


MODELS = {
    "plain": """{{ config(mode='append') }}
SELECT id, status, current_timestamp() AS made, _record.offset AS at, _record.key AS key, tags
FROM {{ stream('orders') }} WHERE at < {{ var('limit') }}""",
    "latest": """{{ config(mode='upsert', keys='id', sequence_by='at', delete_when="status = 'gone'") }}
SELECT id, at, status, amount FROM {{ stream('orders') }}""",
    "names": "{{ config(mode='upsert', keys='id') }}\nSELECT id, name, day FROM {{ stream('lines') }}",
    "joined": """{{ config(mode='append') }}
SELECT o.id, n.name FROM {{ stream('orders') }} o LEFT JOIN {{ ref('names') }} n ON n.id = o.id""",
    "onwards": "{{ config(mode='append') }}\nSELECT id, upper(status) AS status FROM {{ stream('plain') }}",
}
TESTS: list[dict[str, Any]] = [
    {
        "name": "the time, a variable, the record and an array",
        "model": "plain",
        "overrides": {"now": "2026-03-05T12:00:00Z", "vars": {"limit": 3}},
        "given": [
            {
                "stream": "orders",
                "batches": [
                    [{"id": 1, "at": 1, "tags": ["a", "b"]}, {"id": 2, "at": 9}],
                    [{"id": 3, "at": 2, "_record": {"key": "k"}}, "{not json", {"at": 1}],
                ],
            }
        ],
        "expect": {
            "rows": [
                {"id": 1, "made": "2026-03-05T12:00:00Z", "at": 0, "key": None, "tags": ["a", "b"]},
                {"id": 3, "made": "2026-03-05T12:00:00Z", "at": 2, "tags": None},
            ],
            "dead_letters": [
                {"reason": "unparsable", "stream": "orders"},
                {"reason": "required-missing", "stream": "orders"},
            ],
        },
    },
    {
        "name": "the table before, deletes and what is remembered of them",
        "model": "latest",
        "given": [
            {"table": "this", "rows": [{"id": 1, "at": 1, "status": "a"}, {"id": 2, "at": 5, "amount": 1.25}]},
            {
                "stream": "orders",
                "batches": [
                    [{"id": 1, "at": 2, "status": "gone"}, {"id": 2, "at": 4, "status": "late"}],
                    [{"id": 1, "at": 1, "status": "late"}, {"id": 3, "at": 1}, {"id": 3}],
                ],
            },
        ],
        "expect": {
            "rows": [{"id": 2, "at": 5, "status": None, "amount": 1.25}, {"id": 3, "at": 1}],
            "dead_letters": [{"reason": "sequence-missing"}],
            "tombstones": [{"id": 1, "at": 2}],
        },
    },
    {
        "name": "lines of a file",
        "model": "names",
        "given": [
            {
                "stream": "lines",
                "batches": [[{"id": 1, "name": 'a "b", c', "day": "2026-03-05"}], ["1,z,2026-03-06", "x,z,"]],
            }
        ],
        "expect": {"rows": [{"id": 1, "name": "z", "day": "2026-03-06"}], "dead_letters": [{"reason": "unparsable"}]},
    },
    {
        "name": "a join",
        "model": "joined",
        "given": [
            {"ref": "names", "rows": [{"id": 1, "name": "one"}]},
            {"stream": "orders", "batches": [[{"id": 1}, {"id": 2}]]},
        ],
        "expect": {"rows": [{"id": 1, "name": "one"}, {"id": 2, "name": None}]},
    },
    {
        "name": "rows of another model's table",
        "model": "onwards",
        "given": [{"stream": "plain", "batches": [[{"id": 1, "status": "a"}], [{"id": 2, "status": "b"}]]}],
        "expect": {"rows": [{"id": 1, "status": "A"}, {"id": 2, "status": "B"}]},
    },
]


def test_batches_of_unit_tests_are_batches_of_a_run(lake: Lake, tmp_path: Path) -> None:
    """What is right passes, what is wrong fails, and no table is left."""
    wrong = [
        {
            **TESTS[1],
            "name": "wrong",
            "expect": {"rows": [{"id": 2, "status": "late"}, {"id": 3}], "dead_letters": [{"reason": "unparsable"}]},
        },
        {
            "name": "a failing batch",
            "model": "latest",
            "given": [{"stream": "orders", "batches": [["{"]]}],
            "expect": {"rows": []},
        },
    ]
    models = {**MODELS, "latest": MODELS["latest"].replace("keys=", "max_dead_letter_ratio=0.5, keys=")}
    manifest = load(tmp_path, models, [*TESTS, *wrong])
    results = run_on(lake, manifest)
    assert {*told(results[:-2])} == set(), told(results)
    *_, other, failing = [result.outcome for result in results]
    assert isinstance(other, Failed) and isinstance(failing, Failed)
    assert [(found.what, len(found.rows), found.same) for found in other.differences] == [
        ("rows", 2, 1),
        ("dead letters", 2, 0),
    ]
    assert failing.what.startswith("The batch fails: too-many-dead-letters, 1 of 1 records")
    assert not lake.session.sql("SHOW TABLES IN lake.units").collect()


@pytest.mark.parametrize("word", ["current_timestamp", "CURRENT_DATE", "unix_timestamp()"])
def test_a_clock_that_goes_on_is_refused(word: str, tmp_path: Path) -> None:
    models = {"plain": f"{{{{ config(mode='append') }}}}\nSELECT {word} AS made FROM {{{{ stream('orders') }}}}"}
    manifest = load(tmp_path, models, [{**TESTS[0], "overrides": {"now": "2026-03-05T12:00:00Z"}}])
    with pytest.raises(ProjectError) as error:
        build_all(manifest, manifest.unit_tests)
    assert [problem.condition for problem in error.value.problems] == ["clock-not-stopped"]
    build_all(manifest, [replace(test, overrides=replace(test.overrides, now=None)) for test in manifest.unit_tests])
