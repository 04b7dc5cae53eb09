"""What all models of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakesql.catalog.connect import OpenCatalog
from lakesql.engine.batch.sink import Step
from lakesql.engine.maintenance.keeper import MaintenanceStep
from lakesql.engine.refresh.refresh_table import RefreshStep
from lakesql.engine.sources.broker import Brokers
from lakesql.events import Emit
from lakesql.graph.manifest import Manifest
from lakesql.run.streams.bind import BoundSelect
from lakesql.run.streams.follow import follow_streams
from lakesql.run.streams.found_values import FoundValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RebuildStep = Literal[
    "hand-over", "swap", "finish-rebuild", "drop-replacement", "move-checkpoint"
]
"""The steps of a rebuild that follow its batches."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all models of a run share: the project, Spark, the catalog, the receiver of
    events, and the brokers.

    `accept_data_loss`: records that are gone from their topic are skipped.
    `check_lease` raises if this runner may no longer write the model of this name.
    `reached` is called at each step, for tests. `schema_fields` are those of open
    streams whose schemas have changed during the run, by stream. `found` collects
    values of routes that no table stands for.
    """

    manifest: Manifest
    session: SparkSession
    catalog: OpenCatalog
    emit: Emit
    accept_data_loss: bool = False
    brokers: Brokers = field(default_factory=Brokers)
    check_lease: Callable[[str], None] = lambda model: None
    reached: Callable[
        [str, Step | RebuildStep | MaintenanceStep | RefreshStep], None
    ] = lambda model, step: None
    schema_fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    found: FoundValues = field(default_factory=FoundValues)

    def follow(self, stream: str, schema_fields: tuple[str, ...]) -> None:
        """Add schema fields that a batch has found in an open stream."""
        known = self.schema_fields.get(stream, ())
        self.schema_fields[stream] = tuple(dict.fromkeys([*known, *schema_fields]))

    def current(
        self,
        bound: BoundSelect,
        build: Callable[[Manifest], BoundSelect],
        *,
        asks: bool = False,
    ) -> BoundSelect:
        """The SELECT over the columns that its streams have now: unchanged, or built
        again from the project if they have changed.

        With `asks`, registries are asked for new schemas. Raises what `follow_streams`
        raises.
        """
        now = follow_streams(
            self.session,
            self.manifest,
            bound,
            self.schema_fields,
            self.emit,
            asks=asks,
        )
        return bound if now is None else build(now)
