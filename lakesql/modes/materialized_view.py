"""Mode `materialized_view`: its options, and what they mean for the refreshes and the
table."""

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
    """`mode='materialized_view'`: the rows of the SELECT over tables, updated by what
    has changed in these tables."""

    keys: tuple[str, ...] = option(
        "Columns of the SELECT that identify its rows, which may be NULL; those of GROUP BY if left out.",
        default=(),
        read=read_keys,
        is_inherited=False,
    )
    refresh: RefreshChoice = option(
        "`incremental`: the table is updated by what has changed in the tables that it reads, and a SELECT without "
        "such an update is refused; `full`: all rows are computed each time. Incremental where possible if left out.",
        default="",
    )

    mode: ClassVar[str] = "materialized_view"
    own_effects: ClassVar[Mapping[str, OptionEffect]] = {"refresh": NEXT_BATCH}

    def writing(self, reads: Reads = NOTHING_KNOWN) -> Writing:
        """Refreshes keep the table equal to the SELECT."""
        return Writing(
            mode=self.mode,
            keys=self.keys,
            compared={"keys": self.keys} if self.keys else {},
        )

    @property
    def default_order(self) -> tuple[SortField, ...]:
        """By the keys, unless a MERGE rewrites whole files (`order_by_key`)."""
        return self.order_by_key(*self.keys)

    def compared_inputs(self, read: Iterable[str]) -> frozenset[str]:
        """All models in `read`, as a refresh computes the difference of two snapshots
        of each; none if it computes all rows each time."""
        return frozenset(read) if self.refresh != "full" else frozenset()
