"""The statements of a history of tables, on DuckDB: the versions that plain Python has,
and what a unit test says."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.build_select import build_selects
from lakesql.errors import ProjectError
from lakesql.ledger.entry import Entry
from lakesql.ledger.inputs import version_time_ms
from lakesql.modes.written_as import WrittenAs, find_break
from lakesql.unit.outcomes import Failed, NeedsSpark, Passed
from tests.cases import each_of
from tests.share import a_few
from tests.unit.test_unit_run import make_project, run_one

ORDERS = """{{ config(mode='upsert', keys=['id', 'status']) }}
SELECT id, at, n, status, amount FROM {{ stream('orders') }}"""
START = datetime(2026, 3, 1, 12)
Row = dict[str, Any]


def history(
    options: str, select: str = "SELECT id, status, n, amount FROM {{ ref('kept') }}"
) -> dict[str, str]:
    return {"m": f"{{{{ config(mode='scd2', {options}) }}}}\n{select}", "kept": ORDERS}


def version(row: Row, begin: datetime, end: datetime | None = None) -> Row:
    return {**row, "valid_from": begin, "valid_to": end, "is_current": end is None}


def follow(
    versions: list[Row],
    rows: list[Row],
    keys: list[str],
    tracked: list[str],
    at: datetime,
) -> list[Row]:
    """The versions after a refresh."""
    now = {tuple(row[key] for key in keys): row for row in rows}
    after = []
    for it in versions:
        if not it["is_current"]:
            after.append(it)
            continue
        row = now.get(tuple(it[key] for key in keys))
        if row is not None and all(row[name] == it[name] for name in tracked):
            after.append(it)
            del now[tuple(it[key] for key in keys)]
        else:
            after.append({**it, "valid_to": at, "is_current": False})
    return after + [version(row, at) for row in now.values()]


@pytest.mark.parametrize("keys", [["id"], ["status"], ["id", "status"]])
@pytest.mark.parametrize("tracked", a_few([[], ["n"], ["n", "amount"]], 1))
@pytest.mark.parametrize("seed", a_few(range(4), 1))
def test_versions_are_those_of_plain_python(
    tmp_path: Path, keys: list[str], tracked: list[str], seed: int
) -> None:
    pick, versions = random.Random(seed), list[Row]()
    columns = ["id", "status", "n", "amount"]
    options = f"keys={keys}{f', track_columns={tracked}' if tracked else ''}"
    compared = tracked or [name for name in columns if name not in keys]
    for refresh in range(4):
        rows: dict[tuple[Any, ...], Row] = {}
        for _ in range(pick.randrange(6)):
            row = {
                "id": pick.choice([None, 1, 2, 3]),
                "status": pick.choice([None, "", "a", "b"]),
                "n": pick.choice([None, 0, 1]),
                "amount": pick.choice([None, "1.50"]),
            }
            rows[tuple(row[key] for key in keys)] = row
        at = START + timedelta(hours=refresh)
        expected = follow(versions, list(rows.values()), keys, compared, at)
        test = {
            "overrides": {"now": at},
            "given": [
                {"ref": "kept", "rows": list(rows.values())},
                {"table": "this", "rows": versions},
            ],
            "expect": {"rows": expected},
        }
        assert run_one(tmp_path, history(options), test) == Passed(), (
            refresh,
            versions,
            rows,
        )
        versions = expected


def test_another_row_than_that_of_its_version_fails_the_test(tmp_path: Path) -> None:
    row = {"id": 1, "status": "a", "n": 1, "amount": None}
    begun = version(row, START)
    for wrong in ([begun], [version(row, START, START), begun], []):
        test = {
            "overrides": {"now": START + timedelta(hours=1)},
            "given": [
                {"ref": "kept", "rows": [row | {"n": 2}]},
                {"table": "this", "rows": [begun]},
            ],
            "expect": {"rows": wrong},
        }
        assert isinstance(run_one(tmp_path, history("keys='id'"), test), Failed)


def test_two_rows_of_one_key_fail_it(tmp_path: Path) -> None:
    rows = [{"id": None, "status": "a"}, {"id": None, "status": "b"}]
    test = {"given": [{"ref": "kept", "rows": rows}], "expect": {"rows": []}}
    outcome = run_one(tmp_path, history("keys='id'"), test)
    assert isinstance(outcome, Failed)
    assert "view-keys-twice" in outcome.what


def test_columns_that_duckdb_may_compare_otherwise_need_spark(tmp_path: Path) -> None:
    select = "SELECT id, CAST(amount AS double) AS amount, n FROM {{ ref('kept') }}"
    test = {
        "given": [{"ref": "kept", "rows": [{"id": 1, "status": "a"}]}],
        "expect": {"rows": []},
    }
    assert isinstance(run_one(tmp_path, history("keys='id'", select), test), NeedsSpark)
    row = version({"id": 1, "amount": None, "n": None}, datetime(1970, 1, 1))
    test["expect"] = {"rows": [row]}
    assert (
        run_one(tmp_path, history("keys='id', track_columns='n'", select), test)
        == Passed()
    )


def problems(folder: Path, models: dict[str, str]) -> list[tuple[str, str]]:
    make_project(folder, models, [])
    with pytest.raises(ProjectError) as refused:
        manifest = load_project(Options(project_dir=folder))
        build_selects(manifest, manifest.models)
    return sorted(
        (it.condition, it.place.path if it.place else "")
        for it in refused.value.problems
    )


@pytest.mark.parametrize(
    ("models", "condition"),
    [
        (history("keys='id', sequence_by='at'"), "unknown-option"),
        (history("keys='id', tombstone_retention='1 day'"), "unknown-option"),
        (history("track_columns='n'"), "missing-option"),
        (history("keys='nothing'"), "key-not-selected"),
        (
            history("keys='nothing'", "SELECT * FROM {{ ref('kept') }}"),
            "key-not-selected",
        ),
        (history("keys='id', track_columns='nothing'"), "unknown-column"),
        (
            history("keys='id'", "SELECT uuid() AS id, n FROM {{ ref('kept') }}"),
            "random-key",
        ),
        (
            history("keys='id'", "SELECT id, map(id, n) AS m FROM {{ ref('kept') }}"),
            "key-type",
        ),
        (
            history("keys='id'", "SELECT id, n AS valid_to FROM {{ ref('kept') }}"),
            "duplicate-column",
        ),
        (history("keys='id'", "SELECT 1 AS id, 2 AS n"), "no-table"),
        (
            {
                "m": "{{ config(mode='scd2', keys='id') }} SELECT id, at FROM {{ stream('orders') }}"
            },
            "missing-option",
        ),
        (
            history(
                "keys='id'",
                "SELECT id, n FROM {{ ref('kept') }} UNION ALL SELECT id, n FROM {{ this }}",
            ),
            "cycle",
        ),
    ],
)
def test_what_cannot_be_a_history_is_refused(
    tmp_path: Path, models: dict[str, str], condition: str
) -> None:
    assert problems(tmp_path, models) == [(condition, "models/m.sql")]


def test_a_stream_and_a_table_are_a_history_of_the_stream(tmp_path: Path) -> None:
    select = "SELECT o.id, o.at, k.n FROM {{ stream('orders') }} o LEFT JOIN {{ ref('kept') }} k ON k.id = o.id"
    make_project(tmp_path, history("keys='id', sequence_by='at'", select), [])
    assert (
        load_project(Options(project_dir=tmp_path)).models["m"].config.reads
        == "streams"
    )
    assert problems(tmp_path, history("keys='id'", select)) == [
        ("missing-option", "models/m.sql")
    ]


@each_of(
    ("newest", "former", "is_timed", "expected"),
    [
        (500, 0, False, 500),  # the first refresh, and each one after a commit
        (500, 499, False, 500),
        (500, 500, False, 900),  # only the SELECT is another one
        (400, 500, False, 900),  # an input was rolled back
        (500, 950, False, 951),  # and by a clock that is behind
        (500, 0, True, 900),  # what the time has changed is so from now on
        (0, 0, False, 900),  # no input has a snapshot
    ],
)
def test_versions_begin_after_those_that_are_there(
    newest: int, former: int, is_timed: bool, expected: int
) -> None:
    assert version_time_ms(newest, former, 900, is_timed=is_timed) == expected


STREAM = WrittenAs("scd2", ("id",))
HISTORY = WrittenAs("scd2", ("id",), reads="tables")
VIEW = WrittenAs("materialized_view", ("id",), reads="tables")


@each_of(
    ("was", "now", "condition"),
    [
        (HISTORY, replace(HISTORY, keys=("ID",)), None),
        (HISTORY, replace(HISTORY, keys=("id", "n")), "keys-changed"),
        (HISTORY, VIEW, "mode-changed"),
        (HISTORY, WrittenAs("table", reads="tables"), "mode-changed"),
        (VIEW, HISTORY, "mode-changed"),
        (HISTORY, STREAM, "mode-changed"),
        (STREAM, HISTORY, "mode-changed"),
        (VIEW, replace(VIEW, keys=("n",)), None),
        (VIEW, WrittenAs("table", reads="tables"), None),
        (VIEW, WrittenAs("upsert", ("id",)), "mode-changed"),
    ],
)
def test_which_rows_a_model_over_tables_continues(
    was: WrittenAs, now: WrittenAs, condition: str | None
) -> None:
    found = find_break(was, now, "lake.shop.m", "")
    assert (found.condition if found else None) == condition


def test_an_entry_of_a_refresh_says_that_its_rows_are_of_tables() -> None:
    entry = Entry(
        "m", "", 0, "", "", mode="scd2", keys=("id",), inputs='{"lake.shop.kept": {}}'
    )
    assert (entry.written_as, replace(entry, inputs="").written_as) == (HISTORY, STREAM)
