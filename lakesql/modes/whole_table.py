"""Mode `table`: a SELECT over tables, all of whose rows are made anew when one of these
has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakesql.modes.refreshed import Refreshed


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTable(Refreshed):
    """`mode='table'`: the rows of the SELECT, made anew when a table that it reads has
    changed."""

    mode: ClassVar[str] = "table"

    @property
    def replaced_ratio(self) -> float:
        """No row is replaced by itself: all of them are exchanged."""
        return 0.0
