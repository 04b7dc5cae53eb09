"""Which snapshots of a table its readers need, by what they have written and by their
checkpoints."""

from __future__ import annotations

import json
from itertools import accumulate, product, takewhile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakesql.engine.maintenance.protect import needs
from lakesql.ledger.entry import Entry, Snapshot
from lakesql.progress.state import Batch, Checkpoint, Origin
from lakesql.source.table_changes import changes_position
from lakesql.table.metadata import TableMetadata
from tests.cases import each_of

OF_A = (11, 12, 13)
"""The snapshots of the table, made at the times of the same numbers."""

GONE, OF_ANOTHER, NONE_YET = 10, 99, -1
TOPIC = {"orders": {"0": 4}}


def facts() -> TableMetadata:
    snapshots = {id_: Snapshot(id_, {}, at_ms=id_) for id_ in OF_A}
    return TableMetadata("", 2, {}, snapshots, tuple(reversed(snapshots.values())))


def at(snapshot: int) -> dict[str, Any]:
    return {
        "version": 1,
        "snapshot_id": snapshot,
        "position": 0,
        "scan_all_files": False,
    }


def entry(number: int, *positions: Any, checkpoint: str = "c-0") -> Entry:
    named = {f"stream_{place}": position for place, position in enumerate(positions)}
    return Entry("b", checkpoint, number, json.dumps(named), "")


def made_behind(batch: Batch | None, *positions: Any, id_: str = "c-1") -> Checkpoint:
    """A checkpoint as `lakesql rewind` makes it: with a batch that is done, where a
    stream stands somewhere."""
    done = frozenset({0} if positions else ())
    return Checkpoint(
        id_,
        done,
        done,
        {0: positions} if positions else {},
        Origin("b", "", (), "", batch),
    )


PLACES = (None, TOPIC, at(OF_ANOTHER), at(GONE), at(NONE_YET), *map(at, OF_A))


def stand(positions: tuple[Any, ...]) -> int | None:
    """The oldest of the table's snapshots among some positions."""
    return min(
        (
            place["snapshot_id"]
            for place in positions
            if place in [at(id_) for id_ in OF_A]
        ),
        default=None,
    )


@each_of("newest", list(product(PLACES, repeat=2)))
def test_a_reader_needs_what_its_last_two_batches_stood_at(
    newest: tuple[Any, ...],
) -> None:
    found = stand(newest)
    assert needs(facts(), [entry(8, *newest)], None) == found
    for before in product(PLACES, repeat=2):
        older = stand(before)
        expected = None if found is None else min(found, older or 0)
        assert needs(facts(), [entry(8, *newest), entry(7, *before)], None) == expected


@each_of("place", PLACES)
def test_a_checkpoint_that_was_made_behind_the_ledger_counts_instead(
    place: Any,
) -> None:
    read = [entry(8, at(13)), entry(7, at(13))]
    assert needs(facts(), read, made_behind(Batch("c-0", 8), place)) == stand((place,))
    assert needs(facts(), read, made_behind(Batch("c-0", 7), place)) == 13, (
        "it is behind an older batch"
    )
    assert needs(facts(), read, made_behind(Batch("c-0", 8), place, id_="c-0")) == 13, (
        "it has written the batch"
    )
    assert needs(facts(), read, made_behind(Batch("c-0", 8))) is None, "it begins anew"


def test_a_reader_that_has_written_nothing_needs_all() -> None:
    assert needs(facts(), [], None) is None
    assert needs(facts(), [], made_behind(None)) is None


def empty_since(
    after: int, through: int, committed: int, *positions: Any, id_: str = "c-0"
) -> Checkpoint:
    """A checkpoint that has noted empty batches, with one more that is planned."""
    done = frozenset(range(committed + 1))
    origin = Origin("b", "", (), "", empty_after=after, empty_through=through)
    return Checkpoint(
        id_,
        done | {committed + 1},
        done,
        {committed: positions, committed + 1: (at(13),)},
        origin,
    )


@each_of("place", PLACES)
def test_of_empty_batches_the_checkpoint_says_what_was_read(place: Any) -> None:
    found = stand((place,))
    assert needs(facts(), [], empty_since(-1, 4, 4, place)) == found, (
        "none of its batches had a row"
    )
    assert needs(facts(), [], empty_since(-1, 3, 4, place)) is None, (
        "the last one had some, for all that is known"
    )
    assert needs(facts(), [], empty_since(2, 4, 4, place)) is None, (
        "it had written a batch"
    )
    entries = [entry(2, at(11)), entry(1, at(11))]
    assert needs(facts(), entries, empty_since(2, 4, 4, place)) == found
    assert needs(facts(), entries, empty_since(1, 4, 4, place)) == 11, (
        "it has written since"
    )
    assert needs(facts(), entries, empty_since(2, 3, 4, place)) == 11
    assert needs(facts(), entries, empty_since(-1, 4, 4, place, id_="c-1")) == 11, (
        "another one has written"
    )


def test_a_reader_of_changes_needs_the_snapshot_up_to_which_it_has_read() -> None:
    assert (
        needs(
            facts(),
            [entry(8, changes_position(12)), entry(7, changes_position(11))],
            None,
        )
        == 11
    )
    assert needs(facts(), [], made_behind(None, changes_position(13))) is None


def iceberg_keeps(history: list[Snapshot], before_ms: int) -> set[int]:
    """What an expiry leaves of the snapshots from the head to the root: Iceberg ends at
    the first one that is too old (`RemoveSnapshots`)."""
    return {
        snapshot.id
        for snapshot in takewhile(lambda each: each.at_ms >= before_ms, history)
    }


@given(
    st.lists(st.integers(-60_000, 600_000), min_size=1, max_size=12), st.integers(0, 99)
)
def test_what_a_reader_stands_at_stays_whatever_the_clocks_of_writers_say(
    steps: list[int], place: int
) -> None:
    """Iceberg takes a commit that is up to a minute older than the one before it."""
    times = [10**12 + time for time in accumulate(steps)]
    rooted = [Snapshot(number, {}, at_ms=time) for number, time in enumerate(times)]
    history = rooted[::-1]
    snapshots = {each.id: each for each in rooted}
    metadata = TableMetadata("", 2, {}, snapshots, tuple(history))
    stands = place % len(rooted)
    since = needs(metadata, [entry(8, at(stands))], None)
    assert since is not None
    assert stands in iceberg_keeps(history, since)
