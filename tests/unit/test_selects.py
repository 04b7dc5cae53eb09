"""Names of SELECTs are checked: none that Spark accepts is refused, and what is wrong
is found where it stands."""

from __future__ import annotations

import pytest

from lakesql.errors import Place, ProjectError
from lakesql.select.query import read_query
from lakesql.select.relation import QueryColumn
from lakesql.stream.types import parse_type
from tests.cases import each_of
from tests.selects import TABLES, accepted, wrong

KNOWN = {
    ("lake", "shop", name): tuple(
        QueryColumn(column, 0, type=parse_type(kind))
        for column, kind in columns.items()
    )
    for name, columns in TABLES.items()
}
OF_MODELS = {
    "no-stream",
    "unnamed-column",
    "bad-column-name",
    "duplicate-column",
    "reserved-column",
}
"""What a model must not do and any other SELECT may."""


def find_problems(select: str) -> list[tuple[str, int, int]]:
    """The conditions that a SELECT over the known tables ends with, each with its line
    and column."""

    def place(offset: int) -> Place:
        before = select[:offset]
        return Place("m.sql", before.count("\n") + 1, offset - before.rfind("\n"))

    with pytest.raises(ProjectError) as caught:  # as none of them reads a stream
        read_query(select, {}, place, KNOWN)
    return sorted(
        (problem.condition, problem.place.line or 0, problem.place.column or 0)
        for problem in caught.value.problems
        if problem.place and problem.condition not in OF_MODELS
    )


@pytest.mark.checks
def test_nothing_that_spark_accepts_is_refused() -> None:
    corpus = set(accepted())
    assert len(corpus) >= 300
    assert {
        select: found for select in corpus if (found := find_problems(select))
    } == {}


@each_of(("select", "expected"), wrong())
def test_what_is_wrong_is_found_where_it_stands(
    select: str, expected: list[tuple[str, int, int]]
) -> None:
    assert find_problems(select) == sorted(expected)
    assert expected
