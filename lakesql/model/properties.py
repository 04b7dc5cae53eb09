"""Properties files: descriptions, docs of columns, limits, tests and expectations of
models, in .yml files beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lakesql.decode import Node, decode, option, read_each, read_mapping
from lakesql.errors import Place, ProjectError
from lakesql.model.data_tests import TestEntry, read_tests
from lakesql.model.expectations import (
    Expectation,
    find_contradictions,
    read_column_expectations,
    read_model_expectations,
)
from lakesql.names import check_model_name
from lakesql.project.duration import Duration, parse_duration
from lakesql.stream.stream import Watermark


@dataclass(frozen=True, slots=True)
class ColumnProperties:
    """The properties of one column."""

    name: str = option("The column's name.")
    description: str = option("What the column holds.", default="")
    tests: tuple[TestEntry, ...] = option(
        "Tests of the column.", default=(), read=read_tests
    )
    data_tests: tuple[TestEntry, ...] = option(
        "The same as `tests`, by dbt's newer name.", default=(), read=read_tests
    )
    expect: tuple[Expectation, ...] = option(
        "Expectations of the column, checked in each row of a batch ([docs/expectations.md](expectations.md)).",
        default=(),
        read=read_column_expectations,
    )


def _read_columns(node: Node) -> tuple[ColumnProperties, ...]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    return read_each(
        items,
        lambda item: decode(item, ColumnProperties, what="a column", words="column"),
    )


def _read_average(node: Node) -> float:
    return _read_number(
        node, math.inf, "An average number of files is a number from 0 on."
    )


def _read_ratio(node: Node) -> float:
    return _read_number(node, 1, "A ratio is a number from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Freshness:
    """The limits for a model's table. `lakesql freshness` fails above each of them but
    `warn_after`."""

    warn_after: Duration | None = option(
        "Age of the table's data above which there is a warning: the age of the newest event if the ledger has its "
        "time for the last commit, or for the one before, whose latency is then assumed; else the age of the last "
        "commit.",
        default=None,
        read=parse_duration,
    )
    error_after: Duration | None = option(
        "Age of the table's data above which there is an error; must be longer than `warn_after`.",
        default=None,
        read=parse_duration,
    )
    max_average_small_files: float | None = option(
        "Maximum average number of small data files in a partition; an unpartitioned table is one partition. A data "
        "file is small below 75 % of the table's `write.target-file-size-bytes`.",
        default=None,
        read=_read_average,
    )
    max_compaction_lag: Duration | None = option(
        "Maximum age of the oldest data that no compaction has rewritten, however little it is: delete files, and "
        "small data files in a partition with five or more of them.",
        default=None,
        read=parse_duration,
    )
    max_dead_letter_ratio: float | None = option(
        "Maximum share of dead letters among the dead letters and written rows of the last hour, from 0 to 1.",
        default=None,
        read=_read_ratio,
    )


NO_LIMITS = Freshness()
"""The limits of a model that sets none."""


def _read_freshness(node: Node) -> Freshness:
    limits = decode(node, Freshness, what="freshness")
    if limits == NO_LIMITS:
        what = "freshness names no limit."
        raise ProjectError.of(
            "missing-option",
            what,
            fix="Add one, such as `error_after: 15 minutes`.",
            place=node.place,
        )
    warn, error = limits.warn_after, limits.error_after
    if warn and error and warn.length_ms >= error.length_ms:
        raise ProjectError.of(
            "wrong-value",
            f"warn_after is {warn.text}, and error_after {error.text}: there would never be a warning.",
            fix="Warn earlier, or leave `warn_after` out.",
            place=node.entries()["warn_after"].place,
        )
    return limits


def _read_number(node: Node, most: float, wanted: str) -> float:
    value = node.value
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= most
        and math.isfinite(value)
    ):
        return float(value)
    raise ProjectError.of("wrong-value", wanted, place=node.place)


META = (
    "Metadata for other tools, such as `{owner: the shop team}`, which names the table's owner. It is merged key by "
    "key with `meta` of the folder and of `config(…)`; that of `config(…)` takes precedence."
)

NO_META = Node({}, Place(""))
"""The `meta` of a model that has none."""


@dataclass(frozen=True, slots=True)
class ModelProperties:
    """The properties of one model."""

    place: Place = option("Where the file names the model.")
    name: str = option("The model's name.", read=check_model_name)
    description: str = option("What a row of the table is.", default="")
    columns: tuple[ColumnProperties, ...] = option(
        "Descriptions, tests and expectations of the columns.",
        default=(),
        read=_read_columns,
    )
    freshness: Freshness = option(
        "Limits that `lakesql freshness` checks the table against.",
        default=NO_LIMITS,
        read=_read_freshness,
    )
    tests: tuple[TestEntry, ...] = option(
        "Tests of the table.", default=(), read=read_tests
    )
    data_tests: tuple[TestEntry, ...] = option(
        "The same as `tests`, by dbt's newer name.", default=(), read=read_tests
    )
    watermark: Watermark | None = option(
        "How late rows may be for models that read the table as a stream; required by an aggregate in mode `append`.",
        default=None,
        read=lambda node: decode(node, Watermark, what="watermark"),
    )
    expect: tuple[Expectation, ...] = option(
        "Expectations of each row of a batch ([docs/expectations.md](expectations.md)).",
        default=(),
        read=read_model_expectations,
    )
    meta: Node = option(META, default=NO_META, read=read_mapping, is_hashed=False)

    @property
    def test_entries(self) -> Iterator[tuple[str, TestEntry]]:
        """All data tests of the model, each with its column's name, '' for those of the
        table."""
        for entry in (*self.tests, *self.data_tests):
            yield "", entry
        for column in self.columns:
            for entry in (*column.tests, *column.data_tests):
                yield column.name, entry

    @property
    def expectations(self) -> tuple[tuple[str, Expectation], ...]:
        """All expectations, in the order of the file: those of the model, with '', then
        those of its columns, each with the column's name."""
        of_columns = (
            (column.name, it) for column in self.columns for it in column.expect
        )
        return (*(("", it) for it in self.expect), *of_columns)

    def description_of(self, column: str) -> str:
        """The description of a column; '' if it has none."""
        return next(
            (
                item.description
                for item in self.columns
                if item.name.lower() == column.lower()
            ),
            "",
        )


@dataclass(frozen=True, slots=True)
class _PropertiesFile:
    models: Node | None = option("Models.", default=None, read=lambda node: node)
    streams: Node | None = option("Streams.", default=None, read=lambda node: node)
    unit_tests: Node | None = option(
        "Unit tests of models.", default=None, read=lambda node: node
    )
    seeds: Node | None = option("Seeds.", default=None, read=lambda node: node)
    source_tables: Node | None = option(
        "Source tables of change feeds.", default=None, read=lambda node: node
    )


@dataclass(frozen=True, slots=True)
class FileSections:
    """The entries of a properties file, undecoded, by its top-level keys."""

    models: tuple[Node, ...] = ()
    streams: tuple[Node, ...] = ()
    unit_tests: tuple[Node, ...] = ()
    seeds: tuple[Node, ...] = ()
    source_tables: tuple[Node, ...] = ()


def read_sections(root: Node) -> FileSections:
    """The entries of a properties file. Raises `ProjectError` for an unknown top-level
    key."""
    file = decode(root, _PropertiesFile, what="a properties file", words="file")
    return FileSections(
        models=_items(file.models),
        streams=_items(file.streams),
        unit_tests=_items(file.unit_tests),
        seeds=_items(file.seeds),
        source_tables=_items(file.source_tables),
    )


def read_model_properties(node: Node) -> ModelProperties:
    """The properties of one entry under `models:`. Raises `ProjectError` with every
    problem in it."""
    place = node.keys.get("name", node.place)
    said = decode(
        node,
        ModelProperties,
        what="a model's properties",
        words="model",
        given={"place": place},
    )
    if problems := tuple(find_contradictions(said.expectations)):
        raise ProjectError(problems)
    return said


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.items() if node is not None and node.value is not None else ()
