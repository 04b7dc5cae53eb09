"""Columns of type variant in a contract: any JSON, of which a SELECT reads parts. A
table holds none."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from lakesql.errors import ProjectError
from tests.spark.project import Project

COLUMNS = {"id": "bigint", "v": "variant"}
VALUES: dict[int, str] = {
    1: '{"a": 1, "b": {"c": [1.50, "x"]}}',
    2: '"text"',
    3: "null",
    4: "[1, 2]",
    5: '{"a": 12345678901234567890}',
    6: '{"a": "1"}',
}
QUERY = """
SELECT id, try_variant_get(v, '$.a', 'decimal(20,0)') AS a,
       try_variant_get(v, '$.b.c[0]', 'decimal(9,2)') AS c, to_json(v) AS text
FROM {s}
"""


@pytest.mark.parametrize("origin", ["topic", "lines", "documents"])
def test_parts_of_any_json_are_read_and_what_is_none_is_a_dead_letter(
    project: Project, origin: str
) -> None:
    lines = [f'{{"id": {id_}, "v": {value}}}' for id_, value in VALUES.items()]
    lines += ['{"id": 7, "v": {bad}}', '{"id": 8, "v": {"a": 1, "a": 2}}']
    if origin == "topic":
        project.record("s", lines)
        project.stream("s", COLUMNS)
    elif origin == "lines":
        project.write("in/a.jsonl", "\n".join(lines))
        project.stream("s", COLUMNS, path="in/*.jsonl")
    else:
        project.write("in/a.json", "\n".join(lines[:6]))
        project.write("in/b.json", lines[7])
        project.stream("s", COLUMNS, path="in/*.json", multiline=True)
    project.model("t", QUERY, mode="append")
    project.run().check()
    rows = {row["id"]: row for row in project.rows("t")}
    assert rows.keys() == VALUES.keys()
    assert {id_: row["a"] for id_, row in rows.items() if row["a"] is not None} == {
        1: Decimal(1),
        5: Decimal(12345678901234567890),
        6: Decimal(1),
    }
    assert rows[1]["c"] == Decimal("1.50")
    for id_, value in VALUES.items():
        assert as_json(rows[id_]["text"]) == json.loads(value), id_
    letters = [bytes(row["value"]) for row in project.rows("t__dead_letter")]
    assert len(letters) == (1 if origin == "documents" else 2), letters


def test_a_path_behind_a_colon_is_the_part(project: Project) -> None:
    project.record(
        "s",
        [f'{{"id": {id_}, "v": {value}}}' for id_, value in VALUES.items() if id_ != 6],
    )
    project.stream("s", COLUMNS)
    project.model(
        "t",
        "SELECT id, v:b.c[0]::decimal(9,2) AS c, v:b.c[1]::string AS d FROM {s}",
        mode="append",
    )
    project.model(
        "u", "SELECT id, v:b.c[1]::string AS d FROM {s}", mode="upsert", keys="id"
    )
    project.run().check()
    assert {
        row["id"]: (row["c"], row["d"]) for row in project.rows("t") if row["d"]
    } == {1: (Decimal("1.50"), "x")}
    assert {row["id"] for row in project.rows("t")} == {1, 2, 3, 4, 5}
    assert {row["id"]: row["d"] for row in project.rows("u") if row["d"]} == {1: "x"}


def as_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def test_a_table_of_variants_is_refused_before_it_is_made(project: Project) -> None:
    project.stream("s", COLUMNS)
    project.model(
        "t", "SELECT * FROM {s}", mode="append", properties={"format-version": "3"}
    )
    with pytest.raises(ProjectError) as caught:
        project.run()
    assert [problem.condition for problem in caught.value.problems] == [
        "unstorable-type"
    ]
    project.record("s", ['{"id": 1, "v": {"a": 1}}'])
    project.model(
        "t",
        "SELECT id, v:a AS a FROM {s}",
        mode="append",
        properties={"format-version": "3"},
    )
    assert project.run().conditions("t") == ["unstorable-type"], (
        "its type is known to Spark alone"
    )
