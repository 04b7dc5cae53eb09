"""What is known of a model's table: how it is, that it is not there yet, or why it
cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from lakesql.errors import Problem
from lakesql.events import Word
from lakesql.model.model import Model
from lakesql.plan.health import Figures, Finding, TableFacts, worst
from lakesql.table.maintenance_plan import Wait

Health = Word | Literal["missing", "unreadable", "unreachable"]
"""How a table is, or why nobody can tell."""


@dataclass(frozen=True, slots=True)
class InputLag:
    """How far a table is behind one of those that it is made of: commits of that one
    which it does not have, and since when the first of them is there, in milliseconds.
    Of one that cannot be compared with it, both are None."""

    name: str
    commits: int | None
    behind_ms: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """A table that was read: its facts, its figures at that moment, what of them is not
    well, the worst first, the maintenance of it that is due and waits, and how far it
    is behind the tables that it is made of."""

    facts: TableFacts
    figures: Figures
    findings: tuple[Finding, ...]
    waits: tuple[Wait, ...] = ()
    lags: tuple[InputLag, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingTable:
    """There is no table yet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The table, or its catalog, cannot be read."""

    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class TableStatus:
    """How a model's table is."""

    model: Model
    state: Known | MissingTable | Unknown

    @property
    def health(self) -> Health:
        """The one word."""
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
        """Why the table, or that of its dead letters, cannot be read."""
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
        """The figures, where the table was read."""
        return self.state.figures if isinstance(self.state, Known) else None
