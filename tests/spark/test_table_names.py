"""Names of tables that SQL could take for something else."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from lakesql.compile.quote import identifier, table_name
from lakesql.compile.table import TableColumn, TableSpec
from lakesql.model.config import PartitionField, SortField
from lakesql.model.table_name import TableName
from lakesql.modes.batches.insert import insert_statement
from lakesql.modes.batches.merge import Merge, merge_parts
from lakesql.plan import steps
from lakesql.select.query import read_query
from lakesql.select.relation import StreamShape
from tests.spark.project import Lake, Project

ICEBERG_KEYWORDS = (
    "branch",
    "days",
    "fields",
    "locally",
    "ordered",
    "retain",
    "snapshot",
    "tag",
    "unordered",
    "write",
)
"""Of Iceberg's extension of the grammar."""

WORDS = ("select", "identifier", "values", "with", "order")


def test_models_named_like_keywords_run_and_are_read(project: Project) -> None:
    project.stream(
        "s", {"id": {"type": "int", "required": True}, "day": "date", "word": "string"}
    )
    for word in WORDS:
        project.model(
            word,
            "SELECT id, day, word FROM {s}",
            mode="append",
            partition_by=["day"],
            namespace="table",
        )
        project.model(
            f"read_{word}",
            f"SELECT id, upper(word) AS word FROM {{{word}}}",
            mode="append",
        )
        project.model(
            f"join_{word}",
            f"SELECT s.id, r.word FROM {{s}} AS s JOIN {{{word}!r}} AS r ON r.id = s.id",
            mode="upsert",
            keys="id",
        )
    project.model(
        "on",
        "SELECT id, day, word FROM {s}",
        mode="upsert",
        keys=["id"],
        sequence_by="day",
        order_by="word",
    )
    rows = [
        {"id": number, "day": f"2026-01-0{number}", "word": "a"} for number in (1, 2, 3)
    ]
    project.record("s", [*rows, {"id": None}])

    project.run().check()

    for word in WORDS:
        stored = project.sql(f"SELECT id, word FROM lake.table.`{word}` ORDER BY id")
        assert stored == [{"id": number, "word": "a"} for number in (1, 2, 3)]
        letters = project.sql(f"SELECT reason FROM lake.table.{word}__dead_letter")
        assert letters == [{"reason": "required-missing"}]
        assert project.rows(f"read_{word}") == [
            {"id": number, "word": "A"} for number in (1, 2, 3)
        ]
        assert project.rows(f"join_{word}") == stored
    assert project.sql(f"SELECT id FROM lake.{project.namespace}.`on` ORDER BY id") == [
        {"id": n} for n in (1, 2, 3)
    ]

    # Columns, partitions, order and properties change too.
    project.model(
        "on",
        "SELECT id, day, word, upper(word) AS loud FROM {s}",
        mode="upsert",
        keys=["id"],
        sequence_by="day",
        order_by="day",
        partition_by=["bucket(4, id)"],
        properties={"a": "b"},
    )
    project.record("s", [{"id": 3, "day": "2026-01-09", "word": "b"}])
    project.run("on").check()
    changed = project.sql(
        f"SELECT id, loud FROM lake.{project.namespace}.`on` WHERE loud IS NOT NULL"
    )
    assert changed == [{"id": 3, "loud": "B"}]
    assert project.iceberg("on").properties["a"] == "b"
    assert len(project.iceberg("on").spec().fields) == 1


def statements_of(table: TableName, name: str) -> list[str]:
    column, partition = TableColumn(name, "INT"), PartitionField("identity", name)
    bucket, order = PartitionField("bucket", name, 4), (SortField(name),)
    made = [
        steps.create_namespace(table),
        steps.create_table(TableSpec(table, (column,), (partition, bucket), order)),
        steps.add_columns(table, (column,)),
        steps.drop_column(table, name),
        steps.widen_column(table, name, "int", "BIGINT"),
        steps.change_partitions(table, (partition, bucket), (partition, bucket)),
        steps.set_order(table, order),
        steps.set_properties(table, {"a": "b"}),
    ]
    return [
        *chain.from_iterable(step.statements for step in made),
        insert_statement(table, (name,)),
        insert_statement(table, None),
        "true".join(merge_parts(Merge(table, (name,)), (name,))),
        f"SELECT {identifier(name)} FROM {table_name(table)}",
        f"SELECT t.a FROM s JOIN {table_name(table)} AS t ON s.a = t.a",
    ]


@pytest.fixture(scope="module")
def keywords(lake: Lake) -> list[str]:
    spark = [
        row["keyword"].lower()
        for row in lake.session.sql("SELECT keyword FROM sql_keywords()").collect()
    ]
    return [*spark, *ICEBERG_KEYWORDS]


def test_every_keyword_may_name_a_table_its_namespace_and_its_column(
    lake: Lake, keywords: list[str]
) -> None:
    parser: Any = lake.session._jsparkSession.sessionState().sqlParser()
    assert len(keywords) > 300
    plain = [
        parser.parsePlan(text).toString()
        for text in statements_of(TableName("lake", "zzn", "zzt"), "zzc")
    ]
    wrong = [
        text
        for word in keywords
        for text, expected in zip(
            statements_of(TableName("lake", word, word), word), plain, strict=True
        )
        if plan_of(parser, text)
        != expected.replace("zzn", word).replace("zzt", word).replace("zzc", word)
    ]
    assert wrong == []


def plan_of(parser: Any, text: str) -> str:
    try:
        return str(parser.parsePlan(text).toString())
    except AnalysisException as error:
        return str(error)


def test_every_keyword_may_name_a_table_that_is_joined(keywords: list[str]) -> None:
    shapes = {"s": StreamShape(("a",), None)}
    for word in keywords:
        table = table_name(TableName("lake", word, word))
        text = f"SELECT t.b, s.a FROM s JOIN {table} AS t ON s.a = t.a"
        outputs = read_query(text, shapes, lambda offset: None).outputs  # type: ignore[arg-type, return-value]
        assert [output.name for output in outputs or ()] == ["b", "a"], word
