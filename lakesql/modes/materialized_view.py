"""Mode `materialized_view`: a SELECT over tables, kept equal to it by what has changed
in these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakesql.decode import option
from lakesql.model.config import NOTHING_KNOWN, SortField, read_keys
from lakesql.model.option_effects import NEXT_BATCH, OptionEffect
from lakesql.model.writing import Reads, Writing
from lakesql.modes.refreshed import Refreshed
from lakesql.names import RefreshChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedView(Refreshed):
    """`mode='materialized_view'`: the rows of the SELECT, kept right by what changes in
    the tables that it reads."""

    keys: tuple[str, ...] = option(
        "Columns of the SELECT that tell its rows apart, which may be NULL. The GROUP BY, if left out.",
        default=(),
        read=read_keys,
        is_inherited=False,
    )
    refresh: RefreshChoice = option(
        "`incremental`: the view is refused where it cannot be kept by what has changed; `full`: it is computed as a "
        "whole each time. If left out, by what has changed where that can be.",
        default="",
    )

    mode: ClassVar[str] = "materialized_view"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"refresh": NEXT_BATCH}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """The rows of the SELECT are those of the table."""
        return Writing(
            mode=self.mode,
            keys=self.keys,
            compared={"keys": self.keys} if self.keys else {},
        )

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys."""
        return self.order_by_key(*self.keys)

    def compared_inputs(self, read: Iterable[str]) -> frozenset[str]:
        """All: what has changed is the difference of two snapshots, unless all is
        computed each time."""
        return frozenset(read) if self.refresh != "full" else frozenset()
