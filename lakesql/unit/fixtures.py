"""Reads the rows and records that a unit test gives, as values of their columns'
types."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from lakesql.decode import Node, collect, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.names import NO_VALUE, RECORD, REQUIRED_MISSING
from lakesql.project.files import read_text
from lakesql.project.yaml import parse_yaml
from lakesql.stream.recording import Digits
from lakesql.stream.stream import Stream
from lakesql.unit.duck_types import NeedsSparkError
from lakesql.unit.fixture_values import (
    Bad,
    MisfitError,
    Value,
    fit,
    fit_nested,
    is_known,
    read_raw,
)

T = TypeVar("T")
Item = TypeVar("Item")
Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row of a fixture and its place in the file. `values` has only the columns that
    the test names."""

    values: Row
    place: Place


Other = Callable[[Node, str], Value]
"""A function that makes a value of a node, of a type that fixtures do not know. It may
raise `NeedsSparkError`."""


def needs_spark(node: Node, kind: str) -> Value:
    """The `Other` that refuses every type with `NeedsSparkError`."""
    raise NeedsSparkError(f"type {kind or 'of a column, which only Spark knows'}")


def read_rows(
    node: Node,
    columns: Mapping[str, str],
    what: str,
    folder: Path,
    other: Other = needs_spark,
) -> list[NamedRow]:
    """The rows of a table's fixture. `columns` are the types of the table's columns by
    name; `what` is what messages call the table.

    Raises `ProjectError` for rows that do not fit.
    """
    items = read_items(node, folder)
    return read_each(
        items,
        lambda item: NamedRow(read_row(item, columns, what, other), item.place),
        _place_of,
    )


def read_written(text: str, stream: Stream) -> list[Row | Bad]:
    """The records of one batch that stand so in a test's file. Raises what
    `read_records` raises."""
    return read_records(parse_yaml("record", text), stream, False, Path())


def read_records(
    node: Node, stream: Stream, takes_tombstones: bool, folder: Path
) -> list[Row | Bad]:
    """The records of one batch: rows with all columns of the contract, and dead
    letters.

    Raises `ProjectError` for records that do not fit the contract, and
    `NeedsSparkError` for those that only Spark can read.
    """
    columns = {column.name: column.type for column in stream.columns}

    def read(item: Node) -> Row | Bad:
        match item.value:
            case None if takes_tombstones:
                raise NeedsSparkError("a record without a value, which deletes its key")
            case None:
                return Bad(NO_VALUE)
            case str() as raw if stream.record_format.is_document:
                return read_raw(raw, stream)
            case str():
                raise NeedsSparkError(f"a raw record of format {stream.format}")
            case Mapping() if RECORD in item.value:
                raise NeedsSparkError(f"{RECORD} of a record")
            case _:
                row = read_row(item, columns, f"stream '{stream.name}'", fit_nested)
                whole = {name: row.get(name) for name in columns}
                missing = any(
                    column.required and whole[column.name] is None
                    for column in stream.columns
                )
                return Bad(REQUIRED_MISSING) if missing else whole

    return read_each(read_items(node, folder), read, _place_of)


def _place_of(node: Node) -> Place:
    return node.place


def read_each(
    items: Iterable[Item], read: Callable[[Item], T], place: Callable[[Item], Place]
) -> list[T]:
    """The result of `read` for each item. The problems of all items are raised together
    as one `ProjectError`."""
    made, problems = [], list[Problem]()
    for item in items:
        found = collect(problems, partial(read, item), place(item))
        if found is not None:
            made.append(found)
    if problems:
        raise ProjectError(problems)
    return made


def read_items(node: Node, folder: Path) -> Iterable[Node]:
    """The items of a list, or of the file that is named instead."""
    return (
        tuple(_read_file(node, folder)) if isinstance(node.value, str) else node.items()
    )


def _read_file(node: Node, folder: Path) -> Iterator[Node]:
    """The rows of a .csv file, or the lines of a .jsonl file, each as a node like one
    in the test's own file."""
    shown = str(node.value)
    path = folder / shown
    suffix = PurePosixPath(shown).suffix
    if suffix not in (".csv", ".jsonl"):
        what = f"{node.shown} is neither a list of rows nor a .csv or .jsonl file."
        raise ProjectError.of("bad-fixture", what, place=node.place)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ProjectError.of(
            "outside-project", f"'{shown}' lies outside the project.", place=node.place
        )
    if not path.is_file():
        raise ProjectError.of(
            "missing-fixture", f"There is no file {shown}.", place=node.place
        )
    text = read_text(path, shown)
    yield from _csv_rows(shown, text) if suffix == ".csv" else _json_lines(shown, text)


def _json_lines(shown: str, text: str) -> Iterator[Node]:
    for number, line in enumerate(text.split("\n"), start=1):
        place = Place(shown, number, 1)
        if not line.strip():
            continue
        try:
            yield _with_digits(
                json.loads(line, parse_float=Digits, object_pairs_hook=_once_each),
                place,
            )
        except ValueError as error:
            what = f"This line is no JSON: {error}."
            fix = "Write a bad record as a JSON string: its raw value in quotes."
            raise ProjectError.of("bad-fixture", what, fix=fix, place=place) from None


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object as a dict. Raises `ValueError` if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name in found if [each for each, _ in pairs].count(name) > 1
        )
        raise ValueError(f"'{twice}' stands in an object twice")
    return found


def _with_digits(value: object, place: Place) -> Node:
    match value:
        case Digits():
            return Node(float(value), place, written=str(value))
        case dict():
            return Node(
                {str(key): _with_digits(item, place) for key, item in value.items()},
                place,
            )
        case _:
            return node_of(value, place)


def _csv_rows(shown: str, text: str) -> Iterator[Node]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = _csv_record(lines, Place(shown, 1))
    if not header:
        raise ProjectError.of(
            "bad-fixture",
            "The file has no line of column names.",
            place=Place(shown, 1),
        )
    folded = [name.lower() for name in header]
    if twice := next((name for name in header if folded.count(name.lower()) > 1), None):
        raise ProjectError.of(
            "bad-fixture",
            f"The first line names column '{twice}' twice.",
            place=Place(shown, 1),
        )
    while (line := _csv_record(lines, Place(shown, lines.line_num + 1))) is not None:
        place = Place(shown, lines.line_num)
        if len(line) != len(header):
            if not line:
                continue
            what = f"This line has {len(line)} values, and the first line {len(header)} names."
            raise ProjectError.of("bad-fixture", what, place=place)
        yield Node(
            {
                name: _csv_value(value, place)
                for name, value in zip(header, line, strict=True)
            },
            place,
        )


def _csv_record(lines: Iterator[list[str]], begins: Place) -> list[str] | None:
    """The next record; None after the last one. Raises `ProjectError` for a record that
    is no CSV, such as one with an open quote."""
    try:
        return next(lines, None)
    except csv.Error as error:
        raise ProjectError.of(
            "bad-fixture", f"This record is no CSV: {error}.", place=begins
        ) from None


def _csv_value(text: str, place: Place) -> Node:
    """A value of a line: NULL if it is empty, and otherwise a string that is converted
    by the type of its column."""
    return Node(None, place) if text == "" else Node(text, place, written=text)


def read_row(
    node: Node, columns: Mapping[str, str], what: str, other: Other = needs_spark
) -> Row:
    """The columns that a row names, with their values. Raises `ProjectError` with all
    problems of the row."""
    spelled = {name.lower(): name for name in columns}
    problems: list[Problem] = []
    row: Row = {}
    if not isinstance(node.value, Mapping):
        said = f"{node.shown} is no row: a row is a mapping of columns to values."
        raise ProjectError.of("bad-fixture", said, place=node.place)
    for key, value in node.value.items():
        name = spelled.get(key.lower())
        if name is None:
            hint = did_you_mean(key, columns)
            problems.append(
                Problem(
                    "unknown-column",
                    f"{what} has no column '{key}'.",
                    "",
                    hint,
                    node.key_place(key),
                )
            )
            continue
        if name in row:
            said = f"Column '{name}' stands here twice: capitals make no difference."
            problems.append(Problem("bad-fixture", said, place=node.key_place(key)))
            continue
        try:
            row[name] = (
                fit(value, columns[name])
                if is_known(columns[name])
                else other(value, columns[name])
            )
        except MisfitError as error:
            problems.append(
                Problem(
                    "bad-fixture",
                    f"Column '{name}' of {what}: {error}.",
                    place=value.place,
                )
            )
    if problems:
        raise ProjectError(problems)
    return row
