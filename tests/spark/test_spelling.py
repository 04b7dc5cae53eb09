"""Two SELECTs that a plan takes for one are one to Spark: small edits, beside what its
analyzer makes of them.

Every SELECT of the corpus is edited in many small ways: a quote, a pair of brackets, a
capital, a literal, an operator. Where the edit is called no difference, Spark's
analyzed plan is the same, and so are the names within its values.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from lakesql.errors import Place, ProjectError
from lakesql.select.differences import find_differences
from lakesql.select.query import parse_query
from lakesql.select.sqltext import Findings, read_text
from tests.selects import TABLES, accepted

OPERATORS = [
    "|",
    "&",
    "^",
    "||",
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    ">=",
    "AND",
    "OR",
    "<<",
    ">>",
]
MORE = [
    "SELECT a | b & c AS x, a ^ b | c AS y, a & b = c AS z FROM lake.shop.numbers",
    "SELECT s || a + b AS x, s || (a - b) AS y, a - b - c AS z, a - (b - c) AS w FROM lake.shop.numbers",
    "SELECT a = b = flag AS x, flag = (a = b) AS y, a < b = flag AS z, NOT a = b AS w FROM lake.shop.numbers",
    "SELECT a << b >> c AS x, (a & b) >> c AS y, a & b >> c AS z, -a * b AS w, -(a * b) AS v FROM lake.shop.numbers",
    "SELECT a BETWEEN b AND c AND flag AS x, flag AND a BETWEEN b AND c OR flag AS y FROM lake.shop.numbers",
    "SELECT (a IS NULL) = flag AS x, a = b IS NULL AS y, (a IN (1, 2)) AND flag AS z FROM lake.shop.numbers",
    "SELECT s LIKE 'a' || 'b' AS x, (s LIKE 'a') = flag AS y, s NOT LIKE 'x' AND flag AS z FROM lake.shop.numbers",
    "SELECT CASE WHEN a + b > c AND flag THEN a ELSE b * c END + 1 AS x FROM lake.shop.numbers WHERE a = 1 OR b = 2",
    "SELECT coalesce(s, 'a') AS x, nullif(s, \"b\") AS y FROM lake.shop.numbers WHERE s IN ('01', 'null', 'true')",
    "SELECT attributes.userId AS x, o.attributes.Colour AS y FROM lake.shop.orders o WHERE o.Status = 'A'",
    "SELECT to_json(struct(Amount, status AS S, o.address.City)) AS x FROM lake.shop.orders o",
    "SELECT to_json(struct(*)) AS x FROM (SELECT amount AS Paid, status FROM lake.shop.orders)",
    "SELECT parse_json(payload):Order.Id::string AS x FROM lake.shop.clicks",
    "SELECT CAST(named_struct('a', 1) AS STRUCT<Foo: INT>) AS x FROM lake.shop.clicks",
    "SELECT transform(items, i -> i.Sku || '-' || i.quantity + 1) AS x FROM lake.shop.orders",
    "SELECT sum(a) FILTER (WHERE b > 1 AND flag) AS x, (sum(a) + 1) * 2 AS y FROM lake.shop.numbers GROUP BY s",
    "SELECT date '2024-01-01' AS d, current_date AS t, `date` FROM (SELECT at AS `date` FROM lake.shop.clicks)",
]
"""Where the levels of Spark's operators, its quotes and its capitals matter."""


@pytest.fixture(scope="module")
def session(lake: object) -> SparkSession:
    session: SparkSession = lake.session  # type: ignore[attr-defined]
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    for name, columns in TABLES.items():
        text = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        session.sql(
            f"CREATE TABLE IF NOT EXISTS lake.shop.{name} ({text}) USING iceberg"
        )
    return session


def test_what_is_called_no_difference_is_none_to_spark(
    session: SparkSession, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(request.config.getoption("--seed"))
    asked, wrong = 0, []
    for select in [*MORE, *accepted()]:
        plan = analyzed(session, select)
        if "diff(" in select.lower():
            # Spark's plan has the unit as it is written, `WEEK` or `week`, and counts
            # the same
            continue
        if plan is None or not is_same(plan, analyzed(session, select)):
            continue  # a random number, or a time: no two plans of it are equal
        for edit in sorted(set(edits(select, chance, 200 if select in MORE else 12))):
            if not is_called_the_same(select, edit):
                continue
            asked += 1
            edited = analyzed(session, edit)
            # what Spark refuses, a run refuses
            if edited is not None and not is_same(plan, edited):
                wrong.append((select, edit))
    assert wrong == []
    assert asked > 500


def is_called_the_same(old: str, new: str) -> bool:
    """Whether a plan takes both for one: their columns have the same names, of which
    others tell, and all else."""
    with suppress(ProjectError):
        return find_differences(old, new) == () and names_of(old) == names_of(new)
    return False


def names_of(select: str) -> set[str]:
    findings = Findings(lambda offset: Place("m.sql"))
    tree = parse_query(read_text(select, findings), select, findings)
    return {name.lower() for name in tree.named_selects}


def analyzed(session: SparkSession, select: str) -> tuple[JavaObject, object] | None:
    """Spark's plan of a SELECT, and the names within its columns; None where it refuses
    it."""
    try:
        frame = session.sql(select)
        return frame._jdf.queryExecution().analyzed(), names_within(
            frame.schema, is_top=True
        )
    except (PySparkException, Py4JError):
        return None


def is_same(
    one: tuple[JavaObject, object], other: tuple[JavaObject, object] | None
) -> bool:
    return (
        other is not None and one[1] == other[1] and bool(one[0].sameResult(other[0]))
    )


def names_within(kind: DataType, is_top: bool = False) -> object:
    match kind:
        case StructType():
            return [
                (it.name.lower() if is_top else it.name, names_within(it.dataType))
                for it in kind
            ]
        case ArrayType():
            return [names_within(kind.elementType)]
        case MapType():
            return [names_within(kind.keyType), names_within(kind.valueType)]
    return str(kind)


def edits(select: str, chance: random.Random, most: int) -> Iterator[str]:
    """Small edits of a SELECT, valid or not."""
    try:
        tokens = Spark().tokenize(select)
    except TokenError:
        return
    for _ in range(most):
        at = chance.randrange(len(tokens))
        kind = chance.choice(
            [
                "quote",
                "bracket",
                "bracket",
                "unbracket",
                "capital",
                "capital",
                "operator",
                "literal",
            ]
        )
        start, end = tokens[at].start, tokens[at].end + 1
        written = select[start:end]
        if kind == "bracket":
            last = min(at + chance.randrange(8), len(tokens) - 1)
            yield f"{select[:start]}({select[start : tokens[last].end + 1]}){select[tokens[last].end + 1 :]}"
        elif kind == "unbracket":
            yield from without_brackets(select, tokens, at)
        elif kind == "capital":
            yield select[:start] + written.swapcase() + select[end:]
        elif kind == "operator" and written.upper() in OPERATORS:
            yield select[:start] + chance.choice(OPERATORS) + select[end:]
        elif kind == "quote":
            yield from (
                select[:start] + each + select[end:] for each in requoted(written)
            )
        elif kind == "literal" and written[0].isdigit():
            yield (
                select[:start]
                + chance.choice(
                    [f"{written}0", f"0{written}", f"'{written}'", f"{written}L"]
                )
                + select[end:]
            )


def requoted(written: str) -> Iterator[str]:
    """A word in each kind of quotes, and without any."""
    bare = written[1:-1] if written[0] in "'\"`" else written
    yield from (f"'{bare}'", f'"{bare}"', f"`{bare}`", bare, f"r'{bare}'")


def without_brackets(select: str, tokens: list[Token], at: int) -> Iterator[str]:
    """The SELECT without a pair of brackets that opens at a token."""
    if tokens[at].text != "(":
        return
    depth = 0
    for token in tokens[at:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            yield f"{select[: tokens[at].start]} {select[tokens[at].end + 1 : token.start]} {select[token.end + 1 :]}"
            return
