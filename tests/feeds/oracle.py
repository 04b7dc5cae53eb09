"""What must stand in the tables, in plain Python; and what to print of a key of which
something else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.feeds.delivery import Feeds, Record, Topic
from tests.feeds.source import Change, Source
from tests.spark.project import Row

Place = tuple[int, int]
"""The partition and the offset of a record."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model under test: what it reads, its SELECT and its options; what must come of
    it, and which `reasons` make a record one of its dead letters.

    `key` names the columns of a row's key, behind its seed.
    """

    topic: Topic
    select: str
    config: dict[str, Any]
    rows: Callable[[Feeds], Iterator[Row]]
    reasons: frozenset[str]
    key: tuple[str, str] = ("a", "b")


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters of a model: those that there must be, with their reasons, and
    those that there may be."""

    must: dict[Place, str] = field(default_factory=dict)
    may: dict[Place, str] = field(default_factory=dict)


# --- rows


def each_row(feeds: Feeds) -> Iterator[Row]:
    """Every good record's row, with the place of the record."""
    for record in good(feeds, "plain", "key-missing", "sequence-missing"):
        yield {
            **record.sent.fields["value"],
            "p": record.sent.partition,
            "o": record.offset,
        }


def first_rows(feeds: Feeds) -> Iterator[Row]:
    """The row of each key that has arrived first."""
    found: dict[Any, Row] = {}
    for record in good(feeds, "plain", "sequence-missing"):
        row = record.sent.fields["value"]
        found.setdefault((row["seed"], row["a"], row["b"]), row)
    yield from found.values()


def last_rows(feeds: Feeds) -> Iterator[Row]:
    """The row of each key that has arrived last, unless it deletes the key."""
    found: dict[Any, Row] = {}
    for record in good(feeds, "plain", "sequence-missing"):
        row = record.sent.fields["value"]
        found[row["seed"], row["a"], row["b"]] = row
    yield from (row for row in found.values() if not row["gone"])


def newest_rows(feeds: Feeds) -> Iterator[Row]:
    """The row of each key that is the last one by what orders them, then by arrival,
    unless it deletes the key."""
    found: dict[Any, Row] = {}
    for record in good(feeds, "plain"):
        row = record.sent.fields["value"]
        key = row["seed"], row["a"], row["b"]
        if key not in found or (row["at"], row["n"]) >= (
            found[key]["at"],
            found[key]["n"],
        ):
            found[key] = row
    yield from (row for row in found.values() if not row["gone"])


def mirrored_rows(feeds: Feeds) -> Iterator[Row]:
    """The rows that the source has in the end and that pass the WHERE."""
    yield from _passing_rows(feeds.sources)


def mirrored_rows_in_order(feeds: Feeds) -> Iterator[Row]:
    """The same of the source whose changes arrive in their order."""
    yield from _passing_rows(feeds.in_order)


def _passing_rows(sources: tuple[Source, ...]) -> Iterator[Row]:
    for source in sources:
        for (a, b), values in source.rows.items():
            if values.passes:
                yield {
                    "seed": source.seed,
                    "x": a,
                    "y": b,
                    "v": values.v,
                    "big": values.big,
                }


def versions(feeds: Feeds) -> Iterator[Row]:
    """A version for each row by which a key's values change, in what orders the
    rows."""
    found: dict[Any, dict[Any, Row]] = {}
    for record in good(feeds, "plain"):
        row = record.sent.fields["value"]
        found.setdefault((row["seed"], row["a"], row["b"]), {})[row["at"], row["n"]] = (
            row
        )
    for by_time in found.values():
        yield from chain(
            [(at, row) for (at, _), row in sorted(by_time.items())], ("v", "gone")
        )


def changed_versions(feeds: Feeds) -> Iterator[Row]:
    """A version for each change of a value of the source; one after which the row does
    not pass the WHERE ends it.

    What a snapshot has read is behind the changes that have arrived before it.
    """
    found: dict[Any, dict[Any, Row | None]] = {}
    newest: dict[Any, list[int]] = {}
    for record in good(feeds, "untruncated"):
        change = record.sent.what
        assert isinstance(change, Change)
        if change.key is None:
            continue
        key = change.seed, change.key
        at, before = feeds.log.position(change), newest.get(key, [])
        if change.unplaced and before:
            continue
        if change.is_read:
            at = [*before, -1, *at]
        else:
            newest[key] = max(before, at)
        row, values = None, change.after
        if values and values.passes:
            row = {
                "seed": change.seed,
                "x": change.key[0],
                "y": change.key[1],
                **values._asdict(),
                "at": at,
            }
        found.setdefault(key, {})[tuple(at)] = row
    for by_place in found.values():
        yield from chain(
            [(list(place), row) for place, row in sorted(by_place.items())], ("v",)
        )


def chain(
    states: list[tuple[Any, Row | None]], tracked: tuple[str, ...]
) -> Iterator[Row]:
    """The versions that the states of a key make one after the other; None where it has
    no row."""
    version: Row | None = None
    for at, row in states:
        if version and row and all(row[name] == version[name] for name in tracked):
            continue
        if version:
            yield {**version, "valid_to": at, "is_current": False}
        version = (
            {**row, "valid_from": at, "valid_to": None, "is_current": True}
            if row
            else None
        )
    if version:
        yield version


def good(feeds: Feeds, topic: Topic, *reasons: str) -> Iterator[Record]:
    """The records of a topic that are not broken, or for these reasons alone."""
    return (
        record for record in feeds.topics[topic] if record.sent.reason in ("", *reasons)
    )


# --- dead letters


def letters(feeds: Feeds, model: Model) -> Letters:
    """Those of a model.

    An update without its large value that is sent again may be one: its row has been
    deleted since, or does not pass the WHERE any more.
    """
    found = Letters()
    for record in feeds.topics[model.topic]:
        what = record.sent.what
        if record.sent.reason in model.reasons:
            found.must[record.place] = record.sent.reason
        elif (
            model.topic == "in_order"
            and isinstance(what, Change)
            and what.is_unsent
            and record.sent.again
        ):
            found.may[record.place] = "unparsable"
    return found


# --- what is wrong


@dataclass(frozen=True, slots=True)
class Fault:
    """Rows of a key of one seed that are not what they must be, or dead letters of the
    seed's records."""

    model: str
    seed: int
    key: Any
    expected: list[Any]
    found: list[Any]

    def report(self, feeds: Feeds, topic: Topic) -> str:
        """What was expected and what was found, and all that has arrived of the key,
        with the batch of each record."""
        lines = [
            f"Seed {self.seed}, {self.key}. Alone: pytest tests/feeds --feed-seed {self.seed}"
        ]
        lines += [f"  expected  {each}" for each in self.expected or ["nothing"]]
        lines += [f"  found     {each}" for each in self.found or ["nothing"]]
        for record in feeds.topics[topic]:
            sent, key = record.sent, record.sent.what.key
            is_of_key = (
                key is None or not isinstance(self.key, tuple) or key == self.key
            )
            if sent.seed in (self.seed, -1) and is_of_key:
                place = f"batch {record.batch}, partition {sent.partition}, offset {record.offset}"
                about = ", again" * sent.again + f", {sent.reason}" * bool(sent.reason)
                lines.append(
                    f"  {place}{about}: {sent.fields.get('key')} {sent.fields['value']}"
                )
        return "\n".join(lines)


def row_faults(name: str, feeds: Feeds, model: Model, stored: list[Row]) -> list[Fault]:
    """The keys whose rows are not what they must be."""
    expected, found = (_by_key(model, rows) for rows in (model.rows(feeds), stored))
    wrong = [
        key
        for key in {**expected, **found}
        if Counter(expected.get(key, [])) != Counter(found.get(key, []))
    ]
    return [
        Fault(
            name,
            seed,
            key,
            sorted(expected.get((seed, key), [])),
            sorted(found.get((seed, key), [])),
        )
        for seed, key in sorted(wrong, key=lambda each: (each[0], repr(each[1])))
    ]


def letter_faults(
    name: str, feeds: Feeds, model: Model, stored: list[Row]
) -> list[Fault]:
    """The records that should be a dead letter and are none, or twice, or should not be
    one."""
    known = letters(feeds, model)
    found: dict[Place, list[str]] = {}
    for row in stored:
        found.setdefault((row["partition"], row["offset"]), []).append(row["reason"])
    wrong = [
        place
        for place in {**known.must, **found}
        if found.get(place) != [known.must.get(place)]
        and found.get(place) != [known.may.get(place)]
    ]
    seeds = {record.place: record.sent.seed for record in feeds.topics[model.topic]}
    return [
        Fault(
            f"{name}__dead_letter",
            seeds.get(place, -1),
            f"partition {place[0]} offset {place[1]}",
            [known.must[place]] if place in known.must else [],
            found.get(place, []),
        )
        for place in sorted(wrong)
    ]


def _by_key(model: Model, rows: Any) -> dict[tuple[int, Any], list[str]]:
    a, b = model.key
    found: dict[tuple[int, Any], list[str]] = {}
    for row in rows:
        found.setdefault((row["seed"], (row[a], row[b])), []).append(
            repr(sorted(row.items()))
        )
    return found
