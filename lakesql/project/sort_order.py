"""The option `sort_order` of a rewrite: its terms, by the grammar of Iceberg's
procedures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesql.decode import Node
from lakesql.errors import ProjectError, did_you_mean

TRANSFORMS = ("identity", "bucket", "truncate", "years", "months", "days", "hours")
"""The transforms of a column in a term; `zorder` is over several columns."""

_SPELLED = {
    "year": "years",
    "month": "months",
    "day": "days",
    "date": "days",
    "hour": "hours",
    "date_hour": "hours",
}

ZORDER = "zorder"


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A term: its columns and its transform, '' for a column as it is."""

    columns: tuple[str, ...]
    transform: str = ""


_NAME = r"(?:`[^`]+`|[A-Za-z_]\w*)"
_COLUMN = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_ARGUMENT = rf"(?:{_COLUMN}|\d+)"
_TERM = re.compile(
    rf"""
    \s*(?:(?P<call>[A-Za-z_]\w*)\s*\(\s*(?P<arguments>{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)\s*\)|(?P<column>{_COLUMN}))
    (?:\s+(?:ASC|DESC))?(?:\s+NULLS\s+(?:FIRST|LAST))?\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)


def read_sort_order(node: Node) -> str:
    """The text in `node`, checked as a list of terms. Raises `ProjectError`
    (`wrong-type`, `bad-order`)."""
    text = node.value
    if not isinstance(text, str) or not text.strip():
        raise ProjectError.of(
            "wrong-type", f"{node.shown} is not a text.", place=node.place
        )
    try:
        parse_sort_order(text)
    except ValueError as error:
        fix = "Write terms with commas between them: customer_id DESC NULLS LAST, days(placed_at); or zorder(a, b)."
        raise ProjectError.of(
            "bad-order",
            f"{node.shown} is no sort_order: {error}.",
            why="",
            fix=fix,
            place=node.place,
        ) from None
    return text


def parse_sort_order(text: str) -> tuple[SortTerm, ...]:
    """The terms of a `sort_order`. Raises `ValueError`, with a message for people, for
    a text that Iceberg refuses."""
    terms: list[SortTerm] = []
    at = 0
    while True:
        found = _TERM.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            raise ValueError(f"'{text[at:].strip()}' begins with no term")
        terms.append(_read_term(found))
        if found.end() == len(text):
            break
        at = found.end() + 1
    kinds = {term.transform == ZORDER for term in terms}
    if len(kinds) > 1:
        raise ValueError("a zorder stands beside a term that is none")
    return tuple(terms)


def _read_term(found: re.Match[str]) -> SortTerm:
    if found["column"]:
        return SortTerm((_plain(found["column"]),))
    called = found["call"].lower()
    transform = _SPELLED.get(called, called)
    if transform not in (*TRANSFORMS, ZORDER):
        hint = did_you_mean(called, (*TRANSFORMS, ZORDER)).rstrip(".")
        raise ValueError(f"'{found['call']}' is no transform. {hint}")
    arguments = [argument.strip() for argument in found["arguments"].split(",")]
    numbers = [argument for argument in arguments if argument.isdecimal()]
    columns = tuple(
        _plain(argument) for argument in arguments if not argument.isdecimal()
    )
    takes = 1 if transform in ("bucket", "truncate") else 0
    if (
        len(numbers) != takes
        or not columns
        or (transform != ZORDER and len(columns) != 1)
    ):
        needs = (
            "a number and a column"
            if takes
            else "columns"
            if transform == ZORDER
            else "a column"
        )
        raise ValueError(f"{found['call']}(…) takes {needs}")
    return SortTerm(columns, transform)


def _plain(column: str) -> str:
    return ".".join(
        re.sub(r"^`|`$", "", name.strip()) for name in re.findall(_NAME, column)
    )
