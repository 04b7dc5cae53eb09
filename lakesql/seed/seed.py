"""A seed, which is a small table of the project, built from the header of its CSV file
and its contract."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lakesql.decode import node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean, quoted
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.names import check_landing, check_name
from lakesql.project.cache import digest
from lakesql.project.files import SeedFile
from lakesql.project.profiles import Target
from lakesql.project.settings import Settings
from lakesql.seed.csv_records import CsvRecord, read_records
from lakesql.seed.seed_contract import SeedContract
from lakesql.stream.stream import Column

TEXT = "string"
"""The type of all columns of a seed without a contract."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed of the project. `columns` are those of its table, in the order of the
    contract, or else of the file.

    `digest` is a hash of the file's content.
    """

    name: str
    path: str
    fqn: tuple[str, ...]
    table: TableName
    columns: tuple[Column, ...]
    properties: ModelProperties
    delimiter: str
    tags: tuple[str, ...]
    digest: str

    @property
    def place(self) -> Place:
        """The start of the seed's file."""
        return Place(self.path, 1, 1)

    def version(self, zone: str) -> str:
        """A hash of all that its table is made of: the file, the contract, and the time
        zone `zone` if it has timestamps."""
        zone = (
            zone if any(column.type == "timestamp" for column in self.columns) else ""
        )
        columns = [
            [column.name, column.type, column.field, column.required]
            for column in self.columns
        ]
        comments = [
            self.properties.description,
            *(column.description for column in self.columns),
        ]
        return digest(
            self.digest, self.delimiter, zone, json.dumps([columns, comments])
        )


def seed_name(path: str) -> str:
    """The name of the seed in a file, which is the file's name. Raises `ProjectError`
    (`bad-name`)."""
    return check_name(node_of(PurePosixPath(path).stem, Place(path)))


def build_seed(
    file: SeedFile, contract: SeedContract | None, settings: Settings, target: Target
) -> Seed:
    """The seed of a file and its contract. Raises `ProjectError` with all problems of
    its header: `seed-syntax`, `seed-columns`, `duplicate-column`, `bad-column-name`,
    `reserved-column`."""
    name = seed_name(file.path)
    delimiter = contract.delimiter if contract is not None else ","
    header = next(read_records(file.header, delimiter, file.path), None)
    if header is None:
        what = "The file has no header: its first line is empty."
        raise ProjectError.of(
            "seed-syntax",
            what,
            fix="Name the columns in its first line.",
            place=Place(file.path, 1),
        )
    declared = contract.columns if contract is not None else ()
    problems = [*_find_doubles(header, file.path, delimiter)]
    if contract is not None and declared:
        problems += _compare(header, contract, file.path)
    else:
        problems += _check_names(header, file.path, delimiter)
    if problems:
        raise ProjectError(problems)
    relative = PurePosixPath(file.path).relative_to(settings.paths.seeds)
    return Seed(
        name=name,
        path=file.path,
        fqn=(settings.name, *relative.parts[:-1], name),
        table=TableName(target.catalog.name, target.namespace, name),
        columns=declared
        or tuple(Column(column, TEXT) for column in header_names(header)),
        properties=contract.properties
        if contract is not None
        else ModelProperties(Place(file.path), name),
        delimiter=delimiter,
        tags=contract.tags if contract is not None else (),
        digest=file.digest,
    )


def header_names(header: CsvRecord) -> list[str]:
    """The names in a header, without blanks around them."""
    return [value.strip() for value in header.values]


def column_positions(header: CsvRecord, columns: Sequence[Column]) -> list[int]:
    """The index of each column's value in a record, by a header that has all of
    them."""
    named = {
        name.lower(): position for position, name in enumerate(header_names(header))
    }
    return [named[column.field.lower()] for column in columns]


def _find_doubles(header: CsvRecord, path: str, delimiter: str) -> Iterator[Problem]:
    counts = Counter(name.lower() for name in header_names(header))
    seen: set[str] = set()
    for position, name in enumerate(header_names(header)):
        if name and counts[name.lower()] > 1 and name.lower() in seen:
            what = f"The header has the column '{name}' twice."
            place = header.place_of(position, path, delimiter)
            yield Problem(
                "duplicate-column",
                what,
                "Capitals make no difference.",
                "Rename one of the two.",
                place,
            )
        seen.add(name.lower())


def _check_names(header: CsvRecord, path: str, delimiter: str) -> Iterator[Problem]:
    """The problems of names in a header without a contract that cannot be names of
    columns."""
    fix = "Rename it in the header. Or declare the seed's columns: `a_b: {type: string, from: 'a.b'}`."
    for position, name in enumerate(header_names(header)):
        try:
            check_landing(name, header.place_of(position, path, delimiter))
        except ProjectError as error:
            for it in error.problems:
                yield Problem(it.condition, it.what, it.why, fix, it.place)


def _compare(header: CsvRecord, contract: SeedContract, path: str) -> Iterator[Problem]:
    """The problems of a header that differs from its contract: columns that either has
    and the other has not, and two columns of one field."""
    names = header_names(header)
    fields = {column.field.lower(): column for column in contract.columns}
    known = {name.lower() for name in names}
    columns = contract.columns
    missing = [column.field for column in columns if column.field.lower() not in known]
    if missing:
        what = f"The header of {path} lacks {quoted(missing)}, which the contract of seed '{contract.name}' has."
        fix = f"{did_you_mean(missing[0], names)} Correct the contract or the header."
        yield Problem(
            "seed-columns", what, "Capitals make no difference.", fix, contract.place
        )
    for position, name in enumerate(names):
        if name.lower() not in fields:
            what = f"The header has '{name}', which the contract of seed '{contract.name}' does not have."
            fix = f"Declare it at {contract.place}: `{name}: string`, or take it out of the file."
            yield Problem(
                "seed-columns",
                what,
                "",
                fix,
                header.place_of(position, path, contract.delimiter),
            )
    for field, count in Counter(column.field.lower() for column in columns).items():
        if count > 1:
            what = f"Two columns of seed '{contract.name}' are read from one field, '{field}'."
            yield Problem(
                "duplicate-column",
                what,
                "Capitals make no difference.",
                place=contract.place,
            )
