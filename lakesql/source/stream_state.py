"""What a stream of a model is now, and where it stands: values that its source and the
ledger share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakesql.errors import Problem

Position = Any
"""Where a source stands, as Spark's JSON has it: the value of `lakesql.offsets` for one
stream."""

Positions = Mapping[str, Position]
"""By stream; one that is missing starts where the stream says."""

THROUGH = "through"
"""In the position of a recorded stream: by topic, the last file that was read. Spark's
own position counts batches of files, which means nothing without the list of them in
its checkpoint."""


class Expired(NamedTuple):
    """Why something is gone behind a place of a log, and the place from which a reader
    goes on without it."""

    why: str
    follows: Position = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """A stream of the model as it is now.

    `nothing` says why there is nothing to read, where that is known. For Kafka: the id
    of each topic, and of each partition the first offset that is still there, and the
    one behind the last. For a table that was rebuilt: the snapshot that brought its new
    rows, and those after it, in their order; and the time of the first of them, in
    milliseconds since the epoch. `is_cut`: the first snapshots of a table are gone, and
    with them
    which rows they brought. Without `is_asked` nothing is known of Kafka's topics, and
    nothing follows from that. `left_out` says which files are not read, and why.
    `held` are the partitions whose records a reader may not see all of, as a
    transaction is open: where it has begun. `formers` are the names that the model of a
    table had before it was renamed. `history` are the snapshots that lead to its head,
    as far as they are left, None where they were not asked for; `abandoned` the times
    of the others. `find_expired` says of a position in a log without numbers behind
    which of its places something is gone, by topic and partition.
    """

    name: str
    kind: str
    topics: Mapping[str, str] = field(default_factory=dict)
    beginnings: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    rebuilt: tuple[int, ...] = ()
    rebuilt_ms: int | None = None
    is_cut: bool = False
    nothing: str = ""
    left_out: str = ""
    is_asked: bool = True
    held: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    formers: tuple[str, ...] = ()
    history: frozenset[int] | None = None
    abandoned: Mapping[int, int] = field(default_factory=dict)
    find_expired: Callable[[Position], Mapping[tuple[str, str], Expired]] | None = (
        field(default=None, compare=False)
    )

    @property
    def beginning(self) -> Position:
        """The position in front of all that Kafka's topics have now."""
        return position_of(self.beginnings)

    @property
    def end(self) -> Position:
        """The position behind all that Kafka's topics have now."""
        return position_of(self.ends)


def position_of(offsets: Mapping[str, Mapping[int, int]]) -> Position:
    """Offsets as checkpoints and ledgers have them: the reverse of `numbered`."""
    return {
        topic: {str(number): at for number, at in each.items()}
        for topic, each in offsets.items()
    }


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """What is there of a stream's topics. `problems` are those that are not there, or
    that may not be read."""

    source: SourceState
    problems: tuple[Problem, ...] = ()


NO_ID = "A" * 22
"""What a broker says of a topic that has no id: it, or its
`inter.broker.protocol.version`, is older than Kafka 2.8. A checkpoint or a ledger may
have it too, where the cluster has been upgraded since."""


def is_another(known: str, now: str) -> bool:
    """Whether a topic of the id `now` is another one than the one that had the id
    `known`."""
    return known != now and NO_ID not in (known, now)


def spark_position(position: Position) -> Position:
    """A position without what lakesql adds to it."""
    if isinstance(position, dict) and THROUGH in position:
        return {key: value for key, value in position.items() if key != THROUGH}
    return position
