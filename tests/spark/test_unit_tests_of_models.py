"""Unit tests of models on Spark: the answers of DuckDB, and what DuckDB does not
answer."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.engine.refresh import refresh_table
from lakesql.engine.refresh.refresh_table import Refresh
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.run.test.unit_target import on_recordings
from lakesql.run.test.unit_tests_on_spark import build_all, run_in_session
from lakesql.unit.outcomes import Failed, NeedsSpark, Passed, Result
from lakesql.unit.run import run_tests
from tests.spark.project import Lake
from tests.unit.random_changes import changed, row
from tests.unit.unit_project import left_by

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
  - name: changes
    topic: shop.public.rows
    connection: kafka
    envelope: debezium
    key: [id]
    columns:
      id: {type: bigint, required: true}
      name: string
      price: decimal(10,2)
      at: {type: timestamp, unit: milliseconds}
  - name: moved
    topic: dms.rows
    connection: kafka
    envelope: dms
    source_table: public.rows
    key: [id]
    columns: {id: bigint, name: string}
  - name: clicks
    topic: clicks
    connection: kafka
    columns: {page: string, at: timestamp}
    watermark: {column: at, delay: 10 minutes}
  - {name: lines, path: lines/*.csv, format: csv, columns: {id: bigint, name: string, day: date}}
"""


def load(
    folder: Path,
    models: dict[str, str],
    tests: list[dict[str, Any]],
    streams: str = STREAMS,
) -> Manifest:
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
    return {
        result.test.name: str(result.outcome)
        for result in results
        if not isinstance(result.outcome, Passed)
    }


MODELS = {
    "plain": """{{ config(mode='append') }}
SELECT id, status, current_timestamp() AS made, current_date() AS day, _record.offset AS at, _record.key AS key, tags
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
                    [
                        {"id": 3, "at": 2, "_record": {"key": "k"}},
                        "{not json",
                        {"at": 1},
                    ],
                ],
            }
        ],
        "expect": {
            "rows": [
                {
                    "id": 1,
                    "made": "2026-03-05T12:00:00Z",
                    "day": "2026-03-05",
                    "at": 0,
                    "key": None,
                    "tags": ["a", "b"],
                },
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
        "overrides": {"now": "2026-03-05T12:00:00Z"},
        "given": [
            {
                "table": "this",
                "rows": [
                    {"id": 1, "at": 1, "status": "a"},
                    {"id": 2, "at": 5, "amount": 1.25},
                ],
            },
            {
                "stream": "orders",
                "batches": [
                    [
                        {"id": 1, "at": 2, "status": "gone"},
                        {"id": 2, "at": 4, "status": "late"},
                    ],
                    [
                        {"id": 1, "at": 1, "status": "late"},
                        {"id": 3, "at": 1},
                        {"id": 3},
                    ],
                ],
            },
        ],
        "expect": {
            "rows": [
                {"id": 2, "at": 5, "status": None, "amount": 1.25},
                {"id": 3, "at": 1},
            ],
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
                "batches": [
                    [{"id": 1, "name": 'a "b", c', "day": "2026-03-05"}],
                    ["1,z,2026-03-06", "x,z,"],
                ],
            }
        ],
        "expect": {
            "rows": [{"id": 1, "name": "z", "day": "2026-03-06"}],
            "dead_letters": [{"reason": "unparsable"}],
        },
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
        "given": [
            {
                "stream": "plain",
                "batches": [[{"id": 1, "status": "a"}], [{"id": 2, "status": "b"}]],
            }
        ],
        "expect": {"rows": [{"id": 1, "status": "A"}, {"id": 2, "status": "B"}]},
    },
]

FEED_MODELS = {
    "mirror": """{{ config(mode='cdc', keys=['id']) }}
SELECT id, name, price, at FROM {{ stream('changes') }} WHERE price > 0""",
    "ordered": """{{ config(mode='cdc', keys=['id'], sequence_by='_change.position') }}
SELECT id, name, _change.position AS position, _change.ts AS ts, _change.tx AS tx FROM {{ stream('changes') }}""",
    "marked": "{{ config(mode='cdc', keys=['id'], apply_deletes='soft') }}\nSELECT id, name FROM {{ stream('moved') }}",
    "versions": """{{ config(mode='scd2', keys=['id'], sequence_by='_change.ts', track_columns=['name']) }}
SELECT id, name, _change.ts AS changed_at FROM {{ stream('changes') }}""",
    "followed": """{{ config(mode='cdc', keys=['id'], sequence_by='_change.ts') }}
SELECT id, name, price * 2 AS doubled, _change.ts AS ts FROM {{ stream('mirror') }} WHERE price > 1""",
    "logged": """{{ config(mode='append') }}
SELECT id, _change.op AS op, price - _change.before.price AS more, _change.ts AS ts FROM {{ stream('mirror') }}""",
    "past": """{{ config(mode='scd2', keys=['id'], track_columns=['name']) }}
SELECT id, name, price FROM {{ ref('mirror') }}""",
    "hourly": """{{ config(mode='append') }}
SELECT window(at, '1 hour').start AS hour, page, count(*) AS clicks FROM {{ stream('clicks') }}
GROUP BY window(at, '1 hour'), page""",
    "pages": """{{ config(mode='upsert', keys=['page']) }}
SELECT page, count(*) AS clicks, current_timestamp() AS counted FROM {{ stream('clicks') }} GROUP BY page""",
}
T1, T2, T3 = (f"2026-03-0{day}T00:00:00Z" for day in (1, 2, 3))


def change(op: str, key: int, name: str | None = None, **more: Any) -> dict[str, Any]:
    """A change in its short form."""
    row = {
        "id": key,
        "name": name,
        "price": more.pop("price", 1),
        "at": more.pop("at", T1),
    }
    return {"op": op, "before" if op == "d" else "after": row, **more}


def moved(operation: str, row: dict[str, Any]) -> dict[str, Any]:
    """An event of DMS, as it is sent."""
    where = {
        "record-type": "data",
        "schema-name": "public",
        "table-name": "rows",
        "timestamp": T2,
    }
    return {"data": row, "metadata": {"operation": operation, **where}}


FEED_TESTS: list[dict[str, Any]] = [
    {
        "name": "changes of a feed, in short and as they are sent",
        "model": "mirror",
        "given": [
            {
                "table": "this",
                "rows": [
                    {"id": 9, "name": "before", "price": 5},
                    {"id": 8, "price": 2},
                ],
            },
            {
                "stream": "changes",
                "batches": [
                    [
                        change("c", 1, "a"),
                        change("c", 2, "b", price=2.50),
                        change("r", 3, "c"),
                        change("u", 9, "after"),
                    ],
                    [
                        {
                            "op": "u",
                            "before": {"id": 1, "name": "a"},
                            "after": {"id": 1, "name": "z", "price": 3},
                        },
                        change("d", 2),
                        change("u", 3, "c", price=0),
                        '{"op": "c", "after": {"id": 4, "name": "raw", "price": 1, "at": 1772323200000}}',
                        {"op": "d", "before": {"id": 8}},
                        {"op": "c", "after": {"name": "no key"}},
                        "no event",
                        None,
                    ],
                ],
            },
        ],
        "expect": {
            "rows": [
                {"id": 1, "name": "z", "price": 3, "at": None},
                {"id": 4, "name": "raw", "price": 1, "at": T1},
                {"id": 9, "name": "after", "price": 1, "at": T1},
            ],
            "dead_letters": [
                {"reason": "required-missing"},
                {"reason": "unparsable"},
                {"reason": "unparsable"},
            ],
        },
    },
    {
        "name": "a row gets another key, and a truncate takes what is older",
        "model": "ordered",
        "overrides": {"now": T3},
        "given": [
            {
                "stream": "changes",
                "batches": [
                    [
                        change("c", 1, "a", position=10, ts=T1, tx="x1"),
                        change("c", 5, "old", position=11),
                    ],
                    [
                        change(
                            "d",
                            1,
                            position=20,
                            _record={"headers": {"__debezium.newkey": '{"id": 2}'}},
                        ),
                        change(
                            "c",
                            2,
                            "a",
                            position=20,
                            _record={"headers": {"__debezium.oldkey": '{"id": 1}'}},
                        ),
                        {"op": "t", "position": 15},
                    ],
                    [
                        change("u", 1, "late", position=12),
                        change("c", 3, "new", position=30, ts=T2, tx="x2"),
                    ],
                ],
            },
        ],
        "expect": {
            "rows": [
                {"id": 2, "name": "a"},
                {"id": 3, "name": "new", "ts": T2, "tx": "x2"},
            ],
            "tombstones": [{"id": 1}, {"id": None, "position": [15]}],
        },
    },
    {
        "name": "what another tool sends",
        "model": "marked",
        "given": [
            {
                "stream": "moved",
                "batches": [
                    [
                        moved("insert", {"id": 1, "name": "a"}),
                        moved("insert", {"id": 2, "name": "b"}),
                    ],
                    [moved("delete", {"id": 1})],
                ],
            },
        ],
        "expect": {
            "rows": [
                {"id": 1, "name": "a", "_deleted_at": T2},
                {"id": 2, "name": "b", "_deleted_at": None},
            ]
        },
    },
    {
        "name": "versions",
        "model": "versions",
        "overrides": {"now": T3},
        "given": [
            {
                "table": "this",
                "rows": [
                    {
                        "id": 1,
                        "name": "a",
                        "changed_at": T1,
                        "valid_from": T1,
                        "is_current": True,
                    }
                ],
            },
            {
                "stream": "changes",
                "batches": [
                    [change("u", 1, "b", ts=T3)],
                    [change("d", 2, ts=T1), change("u", 1, "c", ts=T2)],
                ],
            },
        ],
        "expect": {
            "rows": [
                {"name": "a", "valid_from": T1, "valid_to": T2, "is_current": False},
                {"name": "c", "valid_from": T2, "valid_to": T3, "is_current": False},
                {"name": "b", "valid_from": T3, "valid_to": None, "is_current": True},
            ],
            "tombstones": [{"id": 2}],
        },
    },
    {
        "name": "changes of a table, each batch a commit",
        "model": "followed",
        "given": [
            {
                "stream": "mirror",
                "batches": [
                    [
                        change("c", 1, "a", price=2),
                        change("c", 2, "b", price=3),
                        change("c", 3, "c", ts=T1),
                    ],
                    [
                        {
                            "op": "u",
                            "before": {"id": 1, "price": 2},
                            "after": {"id": 1, "price": 1},
                        },
                        {"op": "d", "before": {"id": 2}},
                        change("u", 3, "c", price=5, ts=T2),
                    ],
                    [change("u", 3, "late", price=7, ts=T1)],
                ],
            }
        ],
        "expect": {
            "rows": [{"id": 3, "name": "c", "doubled": 10, "ts": T2}],
            "tombstones": [{"id": 1}, {"id": 2}, {"id": 3, "ts": T1}],
        },
    },
    {
        "name": "a log of the changes of a table",
        "model": "logged",
        "overrides": {"now": T3},
        "given": [
            {
                "stream": "mirror",
                "batches": [
                    [change("c", 1, price=2)],
                    [
                        {
                            "op": "u",
                            "before": {"id": 1, "price": 2},
                            "after": {"id": 1, "price": 5},
                        }
                    ],
                    [{"op": "d", "before": {"id": 1, "price": 5}}],
                ],
            }
        ],
        "expect": {
            "rows": [
                {"id": 1, "op": "c", "more": None, "ts": "2026-03-03T00:00:00Z"},
                {"id": 1, "op": "u", "more": 3, "ts": "2026-03-03T00:00:01Z"},
                {"id": 1, "op": "d", "more": 0, "ts": "2026-03-03T00:00:02Z"},
            ]
        },
    },
    {
        "name": "versions of a table",
        "model": "past",
        "overrides": {"now": T3},
        "given": [
            {
                "ref": "mirror",
                "rows": [
                    {"id": 1, "name": "b", "price": 2},
                    {"id": 2, "price": 1},
                    {"id": 3},
                ],
            },
            {
                "table": "this",
                "rows": [
                    {
                        "id": 1,
                        "name": "a",
                        "price": 1,
                        "valid_from": T1,
                        "is_current": True,
                    },
                    {"id": 2, "price": 0, "valid_from": T2, "is_current": True},
                    {
                        "id": 3,
                        "name": "c",
                        "valid_from": T1,
                        "valid_to": T2,
                        "is_current": False,
                    },
                    {"id": 4, "name": "d", "valid_from": T2, "is_current": True},
                ],
            },
        ],
        "expect": {
            "rows": [
                {
                    "id": 1,
                    "name": "a",
                    "price": 1,
                    "valid_from": T1,
                    "valid_to": T3,
                    "is_current": False,
                },
                {
                    "id": 1,
                    "name": "b",
                    "price": 2,
                    "valid_from": T3,
                    "valid_to": None,
                    "is_current": True,
                },
                {
                    "id": 2,
                    "name": None,
                    "price": 0,
                    "valid_from": T2,
                    "valid_to": None,
                    "is_current": True,
                },
                {
                    "id": 3,
                    "name": "c",
                    "price": None,
                    "valid_from": T1,
                    "valid_to": T2,
                    "is_current": False,
                },
                {
                    "id": 3,
                    "name": None,
                    "price": None,
                    "valid_from": T3,
                    "valid_to": None,
                    "is_current": True,
                },
                {
                    "id": 4,
                    "name": "d",
                    "price": None,
                    "valid_from": T2,
                    "valid_to": T3,
                    "is_current": False,
                },
            ]
        },
    },
    {
        "name": "windows that end",
        "model": "hourly",
        "given": [
            {
                "stream": "clicks",
                "batches": [
                    [
                        {"page": "/", "at": "2026-03-01T10:00:00Z"},
                        {"page": "/", "at": "2026-03-01T10:59:00Z"},
                        "{",
                    ],
                    [{"page": "/", "at": "2026-03-01T11:20:00Z"}],
                    [{"page": "/", "at": "2026-03-01T10:30:00Z"}],
                ],
            }
        ],
        "expect": {
            "rows": [{"hour": "2026-03-01T10:00:00Z", "page": "/", "clicks": 2}],
            "dead_letters": [{"reason": "unparsable", "stream": "clicks"}],
        },
    },
    {
        "name": "counts that go on",
        "model": "pages",
        "overrides": {"now": T3},
        "given": [
            {
                "stream": "clicks",
                "batches": [
                    [{"page": "a", "at": T1}, {"page": "b", "at": T1}],
                    [{"page": "a", "at": T1}],
                ],
            }
        ],
        "expect": {
            "rows": [
                {"page": "a", "clicks": 2, "counted": T3},
                {"page": "b", "clicks": 1, "counted": T3},
            ]
        },
    },
]


@pytest.mark.long
def test_batches_of_unit_tests_are_batches_of_a_run(lake: Lake, tmp_path: Path) -> None:
    """What is right passes, what is wrong fails, and no table is left."""
    wrong = [
        {
            **TESTS[1],
            "name": "wrong",
            "expect": {
                "rows": [{"id": 2, "status": "late"}, {"id": 3}],
                "dead_letters": [{"reason": "unparsable"}],
            },
        },
        {
            "name": "a failing batch",
            "model": "latest",
            "given": [{"stream": "orders", "batches": [["{"]]}],
            "expect": {"rows": []},
        },
    ]
    models = {
        **MODELS,
        "latest": MODELS["latest"].replace("keys=", "max_dead_letter_ratio=0.5, keys="),
    }
    manifest = load(tmp_path, models, [*TESTS, *wrong])
    results = run_on(lake, manifest)
    assert {*told(results[:-2])} == set(), told(results)
    *_, other, failing = [result.outcome for result in results]
    assert isinstance(other, Failed) and isinstance(failing, Failed)
    assert [
        (found.what, len(found.rows), found.same) for found in other.differences
    ] == [
        ("rows", 2, 1),
        ("dead letters", 2, 0),
    ]
    assert failing.what.startswith(
        "The batch fails: too-many-dead-letters, 1 of 1 records"
    )
    assert not lake.session.sql("SHOW TABLES IN lake.units").collect()


@pytest.mark.long
def test_changes_and_state_are_those_of_a_run(lake: Lake, tmp_path: Path) -> None:
    """Modes that follow feeds, histories, and SELECTs that keep state between
    batches."""
    results = run_on(lake, load(tmp_path, FEED_MODELS, FEED_TESTS))
    assert {*told(results)} == set(), told(results)


@pytest.mark.long
def test_each_test_of_a_model_that_keeps_state_begins_with_none(
    lake: Lake, tmp_path: Path
) -> None:
    """Those of one model follow each other in a session, and after them those of
    another project of the same name."""
    tests = FEED_TESTS[-2:]
    repeated = [{**test, "name": f"{test['name']}, again"} for test in tests]
    for project in ("one", "other"):
        assert (
            told(
                run_on(lake, load(tmp_path / project, FEED_MODELS, [*tests, *repeated]))
            )
            == {}
        )


VIEW_MODELS = {
    "kept": "{{ config(mode='upsert', keys='id') }}\nSELECT id, status, bigint(at) AS n FROM {{ stream('orders') }}",
    "log": "{{ config(mode='append') }}\nSELECT id, status, bigint(at) AS n FROM {{ stream('orders') }}",
    "sums": """{{ config(mode='materialized_view') }}
SELECT status, count(*) AS rows, sum(n) AS n, max(n) AS most FROM {{ ref('kept') }} GROUP BY status""",
    "kinds": """{{ config(mode='materialized_view') }}
SELECT status, count(DISTINCT n) AS kinds FROM {{ ref('log') }} GROUP BY status""",
    "pairs": """{{ config(mode='materialized_view', keys=['id']) }}
SELECT a.id, a.n, b.status FROM {{ ref('kept') }} AS a LEFT JOIN {{ ref('sums') }} AS b ON b.status = a.status""",
    "whole": "{{ config(mode='table') }}\nSELECT max(n) AS most, count(*) AS rows FROM {{ ref('kept') }}",
    "past_of_kept": """{{ config(mode='scd2', keys=['id'], track_columns=['status']) }}
SELECT id, status FROM {{ ref('kept') }}""",
    "beside": """{{ config(mode='append') }}
SELECT o.id, k.status FROM {{ stream('orders') }} AS o LEFT JOIN {{ ref('kept') }} AS k ON k.id = o.id""",
}
REFRESHED_BY_CHANGES = ("sums", "kinds", "pairs")


@pytest.mark.long
# by which every table has rows after some batch
@pytest.mark.parametrize("seed", [1, 2])
def test_views_after_each_batch_of_changes_are_those_of_duckdb(
    seed: int, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh works as of large tables, by what has changed, and leaves the rows that
    a SELECT of them all makes."""
    chance, tests, in_full = random.Random(seed), list[dict[str, Any]](), list[str]()

    def refresh_in_full(refresh: Refresh, *rest: Any) -> Any:
        in_full.append(refresh.select.model.name)
        return as_it_is(refresh, *rest)

    as_it_is = refresh_table._refresh_in_full
    monkeypatch.setattr(refresh_table, "_refresh_in_full", refresh_in_full)
    monkeypatch.setattr(refresh_table, "FEW_ROWS", 1_000)
    for model, text in VIEW_MODELS.items():
        refs = re.findall(r"ref\('(\w+)'\)", text)
        if not refs:
            continue
        given = [given_table(chance, name) for name in refs]
        if "stream(" in text:
            given.append(
                {"stream": "orders", "batches": [[{"id": 1}], [{"id": 2}], [{"id": 1}]]}
            )
        nothing: dict[str, Any] = {"batches": [[], [], []], "rows": []}
        tests.append(
            {
                "name": model,
                "model": model,
                "overrides": {"now": T1},
                "given": given,
                "expect": nothing,
            }
        )
    manifest = load(tmp_path, VIEW_MODELS, tests)
    fast, slow = run_tests(manifest, manifest.unit_tests), run_on(lake, manifest)
    assert not [result for result in fast if isinstance(result.outcome, NeedsSpark)]
    for mine, theirs in zip(fast, slow, strict=True):
        assert left_by(mine.outcome) == left_by(theirs.outcome), mine.test.name
        assert left_by(mine.outcome), mine.test.name
    assert [in_full.count(name) for name in REFRESHED_BY_CHANGES] == [1, 1, 1], (
        "but for the first time"
    )


def given_table(chance: random.Random, name: str) -> dict[str, Any]:
    """The rows of a table, and three batches of their changes."""
    if name == "sums":
        rows = [
            {"status": status, "rows": 1, "n": 1, "most": 1} for status in ("a", "b")
        ]
        return {
            "ref": name,
            "rows": rows,
            "batches": [[], [{"op": "d", "before": {"status": "a"}}]],
        }
    state, batches = [row(1, "a"), row(2, "b", 5)], []
    for _ in range(3):
        changes, state = changed(chance, state, has_key=name == "kept")
        batches.append(
            [*changes, {"op": "u", "before": state[0], "after": state[0]}]
            if state
            else changes
        )
    return {"ref": name, "rows": [row(1, "a"), row(2, "b", 5)], "batches": batches}


@pytest.mark.parametrize(
    "word", ["current_timestamp", "CURRENT_DATE", "unix_timestamp()"]
)
def test_a_clock_that_goes_on_is_refused(word: str, tmp_path: Path) -> None:
    models = {
        "plain": f"{{{{ config(mode='append') }}}}\nSELECT {word} AS made FROM {{{{ stream('orders') }}}}"
    }
    manifest = load(
        tmp_path, models, [{**TESTS[0], "overrides": {"now": "2026-03-05T12:00:00Z"}}]
    )
    with pytest.raises(ProjectError) as error:
        build_all(manifest, manifest.unit_tests)
    assert [problem.condition for problem in error.value.problems] == [
        "clock-not-stopped"
    ]
    build_all(
        manifest,
        [
            replace(test, overrides=replace(test.overrides, now=None))
            for test in manifest.unit_tests
        ],
    )
