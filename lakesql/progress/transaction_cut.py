"""Where a batch of several tables may end, so that it has all changes of each
transaction or none of them. Pure.

A change feed writes the changes of a transaction to the topics of their tables, each in
the order of the log. After the end of a transaction it writes how many changes there
are of each table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakesql.source.cluster import Offsets

Sizes = Mapping[str, int]
"""How many changes a transaction has of each table, by the table's name in the
source."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The changes of one transaction in one partition; `first` and `last` are the
    offsets of the first and the last one.

    `counts` is how many different ones there are of each table, as a feed sends some
    again after a restart. `reached` is, for each table, the number of the last one
    within the transaction.
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
    """Where the batch ends: `ends` are the offsets after its last records, `whole` the
    transactions that are in it, and `open` those that have arrived only in part."""

    ends: Offsets
    whole: frozenset[str]
    open: frozenset[str]


def find_cut(
    ends: Offsets,
    stretches: Collection[Stretch],
    sizes: Mapping[str, Sizes],
    done: Collection[str],
) -> Cut:
    """The last offset in each partition, at most `ends`, up to which all transactions
    are complete.

    `stretches` are all changes up to `ends` that no batch has yet, and `sizes` those of
    the transactions that are known to have ended. Changes of transactions in `done` are
    repetitions and are ignored.
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
    """The tables of which a transaction lacks changes: the name, how many have arrived,
    and how many there must be."""
    for table, size in sizes.items():
        if seen.get(table, 0) < size:
            yield table, seen.get(table, 0), size


def count_changes(
    stretches: Iterable[Stretch], ends: Offsets
) -> dict[str, dict[str, int]]:
    """How many changes of each table have arrived, by transaction.

    If a topic has one partition, all changes before the last one have arrived too, even
    if they are not counted: a restarted feed may repeat only the end of a transaction.
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
