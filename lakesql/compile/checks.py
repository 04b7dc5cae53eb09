"""The expectations on a model's rows as SQL: views in which each row has the names of
the expectations that it fails. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from lakesql.compile.quote import identifier, identifiers, literal, text
from lakesql.errors import Place, Problem
from lakesql.model.expectations import (
    AcceptedValue,
    ExpectAcceptedValues,
    Expectation,
    ExpectNotNull,
    ExpectThat,
    OnFail,
    name_of,
)
from lakesql.model.properties import ModelProperties
from lakesql.names import CHECKED_VIEW, FAILED, MADE_VIEW, POSITION, REPLACED
from lakesql.stream.types import NUMBER_TYPES, SparkType

_CHECKED = """\
SELECT *,
  array_compact(array(
    {cases}
  )) AS {failed}
FROM {rows}"""

_KEPT = """\
SELECT * EXCEPT ({left_out})
FROM {checked}"""


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation: a row fails it if the condition is false, but not if it is NULL.

    `column` is the column for which it is declared, '' if it is the model's.
    `is_written`: the condition is the author's SQL. `values` are the accepted values of
    the column, if the expectation is a list of them.
    """

    name: str
    condition: str
    on_fail: OnFail
    place: Place
    column: str = ""
    is_written: bool = False
    values: tuple[AcceptedValue, ...] = ()


def checks_of(properties: ModelProperties) -> tuple[Check, ...]:
    """All expectations that a model has of its rows."""
    return tuple(
        Check(
            name_of(expectation, column),
            _condition(expectation, column),
            expectation.on_fail,
            expectation.place,
            column,
            isinstance(expectation, ExpectThat),
            expectation.values if isinstance(expectation, ExpectAcceptedValues) else (),
        )
        for column, expectation in properties.expectations
    )


INVALID_TEXT = "text that is UTF-8"
"""The name of the expectation that a row with text other than UTF-8 fails, for streams
with `invalid_text: dead_letter`."""


def check_of_text(
    columns: Sequence[str], made_of_bytes: Collection[str], place: Place
) -> Check:
    """The expectation that all text in these columns is UTF-8. In columns that
    functions have made of bytes (`made_of_bytes`, in lower case) U+FFFD is a failure
    too.

    Binary columns, and columns that contain binary values, are not checked.
    """

    def valid(column: str) -> str:
        said = f"CAST({identifier(column)} AS string)"
        is_valid = f"is_valid_utf8({said})"
        if column.lower() in made_of_bytes:
            is_valid += f" AND NOT contains({said}, {text(REPLACED)})"
        return f"(typeof({identifier(column)}) LIKE '%binary%' OR coalesce({is_valid}, true))"

    valid_texts = map(valid, columns)
    return Check(INVALID_TEXT, " AND ".join(valid_texts), "dead_letter", place)


def _condition(expectation: Expectation, column: str) -> str:
    match expectation:
        case ExpectThat(that=that):
            return that
        case ExpectNotNull():
            return f"{identifier(column)} IS NOT NULL"
        case ExpectAcceptedValues(values=values):
            found = (
                literal(
                    Decimal(str(it.value)) if isinstance(it.value, float) else it.value
                )
                for it in values
            )
            return f"{identifier(column)} IN ({', '.join(found)})"
        case _:
            assert_never(expectation)


def find_unacceptable(check: Check, kind: SparkType) -> Iterator[Problem]:
    """Problems of accepted values that do not fit the type `kind` of their column.

    Spark would cast one to the other's type, for example a text to a number. The first
    text that is no number would then fail the batch, whatever `on_fail` is.
    """
    types, fix = _values_of(kind)
    for accepted in check.values:
        if type(accepted.value) not in types:
            shown = (
                str(accepted.value).lower()
                if isinstance(accepted.value, bool)
                else accepted.value
            )
            yield Problem(
                "wrong-type",
                f"'{shown}' is {_SAID[type(accepted.value)]}, and column '{check.column}' is of type {kind.text}.",
                "Spark cannot compare the two, or casts one of them, which fails the batch where it is impossible.",
                fix,
                accepted.place,
            )


_SAID: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


def _values_of(kind: SparkType) -> tuple[Collection[type], str]:
    """The Python types that a YAML value for a column of this type may have, and the
    advice for others. Dates and times are texts in YAML."""
    match kind.name:
        case "void":
            return _SAID, ""
        case "boolean":
            return (bool,), "Write true or false, without quotes."
        case name if name in NUMBER_TYPES:
            return (int, float), "Write a number, without quotes."
        case "array" | "map" | "struct" | "variant":
            return (), "Write a condition instead: `- that: …`."
        case _:
            return (str,), "Put it in quotes."


def names_of(checks: Sequence[Check], *on_fail: OnFail) -> tuple[str, ...]:
    """The names of the expectations with one of these `on_fail`."""
    return tuple(check.name for check in checks if check.on_fail in on_fail)


def checked_rows(checks: Sequence[Check], rows: str = MADE_VIEW, of: str = "") -> str:
    """The query that adds to the rows of a view the names of the expectations that each
    fails, in `_lakesql_failed`. With `of`, only rows with this condition are
    checked."""
    unless = f"{of} AND " if of else ""
    cases = (
        f"CASE WHEN {unless}NOT ({check.condition}) THEN {text(check.name)} END"
        for check in checks
    )
    return _CHECKED.format(cases=",\n    ".join(cases), failed=FAILED, rows=rows)


def kept_rows(checks: Sequence[Check], is_placed: bool) -> str:
    """The query for the rows of the view `_lakesql_checked` whose records do not become
    dead letters. With `is_placed` the column of positions is dropped, as it is no
    longer needed."""
    left_out = (FAILED, POSITION) if is_placed else (FAILED,)
    query = _KEPT.format(left_out=identifiers(left_out), checked=CHECKED_VIEW)
    condition = is_dead(checks)
    return f"{query}\nWHERE NOT {condition}" if condition else query


def is_dead(checks: Sequence[Check]) -> str:
    """The condition for checked rows whose records become dead letters; '' if no
    expectation makes dead letters."""
    names = names_of(checks, "dead_letter")
    return (
        f"arrays_overlap({FAILED}, array({', '.join(map(text, names))}))"
        if names
        else ""
    )


def show_checks(checks: Sequence[Check]) -> Iterator[str]:
    """What happens to rows that fail, in words, a sentence for each `on_fail`."""
    says: dict[OnFail, str] = {
        "warn": "are written, and counted",
        "dead_letter": "are not written: their records are dead letters",
        "stop": "stop the model, and nothing of the batch is written",
    }
    for on_fail, what in says.items():
        if names := names_of(checks, on_fail):
            yield f"those that fail {', '.join(map(text, names))} {what}"
