"""Where the rounds of a group end whose feed marks its transactions: at places where
every transaction is complete.

Where a round ends is written to the group's checkpoint before one of its batches
begins. So a round that breaks off is continued to the same places by the next run,
whichever of its tables have been written.
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
"""The file of a group's checkpoint that records where its last round ends."""

DONE_KEPT = 10_000
"""How many written transactions are remembered, the newest ones: a connector that
restarts sends some of their changes again."""

SIZES_KEPT = 100_000
"""How many ended transactions are remembered at most until their changes have
arrived."""

SIZES_READ = 50_000
"""How many records of each partition of the transaction topic are read at a time."""

LOOKS_BACK = 1_000
"""How many records before the tables' positions are searched for transactions that
began before these and go on after them."""

PATIENCE_MS = 600_000
"""How long a round waits for the rest of a transaction before the group fails. A
connector or a broker that was killed has usually restarted by then."""

Places = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class RoundState:
    """Where the last round ends. `ids` are the topic ids at that time, and
    `transactions` is how far the transaction topic has been read. `sizes` are the
    numbers of changes, by table, of transactions that have ended and are not written
    yet, as the feed names them and in its order; `done` are the transactions that were
    written last. `blocked` has the incomplete transactions that the next round waits
    for, each with the time since when, in milliseconds since the epoch."""

    ends: Offsets = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[int, int] = field(default_factory=dict)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    blocked: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """What a group reads: the topics of its models, the transaction topic, and the most
    records of a topic per round.

    `name_of` maps the name that the feed gives a table in its transactions to lakesql's
    name of that table; '' for a table that no model reads.
    """

    topics: Mapping[str, tuple[str, ...]]
    transactions: str
    max_per_batch: int | None
    name_of: Callable[[str], str]


class TransactionFeed:
    """Plans the rounds of a group. `look` returns what the group reads now, `say` is
    called with messages for people, and `check` raises if this runner may not write
    any more. With `accepts_loss`, the missing changes of a transaction are not
    waited for."""

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
        """Where the transaction topic ended when last asked; None if it did not
        exist."""
        self._found_nothing: object = None
        self._told = ""
        self.latest: Places = {}
        """Where the topics ended when last asked."""

    def plan(self, standing: Mapping[str, Standing]) -> Mapping[str, Position]:
        """Where the next batches end, by model; empty if there is no round yet.

        Raises what asking the broker and reading raise, and `RunError`:
        `group-transactions` if the feed has no transaction metadata,
        `transaction-incomplete` if the rest of a transaction has not arrived for too
        long.
        """
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
        """Where the batches end of those models that have not reached the end of the
        last recorded round."""
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
        """Read the end offsets of the topics, and of the transaction topic if it
        exists; returns the ids of the topics."""
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
        """Where a round ends at most if it takes `limit` records of a topic."""
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
        """The next round, if a transaction is complete or there are changes outside of
        transactions; None otherwise."""
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
        """The changes between two places. Raises what `_check_told` raises."""
        changes = _of_group(
            self._log.find_changes(*_moving(starts, ends)), found.name_of
        )
        self._check_told(found, changes)
        return changes

    def _is_known_to_wait(
        self, found: GroupTopics, starts: Places, state: RoundState
    ) -> bool:
        """Whether nothing has arrived since the last attempt found no round."""
        return not self._find_late(state) and self._found_nothing == self._key(
            found, starts
        )

    def _key(self, found: GroupTopics, starts: Places) -> object:
        return starts, self.latest, self._told_to, sorted(found.topics)

    def _align(
        self, found: GroupTopics, starts: Places, state: RoundState
    ) -> RoundState:
        """A round that brings all tables to the same place, if they were run
        separately: transactions that they stand in the middle of become visible in two
        parts."""
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
        """The state with more of the ended transactions, and whether the topic has
        still more.

        If there are too many, the oldest are forgotten, unless changes of theirs are
        waiting in the feed.
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
        """Raise `RunError` (`group-transactions`) if the feed has no transaction
        metadata, or no longer has it."""
        ordered = sorted(changes.stretches, key=lambda it: it.first, reverse=True)
        # the first one of each partition
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
        """The transactions whose missing changes have been waited for too long."""
        return {
            name
            for name, since in state.blocked.items()
            if self._clock() - since > PATIENCE_MS
        }

    def _let_go(self, transactions: Collection[str], state: RoundState) -> RoundState:
        """The state in which the missing changes of these transactions are no longer
        waited for."""
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
        """Record and report which transactions the next round waits for. Raises
        `RunError` (`transaction-incomplete`) if one has been waited for too long."""
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
    """Where the last round of a group ends, as its checkpoint records it; the empty
    state if it records none."""
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
    """Write the state of a round to the group's checkpoint, before the round begins."""
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
    """The state without the topics that were deleted and created again since: their old
    offsets mean nothing any more."""
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
    """The state once the round up to `cut` is done."""
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
    """Where the batch of a model ends in the round that ends at `ends`; None if the
    model stands there already, or further on.

    A batch has at most `limit` records of a topic, so that a rebuilt table catches up
    with the others in several batches.
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
    """Both places restricted to the partitions in which they differ."""
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
    """The changes of those tables that a model reads: a topic may have changes of other
    tables too."""
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
    """The numbers of changes of transactions that have changes here, by lakesql's names
    of their tables."""
    named = cache(name_of)
    names = {stretch.transaction for stretch in stretches} & sizes.keys()
    return {name: _add_up(sizes[name], named) for name in names}


def _add_up(sizes: Sizes, name_of: Callable[[str], str]) -> Sizes:
    found: dict[str, int] = {}
    for table, size in sizes.items():
        if size and (name := name_of(table)):
            found[name] = found.get(name, 0) + size
    return found
