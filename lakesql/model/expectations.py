"""Expectations (`expect:` of properties files): conditions on each row of a batch, and
what happens to a row that fails one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal

from lakesql.decode import Node, decode, option, read_each, refuse_template
from lakesql.errors import Place, Problem, ProjectError, did_you_mean

OnFail = Literal["warn", "dead_letter", "stop"]

Value = str | int | bool | float


@dataclass(frozen=True, slots=True)
class AcceptedValue:
    """One of the values that a column may have, and its place in the file."""

    value: Value
    place: Place = field(compare=False)


_NAME = "Name of the expectation in events and dead letters, in one line."
_ON_FAIL = (
    "What happens to a row that fails the expectation: `warn` writes and counts it, `dead_letter` makes its record a "
    "dead letter, `stop` writes nothing of the batch and stops the model."
)


def _read_line(node: Node) -> str:
    if isinstance(node.value, str) and node.value.strip() and node.value.isprintable():
        return node.value.strip()
    raise ProjectError.of(
        "wrong-type",
        f"{node.shown} is no name: it is a line of text.",
        place=node.place,
    )


def _read_that(node: Node) -> str:
    if isinstance(node.value, str) and node.value.strip():
        return node.value.strip()
    what = f"{node.shown} is not a condition: it is a text."
    raise ProjectError.of(
        "wrong-type",
        what,
        fix='Write one in quotes: that: "amount >= 0".',
        place=node.place,
    )


def _read_values(node: Node) -> tuple[AcceptedValue, ...]:
    values = read_each(node.items(), _read_value)
    if not values:
        raise ProjectError.of(
            "wrong-value", "values is empty: no row would be right.", place=node.place
        )
    return values


def _read_value(node: Node) -> AcceptedValue:
    refuse_template(node)
    match node.value:
        case str() | bool() | int() as value:
            return AcceptedValue(value, node.place)
        case float() as number if math.isfinite(number):
            return AcceptedValue(number, node.place)
        case _:
            what = (
                f"{node.shown} is not a value: it is a text, a number, true or false."
            )
            raise ProjectError.of("wrong-type", what, place=node.place)


@dataclass(frozen=True, slots=True)
class ExpectThat:
    """A condition in SQL."""

    place: Place = field(compare=False)
    that: str = option(
        "Condition over the columns of the SELECT, in Spark SQL.", read=_read_that
    )
    name: str = option(
        f"{_NAME} The condition itself, if left out.", default="", read=_read_line
    )
    on_fail: OnFail = option(_ON_FAIL, default="warn")


@dataclass(frozen=True, slots=True)
class ExpectNotNull:
    """`not_null`: the column has a value."""

    place: Place = field(compare=False)
    name: str = option(
        f"{_NAME} `not_null` and the column, if left out.", default="", read=_read_line
    )
    on_fail: OnFail = option(_ON_FAIL, default="warn")


@dataclass(frozen=True, slots=True)
class ExpectAcceptedValues:
    """`accepted_values`: the column has one of these values, or NULL."""

    place: Place = field(compare=False)
    values: tuple[AcceptedValue, ...] = option(
        "The accepted values, each of the column's type.", read=_read_values
    )
    name: str = option(
        f"{_NAME} `accepted_values` and the column, if left out.",
        default="",
        read=_read_line,
    )
    on_fail: OnFail = option(_ON_FAIL, default="warn")


Expectation = ExpectThat | ExpectNotNull | ExpectAcceptedValues

EXPECTATION_KINDS = (ExpectThat, ExpectNotNull, ExpectAcceptedValues)
"""The kinds of expectations."""

_OF_COLUMNS: dict[str, type[ExpectNotNull | ExpectAcceptedValues]] = {
    "not_null": ExpectNotNull,
    "accepted_values": ExpectAcceptedValues,
}
"""The expectations of a column, by their names, which are dbt's."""


def read_model_expectations(node: Node) -> tuple[Expectation, ...]:
    """The expectations under `expect:` of a model. Raises `ProjectError` with every
    problem."""
    return read_each(_items(node), lambda item: _read_that_one(item, "a model"))


def read_column_expectations(node: Node) -> tuple[Expectation, ...]:
    """The expectations under `expect:` of a column. Raises `ProjectError` with every
    problem."""
    return read_each(_items(node), _read_of_column)


def _items(node: Node) -> tuple[Node, ...]:
    return node.value if isinstance(node.value, tuple) else (node,)


def _read_that_one(node: Node, of: str) -> Expectation:
    words = [node.value] if isinstance(node.value, str) else list(node.entries())
    if found := [word for word in words if word in _OF_COLUMNS]:
        what = f"{found[0]} is expected of a column, and stands at {of}."
        fix = "Write it into `expect` of an entry of `columns`."
        raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)
    return decode(node, ExpectThat, what="an expectation", given={"place": node.place})


def _read_of_column(node: Node) -> Expectation:
    if isinstance(node.value, str):
        if node.value != "not_null":
            fix = did_you_mean(node.value, _OF_COLUMNS)
            fix = f"{fix} A condition is written `- that: …`."
            raise ProjectError.of(
                "wrong-value",
                f"{node.shown} is no expectation.",
                fix=fix,
                place=node.place,
            )
        return ExpectNotNull(node.place)
    entries = node.entries()
    named = [word for word in entries if word in _OF_COLUMNS]
    if len(entries) != 1 or not named:
        return (
            _read_that_one(node, "a column's condition")
            if not named
            else _refuse_mixture(node, named[0])
        )
    word, said = named[0], entries[named[0]]
    place = node.key_place(word)
    if word == "not_null" and said.value is None:
        return ExpectNotNull(place)
    if word == "accepted_values" and isinstance(said.value, tuple):
        return ExpectAcceptedValues(place, _read_values(said))
    return decode(said, _OF_COLUMNS[word], what=word, given={"place": place})


def _refuse_mixture(node: Node, word: str) -> Expectation:
    others = ", ".join(key for key in node.entries() if key != word)
    fix = f"Write what it takes within it: `- {word}: {{on_fail: warn}}`."
    raise ProjectError.of(
        "wrong-value", f"{others} stands beside {word}.", fix=fix, place=node.place
    )


def name_of(expectation: Expectation, column: str = "") -> str:
    """The name of an expectation: the configured one, else its condition, or its kind
    and the column."""
    match expectation:
        case ExpectThat(name=name, that=that):
            return name or " ".join(that.split())
        case ExpectNotNull(name=name):
            return name or f"not_null {column}"
        case ExpectAcceptedValues(name=name):
            return name or f"accepted_values {column}"


def find_contradictions(
    expectations: Collection[tuple[str, Expectation]],
) -> Iterator[Problem]:
    """A problem for each of a model's expectations that has the name of an earlier one,
    or expects the same with another name, and for accepted values of a column that
    exclude each other. `expectations` has each with its column."""
    named: dict[str, Expectation] = {}
    said: dict[tuple[object, ...], Expectation] = {}
    for column, expectation in expectations:
        name = name_of(expectation, column)
        first = named.setdefault(name.casefold(), expectation)
        same = said.setdefault(_rule(expectation, column), expectation)
        if first is not expectation:
            what = f"There is an expectation '{name}' at {first.place} already."
            why = "What is counted and set aside is told by the name. Capitals make no difference."
            yield Problem(
                "contradictory-expectations", what, why, place=expectation.place
            )
        elif same is not expectation:
            what = f"'{name}' expects what stands at {same.place} already, with on_fail: {same.on_fail}."
            yield Problem("contradictory-expectations", what, place=expectation.place)
    yield from _find_disjoint(expectations)


def _find_disjoint(
    expectations: Collection[tuple[str, Expectation]],
) -> Iterator[Problem]:
    allowed: dict[str, tuple[frozenset[AcceptedValue], Place]] = {}
    for column, expectation in expectations:
        if not isinstance(expectation, ExpectAcceptedValues):
            continue
        values = frozenset(expectation.values)
        before, place = allowed.get(column.lower(), (values, expectation.place))
        allowed[column.lower()] = before & values, expectation.place
        if not before & values:
            what = f"No value of '{column}' is accepted here and at {place}."
            yield Problem("contradictory-expectations", what, place=expectation.place)


def _rule(expectation: Expectation, column: str) -> tuple[object, ...]:
    """What an expectation expects, as a value that is equal for two that expect the
    same."""
    match expectation:
        case ExpectThat(that=that):
            return ("that", " ".join(that.split()))
        case ExpectNotNull():
            return ("not_null", column.lower())
        case ExpectAcceptedValues(values=values):
            return (
                "accepted_values",
                column.lower(),
                frozenset((type(it.value).__name__, it) for it in values),
            )
