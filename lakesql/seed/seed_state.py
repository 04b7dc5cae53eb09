"""The status of a seed's table: whether it has the rows of the seed's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesql.errors import Problem
from lakesql.seed.seed import Seed

SeedState = Literal["filled", "outdated", "missing", "foreign", "unreadable"]


@dataclass(frozen=True, slots=True)
class SeedStatus:
    """The status of a seed's table: `outdated` if a fill would replace its rows,
    `foreign` if something else than the seed has created it.

    `rows` and `filled_at_ms` are those of the newest fill. `problems` say why the
    status is not known, or whose the table is.
    """

    seed: Seed
    state: SeedState
    rows: int | None = None
    filled_at_ms: int | None = None
    problems: tuple[Problem, ...] = ()
