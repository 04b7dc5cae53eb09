"""A plan that is analysed once, and put over the frames that come after the first."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.sources import parsed
from lakesql.engine.spark.plan import Repeated
from tests.spark.project import Project


class Doubled:
    """Rows with twice their id, but for one; counts how often it was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, frame: DataFrame) -> DataFrame:
        self.times += 1
        twice = frame.withColumn("twice", F.col("id") * 2)
        return twice.where("id <> 1").withColumn("text", F.concat(F.col("twice"), F.lit("!")))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_a_plan_is_put_over_other_rows_of_the_same_columns(spark: SparkSession) -> None:
    make = Doubled()
    repeated, numbers = Repeated(make), spark.range(4)
    for frame in (numbers, numbers.where("id < 3"), numbers.coalesce(1), numbers.limit(0)):
        assert rows(repeated.over(frame)) == rows(Doubled()(frame))
    assert make.times == 1


def test_a_frame_of_other_columns_is_planned_anew(spark: SparkSession) -> None:
    """Also where they have the same names: Spark finds a column by its id."""
    make = Doubled()
    repeated = Repeated(make)
    for frame in (spark.range(4), spark.range(10, 12), spark.range(2).selectExpr("CAST(id AS int) AS id")):
        assert rows(repeated.over(frame)) == rows(Doubled()(frame))
    assert make.times == 3


def test_how_the_records_of_a_query_are_parsed_is_said_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Mock(wraps=parsed.parse_binding)
    monkeypatch.setattr(parsed, "parse_binding", parse)
    for name in ("a", "b"):
        project.stream(name, {"id": "int"}, max_per_batch=1)
        for number in range(3):
            project.record(name, [{"id": number}, "broken"])
    project.model("one", "SELECT id FROM {a}", mode="append")
    project.model("both", "SELECT id FROM {a} UNION ALL SELECT id FROM {b}", mode="append")

    project.run().check()

    assert len(project.snapshot_ids("one")) >= 3 and len(project.snapshot_ids("both")) >= 3
    assert parse.call_count == 3
    assert project.reasons("both") == {"unparsable": 6}
