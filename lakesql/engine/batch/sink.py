"""Where the batches of a model go: its table, its progress and its dead letters, as one
value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import DataFrame

from lakesql.compile.select import Select
from lakesql.engine.batch.locations import Locations
from lakesql.engine.batch.memories import Moves, Tombstones
from lakesql.engine.batch.new_columns import Follow
from lakesql.engine.batch.new_schemas import KnownSchemas
from lakesql.engine.batch.other_capitals import Capitals
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.batch.watermark import Arrivals
from lakesql.engine.maintenance.keeper import Keeper
from lakesql.engine.progress.progress import QueryProgress, ReplayProgress
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.sources.parsed import Parsing
from lakesql.engine.together.topic_batches import TopicBatches
from lakesql.events import Emit
from lakesql.model.model import Model

Step = Literal["look-up", "view", "stage", "dead-letter", "publish", "finish"]
"""The steps of `write_batch`, and its end."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a model's batches go, and what they need on the way: fixed for as long as
    its query runs.

    `companion` is the progress of the query that writes a stateful model's dead
    letters. `arrivals` returns what a stateful model's query has read in its batch,
    once its rows have been computed. `letters` are the dead letters to read again, if
    the batch is their replay. `located` finds where tables that are read have their
    files. `seat` plans the batches of a model of a group, and commits them. `follow` is
    called with the columns that an open stream has from now on, `found` with the values
    of a route that no known table has. `reached` is called with each step before it is
    taken, and raises if this runner must not continue. `parsing` parses the batches.
    """

    select: Select
    bindings: tuple[StreamBinding, ...]
    progress: QueryProgress | ReplayProgress
    table: TableSync
    emit: Emit
    capitals: Capitals = field(default_factory=Capitals)
    tombstones: Tombstones = field(default_factory=Tombstones)
    moves: Moves = field(default_factory=Moves)
    schemas: KnownSchemas = field(default_factory=KnownSchemas)
    keeper: Keeper | None = None
    companion: QueryProgress | None = None
    arrivals: Callable[[], Arrivals] | None = None
    letters: DataFrame | None = None
    located: Locations = field(default_factory=Locations)
    seat: TopicBatches | None = None
    follow: Follow = lambda stream, schema_fields: None
    found: Callable[[str, Sequence[str]], None] = lambda stream, values: None
    reached: Callable[[Step], None] = lambda step: None
    parsing: Parsing = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing parsed: each query has a sink of its own."""
        object.__setattr__(self, "parsing", Parsing(self.select, self.bindings))

    def over(self, bindings: tuple[StreamBinding, ...]) -> Sink:
        """This sink with the bindings for one batch."""
        return self if bindings is self.bindings else replace(self, bindings=bindings)

    def at(self, progress: QueryProgress | ReplayProgress) -> Sink:
        """This sink with another progress, and the same parsing."""
        made = replace(self, progress=progress)
        object.__setattr__(made, "parsing", self.parsing)
        return made

    @property
    def model(self) -> Model:
        """The model whose batches these are."""
        return self.select.model
