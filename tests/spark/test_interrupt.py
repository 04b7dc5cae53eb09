"""Ctrl-C and SIGTERM end a run between two batches: quietly, with exit code 0, and with
nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lakesql.engine.spark.jvm import RECORDING
from lakesql.events import BatchCommitted, Event
from lakesql.progress.holder import started
from lakesql.run.supervise import ENDED, ENDING, UNFINISHED
from tests.servers.process import running
from tests.servers.runner import Runner, of
from tests.spark.project import Project

REPOSITORY = Path(__file__).parents[2]


def test_a_signal_ends_a_continuous_run_between_batches(tmp_path: Path) -> None:
    write_shop(tmp_path)
    process = start(tmp_path)
    read_until(process, "batch_committed")
    process.send_signal(signal.SIGINT)
    check_ended(process)


def test_a_signal_to_all_of_its_processes_ends_it_as_well(tmp_path: Path) -> None:
    """As service managers send it: Java is not to end in the middle of a batch."""
    write_shop(tmp_path)
    process = start(tmp_path)
    read_until(process, "query_started")
    children = (
        Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    assert children, "Java is not its child"
    for child in children:
        os.kill(int(child), signal.SIGTERM)
    read_until(process, "batch_committed")
    process.send_signal(signal.SIGTERM)
    check_ended(process)


def test_a_model_that_had_more_to_read_is_skipped_where_a_run_with_once_is_ended(
    project: Project,
) -> None:
    project.stream("s", {"id": "int"}, max_per_batch=1)
    project.model("m", "SELECT id FROM {s}", mode="append")
    for number in range(8):
        project.record("s", [{"id": number}])
    committed: list[Event] = []
    ran = project.run(
        until=lambda: bool(committed),
        meet=lambda event: (
            committed.append(event) if isinstance(event, BatchCommitted) else None
        ),
    )
    ended = ran.finished("m")
    assert (ended.status, ended.because) == ("skipped", ENDED)
    assert 0 < ended.batches == len(project.rows("m")) < 8
    assert project.run().check().finished("m").status == "success"
    assert [row["id"] for row in project.rows("m", "id")] == list(range(8))


def test_a_batch_that_outlasts_the_time_limit_is_abandoned_and_invisible(
    tmp_path: Path,
) -> None:
    """Of which nothing is visible: Java was killed, as in tests/crash."""
    write_shop(tmp_path)
    model = tmp_path / "models/clicks.sql"
    for_hours = "".join(
        f" LATERAL VIEW explode(sequence(1, 100000)) AS {name}" for name in "xyz"
    )
    model.write_text(f"{model.read_text().rstrip()}{for_hours} WHERE x + y + z < 0\n")
    impatient = "from lakesql.run import supervise; supervise.GIVES_UP_AFTER_S = 4"
    process = start(
        tmp_path, "-c", f"{impatient}; from lakesql.cli.main import main; main()"
    )
    seen = read_until(process, "query_started")
    planned, ends_by = (
        tmp_path / ".lakesql/checkpoints/clicks/offsets/0",
        time.monotonic() + 60,
    )
    while not planned.exists() and time.monotonic() < ends_by:
        time.sleep(0.1)
    time.sleep(6)  # the batch is begun, which takes hours
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    seen += [json.loads(line) for line in rest.splitlines()]
    (finished,) = [event for event in seen if event["event"] == "model_finished"]
    assert (finished["status"], finished["because"], finished["batches"]) == (
        "skipped",
        UNFINISHED,
        0,
    )
    assert [
        event["interrupted"] for event in seen if event["event"] == "run_finished"
    ] == [True]


@pytest.mark.long
def test_a_run_whose_java_hangs_ends_in_time_too(tmp_path: Path) -> None:
    write_shop(tmp_path)
    process = start(tmp_path)
    seen = read_until(process, "batch_committed")
    children = (
        Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    assert children, "Java is not its child"
    for child in children:
        os.killpg(int(child), signal.SIGSTOP)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    seen += [json.loads(line) for line in rest.splitlines()]
    (finished,) = [event for event in seen if event["event"] == "model_finished"]
    assert (finished["status"], finished["because"]) == ("skipped", UNFINISHED)
    assert [
        event["interrupted"] for event in seen if event["event"] == "run_finished"
    ] == [True]


def test_a_second_signal_ends_a_run_immediately_and_no_process_survives(
    tmp_path: Path,
) -> None:
    write_shop(tmp_path)
    process = start(tmp_path)
    read_until(process, "query_started")
    children = (
        Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    )
    assert children, "Java is not its child"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    ends_by = time.monotonic() + 20
    while any(started(int(child)) for child in children):
        assert time.monotonic() < ends_by, "Spark's Java goes on by itself"
        time.sleep(0.1)


def test_a_killed_java_is_the_only_error_that_is_printed(tmp_path: Path) -> None:
    write_shop(tmp_path)
    with running(Runner(tmp_path, "clicks")) as runner:
        runner.wait(lambda events: bool(of(events, "batch_committed")), 120)
        runner.kill_java()
        assert runner.ended(60) == 1
    (said,) = runner.errors.read_text().splitlines()
    assert json.loads(said)["condition"] == "java-ended"


def check_ended(process: subprocess.Popen[str]) -> None:
    """Soon, quietly, and well; it has said at once that it would."""
    rest, errors = process.communicate(timeout=30)
    seen = [json.loads(line) for line in rest.splitlines()]
    assert (process.returncode, errors) == (0, "")
    assert [
        event["interrupted"] for event in seen if event["event"] == "run_finished"
    ] == [True]
    said = [event["text"] for event in seen if event["event"] == "noted"]
    # which the first run on a machine says
    assert [text for text in said if text != RECORDING] == [ENDING]
    (finished,) = [event for event in seen if event["event"] == "model_finished"]
    assert (finished["status"], finished["problems"]) == ("success", [])


def start(directory: Path, *program: str) -> subprocess.Popen[str]:
    """A continuous run of a model of the shop, which is there already."""
    command = [
        sys.executable,
        *(program or ("-m", "lakesql")),
        "--log-format",
        "json",
        "run",
        "--continuous",
        "--select",
        "clicks",
    ]
    return subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_shop(directory: Path) -> None:
    for folder in ("models", "streams", "macros"):
        shutil.copytree(REPOSITORY / folder, directory / folder)
    for file in ("profiles.yml", "pyproject.toml"):
        shutil.copy(REPOSITORY / file, directory)


def read_until(process: subprocess.Popen[str], event: str) -> list[dict[str, Any]]:
    assert process.stdout is not None
    seen: list[dict[str, Any]] = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["event"] == event:
            return seen
    raise AssertionError(f"The run ended without {event}: {process.communicate()}")
