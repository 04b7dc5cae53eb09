"""The whole project as typed values: its streams, models, seeds and tests, and which of
them read which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesql.errors import Problem
from lakesql.graph.graph import Graph, node_id
from lakesql.graph.named_selectors import Selectors

if TYPE_CHECKING:
    from lakesql.model.data_tests import DataTest
    from lakesql.model.group import ModelGroup
    from lakesql.model.model import MaintenanceModel, Model
    from lakesql.model.table_name import TableName
    from lakesql.model.unit_tests import UnitTest
    from lakesql.project.files import Outputs
    from lakesql.project.profiles import Target
    from lakesql.project.settings import Settings
    from lakesql.seed.seed import Seed
    from lakesql.stream.source_table import SourceTable
    from lakesql.stream.stream import Stream
    from lakesql.template.reader import Reference
    from lakesql.template.template import Macros


@dataclass(frozen=True, slots=True)
class Manifest:
    """A project on a target, whose local paths are absolute.

    `outputs` are the folders for its generated files; `warnings` are problems that stop
    no command. `streams`, `models`, `seeds` and `written`, the maintenance models, are
    by name; `vars` are the variables of the settings, overridden by --vars.
    `unit_tests` and `data_tests` are those of models and seeds. `texts` are the texts
    of the project's files, by path. `deferred` are the tables of another target that
    `ref` means with --defer, by the names of their models. `groups` are the files that
    stand for several models, and `source_tables` the tables of feeds that files
    declare, or that were found.
    """

    directory: Path
    outputs: Outputs
    settings: Settings
    target: Target
    vars: Mapping[str, Any]
    macros: Macros
    streams: Mapping[str, Stream]
    models: Mapping[str, Model]
    written: Mapping[str, MaintenanceModel]
    graph: Graph
    warnings: tuple[Problem, ...]
    texts: Mapping[str, str]
    unit_tests: tuple[UnitTest, ...] = ()
    data_tests: tuple[DataTest, ...] = ()
    selectors: Selectors = Selectors()
    deferred: Mapping[str, TableName] = field(default_factory=dict)
    seeds: Mapping[str, Seed] = field(default_factory=dict)
    groups: Mapping[str, ModelGroup] = field(default_factory=dict)
    source_tables: tuple[SourceTable, ...] = ()

    @property
    def version(self) -> str:
        """A digest of all that the manifest is made of; '' if it is not known."""
        return ""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the models, in the order of their files."""
        return tuple(self.models)

    @property
    def file_streams(self) -> frozenset[str]:
        """The names of the declared streams that read files."""
        return frozenset(
            name
            for name, stream in self.streams.items()
            if stream.origin.brings == "files"
        )

    @property
    def schema_paths(self) -> frozenset[str]:
        """The paths of the schema files that streams name."""
        return frozenset(
            stream.schema for stream in self.streams.values() if stream.schema
        )

    def lacks_tables(self, names: Iterable[str]) -> bool:
        """Whether a run of these models leaves out new tables in the feeds of their
        groups that the groups do not exclude: then the run has not done everything."""
        paths = {self.models[name].path for name in names}
        paths |= {group.path for group in self.groups.values() if not group.members}
        refused = [
            each
            for each in self.warnings
            if each.condition in ("new-table", "table-unfit", "group-route")
        ]
        return any(
            each.place is not None and each.place.path in paths for each in refused
        )


def reads_model(manifest: Manifest, stream: str) -> Model | None:
    """The model whose table `stream('…')` reads; None for a declared stream, which has
    precedence if both exist."""
    return None if stream in manifest.streams else manifest.models[stream]


def read_table(manifest: Manifest, name: str) -> TableName:
    """The table that `ref` of a model or a seed means: its own, or with --defer that of
    another target."""
    return manifest.deferred.get(name) or own_table(manifest, name)


def own_table(manifest: Manifest, name: str) -> TableName:
    """The table of a model or a seed on this target."""
    seed = manifest.seeds.get(name)
    return seed.table if seed is not None else manifest.models[name].table


def is_stored(manifest: Manifest, name: str) -> bool:
    """Whether a model has a table, and is not only a view. True for seeds, and for
    names that the project does not have."""
    model = manifest.models.get(name)
    return model is None or model.config.is_stored


def stored_refs(manifest: Manifest, model: Model) -> tuple[Reference, ...]:
    """The refs of a model that have rows: tables, and for a view the tables that its
    own SELECT reads, with the place of the ref to the view."""
    found: list[Reference] = []
    for reference in model.facts.refs:
        if is_stored(manifest, reference.name):
            found.append(reference)
            continue
        behind = stored_refs(manifest, manifest.models[reference.name])
        found += (replace(each, place=reference.place) for each in behind)
    return tuple(found)


def with_stored_rows(manifest: Manifest) -> Manifest:
    """The manifest with tables instead of views, so that a unit test can give or expect
    their rows."""
    models = {
        name: replace(each, config=each.config.as_stored())
        for name, each in manifest.models.items()
    }
    return replace(manifest, models=models)


def ref_id(manifest: Manifest, name: str) -> str:
    """The id of the node that `ref` of this name means."""
    return node_id("seed" if name in manifest.seeds else "model", name)


def most_records(manifest: Manifest, name: str) -> int | None:
    """The greatest number of records that a batch of the model reads; None if there is
    no limit, as for a stream without one or a streamed table."""
    read = {reference.name for reference in manifest.models[name].facts.streams}
    limits = [
        manifest.streams[each].max_per_batch if each in manifest.streams else None
        for each in read
    ]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known and len(known) == len(limits) else None
