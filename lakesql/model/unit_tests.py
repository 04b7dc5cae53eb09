"""Unit tests (`unit_tests:` of properties files): records and rows given to a model,
and the rows expected of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NewType

from lakesql.counts import count
from lakesql.decode import Node, decode, option, read_each
from lakesql.errors import Place, ProjectError, did_you_mean
from lakesql.names import check_name

Rows = NewType("Rows", Node)
"""A node with a list of rows, or with the path of a file that has them."""


def _read_rows(node: Node) -> Rows:
    return Rows(node)


def _read_vars(node: Node) -> Node:
    node.entries()
    return node


def _read_now(node: Node) -> datetime:
    try:
        now = datetime.fromisoformat(str(node.value))
    except ValueError:
        what = f"{node.shown} is no time."
        fix = "Write a time in ISO 8601, such as 2026-03-05T12:00:00Z."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place) from None
    return now.astimezone(UTC).replace(tzinfo=None) if now.tzinfo else now


@dataclass(frozen=True, slots=True)
class Overrides:
    """The variables and the time that a test sets. `now` is in UTC."""

    vars: Node | None = option(
        "Values of variables, which override those of the project.",
        default=None,
        read=_read_vars,
    )
    now: datetime | None = option(
        "The time that `current_timestamp()` returns; UTC if it has no zone.",
        default=None,
        read=_read_now,
    )


@dataclass(frozen=True, slots=True)
class GivenTable:
    """The rows of the model's own table before the first batch."""

    place: Place
    table: Literal["this"] = option(
        "`this`: the model's own table before the first batch; without such an entry the table is empty."
    )
    rows: Rows = option(
        "Rows of the table: a list, or a .csv or .jsonl file.", read=_read_rows
    )


@dataclass(frozen=True, slots=True)
class GivenStream:
    """The records of a stream, batch by batch."""

    place: Place
    stream: str = option("The stream, which the model reads.", read=check_name)
    batches: tuple[Node, ...] = option(
        "One entry per batch: a list of records, or a .csv or .jsonl file. A record is a mapping of columns, or a "
        "text: its raw value, such as that of a bad record.",
        read=lambda node: node.items(),
    )


@dataclass(frozen=True, slots=True)
class GivenRef:
    """The rows of another model's table, or of a seed's, which the model reads, and
    their changes."""

    place: Place
    ref: str = option("A model or seed whose table the model reads.", read=check_name)
    rows: Rows | None = option(
        "Rows of that table before the first batch: a list, or a .csv or .jsonl file; none if left out.",
        default=None,
        read=_read_rows,
    )
    batches: tuple[Node, ...] = option(
        "Changes of that table, one entry per commit: a list, or a .jsonl file, of changes such as `{op: u, before: "
        "…, after: …}`. After each commit the model is refreshed, or writes the batch of its streams with the same "
        "number.",
        default=(),
        read=lambda node: node.items(),
    )


Given = GivenTable | GivenStream | GivenRef

_KINDS: dict[str, type[GivenTable] | type[GivenStream] | type[GivenRef]] = {
    "table": GivenTable,
    "stream": GivenStream,
    "ref": GivenRef,
}


def _read_given(node: Node) -> tuple[Given, ...]:
    return read_each(node.items(), _read_one)


def _read_one(node: Node) -> Given:
    entries = node.entries()
    named = [kind for kind in _KINDS if kind in entries]
    if len(named) != 1:
        keys = [key for key in entries if key not in ("rows", "batches")]
        hint = did_you_mean(keys[0], _KINDS) if keys and not named else ""
        what = "An entry of given says one of: table, stream, ref."
        raise ProjectError.of("wrong-value", what, fix=hint, place=node.place)
    given = decode(
        node, _KINDS[named[0]], what=f"a given {named[0]}", given={"place": node.place}
    )
    if isinstance(given, GivenRef) and given.rows is None and not given.batches:
        what = f"The given ref '{given.ref}' has neither rows nor batches."
        fix = "Write `rows: []` for a table without rows, or leave the entry out."
        raise ProjectError.of("missing-option", what, fix=fix, place=node.place)
    return given


@dataclass(frozen=True, slots=True)
class Expect:
    """What is expected after the batches."""

    place: Place
    batches: tuple[Rows, ...] = option(
        "Expected rows of the table after each batch: as many lists or files as there are batches. Not compared if "
        "left out.",
        default=(),
        read=lambda node: tuple(map(_read_rows, node.items())),
    )
    rows: Rows | None = option(
        "Expected rows of the table, in any order: a list, or a .csv or .jsonl file. Columns that a row does not "
        "name are not compared.",
        default=None,
        read=_read_rows,
    )
    dead_letters: Rows | None = option(
        "Expected dead letters, each with `reason`, `stream` or both; none may occur if left out.",
        default=None,
        read=_read_rows,
    )
    tombstones: Rows | None = option(
        "Expected deleted keys that are remembered, each with the columns of `sequence_by`; in mode `scd2`, changes "
        "that make no version. Not compared if left out.",
        default=None,
        read=_read_rows,
    )


def _read_expect(node: Node) -> Expect:
    expect = decode(node, Expect, what="expect", given={"place": node.place})
    if (
        not expect.batches
        and expect.rows is None
        and expect.dead_letters is None
        and expect.tombstones is None
    ):
        what = "expect names neither rows nor batches nor dead_letters nor tombstones."
        raise ProjectError.of(
            "missing-option",
            what,
            fix="Add `rows: []` for an empty table.",
            place=node.place,
        )
    return expect


_NAME = re.compile(r"\S(?:[^\n\r]*\S)?\Z")


def _read_name(node: Node) -> str:
    if isinstance(node.value, str) and _NAME.match(node.value):
        return node.value
    raise ProjectError.of(
        "wrong-type",
        f"{node.shown} is no name: it is a line of text.",
        place=node.place,
    )


@dataclass(frozen=True, slots=True)
class UnitTest:
    """A unit test of one model."""

    place: Place
    name: str = option("Name of the test, in one line.", read=_read_name)
    model: str = option("The tested model.", read=check_name)
    given: tuple[Given, ...] = option(
        "Rows and records that the test starts from: tables, and batches of streams.",
        read=_read_given,
    )
    expect: Expect = option(
        "Expected rows, dead letters and remembered keys.", read=_read_expect
    )
    description: str = option("Description of the test.", default="")
    overrides: Overrides = option(
        "Values of variables, and the current time.", factory=Overrides
    )

    @property
    def batch_count(self) -> int:
        """The number of batches: the largest number given for a stream or a table."""
        return max(
            (len(it.batches) for it in self.given if not isinstance(it, GivenTable)),
            default=0,
        )


UNIT_TEST_KINDS = (UnitTest, Overrides, GivenTable, GivenStream, GivenRef, Expect)
"""The classes of which a `UnitTest` consists."""


def read_unit_test(node: Node) -> UnitTest:
    """The test of one entry under `unit_tests:`. Raises `ProjectError` with every
    problem in it."""
    place = node.key_place("name")
    test = decode(node, UnitTest, what="a unit test", given={"place": place})
    wanted = len(test.expect.batches)
    if wanted in (0, test.batch_count):
        return test
    what = f"expect has the rows after {count(wanted, 'batch', 'batches')}, and {test.batch_count:,} arrive."
    fix = "Write a list for each batch that is given; the rows before the first one are none of them."
    raise ProjectError.of("wrong-value", what, fix=fix, place=test.expect.place)
