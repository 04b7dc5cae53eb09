"""Who holds a lease, read from the files of its folder, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakesql.source.stream_state import StoredFiles

RENAMING = "renaming"
"""The name of the file that marks a model that is being renamed, or whose rename was
interrupted: nobody else may take the lease then."""

WANTED = "wanted"
"""The name of the file by which another runner asks the holder for the lease."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its id, and when it was started, in the kernel's ticks."""

    id: int
    started: str

    @classmethod
    def now(cls, number: int) -> Process:
        """The local process that has this id now."""
        return cls(number, started(number))

    @property
    def is_there(self) -> bool:
        """Whether it is still running on this machine; false if its start is
        unknown."""
        return self.started != "" and started(self.id) == self.started


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease. `machine` distinguishes processes with the same id on two
    machines or in two containers.

    `beat` counts renewals; `is_released`: the lease was given back.
    """

    token: str
    host: str
    machine: str
    processes: tuple[Process, ...]
    since: str
    beat: int = 0
    is_released: bool = False

    def __str__(self) -> str:
        return (
            f"process {self.processes[0].id if self.processes else '?'} on {self.host}"
        )


def started(process: int) -> str:
    """When a local process was started, in the kernel's ticks; '' if it has ended, even
    as a zombie."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def is_dead(holder: Holder, me: Holder) -> bool:
    """Whether all processes of the holder are known to have ended, which is never known
    of another machine. A process whose start is unknown may be alive."""
    if not holder.machine or holder.machine != me.machine or not holder.processes:
        return False
    return all(process.started and not process.is_there for process in holder.processes)


def numbers_of(names: Iterable[str]) -> list[int]:
    """The numbers among file names; each such file names a holder."""
    return [int(name) for name in names if name.isdecimal()]


def newest_holder(files: StoredFiles) -> int:
    """The number of the newest holder's file in a lease's folder; -1 if there is
    none."""
    return max(numbers_of(files.names()), default=-1)


def read_holder(files: StoredFiles, number: int) -> Holder | None:
    """The holder that a file names; None while it is being written."""
    try:
        found = json.loads(files.read(str(number)) or "")
        return Holder(
            **{
                **found,
                "processes": tuple(
                    Process(**process) for process in found["processes"]
                ),
            }
        )
    except (ValueError, TypeError, KeyError):
        return None


def is_released(files: StoredFiles) -> bool:
    """Whether the last holder has given the lease back, and nobody has asked for it or
    is renaming the model."""
    holder, names = read_holder(files, newest_holder(files)), files.names()
    return (
        holder is not None
        and holder.is_released
        and not {WANTED, RENAMING} & set(names)
    )


@dataclass(frozen=True, slots=True)
class Renaming:
    """An unfinished rename: the model's old and new name, and its table's former name
    with the catalog."""

    old: str
    new: str
    table: str

    @property
    def command(self) -> str:
        """The command that finishes it."""
        return f"lakesql rename {self.old} {self.new}"


def read_renaming(files: StoredFiles) -> Renaming | None:
    """The unfinished rename of the model with this lease; None if there is none."""
    text = files.read(RENAMING)
    return Renaming(**json.loads(text)) if text else None
