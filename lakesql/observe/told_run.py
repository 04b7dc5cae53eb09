"""One event of a run of lineage, as a value, and what takes it to where it is to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from lakesql.events import ReadRange

State = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@dataclass(frozen=True, slots=True)
class LineageOutput:
    """What a run of lineage has written to a table: its rows, and the snapshot that has
    the last of them."""

    table: str
    location: str
    rows: int | None = None
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class LineageRun:
    """One event of OpenLineage before it is one: a run of the job `job`, '' of the
    whole run of lakesql.

    `batches` are those of Spark's checkpoint `checkpoint`, from the first to the last.
    `reads` are what they take in together, `letters` the tables of dead letters.
    `violations` count the rows that fail an expectation, by its name, where these were
    looked at (`is_checked`). `error` says why a run has failed.
    """

    state: State
    id: str
    job: str
    at_ms: int
    parent: str
    reads: tuple[ReadRange, ...] = ()
    output: LineageOutput | None = None
    letters: tuple[LineageOutput, ...] = ()
    checkpoint: str = ""
    batches: tuple[int, int] | None = None
    committed: int = 0
    records: int = 0
    violations: tuple[tuple[str, int], ...] = ()
    is_checked: bool = False
    error: str = ""


class LineageSink(Protocol):
    """Where runs of lineage go."""

    def offer(self, told: LineageRun) -> None:
        """Takes an event to be delivered; never waits."""

    def take_lost(self) -> tuple[int, str]:
        """How many events were lost since this was asked last, and why the last of them
        was."""

    def drain(self) -> None:
        """Wait, for a few seconds at most, until all are delivered; count the others as
        lost, and take no more."""

    @property
    def shown(self) -> str:
        """Where they go, in words."""
