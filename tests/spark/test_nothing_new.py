"""A run without anything new, decided without Java, against what Spark itself finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakesql.engine.sources.globs import list_files
from lakesql.events import ModelFinished
from lakesql.source.local_files import possible_files
from tests.spark.project import Project


def test_a_run_with_nothing_new_is_what_spark_makes_of_it(project: Project) -> None:
    project.stream("s", {"id": "int", "v": "string"})
    project.stream("f", {"id": "int"}, path="in/{first,second day}/*", format="json")
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id")
    project.model("n", "SELECT id FROM {f}", mode="append", maintenance=False)
    project.model(
        "c",
        "SELECT n.id, m.v FROM {n} AS n LEFT JOIN {m!r} AS m ON m.id = n.id",
        mode="append",
    )
    project.record("s", [{"id": 1, "v": "a"}, "{"])
    project.write("in/second day/100% ä#?.json", '{"id": 1}\n')
    assert project.run_without_java() == [], "there are no tables yet"
    project.run().check()

    found = timeless(project.run_without_java())
    assert found == timeless(project.run().check().of(ModelFinished))
    assert {event.model for event in found} == {"m", "n", "c"}

    project.write("in/first/.hidden.json", "")
    project.write("in/first/more/2.json", '{"id": 2}\n')
    assert project.run_without_java() == [], (
        "whether Spark reads a file of a folder in a folder is Spark's to say"
    )
    Path(project.directory, "in/first/more/2.json").rename(
        project.directory / "in/first/2.json"
    )
    assert project.run_without_java("m") and project.run_without_java("n") == []
    project.run("n").check()
    assert project.run_without_java("n") and project.run_without_java("c") == []
    project.run().check()
    assert project.rows("c", "id") == [{"id": 1, "v": "a"}, {"id": 2, "v": None}]

    project.sql(
        f"CALL lake.system.rewrite_data_files('{project.namespace}.n', options => map('rewrite-all', 'true'))"
    )
    found = timeless(project.run_without_java("c"))
    assert found and found == timeless(project.run("c").check().of(ModelFinished))
    project.model(
        "c", "SELECT id + 1 AS id, CAST(NULL AS string) AS v FROM {n}", mode="append"
    )
    assert project.run_without_java("c") == []


def test_models_with_state_and_nothing_new_are_what_spark_makes_of_them(
    project: Project,
) -> None:
    columns = {"id": "int", "at": "timestamp"}
    project.stream("a", columns, watermark={"column": "at", "delay": "1 minute"})
    project.stream("b", columns, watermark={"column": "at", "delay": "1 minute"})
    counts = "SELECT window(at, '1 minute').start AS minute, count(*) AS n FROM {a} GROUP BY window(at, '1 minute')"
    project.model("counts", counts, mode="append")
    between = "b.at BETWEEN a.at AND a.at + INTERVAL 1 MINUTE"
    project.model(
        "pairs",
        f"SELECT a.id, b.at FROM {{b}} AS b JOIN {{a}} AS a ON a.id = b.id AND {between}",
        mode="append",
    )
    project.model(
        "sums",
        "SELECT id, count(*) AS n FROM {a} GROUP BY id",
        mode="upsert",
        keys="id",
    )
    for stream in ("a", "b"):
        times = (f"2026-03-01 10:0{minute}:00" for minute in range(0, 9, 2))
        project.record(stream, [*({"id": 1, "at": at} for at in times), "{"])
    project.run().check()
    rows = {name: project.rows(name) for name in ("counts", "pairs", "sums")}
    assert len(rows["counts"]) > 1, "the watermark has brought a batch without records"

    found = timeless(project.run_without_java())
    assert {event.model for event in found} == {"counts", "pairs", "sums"}
    assert found == timeless(project.run().check().of(ModelFinished))
    assert rows == {name: project.rows(name) for name in rows}

    project.record("b", [{"id": 1, "at": "2026-03-01 10:20:00"}])
    assert project.run_without_java("pairs") == []
    assert project.run_without_java("counts", "sums")
    project.run("pairs").check()
    assert project.run_without_java("pairs")
    project.forget("pairs__dead_letter")
    assert project.run_without_java("pairs") == []


def test_no_file_that_spark_reads_is_missed(project: Project) -> None:
    for name in (
        "a/x.json",
        "a/.x.json",
        "a/_x.json",
        "a/x.json._COPYING_",
        ".a/x.json",
        "a b/ü %41+#?.json",
        "a/y.json/z.json",
        "a/y.json/.z/z.json",
        "a/y.json/day=3/z.json",
        "a/y\n.json",
        "a/[1].json",
        "a/{b}?*\\.json",
    ):
        project.write(f"in/{name}", "")
    base = f"{project.directory}/in"
    patterns = (
        "*/*.json",
        "*",
        "*/*",
        "a/*",
        "{a,.a}/*.json",
        "{a,a b}/*",
        "a/x.json",
        "a/y.json",
        "a/{x,y}.js*",
    )
    for pattern in (*patterns, "**", "**/*.json", "a/**/z.json"):
        read = {
            unquote(urlsplit(file.path).path)
            for file in list_files(project.lake.session, f"{base}/{pattern}")
        }
        assert read and read <= {
            str(file) for file in possible_files(f"{base}/{pattern}")
        }, pattern


def timeless(events: Iterable[ModelFinished]) -> list[ModelFinished]:
    return sorted(
        (replace(event, duration_ms=0, at_ms=0) for event in events),
        key=lambda event: event.model,
    )
