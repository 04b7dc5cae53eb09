"""What Spark is spared where batches are alike: plans that are made once, views that
are replaced, `chmod`; and which table a statement writes to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakesql.engine.batch import streaming_query
from lakesql.engine.batch.sink import Sink
from lakesql.engine.ledger.commit import begin_commit
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.sources import parsed
from lakesql.engine.spark import internals
from lakesql.engine.spark.internals import (
    SETTING,
    Member,
    Repeated,
    as_given,
    choose_way,
    replace_view,
)
from lakesql.errors import ProfileError
from lakesql.model.table_name import TableName
from tests.spark.project import Project


class Doubled:
    """Rows with twice their id, but for one; counts how often it was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, frame: DataFrame) -> DataFrame:
        self.times += 1
        twice = frame.withColumn("twice", F.col("id") * 2)
        return twice.where("id <> 1").withColumn(
            "text", F.concat(F.col("twice"), F.lit("!"))
        )


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_a_plan_is_put_over_other_rows_of_the_same_columns(spark: SparkSession) -> None:
    make = Doubled()
    repeated, numbers = Repeated(make), spark.range(4)
    for frame in (
        numbers,
        numbers.where("id < 3"),
        numbers.coalesce(1),
        numbers.limit(0),
    ):
        assert rows(repeated.over(frame)) == rows(Doubled()(frame))
    assert make.times == 1


def test_a_frame_of_other_columns_is_planned_anew(spark: SparkSession) -> None:
    make = Doubled()
    repeated = Repeated(make)
    for frame in (
        spark.range(4),
        spark.range(10, 12),
        spark.range(2).selectExpr("CAST(id AS int) AS id"),
    ):
        assert rows(repeated.over(frame)) == rows(Doubled()(frame))
    assert make.times == 2


def test_rows_in_several_tasks_are_known_to_be_where_the_first_came_in_one(
    spark: SparkSession,
) -> None:
    """Else Spark would group each task's rows by themselves."""
    repeated, numbers = (
        Repeated(lambda frame: frame.selectExpr("id % 2 AS half")),
        spark.range(8),
    )
    for frame in (numbers.coalesce(1), numbers.repartition(4), numbers.coalesce(1)):
        assert rows(repeated.over(frame).groupBy("half").count()) == [(0, 4), (1, 4)]


def test_a_plan_that_brings_rows_together_is_made_anew(spark: SparkSession) -> None:
    make = Mock(
        side_effect=lambda frame: frame.groupBy((F.col("id") % 2).alias("half")).count()
    )
    repeated = Repeated(make)
    assert rows(repeated.over(spark.range(4))) == [(0, 2), (1, 2)]
    assert rows(repeated.over(spark.range(10, 13))) == [(0, 2), (1, 1)]
    assert make.call_count == 2


def test_a_plan_is_of_one_day(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Mock()
    monkeypatch.setattr(internals, "datetime", clock)
    make = Doubled()
    repeated = Repeated(make)
    for day in (1, 1, 2):
        clock.now.return_value = datetime(2026, 3, day, tzinfo=UTC)
        repeated.over(spark.range(4))
    assert make.times == 2


def test_a_statement_writes_to_the_table_that_it_is_given(project: Project) -> None:
    """What it reads is the catalog's, though it has the same name."""
    name = TableName("lake", project.namespace, "m")
    project.sql(f"CREATE NAMESPACE lake.{project.namespace}")
    project.sql(
        f"CREATE TABLE {name} (id int, `a b` string) USING iceberg PARTITIONED BY (bucket(4, id))"
    )
    project.sql(f"INSERT INTO {name} VALUES (1, 'x')")
    session = project.lake.session
    begun = begin_commit(load_table(session, name)).target
    twice = f"(SELECT id, `a b` FROM {name} UNION ALL SELECT 5, 'y')"
    internals.write_to(
        session, f"INSERT INTO {name} BY NAME SELECT * FROM {twice}", begun
    )
    internals.write_to(
        session,
        f"MERGE INTO {name} AS target USING {twice} AS s ON target.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT *",
        begun,
    )
    assert begun.currentSnapshot().summary().get("total-records") == "0"
    assert project.rows("m") == [{"id": 1, "a b": "x"}]


def test_how_the_records_of_a_query_are_parsed_is_said_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = Mock(wraps=parsed.parse_binding)
    monkeypatch.setattr(parsed, "parse_binding", parse)
    for name in ("a", "b"):
        project.stream(name, {"id": "int"}, max_per_batch=1)
        for number in range(3):
            project.record(name, [{"id": number}, "broken"])
    project.model("one", "SELECT id FROM {a}", mode="append")
    project.model(
        "both", "SELECT id FROM {a} UNION ALL SELECT id FROM {b}", mode="append"
    )

    project.run().check()

    assert (
        len(project.snapshot_ids("one")) >= 3 and len(project.snapshot_ids("both")) >= 3
    )
    assert parse.call_count == 3
    assert project.reasons("both") == {"unparsable": 6}


def test_a_view_is_replaced_without_a_statement_where_its_columns_stay(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark.newSession()
    kind: type[DataFrame] = type(session.range(0))
    stated = Mock(wraps=kind.createOrReplaceTempView)
    monkeypatch.setattr(kind, "createOrReplaceTempView", lambda *args: stated(*args))
    for ids, statements in ((range(3), 1), (range(5), 1), (range(0), 1), (range(2), 1)):
        replace_view(session.range(ids.start, ids.stop), "some view")
        assert rows(session.table("`some view`")) == [(number,) for number in ids]
        assert stated.call_count == statements
    of_former = session.sql("SELECT id + 10 AS id FROM `Some View`")
    replace_view(of_former, "some view")
    assert rows(session.table("`some view`")) == rows(of_former) == [(10,), (11,)]
    replace_view(session.sql("SELECT 'a' AS text"), "some view")
    assert rows(session.table("`some view`")) == [("a",)]
    assert stated.call_count == 2
    assert not spark.newSession().catalog.tableExists("`some view`")


def test_what_is_kept_in_memory_stays_when_a_view_that_it_reads_is_replaced(
    spark: SparkSession,
) -> None:
    session = spark.newSession()
    replace_view(session.range(3), "read")
    kept = session.sql("SELECT id FROM read").persist()
    assert kept.count() == 3
    replace_view(session.range(4), "read")
    assert kept.storageLevel.useMemory
    kept.unpersist()


def test_a_checkpoint_is_written_as_local_tables_are_where_no_files_are_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system that starts no `chmod` lists a link to a folder without end."""
    used = {}

    def write(sink: Sink, arrived: DataFrame, batch: int) -> object:
        used[sink.model.name] = arrived.sparkSession.conf.get("fs.file.impl", None)
        return write_batch(sink, arrived, batch)

    write_batch = streaming_query.write_batch
    monkeypatch.setattr(streaming_query, "write_batch", write)
    project.stream("files", {"id": "int"})
    project.record("files", [{"id": 1}])
    project.model("of_files", "SELECT id FROM {files}", mode="append")
    project.model("of_a_table", "SELECT id FROM {of_files}", mode="append")
    project.model(
        "counted",
        "SELECT id, count(*) AS times FROM {of_files} GROUP BY id",
        mode="upsert",
        keys="id",
    )

    for times in (1, 2):
        project.run().check()
        assert project.rows("counted", "id") == [{"id": 1, "times": times}]
        project.record("files", [{"id": 1}])

    bare = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
    assert used == {"of_files": None, "of_a_table": bare, "counted": bare}
    assert project.rows("of_a_table", "id") == [{"id": 1}, {"id": 1}]


@pytest.fixture
def any_way(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose way is chosen anew by the test, and as for all others
    afterwards."""
    session = spark.newSession()
    yield session
    session.conf.unset(SETTING)
    choose_way(session, pytest.fail)


def test_this_spark_has_all_that_is_needed(any_way: SparkSession) -> None:
    choose_way(any_way, pytest.fail)


TEXT = "java.lang.String"


@pytest.mark.parametrize(
    "missing",
    [
        Member(TEXT, "none"),
        Member(TEXT, "length", (TEXT,)),
        Member("no.Class", "f"),
        Member(TEXT, arguments=9),
    ],
)
def test_a_spark_without_what_saves_time_takes_longer(
    any_way: SparkSession, monkeypatch: pytest.MonkeyPatch, missing: Member
) -> None:
    monkeypatch.setattr(internals, "_FASTER", (missing,))
    said: list[str] = []
    choose_way(any_way, said.append)
    make = Doubled()
    repeated = Repeated(make)
    for frame in (any_way.range(4), any_way.range(10, 12)):
        assert rows(repeated.over(frame)) == rows(Doubled()(frame))
        replace_view(frame, "some view")
        assert (
            rows(any_way.table("`some view`")) == rows(as_given(frame)) == rows(frame)
        )
    assert make.times == 2
    assert str(missing) in said[0]


def test_a_spark_without_what_writing_needs_is_refused(
    any_way: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "_NEEDED", (Member(TEXT, arguments=9),))
    with pytest.raises(ProfileError) as raised:
        choose_way(any_way, pytest.fail)
    assert [problem.condition for problem in raised.value.problems] == [
        "unsupported-spark"
    ]


def test_another_word_is_refused(any_way: SparkSession) -> None:
    any_way.conf.set(SETTING, "sometimes")
    with pytest.raises(ProfileError) as raised:
        choose_way(any_way, pytest.fail)
    assert [problem.condition for problem in raised.value.problems] == ["wrong-value"]


@pytest.mark.long
def test_by_the_public_way_tables_have_the_same_rows(
    project: Project, any_way: SparkSession
) -> None:
    """A model of each mode, and one with a watermark, over a stream each; three batches
    each."""
    columns = {
        "id": {"type": "bigint", "required": True},
        "at": "timestamp",
        "n": "int",
    }
    project.stream("plain", columns, key=["id"])
    project.stream("timed", columns, watermark={"column": "at", "delay": "1 minute"})
    project.stream("feed", columns, key=["id"], envelope="debezium")
    for way in ("always", "never"):
        project.model(f"append_{way}", "SELECT id, at, n FROM {plain}", mode="append")
        project.model(
            f"upsert_{way}",
            "SELECT id, at, n FROM {plain}",
            mode="upsert",
            keys=["id"],
            sequence_by="at",
        )
        project.model(
            f"scd2_{way}",
            "SELECT id, at, n FROM {plain}",
            mode="scd2",
            keys=["id"],
            sequence_by="at",
        )
        project.model(
            f"cdc_{way}", "SELECT id, at, n FROM {feed}", mode="cdc", keys=["id"]
        )
        window = "window(at, '5 minutes')"
        counts = f"SELECT {window}.start AS since, count(*) AS events FROM {{timed}} GROUP BY {window}"
        project.model(f"counts_{way}", counts, mode="append")
    models = ("append", "upsert", "scd2", "cdc", "counts")
    for batch in range(3):
        events = [
            {
                "id": number % 7,
                "at": f"2026-01-01T{batch:02}:{number:02}:00Z",
                "n": number * batch,
            }
            for number in range(0, 50, 5)
        ]
        project.record("plain", [*events, {"id": None}])
        project.record("timed", events)
        project.record(
            "feed", [{"op": "c", "before": None, "after": event} for event in events]
        )
        for way in ("always", "never"):
            any_way.conf.set(SETTING, way)
            choose_way(any_way, pytest.fail)
            project.run(*(f"{model}_{way}" for model in models)).check()
    for model in models:
        assert project.rows(f"{model}_always") == project.rows(f"{model}_never") != []
        assert project.reasons(f"{model}_always") == project.reasons(f"{model}_never")
