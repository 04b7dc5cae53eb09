"""The cache of parsed files: an unchanged file is not parsed again by the next
command."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from lakesql.decode import Node
from lakesql.errors import Place
from lakesql.graph.read_file import (
    Declarations,
    ModelFile,
    parse_declarations,
    parse_model,
)
from lakesql.model.column_rules import ColumnRule
from lakesql.model.config import (
    AvailableNow,
    Every,
    OnChange,
    PartitionField,
    SortField,
)
from lakesql.model.expectations import EXPECTATION_KINDS, AcceptedValue
from lakesql.model.group import GroupConfig, Tables
from lakesql.model.model import TemplateFacts
from lakesql.model.properties import ColumnProperties, Freshness, ModelProperties
from lakesql.modes.all_modes import all_modes
from lakesql.project.cache import CacheFile, decoder, digest, encode
from lakesql.project.duration import Duration
from lakesql.project.files import SourceFile
from lakesql.project.procedures import PROCEDURES, Maintenance
from lakesql.project.size import Size
from lakesql.records.formats.csv import Csv
from lakesql.source.notifications import Notifications
from lakesql.source.origin import ORIGINS
from lakesql.stream.source_table import SourceTable
from lakesql.stream.stream import Column, Stream, Watermark
from lakesql.template.reader import Reference
from lakesql.template.template import Macros

_DECLARATIONS = (
    *(Declarations, Stream, *ORIGINS, Column, Csv, Watermark, Notifications),
    *(ModelProperties, ColumnProperties, Freshness, Duration, Place, Node, SourceTable),
    *(*EXPECTATION_KINDS, AcceptedValue),
)


def _kinds_of_some() -> tuple[type, ...]:
    """The types of declarations that not every project has: tests and seeds. Their
    modules are imported only if needed."""
    from lakesql.model.data_tests import DATA_TEST_KINDS
    from lakesql.model.unit_tests import UNIT_TEST_KINDS
    from lakesql.seed.seed_contract import SeedContract

    return (*UNIT_TEST_KINDS, *DATA_TEST_KINDS, SeedContract)


_MODEL_FILE = (
    *(
        ModelFile,
        TemplateFacts,
        Reference,
        Node,
        Place,
        GroupConfig,
        Tables,
        ColumnRule,
    ),
    *(AvailableNow, Every, OnChange, PartitionField, SortField, Duration),
    *(Maintenance, *PROCEDURES.values(), Size),
)


class FileCache:
    """The parsed content of each file, by its text. The key of a model's file also
    includes the macros that it uses, and its default options."""

    def __init__(self, path: Path) -> None:
        self._cache = CacheFile(path)
        self._read: set[str] = set()
        self._decode_declarations = decoder(_DECLARATIONS, _kinds_of_some)
        self._decode_model = decoder((*_MODEL_FILE, *all_modes()))

    def read_declarations(self, file: SourceFile) -> Declarations:
        """The result of `parse_declarations`, from the cache if the file is
        unchanged."""
        self._read.add(file.path)
        key = digest(file.text)
        found = self._cache.get(file.path, key)
        if found is not None:
            return self._decode_declarations(found)  # type: ignore[no-any-return]
        declarations = parse_declarations(file)
        if not declarations.problems:
            self._cache.put(file.path, key, encode(declarations))
        return declarations

    def read_model(self, file: SourceFile, defaults: Node, macros: Macros) -> ModelFile:
        """The result of `parse_model`, from the cache if the file, its defaults and its
        macros are unchanged."""
        self._read.add(file.path)
        # A file that defines macros depends on the names of all macros of the project,
        # as it must not define one of them again.
        names = sorted(macros.by_name) if "endmacro" in file.text else []
        key = digest(file.text, json.dumps(defaults.plain(), sort_keys=True), *names)
        found = self._cache.get(file.path, key)
        if found is not None and found["macros"] == digest_macros(
            found["macros"], macros
        ):
            return self._decode_model(found["said"])  # type: ignore[no-any-return]
        said = parse_model(file, defaults, macros)
        kept = replace(said, facts=replace(said.facts, config=None, template=None))
        self._cache.put(
            file.path,
            key,
            {"macros": digest_macros(said.facts.macros, macros), "said": encode(kept)},
        )
        return said

    def save(self) -> None:
        """Write the cache, with only the files that were read."""
        self._cache.save(self._read)


def digest_macros(names: Collection[str], macros: Macros) -> dict[str, str]:
    """The digests of the macros' texts, by name. Macros that do not exist are left
    out."""
    return {
        name: digest(macros.by_name[name].text)
        for name in names
        if name in macros.by_name
    }
