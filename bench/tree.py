"""What a process and all that it has started take: their memory and their CPU time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class Tree:
    """A process and those under it. Memory is in bytes, at its highest of all looks."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._computed: dict[int, float] = {}
        self.highest = 0

    @property
    def cpu_seconds(self) -> float:
        """Of all that were seen, until they were last looked at."""
        return sum(self._computed.values())

    def look(self) -> None:
        """Ask what they take now; those that have ended count with what they took
        before."""
        alive = list(_processes(self._process))
        self._computed |= {each: cpu for each in alive if (cpu := _cpu_seconds(each))}
        self.highest = max(self.highest, sum(map(_memory, alive)))


def _processes(parent: int) -> Iterator[int]:
    yield parent
    with suppress(OSError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _processes(int(child))


def _memory(process: int) -> int:
    """Its bytes in RAM, its part of what it shares: 0 once it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _cpu_seconds(process: int) -> float:
    """What it has computed until now: 0 once it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0
