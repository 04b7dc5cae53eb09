"""The status of a model's table: its figures and their judgement, that it does not
exist yet, or why it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from lakesql.errors import Problem
from lakesql.events import Word
from lakesql.model.model import Model
from lakesql.plan.health import Figures, Finding, TableFacts, worst
from lakesql.table.maintenance_plan import Wait

Health = Word | Literal["missing", "unreadable", "unreachable"]
"""The health of a table, or why it is not known."""


@dataclass(frozen=True, slots=True)
class InputLag:
    """How far a table is behind one of its inputs: the number of that input's commits
    which it does not include, and the age of the first of them in milliseconds. Both
    are None if the input was rolled back or created anew since."""

    name: str
    commits: int | None
    behind_ms: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """The state of a table that was read: its facts, its figures at that time, those of
    them that are not `well`, the worst first, due maintenance that waits, and how far
    it is behind its inputs."""

    facts: TableFacts
    figures: Figures
    findings: tuple[Finding, ...]
    waits: tuple[Wait, ...] = ()
    lags: tuple[InputLag, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingTable:
    """The state of a table that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The state of a table that cannot be read, or whose catalog cannot."""

    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of a model's table."""

    model: Model
    state: Known | MissingTable | Unknown

    @property
    def health(self) -> Health:
        """The health of the table as one word."""
        match self.state:
            case Known(findings=findings):
                return worst(findings)
            case MissingTable():
                return "missing"
            case Unknown(problems=problems):
                is_read = any(
                    problem.condition == "table-unreadable" for problem in problems
                )
                return "unreadable" if is_read else "unreachable"
            case _:
                assert_never(self.state)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems by which the table, or its dead-letter table, cannot be read."""
        match self.state:
            case Known(facts=facts):
                return facts.letters_unread
            case MissingTable():
                return ()
            case Unknown(problems=problems):
                return problems
            case _:
                assert_never(self.state)

    @property
    def figures(self) -> Figures | None:
        """The figures of the table; None if it was not read."""
        return self.state.figures if isinstance(self.state, Known) else None
