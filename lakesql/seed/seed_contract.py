"""Reads the entries under `seeds:` of a properties file: the columns of a seed with
their types, and its tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakesql.decode import Node, decode, option, read_entries, read_filled, read_mapping
from lakesql.errors import Place, Problem, ProjectError
from lakesql.model.data_tests import TestEntry, read_tests
from lakesql.model.properties import NO_META, ColumnProperties, ModelProperties
from lakesql.names import check_landing, check_name
from lakesql.seed.seed_values import holds_values_of
from lakesql.stream.stream import Column, read_column_type


@dataclass(frozen=True, slots=True)
class SeedContract:
    """The declaration of a seed. Without `columns`, all columns of its header are
    strings. `properties` are like those of a model: descriptions, and tests of the
    table and its columns."""

    name: str
    columns: tuple[Column, ...]
    properties: ModelProperties
    delimiter: str
    tags: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class SeedColumnOptions:
    """The keys of a column of a seed."""

    type: str = option(
        "A Spark SQL type of a single value: no array, map or struct.", default="string"
    )
    required: bool = option(
        "Whether an empty field is refused; otherwise it is NULL.", default=False
    )
    description: str = option("Description of the column.", default="")
    from_: str = option(
        "Name of the column in the file's header, such as `a.b`; the column's name if left out.",
        default="",
        read=read_filled,
    )
    tests: tuple[TestEntry, ...] = option(
        "Tests of the column.", default=(), read=read_tests
    )
    data_tests: tuple[TestEntry, ...] = option(
        "The same as `tests`, by dbt's newer name.", default=(), read=read_tests
    )


@dataclass(frozen=True, slots=True)
class _SeedColumn:
    column: Column
    properties: ColumnProperties


def _read_columns(node: Node) -> tuple[_SeedColumn, ...]:
    if isinstance(node.value, tuple):
        what = "The columns of a seed are a mapping of names to types, not a list."
        fix = "Write `code: string`, or `code: {type: string, required: true}`, a line for each column."
        raise ProjectError.of("wrong-type", what, fix=fix, place=node.place)
    found = tuple(read_entries(node, partial(_read_column, node.keys)).values())
    first: dict[str, str] = {}
    problems = []
    for each in found:
        name = each.column.name
        if first.setdefault(name.lower(), name) != name:
            what = f"'{name}' stands twice. Capitals make no difference."
            problems.append(
                Problem(
                    "duplicate-column",
                    what,
                    "",
                    "Keep one of the two.",
                    node.key_place(name),
                )
            )
    if problems:
        raise ProjectError(problems)
    return found


def _read_column(places: Mapping[str, Place], name: str, node: Node) -> _SeedColumn:
    place = places.get(name, node.place)
    check_landing(name, place)
    if isinstance(node.value, str):
        node = Node({"type": node}, node.place)
    options = decode(node, SeedColumnOptions, what=f"column '{name}'")
    said = node.get("type")
    kind = read_column_type(options.type, said.place if said is not None else place)
    if not holds_values_of(kind):
        what = f"'{name}' is {kind}, which a value of a seed cannot be."
        fix = "Declare it as string, and take it apart in the SELECT: split(…), from_json(…), unhex(…)."
        raise ProjectError.of(
            "wrong-type", what, fix=fix, place=said.place if said is not None else place
        )
    return _SeedColumn(
        Column(
            name, kind, options.required, options.description, from_field=options.from_
        ),
        ColumnProperties(name, options.description, options.tests, options.data_tests),
    )


def _read_delimiter(node: Node) -> str:
    if (
        isinstance(node.value, str)
        and len(node.value) == 1
        and node.value not in '"\r\n'
    ):
        return node.value
    fix = "Write one character, such as ';' or '|', or \"\\t\" for a tab."
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is no delimiter of values.",
        fix=fix,
        place=node.place,
    )


@dataclass(frozen=True, slots=True)
class SeedOptions:
    """The keys of an entry under `seeds:`."""

    name: str = option(
        "Name of the seed: that of its file without `.csv`.", read=check_name
    )
    description: str = option("Description of a row.", default="")
    columns: tuple[_SeedColumn, ...] = option(
        "Contract of the seed: name to type, or to {type, required, description, …}. All columns are text if left "
        "out.",
        default=(),
        read=_read_columns,
    )
    delimiter: str = option(
        "Character that separates values.", default=",", read=_read_delimiter
    )
    tags: tuple[str, ...] = option(
        "Tags by which `--select tag:…` selects the seed.", default=()
    )
    tests: tuple[TestEntry, ...] = option(
        "Tests of the table.", default=(), read=read_tests
    )
    data_tests: tuple[TestEntry, ...] = option(
        "The same as `tests`, by dbt's newer name.", default=(), read=read_tests
    )
    meta: Node = option(
        "Metadata for other tools, such as `{owner: the shop team}`, which names the seed's owner.",
        default=NO_META,
        read=read_mapping,
    )


def read_seed_contract(node: Node) -> SeedContract:
    """The contract in one entry under `seeds:`. Raises `ProjectError` with all problems
    of the entry."""
    said = decode(node, SeedOptions, what="a seed", words="seed")
    place = node.keys.get("name", node.place)
    properties = ModelProperties(
        place=place,
        name=said.name,
        description=said.description,
        columns=tuple(each.properties for each in said.columns),
        tests=said.tests,
        data_tests=said.data_tests,
        meta=said.meta,
    )
    columns = tuple(each.column for each in said.columns)
    return SeedContract(
        said.name, columns, properties, said.delimiter, said.tags, place
    )
