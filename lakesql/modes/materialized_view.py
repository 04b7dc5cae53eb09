"""Mode `materialized_view`: a SELECT over tables, kept equal to it by what has changed in these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, SortField, read_keys
from lakesql.model.option_effects import NEXT_BATCH, OptionEffect
from lakesql.model.writing import Reads, Writing
from lakesql.modes.changing import REPLACED
from lakesql.modes.refreshed import Refreshed

Refresh = Literal["", "incremental", "full"]
"""How a view is to be kept: by what has changed, by computing all of it, or as lakesql chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedView(Refreshed):
    """`mode='materialized_view'`: the rows of the SELECT, kept right by what changes in the tables that it reads."""

    keys: tuple[str, ...] = option(
        "Columns of the SELECT that tell its rows apart, which may be NULL. The GROUP BY, if left out.",
        default=(),
        read=read_keys,
        is_inherited=False,
    )
    refresh: Refresh = option(
        "`incremental`: the view is refused where it cannot be kept by what has changed; `full`: it is computed as a "
        "whole each time. If left out, by what has changed where that can be.",
        default="",
    )

    mode: ClassVar[str] = "materialized_view"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"refresh": NEXT_BATCH}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """The rows of the SELECT are those of the table."""
        return Writing(mode=self.mode, keys=self.keys, compared={"keys": self.keys} if self.keys else {})

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys."""
        return () if self.rewrites_files else tuple(map(SortField, self.keys))

    def compared(self, read: Iterable[str]) -> frozenset[str]:
        """All: what has changed is the difference of two snapshots, unless all is computed each time."""
        return frozenset(read) if self.refresh != "full" else frozenset()

    @property
    def replaced_ratio(self) -> float:
        """Some rows are new."""
        return REPLACED
