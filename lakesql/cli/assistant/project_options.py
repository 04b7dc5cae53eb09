"""All options that files of a project may have, with where each is set and its docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lakesql.decode import fields_of


@dataclass(frozen=True, slots=True)
class ProjectOption:
    """An option: where it is set, its name, and its docs. `default` is None if it has
    no default that can be shown."""

    of: str
    name: str
    meaning: str
    is_required: bool = False
    default: str | int | float | None = None

    def describe(self) -> dict[str, Any]:
        """The option as a JSON object."""
        said = {
            "of": self.of,
            "name": self.name,
            "meaning": self.meaning,
            "required": self.is_required,
        }
        return said if self.default is None else {**said, "default": self.default}


def every_option() -> Iterator[ProjectOption]:
    """All options. Those that every mode with a table has are given once, not for each
    mode."""
    from lakesql.model.config import TableConfig
    from lakesql.modes.all_modes import mode_words

    common = {field.name for field in fields_of(TableConfig)}
    for where, kind in (
        *_of_models(),
        *_of_tests(),
        *_of_streams(),
        *_of_seeds(),
        *_of_profiles(),
        *_of_settings(),
    ):
        is_mode = kind is not TableConfig and issubclass(kind, TableConfig)
        for field in fields_of(kind):
            if (
                not field.doc
                or field.name == "place"
                or (is_mode and field.name in common)
            ):
                continue
            is_plain = not field.required and isinstance(
                field.default, str | int | float
            )
            default = field.default if is_plain else None
            yield ProjectOption(where, field.name, field.doc, field.required, default)
    yield from _words_of_tests()
    words = ", ".join(mode_words())
    yield ProjectOption(
        "config of a model",
        "mode",
        f"What becomes of its rows: one of {words}.",
        is_required=True,
    )


_Kinds = Iterable[tuple[str, type]]


def _of_models() -> _Kinds:
    from lakesql.model.config import MaintenanceConfig, TableConfig
    from lakesql.model.group import GroupConfig, Tables
    from lakesql.model.properties import ColumnProperties, Freshness, ModelProperties
    from lakesql.modes.all_modes import MODES
    from lakesql.project.procedures import PROCEDURES, Maintenance

    yield "config of every mode that writes a table", TableConfig
    for kind in MODES.values():
        yield f"config with mode='{kind.mode}'", kind
    yield "config of a maintenance model", MaintenanceConfig
    yield "config of a group of models", GroupConfig
    yield "tables of a group's config", Tables
    yield "maintenance", Maintenance
    for name, procedure in PROCEDURES.items():
        yield f"{name} of maintenance", procedure
    yield "properties of a model", ModelProperties
    yield "properties of a column", ColumnProperties
    yield "freshness of a model's properties", Freshness


def _of_tests() -> _Kinds:
    from lakesql.model.data_tests import TEST_KINDS, EntryOptions, TestOptions
    from lakesql.model.expectations import (
        ExpectAcceptedValues,
        ExpectNotNull,
        ExpectThat,
    )
    from lakesql.model.unit_tests import (
        Expect,
        GivenRef,
        GivenStream,
        GivenTable,
        Overrides,
        UnitTest,
    )

    yield "a test of a table", TestOptions
    yield "a test of a properties file", EntryOptions
    for word, test in TEST_KINDS:
        yield f"test {word}", test
    yield "an expectation", ExpectThat
    yield "expectation not_null", ExpectNotNull
    yield "expectation accepted_values", ExpectAcceptedValues
    yield "a unit test", UnitTest
    yield "overrides of a unit test", Overrides
    yield "given of a unit test, of a stream", GivenStream
    yield "given of a unit test, of a model or a seed", GivenRef
    yield "given of a unit test, of the model's own table", GivenTable
    yield "expect of a unit test", Expect


def _of_streams() -> _Kinds:
    from lakesql.records.formats.csv import Csv
    from lakesql.source.notifications import Notifications
    from lakesql.stream.source_table import _FieldOptions, _SourceTableOptions
    from lakesql.stream.stream import Watermark, _ColumnOptions, _StreamOptions

    yield "a stream", _StreamOptions
    yield "a column of a stream or a source table", _ColumnOptions
    yield "watermark of a stream or a model", Watermark
    yield "csv of a stream", Csv
    yield "notifications of a stream", Notifications
    yield "a table under source_tables", _SourceTableOptions
    yield "a field of a table under source_tables", _FieldOptions


def _of_seeds() -> _Kinds:
    from lakesql.seed.seed_contract import SeedColumnOptions, SeedOptions

    yield "a seed", SeedOptions
    yield "a column of a seed", SeedColumnOptions


def _of_profiles() -> _Kinds:
    from lakesql.project.lineage_target import LINEAGE_TARGETS
    from lakesql.project.profiles import Catalog, Retries, Spark, Target
    from lakesql.registry.connection import Registry
    from lakesql.source.kinds import CONNECTIONS

    yield "a target of profiles.yml", Target
    yield "spark of a target", Spark
    yield "catalog of a target", Catalog
    yield "retries of a target", Retries
    for name, kind in LINEAGE_TARGETS.items():
        yield f"lineage of a target, of type {name}", kind
    for name, connection in CONNECTIONS.items():
        yield f"a connection of type {name}", connection
    yield f"a connection of type {Registry.kind}", Registry


def _of_settings() -> _Kinds:
    from lakesql.graph.named_selectors import _Definition
    from lakesql.lint.lint_settings import LintSettings
    from lakesql.project.settings import Paths, SeedSettings, Settings

    yield "[tool.lakesql] of pyproject.toml", Settings
    yield "[tool.lakesql.paths]", Paths
    yield "[tool.lakesql.seeds]", SeedSettings
    yield "[tool.lakesql.lint]", LintSettings
    yield "a selector of selectors.yml", _Definition


def _words_of_tests() -> Iterator[ProjectOption]:
    from lakesql.model.data_tests import TEST_KINDS

    for word, kind in TEST_KINDS:
        yield ProjectOption(
            "tests of a properties file", word, " ".join((kind.__doc__ or "").split())
        )
