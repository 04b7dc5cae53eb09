"""Rounds over a feed whose transactions are known: each ends where all of its transactions are whole.

Where a round ends is written down before a batch of it begins. So a round that breaks off is made to the same places by
the run that follows, whichever of its tables have been written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from lakesql.counts import count
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.transactions import TransactionLog
from lakesql.engine.together.rounds import Standing
from lakesql.errors import RunError
from lakesql.progress.transaction_cut import Sizes, Stretch, find_cut, missing_of
from lakesql.source.cluster import Offsets
from lakesql.source.stream_state import Position

CUT_FILE = "transactions.json"
"""The file of a group's checkpoint that says where its last round ends."""

DONE_KEPT = 10_000
"""So many transactions that were written are remembered: a feed that starts again sends some of their changes anew."""

SIZES_KEPT = 100_000
"""So many transactions that are over are remembered until all of their changes have come."""

LOOKS_BACK = 1_000
"""So many records before a place are looked at for transactions that are cut in two there."""

Places = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class RoundState:
    """Where the last round ends. `transactions` is where the topic of transactions has been read to; `sizes` are those
    that are over and not written yet, `done` those that were written last."""

    ends: Offsets = field(default_factory=dict)
    transactions: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """What a group reads: the topics of its models, the topic that tells of transactions, and how many records of a
    topic a round has at most.

    `name_of` gives what a table of the source is called here, by what the feed calls it in its transactions; '' of one
    whose changes nobody waits for.
    """

    topics: Mapping[str, tuple[str, ...]]
    transactions: str
    max_per_batch: int | None
    name_of: Callable[[str], str]


class TransactionFeed:
    """Plans the rounds of a group. `look` says what it reads now; `say` hears what somebody should know."""

    def __init__(
        self,
        log: TransactionLog,
        files: CheckpointFiles,
        look: Callable[[], GroupTopics],
        say: Callable[[str], None],
        is_bounded: bool,
    ) -> None:
        self._log, self._files = log, files
        self._look, self._say, self._is_bounded = look, say, is_bounded
        self._state: RoundState | None = None
        self._until: Places = {}
        self._told = ""
        self.latest: Places = {}
        """Where the topics ended when they were asked last."""

    def plan(self, standing: Mapping[str, Standing]) -> Mapping[str, Position]:
        """Where the next batches end, by model. Raises what asking the broker and reading raise, and `RunError`
        (`group-transactions`) where the feed does not tell of its transactions."""
        state = self._state or read_state(self._files)
        found = self._look()
        begun = {name: _left_of(each, found.topics[name], state.ends) for name, each in standing.items()}
        if any(end is not None for end in begun.values()):
            self._state = state
            return {name: end for name, end in begun.items() if end is not None}
        places = self._start_of(found, standing)
        is_aligned = all(_agree(each.position, state.ends) for each in standing.values())
        planned = self._plan(found, places, state) if is_aligned else self._align(found, places, state)
        if planned is None:
            return {}
        write_state(self._files, planned)
        self._state = planned
        ends = {name: _left_of(each, found.topics[name], planned.ends) for name, each in standing.items()}
        return {name: end for name, end in ends.items() if end is not None}

    # --- where it starts

    def _start_of(self, found: GroupTopics, standing: Mapping[str, Standing]) -> Places:
        """Where the round begins in each partition, and where the topics end."""
        names = sorted({topic for topics in found.topics.values() for topic in topics})
        self.latest = self._log.ends(names)
        if self._is_bounded and not self._until:
            self._until = self.latest
        starts: Places = {name: {} for name in names}
        for each in standing.values():
            for topic, partitions in (each.position or {}).items():
                for number, at in partitions.items():
                    known = starts.setdefault(topic, {})
                    known[int(number)] = max(at, known.get(int(number), 0))
        new = [topic for topic, ends in self.latest.items() if starts[topic].keys() != ends.keys()]
        for topic, firsts in (self._log.beginnings(new) if new else {}).items():
            starts[topic] = {**firsts, **starts[topic]}
        return starts

    def _ends_of(self, starts: Places, limit: int | None) -> Places:
        """Where a round ends at most that has so many records of a topic."""
        ends: Places = {}
        for topic, partitions in starts.items():
            until = self._until.get(topic, self.latest[topic]) if self._is_bounded else self.latest[topic]
            share = max(1, limit // len(partitions)) if limit and partitions else None
            ends[topic] = {
                number: max(at, min(until.get(number, at), at + share if share else until.get(number, at)))
                for number, at in partitions.items()
            }
        return ends

    # --- where it ends

    def _plan(self, found: GroupTopics, starts: Places, state: RoundState) -> RoundState | None:
        """The next round, if any transaction is whole, or there is something that belongs to none."""
        limit = found.max_per_batch
        ends = self._ends_of(starts, limit)
        if ends == starts:
            return None
        state = self._read_sizes(found, state)
        while True:
            changes = self._log.find_changes(*_moving(starts, ends))
            self._check_strays(changes.strays, state)
            cut = find_cut(ends, changes.stretches, state.sizes, frozenset(state.done))
            wider = self._ends_of(starts, limit * 2) if limit else ends
            if cut.ends != starts or wider == ends:
                break
            limit, ends = (limit or 0) * 2, wider
        if cut.ends == starts:
            self._tell_open(cut.open, changes.stretches, state)
            self._state = state  # what the topic of transactions has told is read once
            return None
        sizes = {name: each for name, each in state.sizes.items() if name not in cut.whole}
        done = (*state.done, *sorted(cut.whole))[-DONE_KEPT:]
        return replace(state, ends=_merged(state.ends, cut.ends), sizes=sizes, done=done)

    def _align(self, found: GroupTopics, starts: Places, state: RoundState) -> RoundState:
        """A round that brings all tables to one place, when they were run apart: the transactions that are cut in two
        where they stand are not seen as a whole."""
        ends = self._ends_of(starts, found.max_per_batch)
        back = {topic: {it: max(0, at - LOOKS_BACK) for it, at in each.items()} for topic, each in starts.items()}
        held = self._log.beginnings([*starts])
        back = {topic: {it: max(at, held[topic][it]) for it, at in each.items()} for topic, each in back.items()}
        state = self._read_sizes(found, state)
        changes = self._log.find_changes(*_moving(back, ends))
        seen = {stretch.transaction for stretch in changes.stretches}
        self._say(
            "its tables stand at different places: from the commit after the next on, transactions are seen whole"
        )
        sizes = {name: each for name, each in state.sizes.items() if name not in seen}
        done = (*state.done, *sorted(seen))[-DONE_KEPT:]
        return replace(state, ends=_merged(state.ends, ends), sizes=sizes, done=done)

    def _read_sizes(self, found: GroupTopics, state: RoundState) -> RoundState:
        """The state with the transactions that are over by now."""
        topic = found.transactions
        if not self._log.has_topic(topic):
            return state
        ends = self._log.ends([topic])[topic]
        starts = {**self._log.beginnings([topic])[topic], **state.transactions}
        if starts == ends:
            return state
        told = self._log.find_sizes(topic, starts, ends)
        sizes = {name: _named(each, found.name_of) for name, each in told.items()}
        known = {**state.sizes, **{name: each for name, each in sizes.items() if each and name not in state.done}}
        newest = dict([*known.items()][-SIZES_KEPT:])
        return replace(state, transactions=dict(ends), sizes=newest)

    # --- what is said

    def _check_strays(self, strays: int, state: RoundState) -> None:
        if not strays:
            return
        if not state.transactions:
            raise RunError.of(
                "group-transactions",
                f"{count(strays, 'change')} of the feed say of no transaction that they belong to it.",
                why="The connector does not write which transaction a change is of, or when one is over.",
                fix="Let it do both: provide.transaction.metadata=true. Or leave `consistent` out.",
            )
        self._tell(f"{count(strays, 'change')} of the feed belong to no transaction: they stand for themselves")

    def _tell_open(self, open_: frozenset[str], stretches: Collection[Stretch], state: RoundState) -> None:
        """Say what the next round waits for."""
        if not open_:
            return
        first = next((name for name in state.sizes if name in open_), None)
        if first is None:
            verb = "is" if len(open_) == 1 else "are"
            self._tell(f"{count(len(open_), 'transaction')} in the feed {verb} not over yet, and left there until then")
            return
        missing = missing_of(first, stretches, state.sizes[first])
        lacking = ", ".join(f"{there} of {size} changes of {table}" for table, there, size in missing)
        self._tell(f"transaction {first} is over, and the feed has {lacking}: it is left there until all have come")

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)


def read_state(files: CheckpointFiles) -> RoundState:
    """Where the last round of a group ends, as its checkpoint has it."""
    text = files.read(CUT_FILE)
    if text is None:
        return RoundState()
    read = json.loads(text)
    ends = {topic: {int(number): at for number, at in each.items()} for topic, each in read["ends"].items()}
    transactions = {int(number): at for number, at in read["transactions"].items()}
    return RoundState(ends, transactions, read["sizes"], tuple(read["done"]))


def write_state(files: CheckpointFiles, state: RoundState) -> None:
    """Write down where a round ends, before it begins."""
    said = {"ends": state.ends, "transactions": state.transactions, "sizes": state.sizes, "done": state.done}
    files.write(CUT_FILE, json.dumps(said, separators=(",", ":")))


def _left_of(standing: Standing, topics: tuple[str, ...], ends: Offsets) -> Position:
    """Where the batch of a model ends in the round that ends there; None where it stands there, or behind it."""
    if standing.planned is not None:
        return standing.planned
    stands: Mapping[str, Mapping[str, int]] = standing.position or {}
    target = {topic: dict(partitions) for topic, partitions in stands.items()}
    is_ahead = False
    for topic in (topic for topic in topics if topic in ends):
        own = target.setdefault(topic, {})
        for number, at in ends[topic].items():
            is_ahead = is_ahead or at > own.get(str(number), 0)
            own[str(number)] = max(at, own.get(str(number), 0))
    return target if is_ahead else None


def _named(sizes: Sizes, name_of: Callable[[str], str]) -> Sizes:
    """Those changes of a transaction that are waited for, by what their tables are called here."""
    names = {name_of(table): size for table, size in sizes.items() if size}
    return {name: size for name, size in names.items() if name}


def _agree(position: Position, ends: Offsets) -> bool:
    """Whether a model stands where the last round ends."""
    return all(
        ends.get(topic, {}).get(int(number)) == at
        for topic, partitions in (position or {}).items()
        for number, at in partitions.items()
    )


def _moving(starts: Places, ends: Places) -> tuple[Places, Places]:
    """The same two places of those partitions alone in which something lies between."""
    moving = {
        topic: [number for number, at in each.items() if ends[topic][number] > at] for topic, each in starts.items()
    }
    kept = {topic: numbers for topic, numbers in moving.items() if numbers}
    first = {topic: {number: starts[topic][number] for number in numbers} for topic, numbers in kept.items()}
    last = {topic: {number: ends[topic][number] for number in numbers} for topic, numbers in kept.items()}
    return first, last


def _merged(known: Offsets, new: Offsets) -> Places:
    return {topic: {**known.get(topic, {}), **new.get(topic, {})} for topic in known.keys() | new.keys()}
