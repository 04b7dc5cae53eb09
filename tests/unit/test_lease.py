"""When the holder of a lease is known to be dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from lakesql.progress.holder import Holder, Process, is_dead, started
from tests.cases import each_of

HERE = Process.now(os.getpid())
GONE = Process(HERE.id, "1")  # another process has its number now
ME = Holder("t", "host", "boot 1", (HERE,), "")


@each_of(
    ("machine", "processes", "expected"),
    [
        ("boot 1", (GONE, GONE), True),
        ("boot 1", (GONE, HERE), False),  # its Java lives on for a while
        ("boot 1", (GONE, Process(HERE.id, "")), False),
        ("boot 1", (), False),
        ("boot 2", (GONE, GONE), False),
        ("", (GONE, GONE), False),
    ],
)
def test_a_holder_is_dead_when_all_of_it_is(
    machine: str, processes: tuple[Process, ...], expected: bool
) -> None:
    assert is_dead(replace(ME, machine=machine, processes=processes), ME) is expected


def test_two_processes_of_one_number_are_told_apart_by_their_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert started(child.pid) not in ("", started(os.getpid()))
        assert started(os.getpid()) == started(os.getpid())
    finally:
        child.communicate(b"\n")
    assert started(child.pid) == ""
