"""Runner processes and what a test does with them; and what must stand in the tables,
in plain Python."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from lakesql.errors import render_problem
from lakesql.progress.holder import Process
from tests.crash.runner import Order, pause
from tests.servers.process import kill_all
from tests.spark.project import Fields, Project
from tests.spark.test_ledger import commands, rewind

REPOSITORY = Path(__file__).parents[2]
Conditions = tuple[str, ...]
NO_REFUSAL: Conditions = ("",)
PATIENCE_S = 600.0
MODELS = ("a", "u", "c", "h")
FILES = 4
"""How many files, and so batches, a runner meets."""

SPARK = {
    "master": "local[2]",
    "conf": {
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
    },
}


class Runner:
    """A runner process; it is read by a thread, so that it never waits for its
    reader."""

    def __init__(self, project: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self._queue: Queue[dict[str, Any] | None] = Queue()
        self.log = (project / "runner.err").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.runner", str(project)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self._java: Process | None = None

    def get_ready(self) -> None:
        """Wait until its session is open."""
        self._java = Process.now(int(self.wait_for("ready")["ready"]))

    def order(self, order: Order) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(order)) + "\n")
        self.process.stdin.flush()

    def wait_for(self, key: str) -> dict[str, Any]:
        """The next line that has this key."""
        while True:
            try:
                line = self._queue.get(timeout=PATIENCE_S)
            except Empty:
                raise AssertionError(
                    f"The runner says nothing: {self.lines[-3:]}"
                ) from None
            assert line is not None, (
                f"The runner has ended before {key}: {self.lines[-3:]}\n{self._errors()}"
            )
            self.lines.append(line)
            if key in line:
                return line

    def wait(self) -> int:
        """Its exit code; all that it has said is in `lines` then."""
        code = self.process.wait(PATIENCE_S)
        while (line := self._queue.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
        return code

    def pause(self, catalog: str) -> None:
        """Stop both of its processes, wherever they are but in the middle of a
        commit."""
        for process in self._processes():
            pause(process, catalog)

    def resume(self) -> None:
        """Let both of them go on."""
        for process in self._processes():
            os.kill(process, signal.SIGCONT)

    def _processes(self) -> tuple[int, int]:
        assert self._java is not None, "it was given no order"
        return self._java.id, self.process.pid

    def committed(self, model: str) -> list[int]:
        """The batches of a model that it has committed."""
        return [
            line["batch"]
            for line in self.lines
            if (line.get("event"), line.get("model")) == ("batch_committed", model)
        ]

    def conditions(self) -> dict[str, list[str]]:
        """Why models have ended, by model."""
        ends = [line for line in self.lines if line.get("event") == "model_finished"]
        return {
            line["model"]: [problem["condition"] for problem in line["problems"]]
            for line in ends
        }

    def end(self) -> None:
        """Kill what is left of it."""
        self.process.kill()
        self.process.wait()
        kill_all([self._java] if self._java else [])
        self.log.close()

    def _errors(self) -> str:
        return Path(self.log.name).read_text(errors="replace")[-2000:]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(json.loads(line))
        self._queue.put(None)


class Runners:
    """Makes runners on the session of a project. While one is used, the next one
    starts."""

    def __init__(self, base: Project) -> None:
        base._target["spark"] = SPARK
        base.manifest()
        self._directory = base.directory
        self._next: Runner | None = None
        self._all: list[Runner] = []

    def run(self, order: Order) -> Runner:
        """A runner that does what the order says."""
        (runner,) = self.run_all([order])
        return runner

    def run_all(self, orders: Sequence[Order], apart_s: float = 0) -> list[Runner]:
        """A runner for each order, one so many seconds after the other."""
        runners = [self._next or self._start(), *(self._start() for _ in orders[1:])]
        for runner in runners:
            runner.get_ready()
        for runner, order in zip(runners, orders, strict=True):
            runner.order(order)
            time.sleep(apart_s)
        self._next = self._start()
        return runners

    def close(self) -> None:
        """End all of them."""
        for runner in self._all:
            runner.end()

    def _start(self) -> Runner:
        runner = Runner(self._directory)
        self._all.append(runner)
        return runner


def make_project(project: Project) -> None:
    """An append and an upsert over one topic of four files, a mirror and a history of a
    feed; nothing has been read."""
    project._target["spark"] = SPARK
    project.stream("e", {"id": "int", "n": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append")
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id")
    project.stream(
        "f", {"id": "int", "n": "int"}, max_per_batch=1, envelope="debezium", key=["id"]
    )
    changed = "SELECT *, _change.position AS at FROM {f} WHERE n >= 0"
    project.model("c", changed, mode="cdc", keys="id", sequence_by="_change.position")
    project.model("h", changed, mode="scd2", keys="id", sequence_by="_change.position")
    record(project, range(FILES))
    project.manifest()  # writes profiles.yml


def record(project: Project, files: range) -> None:
    """Ten records and a bad one for each file; half of the keys come again in the next
    file.

    In the feed the last of them is deleted at once, and the one before does not pass
    the filter any more.
    """
    for number in files:
        rows: list[Any] = [
            {"id": number * 5 + index, "n": number} for index in range(10)
        ]
        project.record("e", [*rows, "broken"])
        changes = [{"op": "u", "after": row} for row in (*rows, {**rows[-2], "n": -1})]
        changes.append({"op": "d", "before": rows[-1]})
        events = [
            Fields(
                key={"id": (each.get("after") or each["before"])["id"]},
                value={**each, "source": {"lsn": number * 100 + index}},
            )
            for index, each in enumerate(changes)
        ]
        project.record("f", [*events, "broken"])


def find_faults(project: Project, files: int) -> list[str]:
    """What is lost, doubled or wrong in the tables, after this many files; read without
    Spark."""
    rows = [
        (number * 5 + index, number) for number in range(files) for index in range(10)
    ]
    newest = dict(rows)
    # of the last file: the next one brings those of the others back
    gone = {files * 5 + 3, files * 5 + 4}
    mirrored = {key: number for key, number in newest.items() if key not in gone}
    expected = {
        "a": Counter(rows),
        "u": Counter(newest.items()),
        "c": Counter(mirrored.items()),
        "h": Counter(rows),  # each is a version
    }
    faults = []
    for model in MODELS:
        read = [row for row in project.rows_without_spark(model) if row["id"] >= 0]
        found = Counter((row["id"], row["n"]) for row in read)
        if (
            model == "h"
            and {row["id"]: row["n"] for row in read if row["is_current"]} != mirrored
        ):
            faults.append("h: other rows are current than the source has")
        lost, doubled = expected[model] - found, found - expected[model]
        if lost:
            faults.append(f"{model}: {lost.total()} lost")
        if doubled:
            faults.append(f"{model}: {doubled.total()} doubled or wrong")
        letters = project.reasons(model)["unparsable"]
        if letters != files:
            faults.append(f"{model}: {letters} dead letters of {files}")
    return faults


# --- what happens to a table or a checkpoint between a crash and the next run


# Each gives the conditions of which one is to be met; an empty one is none.


def nothing(project: Project, model: str) -> Conditions:
    """All is as the crash has left it."""
    return NO_REFUSAL


def compaction(project: Project, model: str) -> Conditions:
    name = f"{project.namespace}.{model}"
    project.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    return NO_REFUSAL


def foreign_commit(project: Project, model: str) -> Conditions:
    project.sql(f"INSERT INTO {project.table(model)} (id, n) VALUES (-1, -1)")
    return NO_REFUSAL


def expiry(project: Project, model: str) -> Conditions:
    """Foreign commits, and all snapshots but the last of them gone."""
    foreign_commit(project, model)
    foreign_commit(project, model)
    project.sql(
        f"CALL lake.system.expire_snapshots(table => '{project.namespace}.{model}', "
        "older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    return NO_REFUSAL


def lost_checkpoint(project: Project, model: str) -> Conditions:
    shutil.rmtree(project.directory / "checkpoints" / model)
    return NO_REFUSAL


def truncated_by_one(project: Project, model: str) -> Conditions:
    """The files of its newest batch are gone.

    If that is not in the table yet, the batch is planned anew, which is no damage
    unless its dead letters are written.
    """
    newest = _remove(project, model, ("offsets", "commits"))
    is_written = int(_newest_entry(project, model)["lakesql.batch"]) >= newest
    return ("checkpoint-behind",) if is_written else ("", "checkpoint-inconsistent")


def truncated_by_two(project: Project, model: str) -> Conditions:
    """The two newest batches are known to have been planned, and no more to be done."""
    folder = project.directory / "checkpoints" / model
    newest = max(_numbers(folder / "offsets"))
    for number in (newest, newest - 1):
        (folder / "commits" / str(number)).unlink(missing_ok=True)
    return ("checkpoint-inconsistent",)


def copied_checkpoint(project: Project, model: str) -> Conditions:
    """Another model's checkpoint stands in its place."""
    checkpoints = project.directory / "checkpoints"
    other = next(name for name in MODELS if name != model)
    shutil.rmtree(checkpoints / model)
    if not (checkpoints / other / "metadata").exists():  # its turn had not come
        return NO_REFUSAL
    shutil.copytree(checkpoints / other, checkpoints / model)
    return ("checkpoint-foreign",)


DISTURBANCES = (
    nothing,
    compaction,
    foreign_commit,
    expiry,
    lost_checkpoint,
    truncated_by_one,
    truncated_by_two,
    copied_checkpoint,
)


def recover(project: Project, model: str, conditions: Conditions) -> None:
    """Run again; where that is refused, as it must be then, do what the refusal
    prints."""
    ran = project.run()
    met = "".join(ran.conditions(model))
    assert met in conditions, (
        render_problem(ran.finished(model).problems[0])
        if met
        else f"not refused: {conditions}"
    )
    if met:
        rewind(project, commands(ran, model)[0])
        ran = project.run()
    ran.check()


def _remove(project: Project, model: str, parts: tuple[str, ...]) -> int:
    folder = project.directory / "checkpoints" / model
    newest = max(_numbers(folder / "offsets"))
    for part in parts:
        (folder / part / str(newest)).unlink(missing_ok=True)
    return newest


def _newest_entry(project: Project, model: str) -> dict[str, str]:
    return next(
        summary
        for summary in reversed(project.summaries(model))
        if "lakesql.batch" in summary
    )


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]
