"""An event of a lineage run as a value, and the protocol of what delivers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from lakesql.events import ReadRange

State = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@dataclass(frozen=True, slots=True)
class LineageOutput:
    """What a lineage run has written to a table: the number of rows, and the newest
    snapshot; None if unknown."""

    table: str
    location: str
    rows: int | None = None
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class LineageRun:
    """An event of a lineage run of the job `job`, '' for the run of lakesql as a whole,
    before it becomes an event of OpenLineage.

    `batches` are the numbers of the first and the last batch, in Spark's checkpoint
    `checkpoint`. `reads` is what they read together, `letters` what they wrote to
    dead-letter tables. `violations` counts the rows that fail an expectation, by its
    name, if `is_checked`. `error` is the reason why a run has failed.
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
    """A destination of lineage runs."""

    def offer(self, told: LineageRun) -> None:
        """Take an event for delivery, without waiting."""

    def take_lost(self) -> tuple[int, str]:
        """The number of events lost since the last call, and the reason for the last
        one."""

    def drain(self) -> None:
        """Wait a few seconds at most until all events are delivered. The others count
        as lost, and no more are taken."""

    @property
    def shown(self) -> str:
        """The destination, for messages."""
