"""The corpus of SELECTs that Spark accepts is one: its analyzer takes each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from lakesql.engine.batch.analyze import type_text
from lakesql.errors import Place
from lakesql.select import registry
from lakesql.select.calls import read_counts
from lakesql.select.relation import QueryColumn
from lakesql.select.sqltext import Findings, read_text
from lakesql.select.tree import read_relation
from tests.selects import TABLES, accepted, wrong
from tests.spark.functions import MOST, read_names, takes
from tests.unit.test_selects import KNOWN

NO_COUNT = {"cast"}
"""What SHOW FUNCTIONS has and no call by name takes."""


@pytest.fixture(scope="module")
def session(lake: object) -> Iterator[SparkSession]:
    session: SparkSession = lake.session  # type: ignore[attr-defined]
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    for name, columns in TABLES.items():
        text = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        session.sql(f"CREATE TABLE lake.shop.{name} ({text}) USING iceberg")
    yield session
    for name in TABLES:
        session.sql(f"DROP TABLE lake.shop.{name}")


def refusal(session: SparkSession, select: str) -> str:
    """What Spark's analyzer says against a SELECT; '' where it accepts it."""
    try:
        assert session.sql(select).schema is not None
    except (PySparkException, Py4JError) as error:
        return str(error).strip().split("\n")[0]
    return ""


def test_spark_accepts_the_whole_corpus(session: SparkSession) -> None:
    refused = {
        select: said for select in accepted() if (said := refusal(session, select))
    }
    assert refused == {}


def test_spark_refuses_what_is_wrong(session: SparkSession) -> None:
    assert [select for select, _ in wrong() if not refusal(session, select)] == []


def test_the_registry_is_that_of_this_spark(session: SparkSession) -> None:
    """Its names, its version, and for some functions the least and the most arguments
    that they take."""
    assert session.version == registry.VERSION
    assert {
        name for names in registry.COUNTS.values() for name in names.split()
    } == read_names(session) - NO_COUNT
    wrong = []
    for text, names in registry.COUNTS.items():
        has = read_counts(text).has
        counts = [count for count in range(MOST + 1) if has(count)]
        edges = {
            count: has(count)
            for count in (counts[0], counts[-1], counts[0] - 1, counts[-1] + 1)
        }
        for name in names.split()[::12]:
            wrong += [
                (name, count)
                for count, it in edges.items()
                if count >= 0 and takes(session, name, count) != it
            ]
    assert wrong == []


def test_derived_types_are_those_of_spark(session: SparkSession) -> None:
    derived = 0
    differing = {}
    for select in accepted():
        columns = columns_of(select)
        schema = session.sql(select).schema
        if columns is None or len(columns) != len(schema):
            continue
        for column, field in zip(columns, schema, strict=True):
            if column.type is not None:
                derived += 1
                if column.type.text != type_text(field.dataType):
                    differing[select] = (
                        column.name,
                        column.type.text,
                        type_text(field.dataType),
                    )
    assert differing == {}
    assert derived > 300


def columns_of(select: str) -> tuple[QueryColumn, ...] | None:
    """The columns of a SELECT over the known tables."""
    findings = Findings(lambda offset: Place("m.sql"))
    text = read_text(select, findings)
    (tree,) = Spark().parser().parse(text.tokens, select)
    assert isinstance(tree, exp.Query)
    relation, _ = read_relation(tree, text, {}, KNOWN, findings)
    return relation.named
