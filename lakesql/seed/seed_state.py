"""How the table of a seed is: whether it has the rows of the seed's file, as a
value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesql.errors import Problem
from lakesql.seed.seed import Seed

SeedState = Literal["filled", "outdated", "missing", "foreign", "unreadable"]


@dataclass(frozen=True, slots=True)
class SeedStatus:
    """How the table of a seed is: `outdated`, if a fill would exchange its rows;
    `foreign`, if another has made it.

    `rows` and `filled_at_ms` are of the newest fill. `problems` say why nobody knows,
    or whose the table is.
    """

    seed: Seed
    state: SeedState
    rows: int | None = None
    filled_at_ms: int | None = None
    problems: tuple[Problem, ...] = ()
