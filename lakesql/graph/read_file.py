"""What a single file of a project declares by itself: a properties file, or a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakesql.decode import Node, collect
from lakesql.errors import Problem, ProjectError
from lakesql.model.config import MaintenanceConfig, TableConfig
from lakesql.model.group import GroupConfig, read_group_config
from lakesql.model.model import TemplateFacts
from lakesql.model.properties import (
    FileSections,
    ModelProperties,
    read_model_properties,
    read_sections,
)
from lakesql.modes.read_config import merge_config, read_config
from lakesql.project.files import SourceFile
from lakesql.project.yaml import parse_yaml
from lakesql.stream.event_time import is_expression
from lakesql.stream.source_table import SourceTable, read_source_table
from lakesql.stream.stream import Stream, read_stream
from lakesql.template.template import Macros, parse_template

if TYPE_CHECKING:
    from lakesql.model.unit_tests import UnitTest
    from lakesql.seed.seed_contract import SeedContract


@dataclass(frozen=True, slots=True)
class Declarations:
    """What one properties file declares. `problems` are those of entries that could not
    be read, and are left out."""

    streams: tuple[Stream, ...] = ()
    models: tuple[ModelProperties, ...] = ()
    unit_tests: tuple[UnitTest, ...] = ()
    seeds: tuple[SeedContract, ...] = ()
    source_tables: tuple[SourceTable, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The content of one model's file: the facts of its template, and its configuration
    over the defaults of its folder."""

    facts: TemplateFacts
    config: TableConfig | MaintenanceConfig | GroupConfig
    options: Mapping[str, object]


ReadDeclarations = Callable[[SourceFile], Declarations]
ReadModel = Callable[[SourceFile, Node, Macros], ModelFile]
"""Reads a model's file, given the default options from elsewhere and the project's
macros."""


def parse_declarations(file: SourceFile) -> Declarations:
    """What a properties file declares. Entries with errors are left out, and their
    problems included."""
    problems: list[Problem] = []
    root = collect(problems, partial(parse_yaml, file.path, file.text))
    sections = collect(problems, partial(read_sections, root)) if root else None
    sections = sections or FileSections()
    models = [
        collect(problems, partial(read_model_properties, node))
        for node in sections.models
    ]
    streams = [
        collect(problems, partial(_read_stream, node)) for node in sections.streams
    ]
    tests = [
        collect(problems, partial(_read_unit_test, node))
        for node in sections.unit_tests
    ]
    seeds = [
        collect(problems, partial(_read_seed_contract, node)) for node in sections.seeds
    ]
    tables = [
        collect(problems, partial(read_source_table, node))
        for node in sections.source_tables
    ]
    return Declarations(
        streams=tuple(filter(None, streams)),
        models=tuple(filter(None, models)),
        unit_tests=tuple(filter(None, tests)),
        seeds=tuple(filter(None, seeds)),
        source_tables=tuple(filter(None, tables)),
        problems=tuple(problems),
    )


def _read_unit_test(node: Node) -> UnitTest:
    # only here: not every project has some
    from lakesql.model.unit_tests import read_unit_test

    return read_unit_test(node)


def _read_seed_contract(node: Node) -> SeedContract:
    # only here: not every project has seeds
    from lakesql.seed.seed_contract import read_seed_contract

    return read_seed_contract(node)


def _read_stream(node: Node) -> Stream:
    """The stream that a node declares. Its watermark may be on an expression, which is
    checked too."""
    stream = read_stream(node)
    if (
        stream.watermark is not None
        and is_expression(stream.watermark.column, stream.types)
        and stream.columns
    ):
        # only here: most watermarks are on a column
        from lakesql.select.watermarks import find_unfit

        place = node.entries()["watermark"].entries()["column"].place
        problems = list(
            find_unfit(
                stream.watermark.column, stream.types, f"stream '{stream.name}'", place
            )
        )
        if problems:
            raise ProjectError(problems)
    return stream


def parse_model(file: SourceFile, defaults: Node, macros: Macros) -> ModelFile:
    """The content of a model's file. Raises `ProjectError` with all problems of the
    file."""
    template = parse_template(file.path, file.text, macros)
    facts = TemplateFacts(
        template.config,
        template.streams,
        template.refs,
        template.vars,
        template.macros,
        template.reads,
        template,
    )
    if template.config.get("tables") is not None:
        return ModelFile(
            facts,
            read_group_config(template.config),
            merge_config(defaults, template.config).plain(),
        )
    config = read_config(
        template.config, defaults, "streams" if template.streams else "tables"
    )
    return ModelFile(facts, config, merge_config(defaults, template.config).plain())
