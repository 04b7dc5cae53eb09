"""How the files of a project become its manifest: every file is parsed, then what they
declare is checked together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from lakesql.decode import Node, collect, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.check_groups import feed_of
from lakesql.graph.check_maintenance import check_maintenance, find_blunt
from lakesql.graph.folders import check_folders_apart
from lakesql.graph.graph import build_graph
from lakesql.graph.manifest import Manifest
from lakesql.graph.members import (
    AnyModel,
    Members,
    check_source_tables,
    make_member,
    make_members,
    read_group,
    with_members,
)
from lakesql.graph.named_selectors import Selectors, parse_selectors
from lakesql.graph.read_file import (
    ReadDeclarations,
    ReadModel,
    parse_declarations,
    parse_model,
)
from lakesql.graph.references import check_references, graph_nodes
from lakesql.graph.same_names import (
    HasName,
    check_names,
    check_seed_names,
    check_seed_tables,
    check_tables,
    duplicate_name,
)
from lakesql.graph.shared_files import check_shared_files
from lakesql.model.config import MaintenanceConfig, trigger_of
from lakesql.model.group import GroupConfig, ModelGroup
from lakesql.model.model import MaintenanceModel, Model
from lakesql.model.properties import ModelProperties
from lakesql.model.table_name import TableName
from lakesql.modes.read_config import (
    check_defaults,
    check_folders,
    folder_defaults,
    merge_config,
)
from lakesql.names import check_model_name
from lakesql.project.files import Outputs, ProjectFiles, SourceFile, file_stem
from lakesql.project.profiles import Target, resolve_paths
from lakesql.project.settings import Settings
from lakesql.stream.source_table import SourceTable, find_ambiguous, merge_tables
from lakesql.stream.stream import Stream
from lakesql.template.template import Macros, parse_macros

if TYPE_CHECKING:
    from lakesql.model.data_tests import DataTest
    from lakesql.model.unit_tests import UnitTest
    from lakesql.seed.seed import Seed
    from lakesql.seed.seed_contract import SeedContract

Named = TypeVar("Named", bound=HasName)


@dataclass(frozen=True, slots=True)
class GroupFeeds:
    """The streams whose tables groups mirror, with what is needed to find these tables:
    the target, whose local paths are absolute, and the tables that files declare.

    `routes` maps the name of a stream to the column whose values become tables; it has
    only the streams that have such a column.
    """

    target: Target
    outputs: Outputs
    streams: tuple[Stream, ...]
    declared: tuple[SourceTable, ...]
    routes: Mapping[str, str] = field(default_factory=dict)


def feeds_of(
    target: Target,
    outputs: Outputs,
    groups: Iterable[ModelGroup],
    streams: Mapping[str, Stream],
    declared: Sequence[SourceTable],
) -> GroupFeeds:
    """The streams that the groups read. A group is passed over if its stream does not
    exist or cannot be separated into tables; `make_members` reports that."""
    found: dict[str, Stream] = {}
    routes: dict[str, str] = {}
    for group in groups:
        stream = feed_of(group, streams, [])
        if stream is None:
            continue
        found[stream.name] = stream
        if group.tables.route:
            routes[stream.name] = group.tables.route
    return GroupFeeds(target, outputs, tuple(found.values()), tuple(declared), routes)


FindTables = Callable[[GroupFeeds], Sequence[SourceTable]]
"""Finds the tables of feeds. Its result includes those that the project declares."""


def load_manifest(
    files: ProjectFiles,
    target: Target,
    overrides: Mapping[str, Any],
    read_declarations: ReadDeclarations | None = None,
    read_model: ReadModel | None = None,
    find_tables: FindTables | None = None,
) -> Manifest:
    """The manifest of a project, checked as far as possible without rendering a SELECT.

    `read_declarations` and `read_model` read one file each; by default they are
    `parse_declarations` and `parse_model`, and a caller may pass a cache instead.
    `find_tables` finds tables of the groups' feeds that no file declares. Raises
    `ProjectError` with the problems of all files at once, and whatever `find_tables`
    raises.
    """
    target = resolve_paths(target, files.directory)
    problems: list[Problem] = []
    declared = _read_declared(files, read_declarations or parse_declarations, problems)
    streams = _with_pulled_schemas(declared.streams, files, problems)
    macros = collect(
        problems,
        lambda: parse_macros([(file.path, file.text) for file in files.macros]),
    )
    collect(problems, lambda: check_defaults(files.settings.models))
    named = files.selectors
    selectors = (
        collect(problems, lambda: parse_selectors(named)) if named is not None else None
    )
    # without macros, every model that uses one would have a misleading problem
    if macros is None:
        raise ProjectError(problems)
    read = partial(
        _read_model,
        files.settings,
        target,
        declared.properties,
        macros,
        read_model or parse_model,
    )
    found_models = [collect(problems, partial(read, file)) for file in files.models]
    every: dict[str, AnyModel] = _by_name(filter(None, found_models), "Model", problems)
    tables, members = _find_members(
        files, target, every, declared, streams, find_tables, problems
    )
    groups = {name for name, found in every.items() if isinstance(found, ModelGroup)}
    every = with_members(every, members, problems)
    streams = {**streams, **{stream.name: stream for stream in members.streams}}
    written = {
        name: found
        for name, found in every.items()
        if isinstance(found, MaintenanceModel)
    }
    models = {name: found for name, found in every.items() if isinstance(found, Model)}
    variables = {**files.settings.vars.plain(), **overrides}
    model_names = {file_stem(file.path) for file in files.models}
    model_names |= {name for group in members.groups for name in group.members}
    if written:
        # only here: few projects write maintenance by hand
        from lakesql.graph.handwritten import find_calls

        calls = find_calls(
            written.values(),
            models,
            model_names - every.keys(),
            target,
            variables,
            macros,
            problems,
        )
        models |= {
            name: replace(models[name], calls=found) for name, found in calls.items()
        }

    seeds = _find_seeds(files, declared.contracts, target, problems)
    table_names = (
        {*model_names, *(file_stem(file.path) for file in files.seeds)}
        - written.keys()
        - groups
    )
    aimless = _find_aimless(files, members)
    warnings = tuple(find_blunt(models.values())) if files.models else aimless
    problems.extend(aimless if files.models else ())
    problems.extend(check_names(models.values(), streams.values()))
    problems.extend(check_seed_names(seeds.values(), every.values(), streams.values()))
    problems.extend(check_tables(models.values()))
    problems.extend(check_seed_tables(seeds.values(), models.values()))
    problems.extend(check_maintenance(models, streams))
    problems.extend(
        check_folders_apart(
            target, models.values(), streams.values(), files.directory, files.outputs
        )
    )
    problems.extend(
        Problem(
            "unknown-model",
            f"There is no model '{name}'.",
            "",
            did_you_mean(name, model_names),
            found.place,
        )
        for name, found in declared.properties.items()
        if name not in model_names
    )
    problems.extend(
        check_shared_files(target, models.values(), streams, files.directory)
    )
    problems.extend(
        check_references(models, streams, seeds, table_names, declared.is_complete)
    )
    if declared.unit_tests:
        # only here: not every project has some
        from lakesql.graph.check_unit_tests import check_unit_tests

        readable = model_names - written.keys()
        problems.extend(
            check_unit_tests(
                declared.unit_tests, models, streams, readable, declared.is_complete
            )
        )
    described = {
        name: found
        for name, found in declared.properties.items()
        if name in model_names
    }
    described |= {
        name: seed.properties for name, seed in seeds.items() if name not in described
    }
    data_tests: tuple[DataTest, ...] = ()
    if files.tests or any(any(found.test_entries) for found in described.values()):
        # only here: not every project has some
        from lakesql.graph.find_tests import find_data_tests

        data_tests = find_data_tests(
            described,
            files.tests,
            {**seeds, **models},
            seeds.keys(),
            table_names,
            files.settings,
            macros,
            problems,
        )
    if problems:
        raise ProjectError(problems)
    return Manifest(
        directory=files.directory,
        outputs=files.outputs,
        settings=files.settings,
        target=target,
        vars=variables,
        macros=macros,
        streams=streams,
        models=models,
        written=written,
        graph=build_graph(graph_nodes(files.settings.name, streams, models, seeds)),
        warnings=(*warnings, *members.remarks),
        texts=files.texts,
        unit_tests=declared.unit_tests,
        data_tests=data_tests,
        selectors=selectors or Selectors(),
        seeds=seeds,
        groups={group.name: group for group in members.groups},
        source_tables=tuple(tables),
    )


@dataclass(frozen=True, slots=True)
class _Declared:
    """What all properties files declare, by name. `is_complete` is false if a part of
    any file could not be read."""

    streams: Mapping[str, Stream]
    properties: Mapping[str, ModelProperties]
    contracts: Mapping[str, SeedContract]
    unit_tests: tuple[UnitTest, ...]
    source_tables: tuple[SourceTable, ...]
    is_complete: bool


def _read_declared(
    files: ProjectFiles, read: ReadDeclarations, problems: list[Problem]
) -> _Declared:
    """What all properties files declare. Problems within a file, and names that two
    files declare, are added to `problems`."""
    yaml_files = {
        file.path: file
        for file in (*files.streams, *files.properties, *files.contracts)
    }
    found = [read(file) for file in yaml_files.values()]
    problems.extend(problem for each in found for problem in each.problems)
    is_complete = not problems
    return _Declared(
        streams=_by_name(
            (stream for each in found for stream in each.streams), "Stream", problems
        ),
        properties=_by_name(
            (model for each in found for model in each.models), "Model", problems
        ),
        contracts=_by_name(
            (seed for each in found for seed in each.seeds), "Seed", problems
        ),
        unit_tests=tuple(test for each in found for test in each.unit_tests),
        source_tables=tuple(table for each in found for table in each.source_tables),
        is_complete=is_complete,
    )


def _find_members(
    files: ProjectFiles,
    target: Target,
    every: Mapping[str, AnyModel],
    declared: _Declared,
    streams: Mapping[str, Stream],
    find_tables: FindTables | None,
    problems: list[Problem],
) -> tuple[Sequence[SourceTable], Members]:
    """The tables of feeds, declared or found, and the models and streams that the
    groups among `every` make of them."""
    tables: Sequence[SourceTable] = declared.source_tables
    problems.extend(find_ambiguous(tables))
    problems.extend(check_source_tables(tables, streams))
    groups = [found for found in every.values() if isinstance(found, ModelGroup)]
    feeds = feeds_of(target, files.outputs, groups, streams, tables)
    if find_tables is not None and feeds.streams:
        tables = merge_tables(tables, find_tables(feeds))
    members = make_members(
        groups,
        {name: model for name, model in every.items() if isinstance(model, Model)},
        streams,
        tables,
        partial(_defaults, files.settings, target, declared.properties),
        partial(
            make_member,
            target,
            declared.properties,
            {group.name: group for group in groups},
        ),
        problems,
    )
    return tables, members


def _find_aimless(files: ProjectFiles, members: Members) -> tuple[Problem, ...]:
    """Problems of folder options in the settings that apply to no model."""
    names = [_fqn(file.path, files.settings) for file in files.models]
    return tuple(
        check_folders(
            files.settings.models, [*names, *(model.fqn for model in members.models)]
        )
    )


def with_texts(manifest: Manifest, texts: Mapping[str, str]) -> Manifest:
    """The manifest with new texts for some models' files, by path, as an editor holds
    them unsaved.

    Streams, macros and settings stay as they were. Of the checks across models, only
    missing references and cycles are repeated, not duplicate tables or folders that
    overlap. Raises `ProjectError` with the problems.
    """
    problems: list[Problem] = []
    models = dict(manifest.models)
    described = {name: model.properties for name, model in models.items()}
    for name, model in manifest.models.items():
        if model.path in texts:
            file = SourceFile(model.path, texts[model.path])
            read = partial(
                _read_model,
                manifest.settings,
                manifest.target,
                described,
                manifest.macros,
                parse_model,
            )
            found = collect(problems, partial(read, file))
            if isinstance(found, Model):
                models[name] = replace(found, calls=model.calls)
    changed = {name: model for name, model in models.items() if model.path in texts}
    known = {*models, *manifest.seeds}
    problems.extend(
        check_references(changed, manifest.streams, manifest.seeds, known, True)
    )
    if problems:
        raise ProjectError(problems)
    graph = manifest.graph
    if any(
        _edges(model) != _edges(manifest.models[name])
        for name, model in changed.items()
    ):
        graph = build_graph(
            graph_nodes(
                manifest.settings.name, manifest.streams, models, manifest.seeds
            )
        )
    return replace(
        manifest, models=models, graph=graph, texts={**manifest.texts, **texts}
    )


def _edges(model: Model) -> frozenset[tuple[str, str]]:
    """What a model reads, as (`ref` or `stream`, name)."""
    refs = {("ref", found.name) for found in model.facts.refs}
    return frozenset(
        {*refs, *(("stream", found.name) for found in model.facts.streams)}
    )


def _with_pulled_schemas(
    streams: Mapping[str, Stream], files: ProjectFiles, problems: list[Problem]
) -> dict[str, Stream]:
    """The streams by name; one that has a registry and declares no columns gets the
    columns of its subject's pulled schema."""
    found = dict(streams)
    if not files.schemas:
        return found
    # only here: it reads schemas
    from lakesql.stream.registry_columns import schema_path, takes_pulled, with_pulled

    texts = {file.path: file.text for file in files.schemas}
    for name, stream in streams.items():
        path = (
            schema_path(stream, files.settings.paths.streams)
            if takes_pulled(stream)
            else ""
        )
        if path in texts:
            found[name] = (
                collect(problems, partial(with_pulled, stream, path, texts)) or stream
            )
    return found


def _by_name(
    found: Iterable[Named], what: str, problems: list[Problem]
) -> dict[str, Named]:
    """The items by name. A second item with the same name, in any case, is added to
    `problems` and dropped."""
    named: dict[str, Named] = {}
    for item in found:
        first = named.setdefault(item.name.lower(), item)
        if first is not item:
            problems.append(duplicate_name(what, item, first.place))
    return {item.name: item for item in named.values()}


def _read_model(
    settings: Settings,
    target: Target,
    properties: Mapping[str, ModelProperties],
    macros: Macros,
    read: ReadModel,
    file: SourceFile,
) -> AnyModel:
    fqn = _fqn(file.path, settings)
    name = check_model_name(node_of(file_stem(file.path), Place(file.path)))
    said = read(file, _defaults(settings, target, properties, name, fqn), macros)
    if isinstance(said.config, MaintenanceConfig):
        return MaintenanceModel(
            name, file.path, fqn, file.text, said.config, said.options, said.facts
        )
    if isinstance(said.config, GroupConfig):
        return read_group(name, fqn, file, said.config, said.facts)
    return Model(
        name=name,
        path=file.path,
        fqn=fqn,
        source=file.text,
        table=TableName(
            target.catalog.name,
            said.config.namespace or target.namespace,
            said.config.table or fqn[-1],
        ),
        config=said.config,
        trigger=trigger_of(said.config, target.trigger),
        options=said.options,
        facts=said.facts,
        properties=properties.get(name) or ModelProperties(Place(file.path), name),
    )


def _defaults(
    settings: Settings,
    target: Target,
    properties: Mapping[str, ModelProperties],
    name: str,
    fqn: tuple[str, ...],
) -> Node:
    """The options that a model gets from elsewhere than its own file: `meta` of its
    properties, over the options of its folder, over the target's `maintenance`."""
    defaults = folder_defaults(settings.models, fqn)
    if target.maintenance is not None:
        of_target = Node({"maintenance": target.maintenance}, target.maintenance.place)
        defaults = merge_config(of_target, defaults)
    described = properties.get(name)
    if described is None or not described.meta.entries():
        return defaults
    return merge_config(defaults, Node({"meta": described.meta}, described.place))


def _fqn(path: str, settings: Settings) -> tuple[str, ...]:
    """The fully qualified name of the model in a file: the project's name, the folders
    below the models' folder, the model's name."""
    *folders, name = path.split("/")
    return (
        settings.name,
        *folders[_depth(settings.paths.models) :],
        *file_stem(name).split("."),
    )


@cache
def _depth(folder: str) -> int:
    return len(PurePosixPath(folder).parts)


def _find_seeds(
    files: ProjectFiles,
    contracts: Mapping[str, SeedContract],
    target: Target,
    problems: list[Problem],
) -> dict[str, Seed]:
    """The seeds by name. Files that are no valid seed, and contracts without a file,
    are added to `problems`."""
    if not files.seeds and not contracts:
        return {}
    from lakesql.seed.seed import build_seed  # only here: it reads headers

    names = {file_stem(file.path): file for file in files.seeds}
    found = [
        collect(
            problems,
            partial(
                build_seed,
                file,
                contracts.get(file_stem(file.path)),
                files.settings,
                target,
            ),
        )
        for file in files.seeds
    ]
    for name, contract in contracts.items():
        if name not in names:
            what = f"There is no seed '{name}'."
            path = f"{files.settings.paths.seeds}/{name}.csv"
            fix = f"{did_you_mean(name, names)} Correct the name, or put its rows into {path}.".strip()
            problems.append(Problem("unknown-seed", what, "", fix, contract.place))
    return _by_name(filter(None, found), "Seed", problems)
