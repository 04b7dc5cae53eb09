"""The aliases of compiled statements: those that a sub-query takes from without hide
behind no column of what it reads.

Spark looks for `target.id` within the sub-query first, and where that reads a column
`target`, for its field `id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

from lakesql.names import RESERVED_PREFIX
from tests.golden.test_golden import CASES, parse_case

STATEMENTS = re.compile(r"^-- .*\n|;\n", re.MULTILINE)
OF_LAKESQL = re.compile(r"\b(MERGE INTO|NOT EXISTS|WHERE EXISTS|NOT coalesce)\b")


def compiled() -> Iterator[str]:
    """Each query within the cases' statements that lakesql has written, from its EXISTS
    on."""
    for path in CASES:
        for head, body in parse_case(path.read_text(encoding="utf-8")).expected.items():
            if head.startswith(("compiled ", "batch ")):
                yield from (
                    part
                    for part in STATEMENTS.split(body)
                    if OF_LAKESQL.search(part) and "_lakesql_" in part
                )


def outer_names(statement: str) -> set[str]:
    """The aliases that sub-queries of a statement take from without."""
    text = re.sub(
        r"/\*.*?\*/",
        "",
        re.sub(r"\bCREATE OR REPLACE TEMPORARY VIEW \w+ AS\n", "", statement),
    )
    found = set[str]()
    tree = sqlglot.parse_one(text, dialect="spark")
    for subquery in (*tree.find_all(exp.Exists), *tree.find_all(exp.Subquery)):
        query = subquery.this
        if isinstance(subquery, exp.Subquery) and isinstance(
            subquery.parent, exp.From | exp.Join | exp.Merge
        ):
            continue
        own = {table.alias_or_name for table in query.find_all(exp.Table)}
        own |= {each.alias for each in query.find_all(exp.Subquery)}
        lambdas = {
            name.name
            for each in query.find_all(exp.Lambda)
            for name in each.expressions
        }
        for column in query.find_all(exp.Column):
            first = column.parts[0].name
            if len(column.parts) > 1 and first not in own | lambdas:
                found.add(first)
    return found


def test_what_a_subquery_takes_from_without_has_a_name_that_no_column_can_have() -> (
    None
):
    names = set[str]()
    for statement in compiled():
        names |= outer_names(statement)
    assert {"_lakesql_batch", "_lakesql_stored"} <= names, "no sub-query was looked at"
    assert {
        name for name in names if not name.startswith((RESERVED_PREFIX, "_change"))
    } == set()


@pytest.mark.parametrize("name", ["target", "_lakesql_x"])
def test_the_test_sees_a_name_from_without(name: str) -> None:
    assert outer_names(
        f"SELECT 1 FROM t AS {name} WHERE EXISTS (SELECT 1 FROM u WHERE {name}.id = u.id)"
    ) == {name}
