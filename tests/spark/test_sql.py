"""SQL that is allowed or refused for a reason that Spark alone can confirm."""

from __future__ import annotations

from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Project, Row

COLUMNS = {
    "id": "bigint",
    "k": "string",
    "v": "string",
    "at": {"type": "timestamp", "required": False},
}


def value(id_: int, k: str, v: str = "x") -> Row:
    return {"id": id_, "k": k, "v": v, "at": "2026-03-01T12:00:00Z"}


@pytest.fixture
def begun(project: Project) -> Project:
    for name in ("s", "t"):
        project.stream(name, COLUMNS, watermark={"column": "at", "delay": "1 minute"})
        project.record(name, [value(1, "a"), value(2, "b"), value(3, "a")])
    return project


def upsert(project: Project, select: str, *keys: str, **config: Any) -> None:
    project.model("m", select, mode="upsert", keys=list(keys), **config)
    project.run().check()


@pytest.mark.parametrize(
    "key", ["struct(k, id % 2 AS odd)", "array(k, v)", "named_struct('k', k)"]
)
def test_a_key_of_several_values_is_one_key(begun: Project, key: str) -> None:
    upsert(begun, f"SELECT {key} AS key, id FROM {{s}}", "key")
    assert len(begun.rows("m")) == 2
    begun.record("s", [value(5, "a"), value(6, "c")])
    begun.run().check()
    assert sorted(row["id"] for row in begun.rows("m")) == [2, 5, 6]
    assert not begun.iceberg("m").sort_order().fields


def test_a_window_may_be_a_key(begun: Project) -> None:
    upsert(
        begun,
        "SELECT window(at, '1 hour') AS window, count(*) AS n FROM {s} GROUP BY window(at, '1 hour')",
        "window",
    )
    begun.record("s", [value(5, "a")])
    begun.run().check()
    assert [row["n"] for row in begun.rows("m")] == [4]


@pytest.mark.parametrize(
    ("select", "config", "condition"),
    [
        (
            "SELECT map(k, v) AS key, id FROM {s}",
            {"mode": "upsert", "keys": ["key"]},
            "key-type",
        ),
        (
            "SELECT struct(k, v) AS place, id FROM {s}",
            {"mode": "append", "order_by": ["place"]},
            "order-type",
        ),
    ],
)
def test_types_that_cannot_be_compared_or_ordered_are_refused_before_a_table_is_made(
    begun: Project, select: str, config: dict[str, Any], condition: str
) -> None:
    begun.model("m", select, **config)
    with pytest.raises(ProjectError, match=f"^{condition}: "):
        begun.run()
    assert not begun.has("m")


def test_delete_when_removes_the_groups_that_a_filter_would_leave(
    begun: Project,
) -> None:
    """What `filtered-groups` advises."""
    upsert(
        begun, "SELECT k, count(*) AS n FROM {s} GROUP BY k", "k", delete_when="n >= 3"
    )
    assert begun.rows("m", "k") == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
    begun.record("s", [value(4, "a")])
    begun.run().check()
    assert begun.rows("m") == [{"k": "b", "n": 1}]


def test_the_distinct_values_of_a_group_can_be_counted_as_the_refusal_says(
    begun: Project,
) -> None:
    upsert(
        begun,
        "SELECT k, size(collect_set(v)) AS n, approx_count_distinct(v) AS m FROM {s} GROUP BY k",
        "k",
    )
    begun.record("s", [value(4, "a", "y"), value(5, "a", "x")])
    begun.run().check()
    assert begun.rows("m", "k") == [
        {"k": "a", "n": 2, "m": 2},
        {"k": "b", "n": 1, "m": 1},
    ]


def test_the_rows_of_a_rollup_have_keys_as_the_refusal_says(begun: Project) -> None:
    select = "SELECT coalesce(k, 'all') AS k, grouping_id() AS level, count(*) AS n FROM {s} GROUP BY ROLLUP (k)"
    upsert(begun, select, "k", "level")
    begun.record("s", [value(4, "a")])
    begun.run().check()
    assert [(row["k"], row["n"]) for row in begun.rows("m", "k")] == [
        ("a", 3),
        ("all", 4),
        ("b", 1),
    ]


def test_an_outer_join_of_streams_with_a_range_of_time_runs(begun: Project) -> None:
    condition = "{s}.id = {t}.id AND {t}.at BETWEEN {s}.at AND {s}.at + INTERVAL 1 HOUR"
    begun.model(
        "m",
        f"SELECT {{s}}.id, {{t}}.v FROM {{s}} LEFT JOIN {{t}} ON {condition}",
        mode="append",
    )
    begun.run().check()
    assert [row["id"] for row in begun.rows("m", "id")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (
            "SELECT parse_json('{{\"a\":[5]}}'):a[0]::int AS n FROM {s} WHERE id = 1",
            {"n": 5},
        ),
        ("SELECT struct(o.*).k AS k FROM {s} AS o WHERE id = 2", {"k": "b"}),
        ("SELECT id FROM {s} WHERE id = 3;;\n;", {"id": 3}),
    ],
)
def test_sql_of_spark_is_not_refused(
    begun: Project, select: str, expected: Row
) -> None:
    begun.model("m", select, mode="append")
    begun.run().check()
    assert begun.rows("m") == [expected]


def test_a_star_in_a_function_has_the_columns_of_the_stream_alone(
    begun: Project,
) -> None:
    begun.model(
        "m",
        "SELECT to_json(struct(o.*)) AS j FROM {s} AS o WHERE id = 1",
        mode="append",
    )
    begun.run().check()
    assert begun.rows("m") == [
        {"j": '{"id":1,"k":"a","v":"x","at":"2026-03-01T12:00:00.000Z"}'}
    ]


def test_a_new_model_may_read_its_own_table_if_its_types_are_said(
    begun: Project,
) -> None:
    select = "SELECT id, CAST((SELECT count(*) FROM {{{{ this }}}}) AS bigint) AS there FROM {s}"
    begun.model("m", select, mode="append")
    begun.run().check()
    assert [row["there"] for row in begun.rows("m")] == [0, 0, 0]
    begun.record("s", [value(4, "a")])
    begun.run().check()
    assert begun.rows("m", "id")[-1] == {"id": 4, "there": 3}
    begun.rebuild("m").check()
    assert [row["there"] for row in begun.rows("m", "id")] == [0, 0, 0, 0]
    begun.model(
        "n",
        "SELECT id, (SELECT max(id) FROM {{{{ this }}}}) AS last FROM {s}",
        mode="append",
    )
    ran = begun.run("n")
    assert ran.conditions("n") == ["this-missing"]
    assert "last" in ran.finished("n").problems[0].why


def test_two_columns_of_one_name_are_refused_with_their_name(begun: Project) -> None:
    begun.model("r", "SELECT id, k FROM {t}", mode="append")
    begun.model(
        "m",
        "SELECT s.id, r.* FROM {s} AS s JOIN {r!r} AS r ON s.id = r.id",
        mode="append",
    )
    assert begun.run().conditions("m") == ["duplicate-column"]
    assert not begun.has("m")
