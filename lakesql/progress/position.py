"""Where a stream of a model stands: in Spark's words, and in the ledger's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lakesql.errors import Problem
from lakesql.ledger.entry import Snapshot
from lakesql.names import LEDGER_REBUILD

Position = Any
"""Where a source stands, as Spark's JSON has it: the value of `lakesql.offsets` for one stream."""

Positions = Mapping[str, Position]
"""By stream; one that is missing starts where the stream says."""

SourceKind = Literal["kafka", "recorded", "table", "files", "rate"]

THROUGH = "through"
"""In the position of a recorded stream: by topic, the last file that was read. Spark's own position counts batches of
files, which means nothing without the list of them in its checkpoint."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of the model as it is now.

    `nothing` says why there is nothing to read, where that is known. For Kafka: the id of each topic, and of each
    partition the first offset that is still there, and the one behind the last. For a table that was rebuilt: the
    snapshot that brought its new rows, and those after it, in their order; and the time of the first of them, in
    milliseconds since the epoch. `is_cut`: the first snapshots of a table are gone, and with them
    which rows they brought. Without `is_asked` nothing is known of Kafka's topics, and nothing follows from that.
    `left_out` says which files are not read, and why.
    `held` are the partitions whose records a reader may not see all of, as a transaction is open: where it has begun.
    `formers` are the names that the model of a table had before it was renamed. `history` are the snapshots that lead
    to its head, as far as they are left, None where they were not asked for; `abandoned` the times of the others.
    """

    name: str
    kind: SourceKind
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

    @property
    def end(self) -> Position:
        """The position behind all that Kafka's topics have now."""
        return {topic: {str(number): end for number, end in each.items()} for topic, each in self.ends.items()}


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """What is there of a stream's topics. `problems` are those that are not there, or that may not be read."""

    source: Source
    problems: tuple[Problem, ...] = ()


NO_ID = "A" * 22
"""What a broker says of a topic that has no id: it, or its `inter.broker.protocol.version`, is older than Kafka 2.8. A
checkpoint or a ledger may have it too, where the cluster has been upgraded since."""


def is_another(known: str, now: str) -> bool:
    """Whether a topic of the id `now` is another one than the one that had the id `known`."""
    return known != now and NO_ID not in (known, now)


def topic_ids(sources: Iterable[Source]) -> dict[str, str]:
    """The id of each topic; none where two clusters have topics of one name."""
    named = [(topic, id_) for source in sources for topic, id_ in source.topics.items()]
    ids: dict[str, set[str]] = {}
    for topic, id_ in named:
        ids.setdefault(topic, set()).add(id_)
    return {topic: id_ for topic, id_ in named if len(ids[topic]) == 1}


def find_rebuilt(history: Iterable[Snapshot]) -> tuple[tuple[int, ...], bool]:
    """A table's snapshots since it was rebuilt, none where it never was; and whether its first snapshots are gone and
    it was not rebuilt since, as far as one can see. `history` walks from its head to its root."""
    since: list[int] = []
    parent = None
    for snapshot in history:
        since.append(snapshot.id)
        parent = snapshot.parent
        if LEDGER_REBUILD in snapshot.summary:
            return tuple(reversed(since)), False
    return (), parent is not None


def rebuilt_starts(sources: Iterable[Source]) -> dict[str, Position]:
    """Where the streams begin that are tables which were rebuilt: what they held before was removed since."""
    return {
        source.name: {"version": 1, "snapshot_id": source.rebuilt[0], "position": 0, "scan_all_files": False}
        for source in sources
        if source.rebuilt
    }


def spark_position(position: Position) -> Position:
    """A position without what lakesql adds to it."""
    if isinstance(position, dict) and THROUGH in position:
        return {key: value for key, value in position.items() if key != THROUGH}
    return position


KIND_NAMES: Mapping[SourceKind, str] = {
    "kafka": "Kafka",
    "recorded": "recorded topics",
    "table": "a table",
    "files": "plain files",
    "rate": "a generator",
}
"""What an error calls the kinds."""

_IN_POSITION = {"recorded": "logOffset", "files": "logOffset", "table": "snapshot_id"}
"""What stands in the positions of a kind, and in no other's."""


def is_position_of(kind: SourceKind, position: Position) -> bool:
    """Whether a source of this kind stands so: a stream may have been moved, from recorded files to Kafka. A generator
    may stand anyhow."""
    if kind == "rate" or not isinstance(position, dict):
        return True
    # A topic may be called so too: then it has offsets by partition.
    marks = {mark for mark in _IN_POSITION.values() if not isinstance(position.get(mark, {}), dict)}
    return marks == ({_IN_POSITION[kind]} if kind in _IN_POSITION else set())


NO_SNAPSHOT = -1
"""What stands for a snapshot where a stream of a table has begun before the table had one."""


def is_at_start(position: Position) -> bool:
    """Whether a stream of a table that stands so has read none of its snapshots yet."""
    return position is None or (isinstance(position, dict) and position.get("snapshot_id") == NO_SNAPSHOT)


def count_between(before: Positions, after: Positions) -> int | None:
    """How many offsets lie between two positions of streams that are all topics; None where that is not known."""
    count = 0
    for name, position in after.items():
        start = before.get(name)
        if not (isinstance(start, dict) and isinstance(position, dict)) or not is_position_of("kafka", position):
            return None
        for topic, ends in position.items():
            begins = start.get(topic, {})
            count += sum(max(0, end - begins.get(partition, 0)) for partition, end in ends.items())
    return count


def can_start_from(kind: SourceKind, position: Position) -> bool:
    """Whether a position alone says what has been read. A position of plain files needs Spark's list of them."""
    match kind:
        case "kafka" | "table":
            return isinstance(position, dict)
        case "recorded":
            return isinstance(position, dict) and THROUGH in position
        case "files" | "rate":
            return False


@dataclass(frozen=True, slots=True)
class Replaced:
    """Of the topics that a stream stood in: those that were created again since, and those that are gone."""

    anew: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def find_replaced(source: Source, position: Position, topics: Mapping[str, str]) -> Replaced:
    """What has become of the topics of a stream that stood so while topics had these ids."""
    if source.kind != "kafka" or not isinstance(position, dict):
        return Replaced()
    known = topics.keys() & position.keys()
    gone = frozenset(known - source.topics.keys())
    return Replaced(frozenset(topic for topic in known - gone if is_another(topics[topic], source.topics[topic])), gone)


def positions_now(sources: Iterable[Source], stands: Positions, topics: Mapping[str, str]) -> dict[str, Position]:
    """Where each of the streams stands that stood so while topics had these ids: without those that are gone, and at
    the beginning of those that were created again, whatever the stream's `start`."""
    found = {}
    for source in sources:
        if source.name not in stands:
            continue
        position = stands[source.name]
        replaced = find_replaced(source, position, topics)
        if replaced != Replaced():
            left = {topic: offsets for topic, offsets in position.items() if topic not in replaced.gone}
            position = {**left, **{topic: _beginning(source, topic) for topic in replaced.anew}}
        found[source.name] = position
    return found


def _beginning(source: Source, topic: str) -> Position:
    return {str(number): at for number, at in source.beginnings.get(topic, {}).items()}
