"""A day of commits: runners that are killed, tables that are maintained, somebody else
who writes, and a reader."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from lakesql.project.procedures import PROCEDURES
from tests.crash.harness import SPARK, Runners
from tests.crash.runner import Order
from tests.crash.test_crash import STEPS
from tests.share import choose
from tests.spark.project import Project

MODELS = ("a", "u")
EACH = 10
"""How many batches come between two runs."""

SETTINGS = """
[tool.lakesql.models.maintenance]
max_time_ratio = 1.0

[tool.lakesql.models.maintenance.rewrite_data_files]
small_files = 4
min_input_files = 2

[tool.lakesql.models.maintenance.expire_snapshots]
older_than = "1 hour"
retain_last = 5
"""


class Reader:
    """Reads the tables again and again, without Spark, and keeps what was wrong with
    what it saw."""

    def __init__(self, project: Project) -> None:
        self.wrong: list[str] = []
        self.reads = 0
        self._seen = dict.fromkeys(MODELS, 0)
        self._project = project
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.is_set():
            for model, seen in self._seen.items():
                try:
                    if self._project.has(model):
                        rows = [
                            row
                            for row in self._project.rows_without_spark(model)
                            if row["id"] >= 0
                        ]
                        self._look(model, len(rows), seen)
                        self.reads += 1
                except Exception as error:
                    self.wrong.append(f"{model}: {error!r}")
            time.sleep(0.5)

    def _look(self, model: str, rows: int, seen: int) -> None:
        """A batch brings ten rows of which five have new keys; the first one ten."""
        self._seen[model] = rows
        if rows < seen:
            self.wrong.append(f"{model}: {rows} rows after {seen}")
        if rows % (10 if model == "a" else 5):
            self.wrong.append(f"{model}: {rows} rows, a part of a batch")


def insert(project: Project, model: str, number: int) -> None:
    """A row of somebody else's, who tries again where a commit comes between."""
    row = pa.Table.from_pylist(
        [{"id": -number, "n": -number}],
        pa.schema([("id", pa.int32()), ("n", pa.int32())]),
    )
    for _ in range(20):
        try:
            project.iceberg(model).append(row)
            return
        except CommitFailedException:
            time.sleep(0.2)
    raise AssertionError(f"no commit to {model} in twenty tries")


@pytest.mark.whole
def test_a_day_of_commits_loses_and_doubles_nothing_and_fails_no_reader(
    project: Project, runners: Runners, seed: int, pytestconfig: pytest.Config
) -> None:
    """Each second run is killed: at a step of a batch, or before or after a
    procedure."""
    chance, commits = choose(seed, "day"), pytestconfig.getoption("--day-commits")
    project._target["spark"] = SPARK
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append")
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id")
    project.write(
        "pyproject.toml", (project.directory / "pyproject.toml").read_text() + SETTINGS
    )
    maintained: set[str] = set()
    kills = files = foreign = 0
    with Reader(project) as reader:
        while files < commits:
            for number in range(files, files + EACH):
                project.record(
                    "e",
                    [{"id": number * 5 + index, "n": number} for index in range(10)],
                )
            files += EACH
            project.manifest()  # writes profiles.yml
            order = Order(str(project.directory))
            if is_killed := files // EACH % 2 == 1:
                step = chance.choice((*STEPS, "maintain", "maintained"))
                nth = 1 if step.startswith("maintain") else chance.randint(1, EACH)
                order = Order(
                    str(project.directory),
                    chance.choice(MODELS),
                    step,
                    nth,
                    after_s=chance.random(),
                )
            runner = runners.run(order)
            if there := [model for model in MODELS if project.has(model)]:
                foreign += 1
                insert(project, chance.choice(there), foreign)
            code = runner.wait()
            runner.end()
            kills += code != 0
            assert is_killed or code == 0, runner.conditions()
            found = (
                line["task"]
                for line in runner.lines
                if line.get("event") == "table_maintained"
            )
            maintained |= {task.partition(".")[2] for task in found}
        runner = runners.run(Order(str(project.directory)))
        assert runner.wait() == 0
        assert not any(runner.conditions().values())
    rows = [
        (number * 5 + index, number) for number in range(files) for index in range(10)
    ]
    expected = {"a": Counter(rows), "u": Counter(dict(rows).items())}
    read = {
        model: [(row["id"], row["n"]) for row in project.rows_without_spark(model)]
        for model in MODELS
    }
    assert {
        model: Counter(row for row in read[model] if row[0] >= 0) for model in MODELS
    } == expected
    assert sorted(row for model in MODELS for row in read[model] if row[0] < 0) == [
        (-number, -number) for number in range(foreign, 0, -1)
    ]
    assert reader.wrong == []
    assert reader.reads > 10
    assert kills
    assert {"rewrite_data_files"} <= maintained <= {*PROCEDURES}
