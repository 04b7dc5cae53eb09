from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.errors import Problem
from lakesql.select.query import read_expression
from lakesql.select.three_valued import Use
from tests.cases import each_of

COLUMNS = ["n", "m", "a", "b"]

NEVER_FALSE = [
    "n = NULL",
    "n <> NULL",
    "n >= NULL",
    "NULL < n",
    "n = (NULL)",
    "n + NULL > 1",
    "CAST(NULL AS int) = n",
    "NOT (n = NULL)",
    "a LIKE NULL",
    "a NOT LIKE NULL",
    "a RLIKE NULL",
    "a LIKE ANY ('x', NULL)",
    "a NOT LIKE ANY (NULL, NULL)",
    "a IN ('x', NULL)",
    "a IN (NULL)",
    "a NOT IN (NULL)",
    "NOT (a NOT IN ('x', NULL))",
    "n NOT BETWEEN NULL AND 3",
    "n BETWEEN NULL AND NULL",
    "true OR n = 1",
    "n = n OR true",
    "n = NULL OR true",
    "n > 0 OR NULL",
    "n > 0 OR (a = 'x' OR NULL)",
    "n > 0 OR 1 = 1",
    "n > 0 OR 2 <= 3",
    "NOT (n > 0 AND false)",
    "(n = NULL OR n = 1) AND (a = 'x' OR true)",
    "n = n",
    "(n > NULL) IS NULL",
    "(n > NULL) <=> NULL",
    "coalesce(n = NULL, true)",
    "CASE WHEN n = 1 THEN true END",
    "CASE WHEN n = NULL THEN a = 'x' ELSE true END",
    "CASE n WHEN NULL THEN a = 'x' ELSE true END",
    "if(n > 1, true, NULL)",
    "rand() < NULL",
    "n IS NULL OR n IS NOT NULL",
    "n > 5 OR n <= 5",
    "n > 1.5 OR n < 2 OR n IS NULL",
    "n BETWEEN 1 AND 5 OR n NOT BETWEEN 1 AND 5",
    "n <> 1 OR n <> 2",
    "NOT (n > 10 AND n < 5)",
    "n NOT BETWEEN 5 AND 1",
    "n > m OR m >= n",
    "length(a) > 5 OR length(a) < 6",
    "a <> 'paid' OR a <> 'open'",
    "NOT (a IN ('paid', 'open') AND a = 'closed')",
    "n <=> 1 OR n <> 1",
    "CASE WHEN n > 0 THEN n >= 0 ELSE true END",
    "b OR NOT b",
    "b = true OR b = false",
    "b IN (true, false)",
]
"""As a test none of them can fail."""

ALWAYS_FALSE = [
    "n = 1 AND false",
    "n = 1 AND 1 = 2",
    "NOT (n = 1 OR true)",
    "(n > NULL) IS NOT NULL",
    "n IS NULL AND n IS NOT NULL",
    "n <=> 1 AND n <=> 2",
]

FALSE_OR_NULL = [
    "a NOT IN ('x', NULL)",
    "n BETWEEN NULL AND 3",
    "n = NULL AND n = 1",
    "n <> n",
    "a LIKE ALL ('x', NULL)",
    "n > 0 AND NULL",
    "n > 5 AND n <= 5",
    "n < 5 AND n > 10",
    "n > m AND m >= n",
    "a = 'paid' AND lower(a) IS NULL AND a = 'open'",
    "b AND NOT b",
]
"""As a test they can fail, and as a filter they choose nothing."""

DECIDING = [
    "n = 1",
    "n IS NULL",
    "n <=> NULL",
    "n IS DISTINCT FROM NULL",
    "n = 1 OR n IS NULL",
    "a IN ('x') OR a IS NULL",
    "1 = 1 AND n > 0",
    "n > 0 OR false",
    "coalesce(n > 0, true)",
    "coalesce(n > 0, false)",
    "coalesce(n, NULL) = 1",
    "CASE WHEN n = 1 THEN a = 'x' ELSE true END",
    "CASE WHEN n = NULL THEN true ELSE a = 'x' END",
    "CASE WHEN n = 1 THEN a = 'x' END",
    "nullif(n, 1) = 2",
    "if(n > 1, true, false)",
    "exists(array(n, NULL), x -> x > 1)",
    "concat_ws(',', a, NULL) = 'x'",
    "array_contains(array(n), m)",
    "n = m",
    "(n = 1) = true",
    "rand() < 0.1",
    "n * 0 = 0",
    "n > 5 OR n < 5",
    "n > 5 AND n < 6",
    "n >= 5 AND n <= 5",
    "a = '2026-01-01' AND a = '2026-1-1'",
    "a = '1' AND a = '1.0'",
    "a = 'Paid' AND a = 'paid'",
    "a = 'true' AND a = 'yes'",
    "n = 1e3 AND n = 1000",
    "rand() > 0.5 OR rand() <= 0.5",
    "n > m OR m > n",
    "a LIKE 'x%' AND a NOT LIKE 'y%'",
    "b OR NOT (n = 1)",
    "(n = 1 AND m = 2) OR (n = 2 AND m = 3)",
]


def is_refused(text: str, use: Use) -> bool:
    read = read_expression(text, COLUMNS, use=use)
    assert not isinstance(read, Problem) or read.condition == "bad-expression"
    return isinstance(read, Problem)


@each_of("text", NEVER_FALSE)
def test_a_test_that_cannot_fail_is_refused(text: str) -> None:
    problem = read_expression(text, COLUMNS, use="test")
    assert isinstance(problem, Problem)
    assert problem.condition == "bad-expression"
    assert "false for no row" in problem.what


@each_of("text", ALWAYS_FALSE)
def test_a_test_that_every_row_fails_is_refused(text: str) -> None:
    assert is_refused(text, "test")
    assert is_refused(text, "filter")


@each_of("text", FALSE_OR_NULL)
def test_a_condition_that_is_never_true_may_be_a_test_and_no_filter(text: str) -> None:
    assert not is_refused(text, "test")
    assert is_refused(text, "filter")


@each_of("text", DECIDING)
def test_a_condition_by_which_rows_differ_is_both(text: str) -> None:
    assert not is_refused(text, "test")
    assert not is_refused(text, "filter")


@each_of(
    "text",
    ["a IN ('x', NULL)", "n > 0 OR NULL", "CASE WHEN n = 1 THEN true END", "n = n"],
)
def test_a_filter_that_is_true_or_null_chooses_rows(text: str) -> None:
    assert not is_refused(text, "filter")


@each_of(
    ("text", "part"),
    [
        ("m = 1 OR n = NULL", "`n = NULL`"),
        ("m = 1 OR a IN ('x', NULL)", "`a IN ('x', NULL)`"),
        ("n > 0 OR NULL", "`NULL`"),
        ("n > 0 OR 1 = 1", "`1 = 1`"),
        ("n = NULL OR true", "`n = NULL`"),
        ("a = 'x' OR m = m", "`m = m`"),
        ("a = 'x' OR m > 1 OR m <= 1", "`m > 1` and what stands beside it"),
    ],
)
def test_the_part_is_named_that_is_to_blame(text: str, part: str) -> None:
    problem = read_expression(text, COLUMNS, use="test")
    assert isinstance(problem, Problem)
    assert part in problem.what


# Random conditions, as DuckDB answers them

NUMBERS = st.sampled_from(
    [
        "n",
        "m",
        "NULL",
        "0",
        "1",
        "0.5",
        "(n + NULL)",
        "(n + m)",
        "coalesce(n, NULL, m)",
        "coalesce(n, 1)",
    ]
)
TEXTS = st.sampled_from(["a", "lower(a)", "NULL", "'xx'", "'yy'", "(a || NULL)"])


def comparison() -> st.SearchStrategy[str]:
    sign = st.sampled_from(
        ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    )
    word = st.sampled_from(["", "NOT "])
    listed = st.lists(TEXTS, min_size=1, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("{} {} {}".format, NUMBERS, sign, NUMBERS),
        st.builds("{} {}IN ({})".format, TEXTS, word, listed),
        st.builds("{} {}BETWEEN {} AND {}".format, NUMBERS, word, NUMBERS, NUMBERS),
        st.builds("{} {}LIKE {}".format, TEXTS, word, TEXTS),
        st.builds("{} IS {}NULL".format, NUMBERS, word),
        st.builds("b {} {}".format, sign, st.sampled_from(["true", "false", "b"])),
        st.builds("b {}IN ({})".format, word, st.sampled_from(["true", "true, false"])),
        st.sampled_from(["true", "false", "CAST(NULL AS boolean)", "1 = 1", "b"]),
    )


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} AND {})".format, parts, parts),
        st.builds("({} OR {})".format, parts, parts),
        st.builds("(NOT ({}))".format, parts),
        st.builds("(({}) IS NULL)".format, parts),
        st.builds("(({}) IS NOT TRUE)".format, parts),
        st.builds("(({}) IS NOT DISTINCT FROM ({}))".format, parts, parts),
        st.builds("coalesce({}, {})".format, parts, parts),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, parts, parts, parts),
        st.builds("CASE WHEN {} THEN {} END".format, parts, parts),
    )


ROWS = """
SELECT n, m, a, b
FROM (VALUES (NULL::double), (-1), (0), (0.2), (0.5), (0.7), (1), (2)) AS numbers(n),
     (VALUES (NULL::double), (-2), (-1), (0), (0.5), (0.7), (1), (2), (3)) AS others(m),
     (VALUES (NULL), ('xx'), ('XX'), ('yy'), ('z')) AS texts(a),
     (VALUES (NULL::boolean), (true), (false)) AS truths(b)
"""


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE TABLE t AS {ROWS}")
    return connection


@given(text=st.recursive(comparison(), joined, max_leaves=6))
def test_what_is_refused_decides_the_same_for_every_row(
    duck: duckdb.DuckDBPyConnection, text: str
) -> None:
    answers = {
        answer
        for (answer,) in duck.execute(
            f"SELECT DISTINCT ({text})::boolean FROM t"
        ).fetchall()
    }
    fails = {answer is False for answer in answers}
    chosen = {answer is True for answer in answers}
    assert len(fails) == 1 or not is_refused(text, "test")
    assert len(chosen) == 1 or not is_refused(text, "filter")


ATOMS = st.one_of(
    st.builds(
        "n {} {}".format, st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from("01")
    ),
    st.builds("a {} 'xx'".format, st.sampled_from(["=", "<>", "<=>"])),
    st.builds("n {} m".format, st.sampled_from(["=", "<", ">="])),
    st.sampled_from(["n IS NULL", "a IS NULL", "b", "b = false", "a IN ('xx', 'yy')"]),
)


@given(
    text=st.recursive(
        ATOMS,
        lambda parts: st.one_of(
            st.builds("({} AND {})".format, parts, parts),
            st.builds("({} OR {})".format, parts, parts),
            st.builds("(NOT {})".format, parts.filter(lambda it: it[0] == "(")),
        ),
        max_leaves=6,
    )
)
def test_what_decides_the_same_for_every_row_is_refused(
    duck: duckdb.DuckDBPyConnection, text: str
) -> None:
    """Of operands that are compared with literals and each other, all is known."""
    said = text.replace("<=>", "IS NOT DISTINCT FROM")
    rows = duck.execute(f"SELECT DISTINCT ({said})::boolean FROM t").fetchall()
    answers = {answer for (answer,) in rows}
    assert is_refused(text, "test") == (False not in answers or answers == {False})
    never_chosen = True not in answers
    assert is_refused(text, "filter") or not never_chosen
