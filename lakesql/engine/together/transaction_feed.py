"""Rounds over a feed whose transactions are known: each ends where all of its
transactions are whole.

Where a round ends is written down before a batch of it begins. So a round that breaks
off is made to the same places by the run that follows, whichever of its tables have
been written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from lakesql.clock import now_ms
from lakesql.counts import count
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.sources.transactions import FoundChanges, TransactionLog
from lakesql.engine.together.rounds import Standing
from lakesql.errors import RunError
from lakesql.progress.transaction_cut import (
    Cut,
    Sizes,
    Stretch,
    count_changes,
    find_cut,
    find_missing,
)
from lakesql.source.cluster import Offsets, numbered
from lakesql.source.stream_state import Position

STATE_FILE = "transactions.json"
"""The file of a group's checkpoint that says where its last round ends."""

DONE_KEPT = 10_000
"""So many transactions that were written are remembered: a feed that starts again sends
some of their changes anew."""

SIZES_KEPT = 100_000
"""So many transactions that are over are remembered until their changes have come."""

SIZES_READ = 50_000
"""So many records of a partition of the topic of transactions are read at a time."""

LOOKS_BACK = 1_000
"""So many records before a place are looked at for transactions that are cut in two
there."""

PATIENCE_MS = 600_000
"""How long a round waits for the rest of a transaction before the group fails. A
connector that was killed is back by then, and so is a broker."""

Places = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class RoundState:
    """Where the last round ends. `ids` are those of the topics then, and `transactions`
    is where the topic of transactions has been read to. `sizes` are those of
    transactions that are over and not written yet, as the feed says them, in its order;
    `done` are those that were written last. `blocked` says since when, in milliseconds
    since the epoch, the next round waits for transactions of which something is
    missing."""

    ends: Offsets = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    blocked: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """What a group reads: the topics of its models, the topic that tells of
    transactions, and how many records of a topic a round has at most.

    `name_of` gives what a table of the source is called here, by what the feed calls it
    in its transactions; '' of one whose changes nobody waits for.
    """

    topics: Mapping[str, tuple[str, ...]]
    transactions: str
    max_per_batch: int | None
    name_of: Callable[[str], str]


class TransactionFeed:
    """Plans the rounds of a group. `look` says what it reads now, `say` hears what
    somebody should know, and `check` raises where this runner may not write any more.
    If it `accepts_loss`, what is missing of a transaction is not waited for."""

    def __init__(
        self,
        log: TransactionLog,
        files: CheckpointFiles,
        look: Callable[[], GroupTopics],
        say: Callable[[str], None],
        check: Callable[[], None] = lambda: None,
        *,
        is_bounded: bool,
        accepts_loss: bool = False,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._log, self._files, self._look = log, files, look
        self._say, self._check, self._clock = say, check, clock
        self._is_bounded, self._accepts_loss = is_bounded, accepts_loss
        self._state: RoundState | None = None
        self._until: Places = {}
        self._told_to: Mapping[int, int] | None = None
        """Where the topic of transactions ended when it was asked last; None where
        there was none."""
        self._found_nothing: object = None
        self._told = ""
        self.latest: Places = {}
        """Where the topics ended when they were asked last."""

    def plan(self, standing: Mapping[str, Standing]) -> Mapping[str, Position]:
        """Where the next batches end, by model. Raises what asking the broker and
        reading raise, and `RunError`: `group-transactions` where the feed does not tell
        of its transactions, `transaction-incomplete` where some of one has not come for
        long."""
        found = self._look()
        topics = {name: found.topics[name] for name in standing}
        ids = self._look_at(
            {topic for names in topics.values() for topic in names}, found.transactions
        )
        state = _without_replaced(
            self._state or read_state(self._files), ids, self.latest
        )
        self._state = state
        if begun := self._find_begun(standing, topics, state, found.max_per_batch):
            return begun
        starts = self._start_of(standing)
        is_aligned = all(
            _agree(each.position, state.ends) for each in standing.values()
        )
        planned = (
            self._plan(found, starts, state)
            if is_aligned
            else self._align(found, starts, state)
        )
        if planned is None:
            return {}
        self._keep(replace(planned, ids=ids))
        return self._find_begun(standing, topics, planned, None)

    def _find_begun(
        self,
        standing: Mapping[str, Standing],
        topics: Mapping[str, tuple[str, ...]],
        state: RoundState,
        limit: int | None,
    ) -> Mapping[str, Position]:
        """The batches of models that do not stand where the round ends that was written
        down last."""
        ends = {
            name: left_of(each, topics[name], state.ends, limit)
            for name, each in standing.items()
        }
        return {name: end for name, end in ends.items() if end is not None}

    def _keep(self, state: RoundState) -> None:
        self._check()
        write_state(self._files, state)
        self._state = state

    # --- where it starts

    def _look_at(self, names: Collection[str], transactions: str) -> Mapping[str, str]:
        """Ask where the topics end, and that of transactions, if there is one, and for
        the topics' ids."""
        is_told = self._log.has_topic(transactions)
        self._told_to = (
            self._log.ends([transactions])[0][transactions] if is_told else None
        )
        self.latest, ids = self._log.ends(sorted(names))
        if self._is_bounded:
            self._until = {**self.latest, **self._until}
        return ids

    def _start_of(self, standing: Mapping[str, Standing]) -> Places:
        """Where the round begins in each partition."""
        starts: Places = {name: {} for name in self.latest}
        for each in standing.values():
            for topic in (each.position or {}).keys() & starts.keys():
                for number, at in (each.position or {})[topic].items():
                    starts[topic][int(number)] = max(
                        at, starts[topic].get(int(number), 0)
                    )
        new = [
            topic
            for topic, ends in self.latest.items()
            if starts[topic].keys() != ends.keys()
        ]
        for topic, firsts in (self._log.beginnings(new) if new else {}).items():
            starts[topic] = {**firsts, **starts[topic]}
        return starts

    def _ends_of(self, starts: Places, limit: int | None) -> Places:
        """Where a round ends at most that has so many records of a topic."""
        last = self._until if self._is_bounded else self.latest
        ends: Places = {}
        for topic, partitions in starts.items():
            share = max(1, limit // len(partitions)) if limit and partitions else None
            ends[topic] = {}
            for number, at in partitions.items():
                until = max(at, last[topic].get(number, at))
                ends[topic][number] = until if share is None else min(until, at + share)
        return ends

    # --- where it ends

    def _plan(
        self, found: GroupTopics, starts: Places, state: RoundState
    ) -> RoundState | None:
        """The next round, if any transaction is whole, or there is something that
        belongs to none."""
        limit = found.max_per_batch
        ends = self._ends_of(starts, limit)
        if ends == starts or self._is_known_to_wait(found, starts, state):
            return None
        changes = self._find_changes(found, starts, ends)
        while True:
            state, has_more = self._read_sizes(found, state, changes.stretches)
            sizes = _named(state.sizes, changes.stretches, found.name_of)
            cut = find_cut(ends, changes.stretches, sizes, frozenset(state.done))
            if cut.ends != starts:
                return _after(state, cut, changes.stretches)
            if has_more:
                continue
            wider = self._ends_of(starts, limit * 2) if limit else ends
            if wider != ends:
                limit, ends = (limit or 0) * 2, wider
                changes = self._find_changes(found, starts, ends)
                continue
            if self._accepts_loss and (late := cut.open & self._find_late(state)):
                state = self._let_go(late, state)
                continue
            self._wait(cut, changes.stretches, ends, sizes, state)
            self._found_nothing = self._key(found, starts)
            return None

    def _find_changes(
        self, found: GroupTopics, starts: Places, ends: Places
    ) -> FoundChanges:
        """The changes between two places. Raises what `_check_told` raises of them."""
        changes = _of_group(
            self._log.find_changes(*_moving(starts, ends)), found.name_of
        )
        self._check_told(found, changes)
        return changes

    def _is_known_to_wait(
        self, found: GroupTopics, starts: Places, state: RoundState
    ) -> bool:
        """Whether nothing has come since it was found that there is no round yet."""
        return not self._find_late(state) and self._found_nothing == self._key(
            found, starts
        )

    def _key(self, found: GroupTopics, starts: Places) -> object:
        return starts, self.latest, self._told_to, sorted(found.topics)

    def _align(
        self, found: GroupTopics, starts: Places, state: RoundState
    ) -> RoundState:
        """A round that brings all tables to one place, when they were run apart: the
        transactions that are cut in two where they stand are not seen as a whole."""
        ends = self._ends_of(starts, found.max_per_batch)
        held = self._log.beginnings([*starts])
        back = {
            topic: {
                number: max(held[topic].get(number, 0), at - LOOKS_BACK)
                for number, at in partitions.items()
            }
            for topic, partitions in starts.items()
        }
        changes = self._log.find_changes(*_moving(back, ends))
        seen = dict.fromkeys(
            stretch.transaction
            for stretch in sorted(changes.stretches, key=lambda it: it.last)
        )
        self._say(
            "its tables stand at different places, and are brought to one: from then on transactions are whole"
        )
        sizes = {name: each for name, each in state.sizes.items() if name not in seen}
        done = (*state.done, *seen)[-DONE_KEPT:]
        return replace(
            state, ends=_merged(state.ends, ends), sizes=sizes, done=done, blocked={}
        )

    def _read_sizes(
        self, found: GroupTopics, state: RoundState, stretches: Iterable[Stretch]
    ) -> tuple[RoundState, bool]:
        """The state with more transactions that are over, and whether there are still
        more.

        Of too many the oldest are forgotten, if the feed has no change of theirs that
        is not written.
        """
        topic, ends = found.transactions, self._told_to
        if ends is None:
            return state, False
        starts = {**self._log.beginnings([topic])[topic], **state.transactions}
        until = {
            number: min(end, starts.get(number, 0) + SIZES_READ)
            for number, end in ends.items()
        }
        if starts == until:
            return replace(state, transactions=until), False
        done = frozenset(state.done)
        told = self._log.find_sizes(topic, starts, until)
        known = {
            **state.sizes,
            **{name: each for name, each in told.items() if name not in done},
        }
        if len(known) > SIZES_KEPT:
            waiting = {stretch.transaction for stretch in stretches}
            newest = {*[*known][-SIZES_KEPT:]}
            known = {
                name: each
                for name, each in known.items()
                if name in newest or name in waiting
            }
        return replace(state, transactions=until, sizes=known), until != ends

    # --- what is missing

    def _check_told(self, found: GroupTopics, changes: FoundChanges) -> None:
        """Raise `RunError` (`group-transactions`) where the feed has stopped to tell of
        transactions, or never has."""
        ordered = sorted(changes.stretches, key=lambda it: it.first, reverse=True)
        # of each partition the first one
        places = {(it.topic, it.partition): it.first for it in ordered}
        strays = sum(changes.strays.values())
        has_stopped = any(
            at > places.get(place, at) for place, at in changes.last_strays.items()
        )
        is_told = any((self._told_to or {}).values())
        if strays and (has_stopped or not is_told):
            raise RunError.of(
                "group-transactions",
                f"{count(strays, 'change')} of the feed say of no transaction that they belong to it.",
                why="The connector does not write which transaction a change is of, or when one is over.",
                fix="Let it do both: provide.transaction.metadata=true. Or leave `consistent` out.",
            )
        if changes.stretches and self._told_to is None:
            raise RunError.of(
                "group-transactions",
                f"There is no topic '{found.transactions}', in which the connector tells when transactions are over.",
                fix="Name the one that it writes: tables={'transactions': '…'}. Or leave `consistent` out.",
            )
        if strays:
            self._tell(
                f"{count(strays, 'change')} of the feed belong to no transaction: they stand for themselves"
            )

    def _find_late(self, state: RoundState) -> set[str]:
        """The transactions that have been waited for too long."""
        return {
            name
            for name, since in state.blocked.items()
            if self._clock() - since > PATIENCE_MS
        }

    def _let_go(self, transactions: Collection[str], state: RoundState) -> RoundState:
        """Wait no longer for what is missing of transactions."""
        self._say(
            f"{count(len(transactions), 'transaction')} of which something is missing are taken as they are"
        )
        sizes = {
            name: each for name, each in state.sizes.items() if name not in transactions
        }
        return replace(
            state,
            sizes=sizes,
            done=(*state.done, *sorted(transactions))[-DONE_KEPT:],
            blocked={},
        )

    def _wait(
        self,
        cut: Cut,
        stretches: Collection[Stretch],
        ends: Offsets,
        sizes: Mapping[str, Sizes],
        state: RoundState,
    ) -> None:
        """Say what the next round waits for. Raises `RunError`
        (`transaction-incomplete`) once that is too long."""
        seen = count_changes(
            (it for it in stretches if it.transaction in cut.open), ends
        )
        missing = {
            name: [*find_missing(seen[name], sizes[name])]
            for name in seen
            if name in sizes
        }
        lacking = {name: each for name, each in missing.items() if each}
        unfinished = seen.keys() - sizes.keys()
        now = self._clock()
        blocked = {
            name: state.blocked.get(name, now)
            for name in (*lacking, *sorted(unfinished))
        }
        if blocked.keys() != state.blocked.keys():
            self._keep(replace(state, blocked=blocked))
        else:
            self._state = replace(state, blocked=blocked)
        if not blocked:
            return
        first = min(blocked, key=lambda name: blocked[name])
        parts = [
            f"{there} of {size} changes of {table}"
            for table, there, size in lacking.get(first, ())
        ]
        what = (
            f"is over, and the feed has {', '.join(parts)}"
            if parts
            else "is not over yet"
        )
        if now - blocked[first] > PATIENCE_MS:
            raise RunError.of(
                "transaction-incomplete",
                f"Transaction {first} {what}, since {PATIENCE_MS // 60_000} minutes. All that comes after it waits.",
                fix="See whether the connector runs, and whether all of its topics are read here. What has gone, as "
                "topics keep records for a time, does not come any more: take what there is of such transactions by "
                "`--accept-data-loss`.",
            )
        others = (
            f", and neither are {count(len(blocked) - 1, 'other')}"
            if len(blocked) > 1 and not parts
            else ""
        )
        self._tell(
            f"transaction {first} {what}{others}: it stays in the feed, with all behind it, until all has come"
        )

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._say(text)


# --- the state


def read_state(files: CheckpointFiles) -> RoundState:
    """Where the last round of a group ends, as its checkpoint has it."""
    text = files.read(STATE_FILE)
    if text is None:
        return RoundState()
    read = json.loads(text)
    ends = numbered(read["ends"])
    transactions = {int(number): at for number, at in read["transactions"].items()}
    return RoundState(
        ends,
        read["ids"],
        transactions,
        read["sizes"],
        tuple(read["done"]),
        read["blocked"],
    )


def write_state(files: CheckpointFiles, state: RoundState) -> None:
    """Write down where a round ends, before it begins."""
    said = {
        "ends": state.ends,
        "ids": state.ids,
        "transactions": state.transactions,
        "sizes": state.sizes,
        "done": state.done,
        "blocked": state.blocked,
    }
    files.write(STATE_FILE, json.dumps(said, separators=(",", ":")))


def _without_replaced(
    state: RoundState, ids: Mapping[str, str], latest: Offsets
) -> RoundState:
    """The state without the topics that were deleted and made again since: their places
    mean nothing any more."""
    gone = {
        topic
        for topic in state.ends.keys() & ids.keys()
        if state.ids.get(topic, ids[topic]) != ids[topic]
    }
    gone |= {
        topic
        for topic, ends in state.ends.items()
        if any(
            at > latest.get(topic, {}).get(number, at) for number, at in ends.items()
        )
    }
    return replace(
        state,
        ends={topic: ends for topic, ends in state.ends.items() if topic not in gone},
    )


def _after(state: RoundState, cut: Cut, stretches: Iterable[Stretch]) -> RoundState:
    """The state once a round ends there."""
    sizes = {name: each for name, each in state.sizes.items() if name not in cut.whole}
    done = (*state.done, *(name for name in state.sizes if name in cut.whole))[
        -DONE_KEPT:
    ]
    return replace(
        state, ends=_merged(state.ends, cut.ends), sizes=sizes, done=done, blocked={}
    )


# --- positions


def left_of(
    standing: Standing, topics: tuple[str, ...], ends: Offsets, limit: int | None
) -> Position:
    """Where the batch of a model ends in the round that ends there; None where it
    stands there, or behind it.

    It has at most `limit` records of a topic: so a table that was rebuilt is brought to
    the others.
    """
    if standing.planned is not None:
        return standing.planned
    stands: Mapping[str, Mapping[str, int]] = standing.position or {}
    target = {topic: dict(partitions) for topic, partitions in stands.items()}
    is_ahead = False
    for topic in (topic for topic in topics if topic in ends):
        own = target.setdefault(topic, {})
        share = max(1, limit // len(ends[topic])) if limit and stands else None
        for number, at in ends[topic].items():
            begins = own.get(str(number), 0)
            is_ahead = is_ahead or at > begins
            reached = at if share is None else min(at, begins + share)
            own[str(number)] = max(reached, begins)
    return target if is_ahead else None


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
        topic: [number for number, at in each.items() if ends[topic][number] > at]
        for topic, each in starts.items()
    }
    kept = {topic: numbers for topic, numbers in moving.items() if numbers}
    first = {
        topic: {number: starts[topic][number] for number in numbers}
        for topic, numbers in kept.items()
    }
    last = {
        topic: {number: ends[topic][number] for number in numbers}
        for topic, numbers in kept.items()
    }
    return first, last


def _merged(known: Offsets, new: Offsets) -> Places:
    return {
        topic: {**known.get(topic, {}), **new.get(topic, {})}
        for topic in known.keys() | new.keys()
    }


# --- tables


def _of_group(changes: FoundChanges, name_of: Callable[[str], str]) -> FoundChanges:
    """The changes of tables that are waited for: one topic may have those of others
    too."""
    named = cache(name_of)
    kept = []
    for stretch in changes.stretches:
        counts = _add_up(stretch.counts, named)
        if counts:
            kept.append(
                replace(stretch, counts=counts, reached=_add_up(stretch.reached, named))
            )
    return replace(changes, stretches=kept)


def _named(
    sizes: Mapping[str, Sizes],
    stretches: Iterable[Stretch],
    name_of: Callable[[str], str],
) -> Mapping[str, Sizes]:
    """The sizes of transactions of which something is there, by what their tables are
    called here."""
    named = cache(name_of)
    names = {stretch.transaction for stretch in stretches} & sizes.keys()
    return {name: _add_up(sizes[name], named) for name in names}


def _add_up(sizes: Sizes, name_of: Callable[[str], str]) -> Sizes:
    found: dict[str, int] = {}
    for table, size in sizes.items():
        if size and (name := name_of(table)):
            found[name] = found.get(name, 0) + size
    return found
