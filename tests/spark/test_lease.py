"""One runner per model: who gets the lease, who is refused, and when it passes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.lease import (
    LASTS_S,
    PASSES_ON_AFTER_S,
    RENEW_EVERY_S,
    Leases,
    _machine,
)
from lakesql.errors import LakesqlError, RunError
from lakesql.events import BatchCommitted, Noted
from lakesql.progress.holder import started
from tests.spark.project import Lake, Project

NEVER_S = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.3  # more than the pause between two looks
        return self.now


def said() -> tuple[list[str], Callable[[str], None]]:
    texts: list[str] = []
    return texts, texts.append


def condition(act: Callable[[], object]) -> str:
    with pytest.raises(LakesqlError) as caught:
        act()
    return caught.value.problems[0].condition


def leases(lake: Lake, clock: Clock, renew_every_s: float = NEVER_S) -> Leases:
    return Leases(lake.session, clock, renew_every_s)


def test_one_of_many_makes_a_file(lake: Lake, tmp_path: Path) -> None:
    files = CheckpointFiles(lake.session, str(tmp_path / "x"))
    for name in map(str, range(20)):
        made: list[str] = []
        start = threading.Barrier(8)

        def make(
            text: str,
            name: str = name,
            made: list[str] = made,
            start: threading.Barrier = start,
        ) -> None:
            start.wait()
            if files.create(name, text):
                made.append(text)

        threads = [
            threading.Thread(target=make, args=(str(number),)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [files.read(name)] == made
    assert sorted(files.names()) == sorted(map(str, range(20)))


def test_a_released_lease_is_claimed_without_waiting(
    lake: Lake, tmp_path: Path
) -> None:
    folder, clock = str(tmp_path / "m"), Clock()
    texts, say = said()
    for _ in range(3):
        runner = leases(lake, clock)
        assert runner.claim("m", folder, say)
        assert runner.claim("m", folder, say)
        runner.check("m")
        runner.release("m")
        assert condition(lambda: runner.check("m")) == "lease-lost"  # noqa: B023
        runner.close()
    assert texts == []
    assert [path.name for path in (tmp_path / "m.lease").iterdir()] == ["2"]


def test_a_second_runner_is_refused(lake: Lake, tmp_path: Path) -> None:
    folder, clock = str(tmp_path / "m"), Clock()
    texts, say = said()
    first, second = leases(lake, clock), leases(lake, clock)
    assert first.claim("m", folder, say)
    assert not second.claim("m", folder, say)
    assert not second.claim("m", folder, say)
    assert len(texts) == 1
    first._held["m"].renew()
    assert condition(lambda: second.claim("m", folder, say)) == "lease-held"
    assert not second.claim("m", folder, say)  # the next try looks anew
    first.check("m")
    first.release("m")
    assert second.claim("m", folder, say)
    assert condition(lambda: first.check("m")) == "lease-lost"


def test_a_patient_runner_waits_for_the_models_that_are_still_leased(
    lake: Lake, tmp_path: Path
) -> None:
    """With none of them it is refused: somebody runs them all."""
    first, second = leases(lake, Clock()), leases(lake, clock := Clock())
    texts, say = said()
    for model in ("a", "b"):
        assert first.claim(model, str(tmp_path / model), say)

    def asks(model: str) -> bool:
        clock.now += RENEW_EVERY_S
        for lease in first._held.values():
            lease.renew()
        return second.claim(model, str(tmp_path / model), say, patient=True)

    assert not asks("b")
    assert condition(lambda: asks("b")) == "lease-held"
    first.release("a")
    assert asks("a")
    texts.clear()
    for _ in range(10):
        assert not asks("b")
    assert [text.split(":")[-1] for text in texts][-1:] == [
        " waits until that ends"
    ] and len(texts) == 2
    first.release("b")
    assert asks("b")


def test_a_lease_that_is_not_renewed_expires_and_is_claimed_by_another(
    lake: Lake, tmp_path: Path
) -> None:
    folder = str(tmp_path / "m")
    slept, awake = Clock(), Clock()
    texts, say = said()
    first, second, third = (
        leases(lake, slept),
        leases(lake, awake),
        leases(lake, Clock()),
    )
    assert first.claim("m", folder, say)
    assert not second.claim("m", folder, say)
    awake.now += PASSES_ON_AFTER_S - 1
    assert not second.claim("m", folder, say)
    awake.now += 1
    assert second.claim("m", folder, say)
    assert len(texts) == 2 and "took over" in texts[1]
    first.check("m")  # it has not looked since, as it does not know that it slept
    slept.now += LASTS_S
    assert condition(lambda: first.check("m")) == "lease-lost"
    first.release("m")
    second.check("m")
    assert not third.claim("m", folder, say)
    second._held["m"].renew()
    assert condition(lambda: third.claim("m", folder, say)) == "lease-held"


def test_a_holder_that_renews_in_time_keeps_it(lake: Lake, tmp_path: Path) -> None:
    folder, clock = str(tmp_path / "m"), Clock()
    runner = leases(lake, clock)
    assert runner.claim("m", folder, lambda text: None)
    for _ in range(5):
        clock.now += LASTS_S + 1
        runner.check("m")
    assert json.loads((tmp_path / "m.lease" / "0").read_text())["beat"] == 5


def test_the_thread_renews(lake: Lake, tmp_path: Path) -> None:
    runner = leases(lake, Clock(), renew_every_s=0.05)
    assert runner.claim("m", str(tmp_path / "m"), lambda text: None)
    beats: set[int] = set()
    while len(beats) < 4:
        beats.add(json.loads((tmp_path / "m.lease" / "0").read_text())["beat"])
    runner.close()
    assert json.loads((tmp_path / "m.lease" / "0").read_text())["is_released"]


def holder_of(process: int, started: str, machine: str) -> str:
    return json.dumps(
        {
            "token": "t",
            "host": "h",
            "machine": machine,
            "processes": [{"id": process, "started": started}],
            "since": "2026-01-31T12:00:00+00:00",
            "beat": 3,
            "is_released": False,
        }
    )


def test_a_dead_process_of_this_machine_is_not_waited_for(
    lake: Lake, tmp_path: Path
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = started(process.pid)
    assert began
    folder = tmp_path / "m.lease"
    folder.mkdir()
    for number, (begun, machine, is_had) in enumerate(
        [
            (began, _machine(), False),  # it lives
            ("1", _machine(), True),  # another process has its number now
            ("1", "another machine", False),
            ("", _machine(), False),
            ("1", "", False),
        ]
    ):
        (folder / str(number * 10)).write_text(holder_of(process.pid, begun, machine))
        runner = leases(lake, Clock())
        assert runner.claim("m", str(tmp_path / "m"), lambda text: None) is is_had
    (folder / "90").write_text(holder_of(process.pid, began, _machine()))
    process.kill()
    while started(process.pid):
        pass
    texts, say = said()
    # before anybody has asked for the process's exit code
    runner = leases(lake, Clock())
    assert runner.claim("m", str(tmp_path / "m"), say)
    assert len(texts) == 1 and str(process.pid) in texts[0]
    process.wait()


def test_a_file_that_is_being_written_is_a_holder(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "m.lease").mkdir()
    (tmp_path / "m.lease" / "4").write_text("")
    clock = Clock()
    runner = leases(lake, clock)
    assert not runner.claim("m", str(tmp_path / "m"), lambda text: None)
    clock.now += PASSES_ON_AFTER_S
    assert runner.claim("m", str(tmp_path / "m"), lambda text: None)
    assert asdict(runner._me)["host"]


def test_a_lease_on_unreachable_storage_is_a_transient_error(
    lake: Lake, tmp_path: Path
) -> None:
    clock = Clock()
    runner = leases(lake, clock)
    assert runner.claim("m", str(tmp_path / "m"), lambda text: None)
    (tmp_path / "m.lease").rename(tmp_path / "away")
    (tmp_path / "m.lease").write_text("no folder")
    clock.now += LASTS_S
    with pytest.raises(RunError) as caught:
        runner.check("m")
    assert caught.value.transient and caught.value.problems[0].condition == "lease-lost"
    with pytest.raises(RunError) as caught:
        runner.claim("m", str(tmp_path / "m"), lambda text: None)
    assert caught.value.transient and runner.lost("m") is None
    (tmp_path / "m.lease").unlink()
    (tmp_path / "away").rename(tmp_path / "m.lease")
    # it is still its own, and nobody is waited for
    assert runner.claim("m", str(tmp_path / "m"), lambda text: None)
    assert [path.name for path in (tmp_path / "m.lease").iterdir()] == ["0"]


def test_an_idle_runner_learns_that_its_lease_was_claimed_by_another(
    lake: Lake, tmp_path: Path
) -> None:
    folder, clock = str(tmp_path / "m"), Clock()
    first, second = leases(lake, clock), leases(lake, clock)
    assert first.claim("m", folder, lambda text: None)
    assert first.lost("m") is None and first.lost("other") is None
    assert not second.claim("m", folder, lambda text: None)
    clock.now += PASSES_ON_AFTER_S
    assert second.claim("m", folder, lambda text: None)
    first._held["m"].renew()  # as its thread does
    lost = first.lost("m")
    assert lost is not None and lost.problems[0].condition == "lease-lost"
    assert (
        condition(lambda: first.claim("m", folder, lambda text: None)) == "lease-lost"
    )


def test_a_run_beside_a_run_writes_nothing(project: Project) -> None:
    """And the first one finds its lease gone when it was away for too long."""
    project.stream("e", {"id": "int"}, max_per_batch=1)
    project.model("a", "SELECT * FROM {e}", mode="append")
    for number in range(3):
        project.record("e", [{"id": number}])
    beside = Project(project.lake, project.directory, project.namespace)
    found: list[object] = []

    def meet(event: object) -> None:
        if isinstance(event, BatchCommitted) and event.batch == 0:
            found.append(beside.run())

    project.run(meet=meet).check()
    (second,) = found
    assert second.conditions("a") == ["lease-held"]  # type: ignore[attr-defined]
    assert second.of(BatchCommitted) == [] and len(second.of(Noted)) == 1  # type: ignore[attr-defined]
    assert [row["id"] for row in project.rows("a", "id")] == [0, 1, 2]
    assert beside.run().check().of(Noted) == []


def test_a_lease_that_cannot_be_created_is_not_reported_as_held(
    project: Project,
) -> None:
    project.stream("s", {"id": "int"})
    project.model("m", "SELECT id FROM {s}", mode="append")
    project.record("s", [{"id": 1}])
    project.write("checkpoints/m.lease", "no folder")

    assert project.run().conditions("m") not in ([], ["lease-lost"], ["lease-held"])

    (project.directory / "checkpoints" / "m.lease").unlink()
    project.run().check()
    assert [row["id"] for row in project.rows("m")] == [1]
