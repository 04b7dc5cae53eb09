"""Spark, Java, pyspark and Python workers say nothing on the screen, whatever
happens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesql.cli.init import write_project

HANGS_AFTER_S = 120

PROGRAM = """
import os, sys
from pathlib import Path
from lakesql.engine.spark.jars import ensure_jars, user_cache
from lakesql.engine.spark.java import find_java
from lakesql.catalog.connect import open_catalog
from lakesql.engine.spark.session import SessionSettings, open_session
from lakesql.project.catalog import jar_needs
from lakesql.project.profiles import Catalog, Target

work, home, java = Path(sys.argv[1]), user_cache(os.environ), find_java(os.environ)
catalog = Catalog("lake", "sql", f"sqlite:///{work}/catalog.db", f"{work}/warehouse")
jars = ensure_jars(jar_needs(Target("t", catalog=catalog)), home, lambda _: None)
log_file = work / "logs" / "spark.log"
settings = SessionSettings("silence", "local[2]", {}, catalog, jars, log_file, home, java, record=False)
spark = open_session(settings, lambda: open_catalog(catalog))

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import udf

def print_loudly(value):
    print("worker on stdout")
    print("worker on stderr", file=sys.stderr)
    return value

def fail(batch, number):
    raise ValueError("in the callback")

assert spark.range(2).select(udf(print_loudly)("id")).collect()
try:
    spark.sql("SELECT * FROM nowhere")
    raise SystemExit("not refused")
except AnalysisException:
    pass
stream = spark.readStream.format("rate").load().writeStream.foreachBatch(fail).trigger(availableNow=True)
try:
    stream.option("checkpointLocation", f"{work}/checkpoint").start().awaitTermination()
    raise SystemExit("did not fail")
except StreamingQueryException:
    pass
"""


@pytest.mark.spark
def test_nothing_reaches_the_screen(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
    output = (tmp_path / "logs" / "spark.out").read_text()
    assert "worker on stdout" in output
    assert "worker on stderr" in output
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "catalog.db",
        "checkpoint",
        "logs",
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ('{master: "local[many]"}', [("local[many]",)]),
        ('{master: "local[0]"}', [("0 threads",)]),
        (
            '{master: "local[2]", conf: {spark.sql.shuffle.partitions: few, spark.sql.ui.retainedExecutions: all}}',
            [
                ("spark.sql.shuffle.partitions", "'few'"),
                ("spark.sql.ui.retainedExecutions", "'all'"),
            ],
        ),
    ],
)
def test_what_spark_does_not_take_is_the_profiles_fault(
    tmp_path: Path, spark: str, said: list[tuple[str, ...]]
) -> None:
    write_project(tmp_path, "shop")
    profiles = tmp_path / "profiles.yml"
    profiles.write_text(profiles.read_text().replace('{master: "local[*]"}', spark))
    ended = run(tmp_path, "run", "--select", "orders")
    problems = [json.loads(line) for line in ended.stderr.splitlines()]
    assert ended.returncode == 2
    for problem, words in zip(problems, said, strict=True):
        assert problem["condition"] == "spark-refused"
        assert (
            all(word in problem["what"] for word in words)
            and "\tat " not in problem["what"]
        )
        if len(said) > 1:
            line, column = problem["place"]["line"], problem["place"]["column"]
            assert (
                profiles.read_text()
                .splitlines()[line - 1][column - 1 :]
                .startswith(words[1].strip("'"))
            )


@pytest.mark.spark
def test_a_preview_without_its_upstream_table_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path, "shop")
    ended = run(tmp_path, "show", "order_states", "--preview")
    (problem,) = [
        json.loads(line) for line in ended.stderr.splitlines() if "problem" in line
    ]
    assert (ended.returncode, problem["condition"]) == (1, "table-missing")


def run(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lakesql", "--log-format", "json", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=project,
        check=False,
        timeout=HANGS_AFTER_S,
    )
