"""Each kind of condition can fail wherever one may stand: for each there is a row for
which it holds, and one for which it does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from lakesql.unit.outcomes import Failed, Passed
from tests.share import a_few
from tests.unit.test_data_tests import Shop
from tests.unit.test_unit_run import append, given, run_one, upsert

Row = dict[str, object]

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("status", pa.string())])

CONDITIONS: list[tuple[str, Row, Row]] = [
    ("n > 1", {"n": 2}, {"n": 1}),
    ("n >= 1 AND status <> 'x'", {"n": 1, "status": "y"}, {"n": 1, "status": "x"}),
    ("n = 1 OR status = 'x'", {"n": 2, "status": "x"}, {"n": 2, "status": "y"}),
    ("NOT (n = 1)", {"n": 2}, {"n": 1}),
    ("n IS NOT NULL", {"n": 1}, {"n": None}),
    ("n IN (1, 2)", {"n": 2}, {"n": 3}),
    ("status LIKE 'a%'", {"status": "ab"}, {"status": "ba"}),
    ("n BETWEEN 1 AND 2", {"n": 2}, {"n": 3}),
    ("coalesce(status, 'x') <> 'x'", {"status": "y"}, {"status": None}),
    ("length(status) = 2", {"status": "ab"}, {"status": "a"}),
    (
        "CASE WHEN n = 1 THEN status = 'x' ELSE n > 5 END",
        {"n": 1, "status": "x"},
        {"n": 2, "status": "x"},
    ),
    ("n + 1 > 5", {"n": 5}, {"n": 1}),
    ('`status` = "x"', {"status": "x"}, {"status": "y"}),
]
"""A condition, a row for which it is true, and one for which it is false."""

each_condition = pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    a_few(CONDITIONS, 4),
    ids=[condition for condition, _, _ in CONDITIONS],
)


def statuses(folder: Path, tests: list[Row]) -> list[str]:
    """What becomes of data tests over a table that has two rows for each condition, of
    the ids 2i and 2i + 1: for the first one it holds, for the second one it does
    not."""
    shop = Shop(folder)
    columns = "{id: bigint, n: int, status: string}"
    shop.write(
        "streams/s.yml",
        f"streams: [{{name: orders, connection: broker, topic: o, columns: {columns}}}]\n",
    )
    for model in ("orders", "customers"):
        select = "SELECT id, n, status FROM {{ stream('orders') }}"
        shop.write(
            f"models/{model}.sql", f"{{{{ config(mode='append') }}}}\n{select}\n"
        )
    named = [
        {"expression": {"name": f"t{number}", **test}}
        for number, test in enumerate(tests)
    ]
    shop.write(
        "models/m.yml", yaml.safe_dump({"models": [{"name": "orders", "tests": named}]})
    )
    pairs = ((holds, fails) for _, holds, fails in CONDITIONS)
    shop.append(
        "orders",
        [
            {"id": id_, **row}
            for id_, row in enumerate(row for pair in pairs for row in pair)
        ],
        SCHEMA,
    )
    results = shop.run()
    return [results[f"t{number}"].status for number in range(len(tests))]


@pytest.mark.checks
def test_of_expressions(tmp_path: Path) -> None:
    tests: list[Row] = [
        {"expression": condition, "where": f"id = {2 * number + which}"}
        for number, (condition, _, _) in enumerate(CONDITIONS)
        for which in (0, 1)
    ]
    assert statuses(tmp_path, tests) == ["pass", "fail"] * len(CONDITIONS)


def test_of_wheres(tmp_path: Path) -> None:
    tests: list[Row] = [
        {
            "expression": "id < 0",
            "where": f"({condition}) AND id = {2 * number + which}",
        }
        for number, (condition, _, _) in enumerate(CONDITIONS)
        for which in (0, 1)
    ]
    assert statuses(tmp_path, tests) == ["fail", "no_rows"] * len(CONDITIONS)


def test_of_thresholds(tmp_path: Path) -> None:
    holds = {
        "> 0": True,
        ">= 1": True,
        "= 1": True,
        "!= 0": True,
        "> 1": False,
        "= 0": False,
        "< 1": False,
    }
    one_row_fails = {"expression": "id < 0", "where": "id = 0"}
    errors: list[Row] = [
        {**one_row_fails, "error_if": each, "warn_if": "> 99"} for each in holds
    ]
    warnings: list[Row] = [
        {**one_row_fails, "warn_if": each, "error_if": "> 99"} for each in holds
    ]
    found = statuses(tmp_path, [*errors, *warnings])
    assert found[: len(holds)] == ["fail" if it else "pass" for it in holds.values()]
    assert found[len(holds) :] == ["warn" if it else "pass" for it in holds.values()]


@pytest.mark.checks
@each_condition
@pytest.mark.parametrize("on_fail", ["stop", "dead_letter"])
def test_of_an_expectation(
    condition: str, holds: Row, fails: Row, on_fail: str, tmp_path: Path
) -> None:
    def outcome(folder: Path, row: Row) -> object:
        record = {"id": 1, "at": 1, **row}
        expected = [{"id": 1, "n": row.get("n"), "status": row.get("status")}]
        folder.mkdir()
        (folder / "models").mkdir()
        properties = {
            "models": [
                {"name": "m", "expect": [{"that": condition, "on_fail": on_fail}]}
            ]
        }
        (folder / "models/expected.yml").write_text(yaml.safe_dump(properties))
        models = append(select="SELECT id, n, status FROM {{ stream('orders') }}")
        return run_one(
            folder, models, {"given": [given([record])], "expect": {"rows": expected}}
        )

    assert isinstance(outcome(tmp_path / "a", holds), Passed)
    assert isinstance(outcome(tmp_path / "b", fails), Failed)


@pytest.mark.checks
@each_condition
def test_of_a_delete_when(
    condition: str, holds: Row, fails: Row, tmp_path: Path
) -> None:
    def outcome(folder: Path, row: Row) -> object:
        models = upsert(
            f"keys='id', delete_when={condition!r}",
            "SELECT id, n, status FROM {{ stream('orders') }}",
        )
        record = {"id": 1, "at": 1, **row}
        stays = [{"id": 1, "n": row.get("n"), "status": row.get("status")}]
        return run_one(
            folder, models, {"given": [given([record])], "expect": {"rows": stays}}
        )

    assert isinstance(outcome(tmp_path / "a", fails), Passed)
    assert isinstance(outcome(tmp_path / "b", holds), Failed)
