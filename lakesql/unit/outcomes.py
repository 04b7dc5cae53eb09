"""The outcomes of unit tests, and how they are shown as text for a terminal and as
JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from lakesql.json_values import plain
from lakesql.model.unit_tests import UnitTest
from lakesql.unit.fixture_values import Value
from lakesql.unit.fixtures import Row
from lakesql.unit.row_differences import RowDifference


@dataclass(frozen=True, slots=True)
class Passed:
    """The rows are as expected."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The rows differ from those expected; or the batch fails, and `what` says why."""

    differences: tuple[RowDifference, ...] = ()
    what: str = ""


@dataclass(frozen=True, slots=True)
class NeedsSpark:
    """The test uses something that is not known to mean the same in DuckDB as in
    Spark."""

    reason: str


Outcome: TypeAlias = Passed | Failed | NeedsSpark


@dataclass(frozen=True, slots=True)
class Result:
    """A test and its outcome."""

    test: UnitTest
    outcome: Outcome


def is_failed(result: Result) -> bool:
    """Whether a test fails."""
    return isinstance(result.outcome, Failed)


def unanswered(results: Iterable[Result]) -> list[Result]:
    """The results of tests that need Spark, and so have neither passed nor failed."""
    return [result for result in results if isinstance(result.outcome, NeedsSpark)]


def render_text(results: Sequence[Result]) -> str:
    """The results as text: a line for each test, with the rows that differ if it fails
    and the reason if it needs Spark; then the number of each."""
    lines: list[str] = []
    for result in results:
        test, outcome = result.test, result.outcome
        match outcome:
            case Passed():
                lines.append(f"pass         {test.model}: {test.name}")
            case NeedsSpark(reason):
                lines += [
                    f"needs Spark  {test.model}: {test.name}",
                    f"             {reason}",
                ]
            case Failed(differences, what):
                lines += [
                    f"FAIL         {test.model}: {test.name}",
                    f"             {test.place}",
                ]
                lines += [f"             {what}"] if what else []
                for difference in differences:
                    lines += [
                        "",
                        *(f"  {line}" for line in difference_lines(difference)),
                        "",
                    ]
            case _:
                assert_never(outcome)
    counts = summary(results)
    lines.append(
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['needs_spark']} need Spark."
    )
    if names := ", ".join(f"'{result.test.name}'" for result in unanswered(results)):
        lines.append(
            f"Not answered without Spark: {names}. To answer them: lakesql test --unit --engine spark"
        )
    return "\n".join(lines) + "\n"


def difference_lines(difference: RowDifference) -> list[str]:
    """The rows that differ, as the lines of a table: `-` marks missing rows, `+`
    unexpected ones."""
    columns = difference.columns
    signs = {"missing": "-", "unexpected": "+"}
    rows = [
        [
            signs[odd.side],
            *(_cell(odd.row[name]) if name in odd.row else "" for name in columns),
        ]
        for odd in difference.rows
    ]
    table = [["", *columns], *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns) + 1)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    ]
    return [
        f"{difference.what}: - expected, + found; {difference.same} as expected",
        *lines,
    ]


def summary(results: Sequence[Result]) -> dict[str, int]:
    """The number of tests by outcome: `passed`, `failed`, `needs_spark`."""
    kinds = [_word(result.outcome) for result in results]
    return {word: kinds.count(word) for word in ("passed", "failed", "needs_spark")}


def render_json(results: Sequence[Result]) -> str:
    """The results as a JSON document."""
    tests = [
        {
            "model": result.test.model,
            "name": result.test.name,
            "place": str(result.test.place),
            "outcome": _word(result.outcome),
            **_details(result.outcome),
        }
        for result in results
    ]
    return json.dumps(
        {"summary": summary(results), "tests": tests}, indent=2, ensure_ascii=False
    )


def _word(outcome: Outcome) -> str:
    match outcome:
        case Passed():
            return "passed"
        case Failed():
            return "failed"
        case NeedsSpark():
            return "needs_spark"
        case _:
            assert_never(outcome)


def _details(outcome: Outcome) -> dict[str, object]:
    match outcome:
        case Passed():
            return {}
        case NeedsSpark(reason):
            return {"reason": reason}
        case Failed(differences, what):
            return {
                "what": what,
                "differences": [
                    {
                        "what": difference.what,
                        "same": difference.same,
                        "rows": [
                            {"side": odd.side, "row": plain_row(odd.row)}
                            for odd in difference.rows
                        ],
                    }
                    for difference in differences
                ],
            }
        case _:
            assert_never(outcome)


def plain_row(row: Row) -> dict[str, object]:
    """The row with values that JSON has, as a test's file may give them: values of
    other types become text, and times are in UTC."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Value) -> object:
    return plain(value, "Z")


def _cell(value: Value) -> str:
    """A value as a cell of the table. A string that is not printable, has blanks at its
    ends, is empty or is NULL is shown in quotes."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return (
                value
                if value.isprintable()
                and value.strip() == value
                and value not in ("", "NULL")
                else repr(value)
            )
        case dict() | list():
            return json.dumps(_plain(value), ensure_ascii=False)
        case _:
            return str(_plain(value))
