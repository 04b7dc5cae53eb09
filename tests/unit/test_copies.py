"""Work that a copy of the process does: it comes back whole, or is done here."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesql.cli.init import write_project
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.compiled import WORTH_TWO, compiled_files
from lakesql.errors import ProjectError
from lakesql.graph.manifest import Manifest
from lakesql.project.copies import can_copy, start_share


def test_a_result_comes_back_and_what_changes_in_memory_does_not() -> None:
    held: list[int] = []

    def work() -> list[int]:
        held.append(1)
        return [*held, os.getpid()]

    one, process = start_share(work).wait()
    assert (one, held) == (1, []) and process != os.getpid()


@pytest.mark.parametrize(
    "end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1 / 0]
)
def test_what_a_copy_does_not_bring_back_is_done_here(end: object) -> None:
    here = os.getpid()

    def work() -> int:
        if os.getpid() != here:
            end()  # type: ignore[operator]
        return os.getpid()

    assert start_share(work).wait() == here


def test_an_error_of_the_work_is_raised_here() -> None:
    def work() -> None:
        raise ProjectError.of("bad-name", "It is wrong.")

    with pytest.raises(ProjectError, match="It is wrong"):
        start_share(work).wait()


def test_a_process_of_several_threads_is_not_copied() -> None:
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        assert not can_copy()
    finally:
        over.set()
        other.join()


AT = datetime(2026, 1, 1, tzinfo=UTC)
WRONG = ("model_3", f"model_{WORTH_TWO - 3}")
"""A model of each half."""


def many_models(folder: Path, wrong: tuple[str, ...] = ()) -> Manifest:
    """A shop with as many models more as are compiled by two processes. Those that are
    wrong read no column."""
    write_project(folder, "shop")
    for number in range(WORTH_TWO):
        name = f"model_{number}"
        column = "missing" if name in wrong else "order_id"
        text = f"{{{{ config(mode='append') }}}}\nSELECT {column}, {number} AS n FROM {{{{ stream('orders') }}}}\n"
        (folder / "models" / f"{name}.sql").write_text(text)
    return load_project(Options(project_dir=folder))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_two_processes_compile_what_one_does_and_leave_it_to_the_next_command(
    tmp_path: Path,
) -> None:
    manifest = many_models(tmp_path / "shop")
    one = dict(compiled_files(manifest, at=AT).compile(manifest.models))
    files = {
        path: path.read_bytes() for path in manifest.outputs.compiled.rglob("*.sql")
    }
    shutil.rmtree(manifest.outputs.target)

    built: dict[str, object] = {}
    both = compiled_files(manifest, built, at=AT)  # type: ignore[arg-type]
    assert dict(both.compile_in_two(manifest.models)) == one
    assert len(built) < len(one) or not can_copy(), "a copy builds the others"
    assert {
        path: path.read_bytes() for path in manifest.outputs.compiled.rglob("*.sql")
    } == files
    again = compiled_files(manifest, at=AT)
    assert all(
        again.known(name) == both.known(name) is not None for name in manifest.models
    )
    assert dict(again.compile_in_two(manifest.models)) == one


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_what_is_wrong_in_either_half_is_said_and_the_others_are_known(
    tmp_path: Path,
) -> None:
    manifest = many_models(tmp_path / "shop", WRONG)
    files = compiled_files(manifest, at=AT)
    with pytest.raises(ProjectError) as raised:
        files.compile_in_two(manifest.models)
    places = [
        problem.place.path
        for problem in raised.value.problems
        if problem.place is not None
    ]
    assert sorted(places) == sorted(f"models/{name}.sql" for name in WRONG)
    assert {name for name in manifest.models if not files.is_known(name)} == {*WRONG}
