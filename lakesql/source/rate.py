"""Spark's row generator as a source, for experiments: it has no start, and nothing can
be read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakesql.decode import option, read_positive
from lakesql.source.origin import Brings
from lakesql.source.source import Source

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position


@dataclass(frozen=True, slots=True)
class Rate(Source):
    """Spark's generator of rows with `timestamp` and `value`."""

    rows_per_second: int = option(
        "Number of generated rows per second.", default=1, read=read_positive
    )

    kind: ClassVar[str] = "rate"
    label: ClassVar[str] = "a generator"
    brings: ClassVar[Brings] = "rows"
    has_times: ClassVar[bool] = False

    def check(self) -> str:
        """The number of rows a second, in words."""
        return f"{self.rows_per_second} rows a second, made by Spark"

    @classmethod
    def is_position(cls, position: Position) -> bool:
        """True: it accepts any position."""
        return True
