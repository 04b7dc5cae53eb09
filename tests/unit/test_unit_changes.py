"""Unit tests whose tables change batch by batch: views after each, and streams that
join tables as they are then."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lakesql.errors import ProjectError
from lakesql.unit.outcomes import Failed, NeedsSpark, Passed
from tests.share import a_few
from tests.unit.random_changes import Row, changed, create, row
from tests.unit.unit_project import run_one

ORDERS = "{{ config(mode='upsert', keys='id') }}\nSELECT id, status, n FROM {{ stream('orders') }}"
LOG = "{{ config(mode='append') }}\nSELECT id, status, n FROM {{ stream('orders') }}"
VIEW = {
    "m": """{{ config(mode='materialized_view') }}
SELECT status, count(*) AS orders, sum(n) AS n FROM {{ ref('o') }} GROUP BY status""",
}
HISTORY = {
    "m": "{{ config(mode='scd2', keys=['id'], track_columns=['status']) }}\nSELECT id, status FROM {{ ref('o') }}"
}
JOIN = {
    "m": """{{ config(mode='append') }}
SELECT s.id, o.status FROM {{ stream('orders') }} AS s LEFT JOIN {{ ref('o') }} AS o ON o.id = s.id"""
}


def total(rows: list[Row]) -> list[Row]:
    """The rows of `VIEW`, by plain Python."""
    groups: dict[str | None, list[int | None]] = {}
    for each in rows:
        groups.setdefault(each["status"], []).append(each["n"])
    sums = {
        status: [n for n in found if n is not None] for status, found in groups.items()
    }
    return [
        {
            "status": status,
            "orders": len(found),
            "n": sum(sums[status]) if sums[status] else None,
        }
        for status, found in groups.items()
    ]


@pytest.mark.parametrize("seed", a_few(range(30), 4))
def test_a_view_is_shown_after_each_batch_of_changes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    has_key = chance.random() < 0.5
    state = [row(key, chance.choice("ab")) for key in range(chance.randrange(4))]
    given: dict[str, Any] = {"ref": "o", "rows": state, "batches": []}
    wanted = []
    for _ in range(chance.randint(1, 4)):
        changes, state = changed(chance, state, has_key)
        given["batches"].append(changes)
        wanted.append(total(state))
    models = {**VIEW, "o": ORDERS if has_key else LOG}
    test = {"given": [given], "expect": {"batches": wanted, "rows": wanted[-1]}}
    assert run_one(tmp_path, models, test) == Passed()
    number = chance.randrange(len(wanted))
    wanted[number] = [*wanted[number], {"status": "z", "orders": 1}]
    outcome = run_one(tmp_path, models, test)
    assert isinstance(outcome, Failed)
    assert outcome.differences[0].what == f"rows after batch {number + 1}"


def test_a_history_has_a_version_of_each_batch(tmp_path: Path) -> None:
    given = {
        "ref": "o",
        "rows": [row(1, "new"), row(2, "new")],
        "batches": [
            [{"op": "u", "after": row(1, "paid")}],
            [{"op": "d", "before": {"id": 1}}],
            [],
        ],
    }
    first = {
        "id": 1,
        "status": "new",
        "valid_from": "2026-03-01T00:00:00Z",
        "valid_to": "2026-03-01T00:00:01Z",
    }
    second = {"id": 1, "status": "paid", "valid_from": "2026-03-01T00:00:01Z"}
    other = {"id": 2, "status": "new", "valid_to": None}
    ended = [first, {**second, "valid_to": "2026-03-01T00:00:02Z"}, other]
    expect = {"batches": [[first, {**second, "valid_to": None}, other], ended, ended]}
    test = {
        "given": [given],
        "overrides": {"now": "2026-03-01T00:00:00Z"},
        "expect": expect,
    }
    assert run_one(tmp_path, {**HISTORY, "o": ORDERS}, test) == Passed()


def test_a_stream_joins_a_table_as_it_is_in_the_batch_of_that_number(
    tmp_path: Path,
) -> None:
    table = {
        "ref": "o",
        "rows": [row(1, "a")],
        "batches": [[], [{"op": "u", "after": row(1, "b")}]],
    }
    stream = {"stream": "orders", "batches": [[{"id": 1}], [{"id": 1}], [{"id": 1}]]}
    rows = [{"id": 1, "status": status} for status in ("a", "b", "b")]
    expect = {"batches": [rows[:1], rows[:2], rows]}
    assert (
        run_one(
            tmp_path,
            {**JOIN, "o": ORDERS},
            {"given": [table, stream], "expect": expect},
        )
        == Passed()
    )


def test_a_refresh_that_fails_says_after_which_batch(tmp_path: Path) -> None:
    view = {
        "m": "{{ config(mode='materialized_view', keys=['n']) }}\nSELECT n, id FROM {{ ref('o') }}",
        "o": ORDERS,
    }
    given = {
        "ref": "o",
        "rows": [row(1, "a", 1)],
        "batches": [create(row(2, "a", 2)), create(row(3, "a", 2))],
    }
    outcome = run_one(tmp_path, view, {"given": [given], "expect": {"rows": []}})
    assert outcome == Failed(
        what='The refresh after batch 2 fails: view-keys-twice, two of its rows have one "n".'
    )


@pytest.mark.parametrize(
    ("ref", "expect", "condition", "said"),
    a_few(
        [
            (
                {"batches": [create(row(1, "a"))]},
                {"batches": []},
                "missing-option",
                "neither rows nor batches",
            ),
            (
                {"batches": [create(row(1, "a"))]},
                {"batches": [[], []]},
                "wrong-value",
                "2 batches, and 1 arrive",
            ),
            ({"rows": []}, {"batches": [[]]}, "wrong-value", "1 batch, and 0 arrive"),
            ({}, {"rows": []}, "missing-option", "neither rows nor batches"),
            (
                {"batches": [[{"op": "d", "before": {"id": 7}}]]},
                {"rows": []},
                "bad-fixture",
                "No row has the values id: 7",
            ),
            (
                {"batches": [[{"op": "u", "after": row(7, "a")}]]},
                {"rows": []},
                "bad-fixture",
                "No row has the values id: 7",
            ),
            (
                {"batches": [create(row(1, "a"), row(1, "b"))]},
                {"rows": []},
                "bad-fixture",
                "id: 1 is there already",
            ),
            (
                {"batches": [[{"op": "r", "after": row(1, "a")}]]},
                {"rows": []},
                "bad-fixture",
                "not by r",
            ),
            ({"batches": [[row(1, "a")]]}, {"rows": []}, "unknown-option", "no option"),
            (
                {"batches": [[{"op": "c", "after": {"idd": 1}}]]},
                {"rows": []},
                "unknown-column",
                "idd",
            ),
            (
                {"batches": [[{"op": "c", "after": row(1, "a"), "position": 3}]]},
                {"rows": []},
                "bad-fixture",
                "position",
            ),
        ],
        4,
    ),
)
def test_bad_changes_are_refused(
    ref: dict[str, Any],
    expect: dict[str, Any],
    condition: str,
    said: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(ProjectError) as refused:
        run_one(
            tmp_path,
            {**VIEW, "o": ORDERS},
            {"given": [{"ref": "o", **ref}], "expect": expect},
        )
    found = {problem.condition: problem.what for problem in refused.value.problems}
    assert said in found.get(condition, ""), found


def test_a_row_without_a_key_is_found_by_what_is_named_of_it(tmp_path: Path) -> None:
    models = {**VIEW, "o": LOG}
    twice = {
        "ref": "o",
        "rows": [row(1, "a"), row(1, "b")],
        "batches": [[{"op": "d", "before": {"id": 1}}]],
    }
    with pytest.raises(ProjectError, match="2 rows have the values id: 1"):
        run_one(tmp_path, models, {"given": [twice], "expect": {"rows": []}})
    nameless = {**twice, "batches": [[{"op": "u", "after": row(1, "c")}]]}
    with pytest.raises(ProjectError, match="no key"):
        run_one(tmp_path, models, {"given": [nameless], "expect": {"rows": []}})
    equal = {
        "ref": "o",
        "rows": [row(1, "a"), row(1, "a")],
        "batches": [[{"op": "d", "before": {"id": 1}}]],
    }
    expect = {"batches": [[{"status": "a", "orders": 1, "n": 1}]]}
    assert run_one(tmp_path, models, {"given": [equal], "expect": expect}) == Passed()


def test_changes_of_types_that_only_spark_knows_need_spark(tmp_path: Path) -> None:
    models = {
        **VIEW,
        "o": "{{ config(mode='upsert', keys='id') }}\nSELECT id, marks AS status, id AS n FROM {{ stream('tagged') }}",
    }
    given = {"ref": "o", "batches": [create({"id": 1, "status": "YQ=="})]}
    assert isinstance(
        run_one(tmp_path, models, {"given": [given], "expect": {"rows": []}}),
        NeedsSpark,
    )
