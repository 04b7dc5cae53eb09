"""Mode `table`: a SELECT over tables, of which each refresh computes all rows anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakesql.modes.refreshed import Refreshed


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTable(Refreshed):
    """`mode='table'`: the rows of the SELECT over tables, all computed anew when one of
    these tables has changed."""

    mode: ClassVar[str] = "table"

    @property
    def replaced_ratio(self) -> float:
        """None, as a refresh replaces all rows at once."""
        return 0.0
