"""The whole project as typed values: streams, models and who reads whom. Pure, given the files' texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from lakesql.decode import Node, collect, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean, quoted
from lakesql.graph.find_tests import find_data_tests
from lakesql.graph.folders import check_folders_apart
from lakesql.graph.graph import Graph, GraphNode, build_graph, node_id
from lakesql.graph.handwritten import find_calls
from lakesql.graph.members import AnyModel, check_source_tables, make_member, make_members, read_group, with_members
from lakesql.graph.named_selectors import Selectors, parse_selectors
from lakesql.graph.shared_files import check_shared_files
from lakesql.model.config import Every, MaintenanceConfig, TableConfig, trigger_of
from lakesql.model.data_tests import DataTest
from lakesql.model.group import GroupConfig, ModelGroup, read_group_config
from lakesql.model.maintenance_tasks import MaintenanceTask, maintenance_tasks, own_tasks, said_at
from lakesql.model.model import MaintenanceModel, Model, TemplateFacts
from lakesql.model.properties import FileSections, ModelProperties, read_model_properties, read_sections
from lakesql.model.retention import replaced_options
from lakesql.model.table_name import TableName
from lakesql.model.unit_tests import GivenRef, GivenStream, GivenTable, UnitTest, read_unit_test
from lakesql.modes.all_modes import MAINTENANCE
from lakesql.modes.read_config import check_defaults, check_folders, folder_defaults, merge_config, read_config
from lakesql.names import check_model_name
from lakesql.project.files import Outputs, ProjectFiles, SourceFile
from lakesql.project.procedures import (
    LEAST_EXPIRY_MS,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    asks_for_order,
    blunt_options,
)
from lakesql.project.profiles import Target, resolve_paths
from lakesql.project.settings import Settings
from lakesql.project.yaml import parse_yaml
from lakesql.seed.seed import Seed, build_seed
from lakesql.seed.seed_contract import SeedContract, read_seed_contract
from lakesql.stream.event_time import is_expression
from lakesql.stream.registry_columns import schema_path, takes_pulled, with_pulled
from lakesql.stream.source_table import SourceTable, find_ambiguous, merge_tables, read_source_table
from lakesql.stream.stream import Stream, read_stream
from lakesql.template.reader import Reference
from lakesql.template.template import Macros, parse_macros, parse_template

T = TypeVar("T")
Named = TypeVar("Named", Stream, ModelProperties, SeedContract, Seed, Model | MaintenanceModel | ModelGroup)


@dataclass(frozen=True, slots=True)
class Declarations:
    """What one properties file declares and describes. `problems` are of the entries that are not among these."""

    streams: tuple[Stream, ...] = ()
    models: tuple[ModelProperties, ...] = ()
    unit_tests: tuple[UnitTest, ...] = ()
    seeds: tuple[SeedContract, ...] = ()
    source_tables: tuple[SourceTable, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What one model's file says: its template, and its configuration over the defaults of its folder."""

    facts: TemplateFacts
    config: TableConfig | MaintenanceConfig | GroupConfig
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GroupFeeds:
    """The streams whose tables groups mirror, on a target whose local paths are absolute, and what files declare."""

    target: Target
    outputs: Outputs
    streams: tuple[Stream, ...]
    declared: tuple[SourceTable, ...]


FindTables = Callable[[GroupFeeds], Sequence[SourceTable]]
"""Finds the tables of feeds, also those that the project declares."""

ReadDeclarations = Callable[[SourceFile], Declarations]
ReadModel = Callable[[SourceFile, Node, Macros], ModelFile]
"""Reads a model's file, given the options of its folder and the project's macros."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A project on a target, whose local paths are absolute.

    `outputs` are the folders that it is written to, `warnings` what somebody should know and what ends no command.
    `streams`, `models`, `seeds` and the maintenance models, `written`, are by name; `vars` are the settings' with
    --vars over them. `unit_tests` and `data_tests` are those of models and seeds. `texts` are those of the files that
    it was read from, by their paths. `deferred` are the tables of another target that `ref` means, by the names of the
    models. `groups` are the files that stand for several of the models, and
    `source_tables` the tables of feeds that files declare, or that were found.
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

    def lacks_tables(self, names: Iterable[str]) -> bool:
        """Whether a run of these models leaves tables out that have come into the feeds of their groups, and that these
        do not mean to leave out: it has not done then all that it was to do."""
        paths = {self.models[name].path for name in names}
        paths |= {group.path for group in self.groups.values() if not group.members}
        refused = [each for each in self.warnings if each.condition in ("new-table", "table-unfit")]
        return any(each.place is not None and each.place.path in paths for each in refused)


def load_manifest(
    files: ProjectFiles,
    target: Target,
    overrides: Mapping[str, Any],
    read_declarations: ReadDeclarations | None = None,
    read_model: ReadModel | None = None,
    find_tables: FindTables | None = None,
) -> Manifest:
    """The project that `files` hold, checked as far as it can be without rendering a SELECT.

    What one file says is read by `parse_declarations` and `parse_model`, or by what a caller puts in front of them.
    `find_tables` finds tables of the feeds of groups that no file declares. Raises `ProjectError` with the problems of
    all files at once, and what finding tables raises.
    """
    target = resolve_paths(target, files.directory)
    problems: list[Problem] = []
    yaml_files = {file.path: file for file in (*files.streams, *files.properties, *files.contracts)}
    declared = [(read_declarations or parse_declarations)(file) for file in yaml_files.values()]
    problems.extend(problem for found in declared for problem in found.problems)
    all_declared = not problems
    streams = _by_name((stream for found in declared for stream in found.streams), "Stream", problems)
    streams = _with_pulled_schemas(streams, files, problems)
    properties = _by_name((model for found in declared for model in found.models), "Model", problems)
    contracts = _by_name((seed for found in declared for seed in found.seeds), "Seed", problems)
    macros = collect(problems, lambda: parse_macros([(file.path, file.text) for file in files.macros]))
    collect(problems, lambda: check_defaults(files.settings.models))
    named = files.selectors
    selectors = collect(problems, lambda: parse_selectors(named)) if named is not None else None
    if macros is None:  # models would be told that the macros which they use do not exist
        raise ProjectError(problems)
    read = partial(_read_model, files.settings, target, properties, macros, read_model or parse_model)
    found_models = [collect(problems, partial(read, file)) for file in files.models]
    every: dict[str, AnyModel] = _by_name(filter(None, found_models), "Model", problems)
    groups = [found for found in every.values() if isinstance(found, ModelGroup)]
    declared_tables = [table for found in declared for table in found.source_tables]
    problems.extend(find_ambiguous(declared_tables))
    problems.extend(check_source_tables(declared_tables, streams))
    feeds = tuple(streams[name] for name in dict.fromkeys(group.stream for group in groups) if name in streams)
    known_tables = declared_tables
    if find_tables is not None and feeds:
        found = find_tables(GroupFeeds(target, files.outputs, feeds, tuple(declared_tables)))
        known_tables = merge_tables(declared_tables, found)
    members = make_members(
        groups,
        {name: found for name, found in every.items() if isinstance(found, Model)},
        streams,
        known_tables,
        partial(_defaults, files.settings, target),
        partial(make_member, target, properties, {group.name: group for group in groups}),
        problems,
    )
    every = with_members(every, members, problems)
    streams = {**streams, **{stream.name: stream for stream in members.streams}}
    written = {name: found for name, found in every.items() if isinstance(found, MaintenanceModel)}
    models = {name: found for name, found in every.items() if isinstance(found, Model)}
    variables = {**files.settings.vars.plain(), **overrides}
    model_names = {PurePosixPath(file.path).stem for file in files.models}
    model_names |= {name for group in members.groups for name in group.members}
    calls = find_calls(written.values(), models, model_names - every.keys(), target, variables, macros, problems)
    models |= {name: replace(models[name], calls=found) for name, found in calls.items()}

    seeds = _find_seeds(files, contracts, target, problems)
    table_names = {*model_names, *(PurePosixPath(seed.path).stem for seed in files.seeds)} - written.keys()
    table_names -= {group.name for group in groups}

    names = [_fqn(file.path, files.settings) for file in files.models]
    aimless = check_folders(files.settings.models, [*names, *(model.fqn for model in members.models)])
    warnings = tuple(_find_blunt(models.values())) if files.models else tuple(aimless)
    warnings += members.remarks
    problems.extend(aimless if files.models else ())
    problems.extend(_check_names(models.values(), streams.values()))
    problems.extend(_check_seed_names(seeds.values(), every.values(), streams.values()))
    problems.extend(_check_tables(models.values()))
    problems.extend(_check_seed_tables(seeds.values(), models.values()))
    problems.extend(_check_maintenance(models, streams))
    problems.extend(check_folders_apart(target, models.values(), streams.values(), files.directory, files.outputs))
    problems.extend(
        Problem("unknown-model", f"There is no model '{name}'.", "", did_you_mean(name, model_names), found.place)
        for name, found in properties.items()
        if name not in model_names
    )
    problems.extend(check_shared_files(target, models.values(), streams, files.directory))
    problems.extend(_check_references(models, streams, seeds, table_names, all_declared))
    unit_tests = tuple(test for found in declared for test in found.unit_tests)
    problems.extend(_check_unit_tests(unit_tests, models, streams, model_names - written.keys(), all_declared))
    described = {name: found for name, found in properties.items() if name in model_names}
    described |= {name: seed.properties for name, seed in seeds.items() if name not in described}
    data_tests = find_data_tests(
        described, files.tests, {**seeds, **models}, seeds.keys(), table_names, files.settings, macros, problems
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
        graph=build_graph(_graph_nodes(files.settings.name, streams, models, seeds)),
        warnings=warnings,
        texts=files.texts,
        unit_tests=unit_tests,
        data_tests=data_tests,
        selectors=selectors or Selectors(),
        seeds=seeds,
        groups={group.name: group for group in members.groups},
        source_tables=tuple(known_tables),
    )


def with_texts(manifest: Manifest, texts: Mapping[str, str]) -> Manifest:
    """The manifest with other texts of some models' files, by their paths, as an editor has them in memory.

    Streams, macros and settings are as they were. What is checked between models is whether what they read is there,
    and no circle: no tables of one name, no folders of one place.
    Raises `ProjectError` with what is wrong.
    """
    problems: list[Problem] = []
    models = dict(manifest.models)
    described = {name: model.properties for name, model in models.items()}
    for name, model in manifest.models.items():
        if model.path in texts:
            file = SourceFile(model.path, texts[model.path])
            read = partial(_read_model, manifest.settings, manifest.target, described, manifest.macros, parse_model)
            found = collect(problems, partial(read, file))
            if isinstance(found, Model):
                models[name] = replace(found, calls=model.calls)
    changed = {name: model for name, model in models.items() if model.path in texts}
    known = {*models, *manifest.seeds}
    problems.extend(_check_references(changed, manifest.streams, manifest.seeds, known, True))
    if problems:
        raise ProjectError(problems)
    graph = manifest.graph
    if any(_edges(model) != _edges(manifest.models[name]) for name, model in changed.items()):
        graph = build_graph(_graph_nodes(manifest.settings.name, manifest.streams, models, manifest.seeds))
    return replace(manifest, models=models, graph=graph, texts={**manifest.texts, **texts})


def _edges(model: Model) -> frozenset[tuple[str, str]]:
    """What a model reads, each by how it is read."""
    refs = {("ref", found.name) for found in model.facts.refs}
    return frozenset({*refs, *(("stream", found.name) for found in model.facts.streams)})


def _with_pulled_schemas(
    streams: Mapping[str, Stream], files: ProjectFiles, problems: list[Problem]
) -> dict[str, Stream]:
    """The streams, those with a registry and without columns with the columns of their subjects' schemas."""
    found = dict(streams)
    texts = {file.path: file.text for file in files.schemas}
    for name, stream in streams.items():
        path = schema_path(stream, files.settings.paths.streams) if takes_pulled(stream) else ""
        if path in texts:
            found[name] = collect(problems, partial(with_pulled, stream, path, texts)) or stream
    return found


def parse_declarations(file: SourceFile) -> Declarations:
    """What a properties file says, as far as it can be understood."""
    problems: list[Problem] = []
    root = collect(problems, partial(parse_yaml, file.path, file.text))
    sections = collect(problems, partial(read_sections, root)) if root else None
    sections = sections or FileSections()
    models = [collect(problems, partial(read_model_properties, node)) for node in sections.models]
    streams = [collect(problems, partial(_read_stream, node)) for node in sections.streams]
    tests = [collect(problems, partial(read_unit_test, node)) for node in sections.unit_tests]
    seeds = [collect(problems, partial(read_seed_contract, node)) for node in sections.seeds]
    tables = [collect(problems, partial(read_source_table, node)) for node in sections.source_tables]
    return Declarations(
        streams=tuple(filter(None, streams)),
        models=tuple(filter(None, models)),
        unit_tests=tuple(filter(None, tests)),
        seeds=tuple(filter(None, seeds)),
        source_tables=tuple(filter(None, tables)),
        problems=tuple(problems),
    )


def _read_stream(node: Node) -> Stream:
    """A stream, whose watermark may be on an expression."""
    stream = read_stream(node)
    if stream.watermark is not None and is_expression(stream.watermark.column, stream.types) and stream.columns:
        from lakesql.select.watermarks import find_unfit  # only here: most streams are read without a SELECT

        place = node.entries()["watermark"].entries()["column"].place
        problems = list(find_unfit(stream.watermark.column, stream.types, f"stream '{stream.name}'", place))
        if problems:
            raise ProjectError(problems)
    return stream


def parse_model(file: SourceFile, defaults: Node, macros: Macros) -> ModelFile:
    """What a model's file says. Raises `ProjectError` with everything that is wrong with it."""
    template = parse_template(file.path, file.text, macros)
    facts = TemplateFacts(
        template.config, template.streams, template.refs, template.vars, template.macros, template.reads, template
    )
    if template.config.get("tables") is not None:
        return ModelFile(facts, read_group_config(template.config), merge_config(defaults, template.config).plain())
    config = read_config(template.config, defaults, "streams" if template.streams else "tables")
    return ModelFile(facts, config, merge_config(defaults, template.config).plain())


def reads_model(manifest: Manifest, stream: str) -> Model | None:
    """The model whose table `stream('…')` reads; None for a declared stream, which goes first where both exist."""
    return None if stream in manifest.streams else manifest.models[stream]


def read_table(manifest: Manifest, name: str) -> TableName:
    """The table that `ref` of a model or a seed means: its own, or the one that it is deferred to."""
    return manifest.deferred.get(name) or own_table(manifest, name)


def own_table(manifest: Manifest, name: str) -> TableName:
    """The table of a model, or of a seed."""
    seed = manifest.seeds.get(name)
    return seed.table if seed is not None else manifest.models[name].table


def is_stored(manifest: Manifest, name: str) -> bool:
    """Whether a model, or a seed, has a table, and not a view alone; so whatever the project does not have."""
    model = manifest.models.get(name)
    return model is None or model.config.is_stored


def stored_refs(manifest: Manifest, model: Model) -> tuple[Reference, ...]:
    """What a model reads by `ref` that has rows: tables, and in the place of a view what its own SELECT reads."""
    found: list[Reference] = []
    for reference in model.facts.refs:
        if is_stored(manifest, reference.name):
            found.append(reference)
            continue
        behind = stored_refs(manifest, manifest.models[reference.name])
        found += (replace(each, place=reference.place) for each in behind)
    return tuple(found)


def with_stored_rows(manifest: Manifest) -> Manifest:
    """The manifest whose views are tables, so that a unit test can give their rows, or expect them."""
    models = {name: replace(each, config=each.config.as_stored()) for name, each in manifest.models.items()}
    return replace(manifest, models=models)


def ref_id(manifest: Manifest, name: str) -> str:
    """The id of the node that `ref` of this name means."""
    return node_id("seed" if name in manifest.seeds else "model", name)


def most_records(manifest: Manifest, name: str) -> int | None:
    """How many records a batch of the model reads at most; None where a stream has no limit, or is a table."""
    read = {reference.name for reference in manifest.models[name].facts.streams}
    limits = [manifest.streams[each].max_per_batch if each in manifest.streams else None for each in read]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known and len(known) == len(limits) else None


def graph_with_tasks(manifest: Manifest) -> Graph:
    """The graph with the tasks that maintain the models' tables, each a reader of its model.

    They are many, and no part of a model: who does not ask for them need not wait for them.
    """
    graph = manifest.graph
    nodes, readers = dict(graph.nodes), dict(graph.readers)
    for model in manifest.models.values():
        own = node_id("model", model.name)
        found = [task_node(manifest, task) for task in maintenance_tasks(model)]
        nodes.update((node.id, node) for node in found)
        readers.update((node.id, ()) for node in found)
        readers[own] = (*readers[own], *(node.id for node in found))
    return Graph(nodes, readers)


def find_task(manifest: Manifest, node: GraphNode) -> MaintenanceTask:
    """The task of a node of the graph that is one."""
    model = manifest.models[str(node.config["of"])]
    return next(task for task in maintenance_tasks(model) if task.name == node.name)


def task_node(manifest: Manifest, task: MaintenanceTask) -> GraphNode:
    """A task as a node of the graph."""
    model = manifest.models[task.model]
    own = node_id("model", model.name)
    node = GraphNode(
        id=node_id("maintenance", task.name),
        name=task.name,
        resource_type="maintenance",
        path=model.path,
        fqn=(*model.fqn[:-1], task.owner, task.procedure),
        tags=frozenset(),
        config={"mode": MAINTENANCE, "of": model.name},
        depends_on=(own,),
        place=model.place,
        references={own: model.place},
        is_appended=True,
    )
    if task.written is None:
        return node
    file = manifest.written[task.written.of]
    return replace(
        node,
        path=file.path,
        fqn=(*file.fqn, task.name.removeprefix(f"{file.name}.")),
        tags=frozenset(file.config.tags),
        config={**file.options, "tags": list(file.config.tags)},
        place=task.written.place,
        references={own: file.option_place("of")},
        is_appended=False,
    )


def _by_name(found: Iterable[Named], what: str, problems: list[Problem]) -> dict[str, Named]:
    """The streams, models or descriptions of models by name; of two with one name, the second is a problem."""
    named: dict[str, Named] = {}
    for item in found:
        first = named.setdefault(item.name.lower(), item)
        if first is not item:
            problems.append(_duplicate_name(what, item, first.place))
    return {item.name: item for item in named.values()}


def _duplicate_name(
    what: str, item: Stream | ModelProperties | SeedContract | Seed | AnyModel, first: Place
) -> Problem:
    said = f"{what} '{item.name}' stands at {first} already."
    return Problem("duplicate-name", said, "Capitals make no difference.", place=item.place)


def _read_model(
    settings: Settings,
    target: Target,
    properties: Mapping[str, ModelProperties],
    macros: Macros,
    read: ReadModel,
    file: SourceFile,
) -> AnyModel:
    fqn = _fqn(file.path, settings)
    name = check_model_name(node_of(PurePosixPath(file.path).stem, Place(file.path)))
    said = read(file, _defaults(settings, target, fqn), macros)
    if isinstance(said.config, MaintenanceConfig):
        return MaintenanceModel(name, file.path, fqn, file.text, said.config, said.options, said.facts)
    if isinstance(said.config, GroupConfig):
        return read_group(name, fqn, file, said.config, said.facts)
    return Model(
        name=name,
        path=file.path,
        fqn=fqn,
        source=file.text,
        table=TableName(target.catalog.name, said.config.namespace or target.namespace, said.config.table or fqn[-1]),
        config=said.config,
        trigger=trigger_of(said.config, target.trigger),
        options=said.options,
        facts=said.facts,
        properties=properties.get(name) or ModelProperties(Place(file.path), name),
    )


def _defaults(settings: Settings, target: Target, fqn: tuple[str, ...]) -> Node:
    """The options of the model's folder, over what the target says of maintenance."""
    of_folder = folder_defaults(settings.models, fqn)
    if target.maintenance is None:
        return of_folder
    of_target = Node({"maintenance": target.maintenance}, target.maintenance.place)
    return merge_config(of_target, of_folder)


def _fqn(path: str, settings: Settings) -> tuple[str, ...]:
    """The fully qualified name of the model in a file: the project's name, the folders, the model's."""
    relative = PurePosixPath(path).relative_to(settings.paths.models)
    return (settings.name, *relative.parts[:-1], *relative.stem.split("."))


def _check_names(models: Iterable[Model], streams: Iterable[Stream]) -> Iterable[Problem]:
    """A model may have the name of a stream, and not one that Spark would take for it."""
    spelled = {stream.name.lower(): stream for stream in streams}
    for model in models:
        stream = spelled.get(model.name.lower())
        if stream and stream.name != model.name:
            yield _duplicate_name("A stream like model", model, stream.place)


def _find_seeds(
    files: ProjectFiles, contracts: Mapping[str, SeedContract], target: Target, problems: list[Problem]
) -> dict[str, Seed]:
    """The seeds by name. `problems` hears of files that are none, and of contracts without a file."""
    names = {PurePosixPath(file.path).stem: file for file in files.seeds}
    found = [
        collect(
            problems, partial(build_seed, file, contracts.get(PurePosixPath(file.path).stem), files.settings, target)
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


def _check_seed_names(
    seeds: Iterable[Seed], models: Iterable[AnyModel], streams: Iterable[Stream]
) -> Iterable[Problem]:
    """A seed has no name of a model, which `ref` could mean too; and none that Spark would take for a stream's."""
    named = {model.name.lower(): model for model in models}
    spelled = {stream.name.lower(): stream for stream in streams}
    for seed in seeds:
        model, stream = named.get(seed.name.lower()), spelled.get(seed.name.lower())
        if model is not None:
            yield _duplicate_name("A model like seed", seed, model.place)
        if stream is not None and stream.name != seed.name:
            yield _duplicate_name("A stream like seed", seed, stream.place)


def _check_seed_tables(seeds: Iterable[Seed], models: Iterable[Model]) -> Iterable[Problem]:
    """No model writes the table of a seed, nor has a table beside its own that is called so."""
    owners = {str(table).lower(): model for model in models for table in model.table.family}
    for seed in seeds:
        model = owners.get(str(seed.table).lower())
        if model is not None and model.name.lower() != seed.name.lower():
            what = f"Model '{model.name}' and seed '{seed.name}' both write {seed.table}."
            yield Problem("duplicate-table", what, "Capitals make no difference.", place=seed.place)


def _check_tables(models: Iterable[Model]) -> Iterable[Problem]:
    owners: dict[str, str] = {}
    for model in models:
        tables = [str(table) for table in (model.table, *model.table.beside)]
        taken = next((table for table in tables if table.lower() in owners), None)
        if taken:
            what = f"Models '{owners[taken.lower()]}' and '{model.name}' both write {taken}."
            yield Problem("duplicate-table", what, "Capitals make no difference.", place=model.option_place("table"))
        for table in tables:
            owners.setdefault(table.lower(), model.name)


def _check_maintenance(models: Mapping[str, Model], streams: Collection[str]) -> Iterable[Problem]:
    """What is wrong between how a table is maintained, how it is ordered, and who reads it as a stream."""
    for model in models.values():
        tasks = own_tasks(model)
        is_ordered = model.config.order_by or model.config.default_order
        for task in tasks:
            match task.options:
                case RewriteDataFiles(sort_order="") as options if not is_ordered and asks_for_order(options):
                    what = f"The table of model '{model.name}' has no order by which files could be sorted."
                    fix = "Give a sort_order, or order_by of the model."
                    yield Problem("wrong-value", what, "", fix, said_at(model, task))
                case _:
                    pass
        yield from _check_retention(model, tasks)
        for found in model.facts.streams:
            read = None if found.name in streams else models.get(found.name)
            if read is None or not isinstance(model.trigger, Every):
                continue
            for task in own_tasks(read):
                expiry = task.options
                if not isinstance(expiry, ExpireSnapshots):
                    continue
                after, after_ms = expiry.older_than.text, expiry.older_than.length_ms
                if isinstance(read.trigger, Every) and expiry.most is not None:
                    most_ms = max(LEAST_EXPIRY_MS, expiry.most * read.trigger.interval_ms)
                    if most_ms < after_ms:
                        after, after_ms = f"{expiry.most:,} batches of {read.trigger.text}", most_ms
                if model.trigger.interval_ms >= after_ms:
                    yield Problem(
                        "unsafe-maintenance",
                        f"Snapshots of '{read.name}' expire after {after}, and model '{model.name}', "
                        f"which streams its table, takes a batch every {model.trigger.text}.",
                        place=said_at(read, task),
                    )


def _check_retention(model: Model, tasks: Iterable[MaintenanceTask]) -> Iterable[Problem]:
    """Properties of Iceberg's that say what an option of the expiry says, where lakesql expires snapshots."""
    if not any(isinstance(task.options, ExpireSnapshots) for task in tasks):
        return
    for key, option in replaced_options(model.config.properties):
        yield Problem(
            "retention-property",
            f"Model '{model.name}' gives its table the property '{key}', and lakesql expires its snapshots.",
            "An expiry by lakesql says by itself how long snapshots are kept, and Iceberg goes by that.",
            f"Write maintenance={{'expire_snapshots': {{{option}}}}} in its place.",
            model.option_place("properties"),
        )


def _find_blunt(models: Iterable[Model]) -> Iterable[Problem]:
    """Options by which orphans are found less exactly: files that a table has may be taken for another's."""
    for model in models:
        for task in own_tasks(model):
            if not isinstance(task.options, RemoveOrphanFiles):
                continue
            blunt = blunt_options(task.options)
            if blunt:
                what = f"Orphans of model '{model.name}' are told apart less exactly, by {quoted(blunt)}."
                why = "Where the option is wrong, files that the table has are taken for orphans, and deleted."
                fix = "Leave it out, if every file of the table is named by one scheme and one host."
                yield Problem("blunt-deletion", what, why, fix, said_at(model, task))


def _check_references(
    models: Mapping[str, Model],
    streams: Mapping[str, Stream],
    seeds: Mapping[str, Seed],
    table_names: Collection[str],
    all_declared: bool,
) -> Iterable[Problem]:
    """What the models read exists. A model, seed or stream that could not be read is there all the same.

    Unless `all_declared`, any name that is no model's may be a stream's, and a model's may be one's too.
    """
    for model in models.values():
        for reference in model.facts.refs:
            if reference.name not in table_names:
                hint = did_you_mean(reference.name, table_names)
                if reference.name in streams:
                    hint = f"'{reference.name}' is a stream: read it with stream('{reference.name}')."
                what = f"ref('{reference.name}') names no model and no seed."
                yield Problem("unknown-ref", what, "", hint, reference.place)
        for reference in model.facts.streams:
            if reference.name in streams:
                continue
            read = models.get(reference.name)
            if read is None and reference.name in seeds:
                what = f"'{reference.name}' is a seed, and cannot be read as a stream."
                why = "Its rows are replaced as a whole when its file has changed; none arrives."
                fix = f"Join its table to a stream with ref('{reference.name}')."
                yield Problem("stream-of-seed", what, why, fix, reference.place)
            elif read is not None and not read.config.is_stored:
                what = f"'{reference.name}' is a view, and cannot be read as a stream."
                why = "It has no rows of its own; nothing arrives in it."
                fix = f"Read it with ref('{reference.name}'), or give it mode 'materialized_view'."
                yield Problem("stream-of-view", what, why, fix, reference.place)
            elif read is None and all_declared and reference.name not in table_names:
                hint = did_you_mean(reference.name, {*streams, *models})
                what = f"stream('{reference.name}') names no stream."
                yield Problem("unknown-stream", what, "", hint, reference.place)


def _check_unit_tests(
    tests: Iterable[UnitTest],
    models: Mapping[str, Model],
    streams: Mapping[str, Stream],
    model_names: Collection[str],
    all_declared: bool,
) -> Iterable[Problem]:
    """What unit tests name exists, is read by their models, and is given once."""
    first: dict[tuple[str, str], Place] = {}
    for test in tests:
        if earlier := first.get((test.model, test.name)):
            what = f"Unit test '{test.name}' of model '{test.model}' stands at {earlier} already."
            yield Problem("duplicate-name", what, place=test.place)
        first.setdefault((test.model, test.name), test.place)
        model = models.get(test.model)
        if model is None:
            if test.model not in model_names:
                hint = did_you_mean(test.model, model_names)
                yield Problem("unknown-model", f"There is no model '{test.model}'.", "", hint, test.place)
            continue
        read_streams, read_models = ({it.name for it in found} for found in (model.facts.streams, model.facts.refs))
        seen: set[tuple[str, str]] = set()
        for given in test.given:
            match given:
                case GivenTable():
                    key, known, condition = ("table", "this"), {"this"}, "unknown-model"
                case GivenStream(stream=name):
                    key, known, condition = ("stream", name), read_streams, "unknown-stream"
                case GivenRef(ref=name):
                    key, known, condition = ("ref", name), read_models, "unknown-ref"
            kind, name = key
            if name not in known and (all_declared or kind == "ref"):
                what = f"Model '{test.model}' does not read {kind} '{name}'."
                yield Problem(condition, what, "", did_you_mean(name, known), given.place)
            if key in seen:
                what = f"{kind} '{name}' is given twice."
                yield Problem("duplicate-name", what, "", "Put all of it into one entry.", given.place)
            seen.add(key)
        if test.expect.tombstones is not None and "tombstones" not in model.config.memories:
            what = f"Model '{test.model}' remembers no deleted keys."
            fix = "Leave `tombstones` out. Modes upsert and cdc remember them where they have `sequence_by`."
            yield Problem("wrong-value", what, "", fix, test.expect.tombstones.place)
        overridden = test.overrides.vars
        for name in overridden.entries() if overridden else ():
            if overridden and name not in model.facts.vars:
                what = f"Model '{test.model}' reads no variable '{name}'."
                yield Problem("wrong-value", what, "", did_you_mean(name, model.facts.vars), overridden.key_place(name))


def _graph_nodes(
    project: str, streams: Mapping[str, Stream], models: Mapping[str, Model], seeds: Mapping[str, Seed]
) -> Iterable[GraphNode]:
    for seed in seeds.values():
        yield GraphNode(
            id=node_id("seed", seed.name),
            name=seed.name,
            resource_type="seed",
            path=seed.path,
            fqn=seed.fqn,
            tags=frozenset(seed.tags),
            config={"delimiter": seed.delimiter, "tags": list(seed.tags)},
            depends_on=(),
            place=seed.place,
        )
    for stream in streams.values():
        yield GraphNode(
            id=node_id("stream", stream.name),
            name=stream.name,
            resource_type="stream",
            path=stream.place.path,
            fqn=(project, stream.name),
            tags=frozenset(),
            config={},
            depends_on=(),
            place=stream.place,
        )
    for model in models.values():
        references = {
            node_id("seed" if found.name in seeds else "model", found.name): found.place for found in model.facts.refs
        }
        for found in model.facts.streams:
            references[node_id("stream" if found.name in streams else "model", found.name)] = found.place
        yield GraphNode(
            id=node_id("model", model.name),
            name=model.name,
            resource_type="model",
            path=model.path,
            fqn=model.fqn,
            tags=frozenset(model.config.tags),
            config={**model.options, "mode": model.config.mode, "tags": list(model.config.tags)},
            depends_on=tuple(references),
            place=model.place,
            references=references,
        )
