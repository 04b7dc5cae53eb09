"""Where a batch of several tables may end, so that it has all changes of a transaction
or none. Pure.

A change feed writes the changes of a transaction to the topics of their tables, each in
the order of the log. What it writes once a transaction is over says how many changes
there are of each table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakesql.source.cluster import Offsets

Sizes = Mapping[str, int]
"""How many changes a transaction has of each table, by the names of the source."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The changes of one transaction in one partition: `first` and `last` are the
    offsets of the outermost ones.

    `counts` says how many different ones there are of each table: after a restart a
    feed sends some of them again. `reached` is the number, in the transaction, of the
    last one of each table.
    """

    topic: str
    partition: int
    transaction: str
    first: int
    last: int
    counts: Sizes
    reached: Sizes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the batch ends: `ends` are the offsets behind its last records, `whole` the
    transactions that are in it, and `open` those of which something is there and not
    all."""

    ends: Offsets
    whole: frozenset[str]
    open: frozenset[str]


def find_cut(
    ends: Offsets,
    stretches: Collection[Stretch],
    sizes: Mapping[str, Sizes],
    done: Collection[str],
) -> Cut:
    """The last place in each partition, not behind `ends`, up to which all transactions
    are whole.

    `stretches` are all changes up to `ends` that are not in a batch yet, and `sizes`
    those of the transactions that are known to be over. Changes of transactions that
    are `done` are repetitions, and stand in nobody's way.
    """
    new = [stretch for stretch in stretches if stretch.transaction not in done]
    seen = count_changes(new, ends)
    whole = {
        name
        for name in seen
        if name in sizes and not any(find_missing(seen[name], sizes[name]))
    }
    while True:
        cut = {topic: dict(partitions) for topic, partitions in ends.items()}
        for stretch in new:
            if stretch.transaction not in whole:
                partitions = cut[stretch.topic]
                partitions[stretch.partition] = min(
                    partitions[stretch.partition], stretch.first
                )
        cut_off = {
            it.transaction for it in new if it.last >= cut[it.topic][it.partition]
        } & whole
        if not cut_off:
            return Cut(cut, frozenset(whole), frozenset(seen.keys() - whole))
        whole -= cut_off


def find_missing(seen: Sizes, sizes: Sizes) -> Iterator[tuple[str, int, int]]:
    """The tables of which a transaction lacks changes: how many are there, and how many
    there must be."""
    for table, size in sizes.items():
        if seen.get(table, 0) < size:
            yield table, seen.get(table, 0), size


def count_changes(
    stretches: Iterable[Stretch], ends: Offsets
) -> dict[str, dict[str, int]]:
    """How many changes of each table have come, by transaction.

    Where a topic has one partition, those before the last one have come too, as they
    stand before it: a feed that starts again may repeat the end of a transaction alone.
    """
    seen: dict[str, dict[str, int]] = {}
    for stretch in stretches:
        tables = seen.setdefault(stretch.transaction, {})
        has_order = len(ends[stretch.topic]) == 1
        for table, count in stretch.counts.items():
            tables[table] = tables.get(table, 0) + count
            if has_order:
                tables[table] = max(tables[table], stretch.reached.get(table, 0))
    return seen
