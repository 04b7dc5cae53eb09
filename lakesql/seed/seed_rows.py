"""Reads the rows of a seed's file, as values of its columns' types, and reports each
invalid value with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lakesql.decode import MAX_SHOWN
from lakesql.errors import Place, Problem, ProjectError
from lakesql.seed.csv_records import CsvRecord, read_records
from lakesql.seed.seed import Seed, column_positions, header_names
from lakesql.seed.seed_values import NoValueError, ReadValue, Value, reader_of
from lakesql.stream.stream import Column
from lakesql.stream.types import parse_type

MOST_PROBLEMS = 20
"""The maximum number of problems that are reported for a seed: if a column has the
wrong type, each of its values is one."""

Row = list["Value | None"]
"""The values of a row, in the order of the seed's columns."""


@dataclass(frozen=True, slots=True)
class _ReadColumn:
    column: Column
    position: int
    read: ReadValue


def read_rows(seed: Seed, text: str, zone: tzinfo) -> Iterator[Row]:
    """The rows of a seed whose file has this text. An empty field is NULL, with or
    without quotes.

    A timestamp without a zone is a time of `zone`. Raises `ProjectError` with the first
    problems of the values and records: `seed-value`, `seed-syntax`.
    """
    problems: list[Problem] = []
    records = read_records(text, seed.delimiter, seed.path)
    header = next(records)
    columns = [*_readers(seed, header, zone)]
    for record in records:
        if len(record.values) != len(header.values):
            problems.append(_ragged(seed, header, record))
        else:
            row, wrong = _read_row(seed, columns, record)
            problems += wrong
            if not problems:
                yield row
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise ProjectError(problems)


def _readers(seed: Seed, header: CsvRecord, zone: tzinfo) -> Iterator[_ReadColumn]:
    positions = column_positions(header, seed.columns)
    for column, position in zip(seed.columns, positions, strict=True):
        kind = parse_type(column.type)
        read = reader_of(kind, zone) if kind is not None else None
        assert read is not None, "a contract has no other types"
        yield _ReadColumn(column, position, read)


def _read_row(
    seed: Seed, columns: Sequence[_ReadColumn], record: CsvRecord
) -> tuple[Row, list[Problem]]:
    row: Row = []
    problems: list[Problem] = []
    for each in columns:
        text = record.values[each.position]
        if not text:
            row.append(None)
            if each.column.required:
                what = f"'{each.column.name}' is required, and the field is empty."
                problems.append(
                    Problem("seed-value", what, place=_place(seed, record, each))
                )
            continue
        try:
            row.append(each.read(text))
        except NoValueError as error:
            shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
            what = f"{shown!r} is not a value of '{each.column.name}', which is {each.column.type}."
            problems.append(
                Problem(
                    "seed-value",
                    what,
                    f"{_sentence(str(error))}",
                    "",
                    _place(seed, record, each),
                )
            )
    return row, problems


def _place(seed: Seed, record: CsvRecord, each: _ReadColumn) -> Place:
    return record.place_of(each.position, seed.path, seed.delimiter)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _ragged(seed: Seed, header: CsvRecord, record: CsvRecord) -> Problem:
    found, wanted = len(record.values), len(header.values)
    what = f"The record has {found} value{'' if found == 1 else 's'}, and the header names {wanted} columns."
    missing = header_names(header)[found : found + 1]
    why = f"There is none for '{missing[0]}'." if missing else ""
    fix = (
        f"Put a value with a '{seed.delimiter}' in it into double quotes, and write an empty field for NULL: "
        f"`a{seed.delimiter}{seed.delimiter}c`."
    )
    return Problem(
        "seed-syntax",
        what,
        why,
        fix,
        record.place_of(min(found, wanted), seed.path, seed.delimiter),
    )
