"""Unit tests of models, run: each mode by what its table must hold, and whatever is
wrong by its condition."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.main import run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import ProjectError
from lakesql.model.unit_tests import UnitTest
from lakesql.unit.expected import compare
from lakesql.unit.outcomes import Failed, NeedsSpark, Outcome, Passed, render_text
from lakesql.unit.run import run_tests
from tests.share import a_few
from tests.unit.unit_project import PROFILES, make_project, run_one

SELECT = "SELECT id, at, n, status, amount FROM {{ stream('orders') }}"


def upsert(options: str = "keys='id'", select: str = SELECT) -> dict[str, str]:
    return {"m": f"{{{{ config(mode='upsert', {options}) }}}}\n{select}"}


def append(options: str = "", select: str = SELECT) -> dict[str, str]:
    return {"m": f"{{{{ config(mode='append'{options}) }}}}\n{select}"}


def given(*batches: list[object], stream: str = "orders") -> dict[str, object]:
    return {"stream": stream, "batches": list(batches)}


def record(
    key: int, at: int = 0, status: str | None = None, **more: object
) -> dict[str, object]:
    return {"id": key, "at": at, "status": status, **more}


A, B = record(1, 1, "a"), record(1, 2, "b")


@pytest.mark.parametrize(
    ("models", "batches", "rows"),
    a_few(
        [
            (append(), [[A, A], [A]], [A, A, A]),
            (
                append(select="SELECT id FROM {{ stream('orders') }} WHERE at > 1"),
                [[A, B]],
                [{"id": 1}],
            ),
            (append(", keys='id'"), [[A, B], [record(2), record(1)]], [A, record(2)]),
            (upsert(), [[B, A]], [A]),
            (upsert(), [[B], [A]], [A]),
            (upsert("keys='id', sequence_by='at'"), [[B, A]], [B]),
            (upsert("keys='id', sequence_by='at'"), [[B], [A]], [B]),
            (
                upsert("keys='id', sequence_by='at'"),
                [[record(1, 2, "first"), record(1, 2, "last")]],
                [record(1, 2, "last")],
            ),
            (
                upsert("keys='id', sequence_by=['at', 'n']"),
                [[record(1, 2, "b", n=2)], [record(1, 2, "a", n=1)]],
                [record(1, 2, "b", n=2)],
            ),
            (
                upsert("""keys='id', delete_when="status = 'gone'" """),
                [[A], [record(1, 2, "gone")]],
                [],
            ),
            (
                upsert("""keys='id', delete_when="status = 'gone'" """),
                [[record(1, 2, "gone"), A]],
                [A],
            ),
            (
                upsert(
                    """keys='id', sequence_by='at', delete_when="status = 'gone'" """
                ),
                [[record(1, 3, "gone")], [A, B], [record(1, 4, "back")]],
                [record(1, 4, "back")],
            ),
            (
                upsert(
                    """keys='id', sequence_by='at', delete_when="status = 'gone'" """
                ),
                [[record(1, 3, "gone")], [B]],
                [],
            ),
            (
                upsert("keys='id', exclude_columns='status'"),
                [[A], [B]],
                [record(1, 2, "a")],
            ),
            (
                upsert("keys='id', update_columns='status'"),
                [[A, B]],
                [record(1, 1, "b")],
            ),
            (
                upsert("keys='id', ignore_null_updates=true"),
                [[A], [record(1, 5)]],
                [record(1, 5, "a")],
            ),
            (
                upsert("""keys='id', when_matched="target.status <> 'locked'" """),
                [
                    [record(1, 1, "locked"), record(2, 1, "a")],
                    [record(1, 2, "b"), record(2, 2, "b")],
                ],
                [record(1, 1, "locked"), record(2, 2, "b")],
            ),
            (
                upsert(
                    select="SELECT id, amount * 2 AS amount FROM {{ stream('orders') }}"
                ),
                [[{"id": 1, "amount": "1.25"}, {"id": 2}]],
                [{"id": 1, "amount": "2.50"}, {"id": 2, "amount": None}],
            ),
        ],
        6,
    ),
)
def test_a_mode_leaves_the_rows_that_it_leaves_on_spark(
    models: dict[str, str],
    batches: list[list[object]],
    rows: list[object],
    tmp_path: Path,
) -> None:
    assert (
        run_one(
            tmp_path, models, {"given": [given(*batches)], "expect": {"rows": rows}}
        )
        == Passed()
    )
    # and a row more is seen
    wrong = run_one(
        tmp_path,
        models,
        {"given": [given(*batches)], "expect": {"rows": [*rows, {"id": 99}]}},
    )
    assert isinstance(wrong, Failed)
    assert len(wrong.differences) == 1


def test_what_is_remembered_of_deleted_keys_is_compared(tmp_path: Path) -> None:
    model = upsert("""keys='id', sequence_by='at', delete_when="status = 'gone'" """)
    batches = given(
        [record(1, 3, "gone"), record(2, 1)], [record(1, 1), record(2, 4, "gone")]
    )
    right: dict[str, object] = {"tombstones": [{"id": 2, "at": 4}, {"id": 1}]}
    assert run_one(tmp_path, model, {"given": [batches], "expect": right}) == Passed()
    wrong = run_one(
        tmp_path,
        model,
        {"given": [batches], "expect": {"tombstones": [{"id": 1, "at": 4}]}},
    )
    assert isinstance(wrong, Failed)
    assert [(it.what, [odd.side for odd in it.rows]) for it in wrong.differences] == [
        ("tombstones", ["missing", "unexpected", "unexpected"])
    ]
    with pytest.raises(ProjectError) as refused:
        run_one(
            tmp_path, append(), {"given": [given([A])], "expect": {"tombstones": []}}
        )
    assert [problem.condition for problem in refused.value.problems] == ["wrong-value"]


@pytest.mark.parametrize(
    "config",
    [
        "mode='append'",
        "mode='upsert', keys='ID'",
        "mode='scd2', keys='id', sequence_by='sentat'",
    ],
)
def test_a_star_keeps_the_capitals_of_columns(config: str, tmp_path: Path) -> None:
    models = {
        "m": f"{{{{ config({config}) }}}}\nSELECT * FROM {{{{ stream('parcels') }}}}"
    }
    batch = given(
        [{"id": 1, "sentAt": "2026-03-02T07:26:18Z", "Weight": 5}], stream="parcels"
    )
    outcome = run_one(tmp_path, models, {"given": [batch], "expect": {"rows": []}})
    assert isinstance(outcome, Failed)
    assert {"id", "sentAt", "Weight"} <= outcome.differences[0].rows[0].row.keys()


def test_a_defect_in_one_test_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare_or_break(test: UnitTest, *more: Any) -> Outcome:
        if test.name == "first":
            raise KeyError("orderTs")
        return compare(test, *more)

    tests = [
        {"name": name, "model": "m", "given": [given([A])], "expect": {"rows": [A]}}
        for name in ("first", "second")
    ]
    make_project(tmp_path, append(), tests)
    manifest = load_project(Options(project_dir=tmp_path))
    monkeypatch.setattr("lakesql.unit.run.compare", compare_or_break)
    first, second = run_tests(manifest, manifest.unit_tests)
    assert isinstance(first.outcome, Failed)
    assert "KeyError: 'orderTs'" in first.outcome.what
    assert second.outcome == Passed()


OPTIONS = (
    "",
    ", sequence_by='at'",
    ", sequence_by=['at', 'n']",
    """, sequence_by='at', delete_when="status = 'gone'" """,
    """, delete_when="status = 'gone'" """,
    """, sequence_by=['at', 'n'], delete_when="status = 'gone'", ignore_null_updates=true""",
    """, sequence_by='at', delete_when="status = 'gone'", exclude_columns='amount'""",
)


@pytest.mark.parametrize("options", a_few(OPTIONS, 3))
@pytest.mark.parametrize("seed", a_few(range(5), 1))
def test_rows_do_not_depend_on_where_a_batch_ends(
    options: str, seed: int, tmp_path: Path
) -> None:
    """The oracle is plain Python, record by record; it knows the options without
    folds."""
    dice = random.Random(f"{seed} {options}")
    records = [
        {
            "id": dice.randint(1, 3),
            "at": dice.randint(1, 4),
            "n": dice.randint(1, 2),
            "amount": str(index),
        }
        | {"status": dice.choice(["gone", "a", "b", None])}
        for index in range(8)
    ]
    tests = in_batches(records, expected(records, options))
    make_project(tmp_path, upsert(f"keys='id'{options}"), tests)
    manifest = load_project(Options(project_dir=tmp_path))
    results = run_tests(manifest, manifest.unit_tests)
    assert [result.outcome for result in results if result.outcome != Passed()] == [], (
        render_text(results)
    )


def in_batches(
    records: list[dict[str, object]], rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Unit tests in which the same records, in batches of several sizes, leave the same
    rows."""
    return [
        {
            "name": f"batches of {size}",
            "model": "m",
            "given": [
                given(*(records[at : at + size] for at in range(0, len(records), size)))
            ],
            "expect": {"rows": rows},
        }
        for size in (len(records), 3, 1)
    ]


def expected(records: list[dict[str, object]], options: str) -> list[dict[str, object]]:
    """What is left when the records come one by one."""
    sequence = (
        ["at", "n"]
        if "['at', 'n']" in options
        else ["at"]
        if "sequence_by" in options
        else []
    )
    table: dict[object, dict[str, object]] = {}
    deleted: dict[object, list[object]] = {}
    for it in records:
        key, place = it["id"], [it[name] for name in sequence]
        stored = table.get(key)
        if sequence and key in deleted and deleted[key] > place:
            continue
        if stored is not None and place < [stored[name] for name in sequence]:
            if it["status"] == "gone" and "delete_when" in options:
                deleted[key] = max(deleted.get(key, place), place)
            continue
        if it["status"] == "gone" and "delete_when" in options:
            table.pop(key, None)
            deleted[key] = max(deleted.get(key, place), place)
        elif stored is not None and "exclude_columns" in options:
            table[key] = {**it, "amount": stored["amount"]}
        elif stored is not None and "ignore_null" in options:
            table[key] = {
                name: stored[name] if value is None else value
                for name, value in it.items()
            }
        else:
            table[key] = dict(it)
    return list(table.values())


@pytest.mark.parametrize(
    ("options", "sequence", "tracked"),
    a_few(
        [
            ("sequence_by='AT'", ("at",), ("n", "status", "amount")),
            ("sequence_by=['at', 'n']", ("at", "n"), ("status", "amount")),
            ("sequence_by='at', track_columns='status'", ("at",), ("status",)),
        ],
        1,
    ),
)
@pytest.mark.parametrize("seed", a_few(range(5), 1))
def test_a_history_does_not_depend_on_where_a_batch_ends(
    options: str,
    sequence: tuple[str, ...],
    tracked: tuple[str, ...],
    seed: int,
    tmp_path: Path,
) -> None:
    dice = random.Random(f"{seed} {options}")
    records = [
        {"id": dice.randint(1, 2), "at": dice.randint(1, 5), "n": dice.randint(1, 2)}
        | {"status": dice.choice(["a", "b", None]), "amount": dice.choice(["1", "2"])}
        for _ in range(8)
    ]
    tests = in_batches(records, versions(records, sequence, tracked))
    model = f"{{{{ config(mode='scd2', keys='id', {options}) }}}}\n{SELECT}"
    make_project(tmp_path, {"m": model}, tests)
    manifest = load_project(Options(project_dir=tmp_path))
    results = run_tests(manifest, manifest.unit_tests)
    assert [result.outcome for result in results if result.outcome != Passed()] == [], (
        render_text(results)
    )


def test_of_two_changes_that_make_no_version_the_later_one_is_remembered(
    tmp_path: Path,
) -> None:
    """A third one, that comes late, makes a version of it."""
    batches = [
        [record(1, at, status)]
        for at, status in ((3, "b"), (5, "b"), (5, "c"), (4, "c"), (4, "b"))
    ]
    wanted = [
        {"at": 3, "status": "b", "is_current": False},
        {"at": 5, "status": "c", "is_current": True},
    ]
    models = {
        "m": f"{{{{ config(mode='scd2', keys='id', sequence_by='at', track_columns='status') }}}}\n{SELECT}"
    }
    assert (
        run_one(
            tmp_path, models, {"given": [given(*batches)], "expect": {"rows": wanted}}
        )
        == Passed()
    )


def versions(
    records: list[dict[str, object]],
    sequence: tuple[str, ...],
    tracked: tuple[str, ...],
) -> list[dict[str, object]]:
    """The history of all these records: of two with one sequence the last one, of equal
    ones in a row the first."""
    rows: list[dict[str, object]] = []
    for key in (1, 2):
        last = {
            tuple(it[name] for name in sequence): it
            for it in records
            if it["id"] == key
        }
        kept: list[dict[str, object]] = []
        for _, it in sorted(
            last.items(), key=lambda item: [int(str(part)) for part in item[0]]
        ):
            if not kept or any(kept[-1][name] != it[name] for name in tracked):
                kept.append(it)
        for index, it in enumerate(kept):
            until = kept[index + 1]["at"] if index + 1 < len(kept) else None
            rows.append(
                {
                    **it,
                    "valid_from": it["at"],
                    "valid_to": until,
                    "is_current": until is None,
                }
            )
    return rows


def test_the_table_before_counts(tmp_path: Path) -> None:
    test = {
        "given": [
            {"table": "this", "rows": [record(1, 5, "old"), record(2, 1, "x")]},
            given([B]),
        ],
        "expect": {"rows": [record(1, 5, "old"), {"id": 2}]},
    }
    assert run_one(tmp_path, upsert("keys='id', sequence_by='at'"), test) == Passed()


def test_a_join_reads_the_rows_that_are_given(tmp_path: Path) -> None:
    models = append(
        select="SELECT o.id, v.page FROM {{ stream('orders') }} AS o LEFT JOIN {{ ref('pages') }} AS v ON v.id = o.id"
    )
    models["pages"] = (
        "{{ config(mode='upsert', keys='id') }}\nSELECT id, lower(page) AS page FROM {{ stream('views') }}"
    )
    test = {
        "given": [
            {"ref": "pages", "rows": [{"id": 1, "page": "home"}]},
            given([{"id": 1}, {"id": 2}]),
        ],
        "expect": {"rows": [{"id": 1, "page": "home"}, {"id": 2, "page": None}]},
    }
    assert run_one(tmp_path, models, test) == Passed()
    test["given"] = [given([{"id": 1}])]
    test["expect"] = {"rows": [{"id": 1, "page": None}]}
    assert run_one(tmp_path, models, test) == Passed()


def test_a_view_is_a_table_in_a_test(tmp_path: Path) -> None:
    pages = {
        "pages": "{{ config(mode='upsert', keys='id') }}\nSELECT id, lower(page) AS page FROM {{ stream('views') }}"
    }
    home = {
        "home": "{{ config(mode='view') }}\nSELECT p.id FROM {{ ref('pages') }} p WHERE p.page = 'home'"
    }
    counted = {
        "counted": "{{ config(mode='table') }}\nSELECT count(home.id) AS n FROM {{ ref('home') }}"
    }
    test = {
        "given": [{"ref": "home", "rows": [{"id": 1}, {"id": 2}]}],
        "expect": {"rows": [{"n": 2}]},
    }
    assert run_one(tmp_path / "reader", {**counted, **home, **pages}, test) == Passed()
    rows = [{"id": 1, "page": "home"}, {"id": 2, "page": "away"}]
    test = {"given": [{"ref": "pages", "rows": rows}], "expect": {"rows": [{"id": 1}]}}
    assert run_one(tmp_path / "view", {**home, **pages}, test) == Passed()


def test_variables_and_the_time_are_set(tmp_path: Path) -> None:
    models = append(
        select="SELECT {{ var('limit') }} AS x, current_timestamp() AS seen FROM {{ stream('orders') }}"
    )
    test: dict[str, object] = {
        "overrides": {"vars": {"limit": 3}, "now": "2026-03-05T12:00:00+02:00"},
        "given": [given([{"id": 1}])],
        "expect": {"rows": [{"x": 3, "seen": "2026-03-05T10:00:00Z"}]},
    }
    assert run_one(tmp_path, models, test) == Passed()
    del test["overrides"]
    outcome = run_one(tmp_path, models, test)
    assert isinstance(outcome, NeedsSpark)
    assert "overrides" in outcome.reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    a_few(
        [
            ("{not json", "unparsable"),
            ("", "unparsable"),
            ("null", "unparsable"),
            ("42", "unparsable"),
            ('{"id": 1} {"id": 2}', "unparsable"),
            ('{"id": 1', "unparsable"),
            ('{"id": "one"}', "unparsable"),
            ('{"id": true}', "unparsable"),
            ('{"at": 1}', "required-missing"),
            ('{"id": null}', "required-missing"),
            (None, "tombstone"),
            ({"at": 1}, "required-missing"),
        ],
        4,
    ),
)
def test_a_bad_record_is_a_dead_letter(
    raw: object, reason: str, tmp_path: Path
) -> None:
    test = {
        "given": [given([raw, A])],
        "expect": {"rows": [A], "dead_letters": [{"reason": reason}]},
    }
    assert run_one(tmp_path, append(), test) == Passed()
    test["expect"] = {"rows": [A]}
    assert isinstance(run_one(tmp_path, append(), test), Failed)


@pytest.mark.parametrize(
    "raw",
    a_few(
        [
            "{'id': 1}",
            '{"id": NaN}',
            '[{"id": 1}]',
            '{"id": 1, "id": 2}',
            '{"id": 1.0}',
            '{"id": 1, "AT": 2}',
            '{"id": 9223372036854775808}',
            '{"id": ""}',
            '{"id": 1, "status": 5}',
            '{"id": 1, "status": {}}',
            '{"id": 1, "amount": 1.255}',
            '{"id": 1, "amount": 1e2}',
            '{"id": 1, "amount": "1.25"}',
            '{"id": 1, "status": "\\ud800"}',
            '{"id": 1,\t"at": 2}',
        ],
        5,
    ),
)
def test_a_raw_record_that_spark_may_read_otherwise_needs_spark(
    raw: str, tmp_path: Path
) -> None:
    test = {"given": [given([raw])], "expect": {"rows": []}}
    assert isinstance(run_one(tmp_path, append(), test), NeedsSpark)


def test_a_raw_record_that_is_good_is_a_row(tmp_path: Path) -> None:
    raw = '{"id": 7, "at": -3, "status": "ä", "amount": 12.5, "unknown": [1]}'
    rows = [{"id": 7, "at": -3, "status": "ä", "amount": "12.50", "n": None}]
    assert (
        run_one(tmp_path, append(), {"given": [given([raw])], "expect": {"rows": rows}})
        == Passed()
    )


@pytest.mark.parametrize(
    ("on_fail", "what"),
    [("dead_letter", ""), ("warn", ""), ("stop", "expectation-failed, 1 of")],
)
def test_what_is_expected_of_rows_counts(
    on_fail: str, what: str, tmp_path: Path
) -> None:
    expect = (
        f"models: [{{name: m, expect: [{{that: amount >= 0, on_fail: {on_fail}}}]}}]\n"
    )
    batch = [{"id": 1, "amount": 1}, {"id": 2, "amount": -1}, {"id": 3}]
    kept = (1, 2, 3) if on_fail == "warn" else (1, 3)
    letters = (
        [{"reason": "expectation-failed", "stream": "orders"}]
        if on_fail == "dead_letter"
        else []
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models/expect.yml").write_text(expect, "utf-8")
    test = {
        "given": [{"stream": "orders", "batches": [batch]}],
        "expect": {"rows": [{"id": id_} for id_ in kept], "dead_letters": letters},
    }
    outcome = run_one(tmp_path, upsert("keys='id'"), test)
    assert (
        what in outcome.what
        if what and isinstance(outcome, Failed)
        else outcome == Passed()
    )


def test_rows_without_key_or_sequence_are_dead_letters(tmp_path: Path) -> None:
    models = upsert(
        "keys='id', sequence_by='viewed_at'",
        "SELECT id, viewed_at FROM {{ stream('views') }}",
    )
    records = [
        {"viewed_at": "2026-01-01T00:00:00Z"},
        {"id": 1},
        {"id": 2, "viewed_at": "2026-01-01"},
    ]
    test = {
        "given": [given(records, stream="views")],
        "expect": {
            "rows": [{"id": 2}],
            "dead_letters": [{"reason": "sequence-missing"}, {"reason": "key-missing"}],
        },
    }
    assert run_one(tmp_path, models, test) == Passed()


@pytest.mark.parametrize(
    ("models", "batches", "what"),
    [
        (append(", max_dead_letter_ratio=0.4"), [["{", A]], "too-many-dead-letters"),
        (
            upsert(
                """keys='id', delete_when="status = 'gone'", max_delete_ratio=0.4"""
            ),
            [[A, record(2)], [record(1, 2, "gone")]],
            "too-many-deletes",
        ),
    ],
)
def test_a_batch_that_fails_fails_the_test(
    models: dict[str, str], batches: list[list[object]], what: str, tmp_path: Path
) -> None:
    outcome = run_one(
        tmp_path, models, {"given": [given(*batches)], "expect": {"rows": []}}
    )
    assert isinstance(outcome, Failed)
    assert what in outcome.what


@pytest.mark.parametrize(
    ("models", "batches"),
    a_few(
        [
            (append(select="SELECT count(*) AS n FROM {{ stream('orders') }}"), [[A]]),
            (
                append(
                    select="SELECT id, _record.offset AS at FROM {{ stream('orders') }}"
                ),
                [[A]],
            ),
            (
                append(
                    select="SELECT id, round(amount) AS a FROM {{ stream('orders') }}"
                ),
                [[A]],
            ),
            (
                append(
                    select="SELECT id, lower(status) AS s FROM {{ stream('orders') }}"
                ),
                [[record(1, 1, "Ä")]],
            ),
            (append(select="SELECT id, NULL AS s FROM {{ stream('orders') }}"), [[A]]),
            (
                upsert(
                    select="SELECT CAST(id AS double) AS id FROM {{ stream('orders') }}"
                ),
                [[A]],
            ),
            (upsert("""keys='id', delete_when="status RLIKE 'x'" """), [[A]]),
            (
                append(
                    select="SELECT id, at + 2147483647 AS at FROM {{ stream('orders') }}"
                ),
                [[A]],
            ),
            (
                append(select="SELECT id, 'it''s' AS s FROM {{ stream('orders') }}"),
                [[A]],
            ),
            (
                append(
                    select='SELECT id FROM {{ stream(\'orders\') }} WHERE status <> "a""b"'
                ),
                [[A]],
            ),
            (upsert("""keys='id', delete_when="status = 'it''s'" """), [[A]]),
        ],
        3,
    ),
)
def test_what_duckdb_cannot_say_needs_spark(
    models: dict[str, str], batches: list[list[object]], tmp_path: Path
) -> None:
    try:
        outcome = run_one(
            tmp_path,
            models,
            {"given": [given(*batches)], "expect": {"dead_letters": []}},
        )
    except ProjectError as error:  # the project refuses some of these by itself
        assert {problem.condition for problem in error.problems} <= {
            "watermark-missing",
            "unstorable-type",
        }
        return
    assert isinstance(outcome, NeedsSpark), outcome
    assert outcome.reason


def test_a_join_that_makes_several_rows_of_a_record_needs_spark(tmp_path: Path) -> None:
    models = upsert(
        select="SELECT o.id, v.page FROM {{ stream('orders') }} AS o LEFT JOIN {{ ref('pages') }} AS v ON v.id = o.id"
    )
    models["pages"] = (
        "{{ config(mode='append') }}\nSELECT id, page FROM {{ stream('views') }}"
    )
    pages = [{"id": 1, "page": "a"}, {"id": 1, "page": "b"}]
    test = {
        "given": [{"ref": "pages", "rows": pages}, given([A])],
        "expect": {"rows": []},
    }
    assert isinstance(run_one(tmp_path, models, test), NeedsSpark)


def test_a_union_that_makes_several_rows_of_a_record_needs_spark(
    tmp_path: Path,
) -> None:
    one = "SELECT id, status FROM {{ stream('orders') }}"
    test = {"given": [given([A])], "expect": {"rows": [{"id": 1}]}}
    assert isinstance(
        run_one(tmp_path, upsert(select=f"{one} UNION ALL {one}"), test), NeedsSpark
    )
    test["expect"] = {"rows": [{"id": 1}, {"id": 1}]}
    assert run_one(tmp_path, append(select=f"{one} UNION ALL {one}"), test) == Passed()


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("spark.sql.ansi.enabled", NeedsSpark),
        ("spark.sql.shuffle.partitions", Passed),
        ("spark.ui.port", Passed),
    ],
)
def test_a_target_that_changes_what_sql_means_needs_spark(
    setting: str, kind: type, tmp_path: Path
) -> None:
    make_project(
        tmp_path,
        append(),
        [{"name": "t", "model": "m", "given": [given([A])], "expect": {"rows": [A]}}],
    )
    conf = f"      spark: {{conf: {{{setting}: '1'}}}}\n"
    (tmp_path / "profiles.yml").write_text(PROFILES + conf)
    manifest = load_project(Options(project_dir=tmp_path))
    (result,) = run_tests(manifest, manifest.unit_tests)
    assert isinstance(result.outcome, kind)


@pytest.mark.parametrize(
    ("select", "rows", "kind"),
    [
        ("SELECT id, a FROM {{ stream('tagged') }}", [{"id": 1, "a": "x"}], Failed),
        (
            "SELECT id, a, tags FROM {{ stream('tagged') }}",
            [{"id": 1, "a": "x"}],
            NeedsSpark,
        ),
        ("SELECT * FROM {{ stream('tagged') }}", [{"id": 1, "a": "x"}], NeedsSpark),
        (
            "SELECT id, a FROM {{ stream('tagged') }} WHERE marks IS NULL",
            [{"id": 1, "a": "x"}],
            NeedsSpark,
        ),
        (
            "SELECT id, a FROM {{ stream('tagged') }}",
            [{"id": 1, "a": "x", "tags": ["y"]}],
            NeedsSpark,
        ),
    ],
)
def test_columns_that_nobody_reads_need_no_spark(
    select: str, rows: list[object], kind: type, tmp_path: Path
) -> None:
    test = {
        "given": [given(rows, stream="tagged")],
        "expect": {"rows": [{"id": 1, "a": "y"}]},
    }
    assert isinstance(run_one(tmp_path, append(select=select), test), kind)


def test_what_no_contract_knows_is_given_as_a_column(tmp_path: Path) -> None:
    select = "SELECT id, a, _rescued AS others, _rescued IS NULL AS is_known FROM {{ stream('rescuing') }}"
    rows = [{"id": 1, "_rescued": '{"x":1.10}'}, {"id": 2, "a": "b"}, '{"id": 3}']
    expected = [
        {"id": 1, "a": None, "others": '{"x":1.10}', "is_known": False},
        {"id": 2, "a": "b", "others": None, "is_known": True},
        {"id": 3, "a": None, "others": None, "is_known": True},
    ]
    test = {"given": [given(rows, stream="rescuing")], "expect": {"rows": expected}}
    assert run_one(tmp_path, append(select=select), test) == Passed()
    raw = {
        "given": [given(['{"id": 4, "x": 6}'], stream="rescuing")],
        "expect": {"rows": []},
    }
    outcome = run_one(tmp_path / "raw", append(select=select), raw)
    assert isinstance(outcome, NeedsSpark) and "_rescued" in outcome.reason


def test_a_raw_record_with_a_field_that_no_contract_knows_is_a_dead_letter(
    tmp_path: Path,
) -> None:
    models = append(select="SELECT id, a FROM {{ stream('refusing') }}")
    rows = ['{"id": 1, "x": 6}', '{"a": "b", "x": 6}', '{"id": 2, "a": "b"}']
    reasons = [{"reason": "undeclared-field"}, {"reason": "required-missing"}]
    expect = {"rows": [{"id": 2, "a": "b"}], "dead_letters": reasons}
    assert (
        run_one(
            tmp_path,
            models,
            {"given": [given(rows, stream="refusing")], "expect": expect},
        )
        == Passed()
    )


def test_arrays_and_maps_are_given_as_lists_and_mappings(tmp_path: Path) -> None:
    rows = [
        {
            "id": 1,
            "tags": ["b", "a"],
            "marks": {"x": 1, "y": None},
            "items": [{"sku": "s", "n": 2}, {"n": 3}],
        },
        {"id": 2, "tags": [], "marks": {}, "items": None},
    ]
    select = "SELECT id, array_sort(tags) AS tags, marks, items, size(tags) AS n FROM {{ stream('nested') }}"
    expected = [
        {
            "id": 1,
            "tags": ["a", "b"],
            "marks": {"x": 1, "y": None},
            "n": 2,
            "items": [{"sku": "s", "n": 2}, {"n": 3}],
        },
        {"id": 2, "tags": [], "marks": {}, "items": None, "n": 0},
    ]
    test = {"given": [given(rows, stream="nested")], "expect": {"rows": expected}}
    assert run_one(tmp_path, append(select=select), test) == Passed()


def test_a_value_that_is_no_array_is_refused(tmp_path: Path) -> None:
    test = {
        "given": [given([{"id": 1, "tags": "a"}], stream="nested")],
        "expect": {"rows": []},
    }
    models = append(select="SELECT id, tags FROM {{ stream('nested') }}")
    assert [condition for condition, _ in problems(tmp_path, models, test)] == [
        "bad-fixture"
    ]


def test_fixtures_may_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,at,status,amount\n1,5,a b,1.50\n2,,,\n")
    (tmp_path / "batch.jsonl").write_text('{"id": 3, "amount": 2.25}\n\n"{bad"\n')
    test = {
        "given": [
            {"table": "this", "rows": "rows.csv"},
            {"stream": "orders", "batches": ["batch.jsonl"]},
        ],
        "expect": {
            "rows": [
                {"id": 1, "at": 5, "status": "a b", "amount": "1.50"},
                {"id": 2, "at": None, "status": None},
                {"id": 3, "amount": "2.25"},
            ],
            "dead_letters": [{"reason": "unparsable", "stream": "orders"}],
        },
    }
    assert run_one(tmp_path, append(), test) == Passed()


def problems(
    folder: Path, models: dict[str, str], test: dict[str, object]
) -> list[tuple[str, str]]:
    with pytest.raises(ProjectError) as caught:
        run_one(folder, models, test)
    return [
        (problem.condition, str(problem.place).rpartition("/")[2])
        for problem in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("change", "condition"),
    a_few(
        [
            ({"model": "n"}, "unknown-model"),
            ({"modell": "n"}, "unknown-option"),
            ({"expect": {}}, "missing-option"),
            ({"expect": {"row": []}}, "unknown-option"),
            ({"expect": {"rows": [{"idd": 1}]}}, "unknown-column"),
            ({"expect": {"rows": [{"id": "one"}]}}, "bad-fixture"),
            ({"expect": {"rows": [{"id": 1.5}]}}, "bad-fixture"),
            ({"expect": {"rows": [{"amount": 1.255}]}}, "bad-fixture"),
            ({"expect": {"rows": [5]}}, "bad-fixture"),
            ({"expect": {"rows": {"id": 1}}}, "wrong-type"),
            ({"expect": {"rows": "nowhere.csv"}}, "missing-fixture"),
            ({"expect": {"rows": "rows.txt"}}, "bad-fixture"),
            ({"expect": {"rows": "../rows.csv"}}, "outside-project"),
            ({"expect": {"dead_letters": [{"cause": "x"}]}}, "unknown-column"),
            ({"given": [{"stream": "orderz", "batches": []}]}, "unknown-stream"),
            ({"given": [{"stream": "views", "batches": []}]}, "unknown-stream"),
            (
                {"given": [{"stream": "orders", "batches": [[{"idd": 1}]]}]},
                "unknown-column",
            ),
            (
                {"given": [{"stream": "orders", "batches": [[{"id": "x"}]]}]},
                "bad-fixture",
            ),
            ({"given": [{"stream": "orders", "rows": []}]}, "unknown-option"),
            ({"given": [{"stream": "orders", "batches": []}] * 2}, "duplicate-name"),
            ({"given": [{"ref": "orders", "rows": []}]}, "unknown-ref"),
            ({"given": [{"table": "that", "rows": []}]}, "wrong-value"),
            ({"given": [{"tabel": "this", "rows": []}]}, "wrong-value"),
            ({"given": [{"table": "this", "ref": "x", "rows": []}]}, "wrong-value"),
            ({"overrides": {"now": "noon"}}, "wrong-value"),
            ({"overrides": {"vars": {"limitt": 1}}}, "wrong-value"),
            ({"overrides": {"var": {}}}, "unknown-option"),
            ({"name": "  "}, "wrong-type"),
            ({"expect": {"rows": [{"id": 2, "ID": 1}]}}, "bad-fixture"),
        ],
        9,
    ),
)
def test_what_is_wrong_has_a_condition_and_a_place(
    change: dict[str, object], condition: str, tmp_path: Path
) -> None:
    test = {"given": [given([A])], "expect": {"rows": []}, **change}
    found = problems(tmp_path, append(), test)
    assert condition in [name for name, _ in found]
    assert all(place.startswith(("tests.yml:", "nowhere.csv")) for _, place in found)


@pytest.mark.parametrize(
    ("name", "text", "condition"),
    [
        ("rows.jsonl", '{"id": 1}\n{"id": \n', "bad-fixture"),
        ("rows.jsonl", '{"id": 1, "idd": 2}', "unknown-column"),
        ("rows.csv", "", "bad-fixture"),
        ("rows.csv", "id,at\n1\n", "bad-fixture"),
        ("rows.csv", "id,at\n1,x\n", "bad-fixture"),
        ("rows.csv", "id,ID\n2,1\n", "bad-fixture"),
        ("rows.csv", 'id,status\n1,"a\n2,b\n', "bad-fixture"),
        ("rows.jsonl", '{"id": 2, "id": 1}', "bad-fixture"),
    ],
)
def test_what_is_wrong_in_a_file_has_its_place_there(
    name: str, text: str, condition: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    found = problems(
        tmp_path, append(), {"given": [given([A])], "expect": {"rows": name}}
    )
    assert [condition] == [name for name, _ in found]
    assert found[0][1].startswith(name)


def test_a_difference_is_a_table_row_by_row(tmp_path: Path) -> None:
    rows = [record(1, 1, "a"), record(2, 2, "b"), record(3, 3, "")]
    test = {
        "given": [given([record(1, 1, "a"), record(2, 2, "c"), record(4, 4)])],
        "expect": {"rows": rows},
    }
    make_project(tmp_path, append(), [{"name": "t", "model": "m", **test}])
    manifest = load_project(Options(project_dir=tmp_path))
    text = render_text(run_tests(manifest, manifest.unit_tests))
    assert "rows: - expected, + found; 1 as expected" in text
    assert [
        line.split()
        for line in text.splitlines()
        if line.strip().startswith(("-", "+"))
    ] == [
        ["-", "2", "2", "b"],
        ["+", "2", "2", "c"],
        ["-", "3", "3", "''"],
        ["+", "4", "4", "NULL"],
    ]


def test_rows_that_name_other_columns_find_their_partners(tmp_path: Path) -> None:
    test = {
        "given": [given([A, B])],
        "expect": {"rows": [{"id": 1}, {"id": 1, "status": "a"}]},
    }
    assert run_one(tmp_path, append(), test) == Passed()
    test["expect"] = {"rows": [{"status": "a"}, {"at": 1}]}
    assert isinstance(run_one(tmp_path, append(), test), Failed)


def test_the_command_counts_and_exits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {
        "name": "good",
        "model": "m",
        "given": [given([A])],
        "expect": {"rows": [A]},
    }
    spark = {
        "name": "spark",
        "model": "s",
        "given": [given([A])],
        "expect": {"rows": [A]},
    }
    wrong = {**good, "name": "wrong", "expect": {"rows": []}}
    models = {
        **append(),
        "s": append(
            select="SELECT id, round(amount) AS amount FROM {{ stream('orders') }}"
        )["m"],
    }
    make_project(tmp_path, models, [good, spark])
    command = ["test", "--unit", "--project-dir", str(tmp_path)]
    assert run_command(command) == 1
    said_last = capsys.readouterr().out.splitlines()[-2:]
    assert (
        said_last[0] == "1 passed, 0 failed, 1 need Spark."
        and "'spark'" in said_last[1]
    )
    assert run_command([*command, "--fail-on", "failures"]) == 0
    assert run_command([*command, "--select", "m"]) == 0
    assert run_command([*command, "--fail-on", "needs-spark"]) == 3
    assert run_command([*command, "--select", "m", "--fail-on", "needs-spark"]) == 0
    make_project(tmp_path, models, [good, spark, wrong])
    capsys.readouterr()
    assert run_command([*command, "--output", "json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["summary"] == {"passed": 1, "failed": 1, "needs_spark": 1}
    assert [test["outcome"] for test in said["tests"]] == [
        "passed",
        "needs_spark",
        "failed",
    ]
    assert said["tests"][2]["differences"] == [
        {
            "what": "rows",
            "same": 0,
            "rows": [
                {
                    "side": "unexpected",
                    "row": {"id": 1, "at": 1, "n": None, "status": "a", "amount": None},
                },
            ],
        }
    ]
    assert run_command(["test", "--project-dir", str(tmp_path)]) == 1
    assert (
        run_command(["test", "--unit", "--data", "--project-dir", str(tmp_path)]) == 2
    )
