"""What the unit tests of models take to mean the same in DuckDB and in Spark means the
same in Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakesql.unit.duck_types import NeedsSparkError
from tests.selects import TABLES, answered
from tests.selects.answered import EXPRESSIONS, QUERIES, TYPES, Row
from tests.spark.project import Lake
from tests.unit.duck import NOW, SHOP, Duck, plain_rows

ROWS = 60
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def session(lake: Lake) -> SparkSession:
    session = lake.session.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


@pytest.fixture
def ducks() -> Iterator[tuple[Duck, Duck]]:
    """DuckDB as unit tests have it, and as data tests have it."""
    with Duck.open(is_unit=True) as of_unit, Duck.open(is_unit=False) as of_data:
        yield of_unit, of_data


def load(
    session: SparkSession,
    ducks: Iterable[Duck],
    name: str,
    rows: list[Row],
    types: Mapping[str, str],
) -> None:
    table = answered.arrow_table(rows, types)
    session.createDataFrame(table).createOrReplaceTempView(name)
    for duck in ducks:
        duck.load(name, table, types)


def test_spark_gives_the_same_values(
    session: SparkSession, ducks: tuple[Duck, Duck], pytestconfig: pytest.Config
) -> None:
    """Each expression over rows with the edges of each type: wherever DuckDB has a
    value, Spark has it too."""
    load(
        session,
        ducks,
        "r",
        answered.edge_rows(int(pytestconfig.getoption("--seed")), ROWS),
        {"id": "int", **TYPES},
    )
    wrong = []
    for first in range(0, len(EXPRESSIONS), 40):
        texts = EXPRESSIONS[first : first + 40]
        found = {text: [duck.values(text) for duck in ducks] for text in texts}
        answers = {
            text: {key for values, _ in each for key in values}
            for text, each in found.items()
        }
        assert [text for text, keys in answers.items() if not keys] == [], (
            "DuckDB answers for no row"
        )
        columns = [
            f"CASE WHEN id IN ({', '.join(map(str, keys))}) THEN {text} END AS c{at}"
            for at, (text, keys) in enumerate(answers.items())
        ]
        table = session.sql(f"SELECT id, {', '.join(columns)} FROM r")
        kinds = [field.dataType.simpleString() for field in table.schema][1:]
        rows = {row.pop("id"): row for row in plain_rows(table.toArrow())}
        for at, (text, each) in enumerate(found.items()):
            wrong += [
                f"{text}: {kind} {value!r}, and to Spark {kinds[at]} {rows[key][f'c{at}']!r}"
                for values, kind in each
                for key, value in values.items()
                if (kind, repr(value)) != (kinds[at], repr(rows[key][f"c{at}"]))
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "odd"])
def test_spark_gives_the_same_rows(
    session: SparkSession,
    ducks: tuple[Duck, Duck],
    is_plain: bool,
    pytestconfig: pytest.Config,
) -> None:
    """Each SELECT that DuckDB answers over rows, of the corpus and of those over `r`,
    has the same rows in Spark."""
    seed = int(pytestconfig.getoption("--seed"))
    rows = answered.edge_rows(seed, ROWS)
    if is_plain:
        small = [
            row for row in rows if max(abs(row["i"] or 0), abs(row["j"] or 0)) < 100
        ]
        rows = [row for row in small if str(row["s"]).isascii()]
    load(session, ducks, "r", rows, {"id": "int", **TYPES})
    for name, made in answered.shop_rows(seed, is_plain).items():
        load(session, ducks, name, made, TABLES[name])
    wrong, answers = [], 0
    for text in (*QUERIES, *SHOP):
        found = []
        for duck in ducks:
            with suppress(NeedsSparkError, duckdb.Error):
                table, columns = duck.rows(text)
                found.append((dict(columns), counted(table)))
        if found:
            answers += 1
            said = ask(session, text)
            wrong += [
                f"{text}: {each}, and to Spark {said}" for each in found if each != said
            ]
    assert not wrong, "\n".join(wrong)
    assert answers > (0.8 if is_plain else 0.4) * (len(QUERIES) + 147)


def ask(session: SparkSession, text: str) -> object:
    """The types of the columns, and the rows; or the error. What Spark says of the time
    is the tests' time."""
    text = re.sub(
        r"current_timestamp\(\)|now\(\)", f"TIMESTAMP '{NOW.isoformat(sep=' ')}'", text
    )
    text = re.sub(r"current_date(\(\))?", f"DATE '{NOW.date().isoformat()}'", text)
    try:
        frame = session.sql(text)
        return {
            field.name: field.dataType.simpleString() for field in frame.schema
        }, counted(frame.toArrow())
    except PySparkException as error:
        return str(error).splitlines()[0]


def counted(table: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in plain_rows(table))
