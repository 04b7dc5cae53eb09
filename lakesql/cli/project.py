"""From a command's options to the project on its target, and to what was selected of it."""

from __future__ import annotations

import difflib
import gc
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lakesql.cli.options import Options, find_directory, find_outputs
from lakesql.cli.report import in_order, report_problem, say
from lakesql.compile.compiled import CompiledFiles
from lakesql.errors import ProjectError, UsageError, did_you_mean
from lakesql.graph.find_tests import add_tests
from lakesql.graph.graph import Graph, GraphNode, node_id, with_results, with_states
from lakesql.graph.manifest import Manifest, graph_with_tasks, load_manifest
from lakesql.graph.named_selectors import Selectors
from lakesql.graph.parse_cache import FileCache
from lakesql.graph.selector import SELECTOR, Selection, asks_for, parse_selection, select_nodes
from lakesql.model.data_tests import DataTest
from lakesql.project.files import ProjectFiles, read_project
from lakesql.project.profiles import Target, load_target
from lakesql.project.yaml import parse_yaml
from lakesql.run.columns import find_recorded
from lakesql.secrets import PREFIX, find_secrets


def load_project(options: Options) -> Manifest:
    """The project of the working directory, or of --project-dir, on the target that the options name.

    Raises `LakesqlError` with everything that is wrong with it.
    """
    overrides = read_vars(options.vars)
    directory = find_directory(options)
    gc.disable()  # the search for garbage would walk through all that is being read again and again
    try:
        files = read_project(directory, find_outputs(options))
        target = load_target(files.settings.profile, options.target, profile_folders(options, directory), os.environ)
        manifest = load_files(files, target, overrides)
        gc.freeze()  # it stays until the process ends: the collector need not look at it later either
        return manifest
    finally:
        gc.enable()


def show_warnings(manifest: Manifest, options: Options) -> None:
    """Tell on stderr what somebody should know of the project, and what ends no command."""
    for problem in in_order(manifest.warnings):
        report_problem(problem, options, as_warning=True)


def load_files(files: ProjectFiles, target: Target, overrides: Mapping[str, Any]) -> Manifest:
    """The manifest of these files, those that have not changed as they were read before."""
    cache = FileCache(files.outputs.cache / "files.json")
    manifest = load_manifest(files, target, overrides, cache.read_declarations, cache.read_model)
    cache.save()
    return find_recorded(manifest)


def write_manifest(manifest: Manifest, compiled: CompiledFiles) -> Path:
    """Write `manifest.json`, for other tools; where it is."""
    from lakesql.compile import manifest_file

    return manifest_file.write_manifest(manifest, compiled, read_schemas(manifest, manifest.directory))


def read_schemas(manifest: Manifest, folder: Path) -> dict[str, str]:
    """The texts of the Avro schemas that streams name and that are below `folder`, by their paths."""
    paths = {stream.schema for stream in manifest.streams.values() if stream.schema}
    files = {path: folder / path for path in paths}
    return {path: file.read_text("utf-8", errors="replace") for path, file in files.items() if file.is_file()}


def profile_folders(options: Options, directory: Path) -> list[Path]:
    """The folders in which profiles.yml may be, in the order of the search."""
    if options.profiles_dir is not None:
        return [options.profiles_dir.absolute()]
    return [directory, Path.home() / ".lakesql"]


def read_vars(text: str) -> Mapping[str, Any]:
    """The mapping in `--vars`, YAML or JSON. Raises `UsageError` (`bad-vars`, `secret-in-vars`)."""
    if find_secrets(os.environ).are_in(text):
        raise UsageError.of(
            "secret-in-vars",
            f"--vars holds the value of a variable whose name starts with {PREFIX}.",
            why="A model's vars stand in its compiled SQL, for everybody to read.",
        )
    try:
        return {name: node.plain() for name, node in parse_yaml("--vars", text).entries().items()}
    except ProjectError as error:
        what = f"The value of --vars is not a mapping: {error.problems[0].what}"
        raise UsageError.of("bad-vars", what) from None


def check_model(manifest: Manifest, name: str) -> None:
    """Raise `UsageError` (`unknown-model`) where no model has this name."""
    if name not in manifest.models:
        raise UsageError.of("unknown-model", f"There is no model '{name}'.", fix=did_you_mean(name, manifest.models))


def select(
    manifest: Manifest,
    words: Sequence[str],
    exclude: Sequence[str],
    options: Options,
    *,
    with_tests: bool = False,
    with_tasks: bool = False,
) -> tuple[GraphNode, ...]:
    """The selected models and streams, each after those it reads. Words that match nothing are told on stderr.

    With `with_tests` data tests are among them, with `with_tasks` those tasks of maintenance too that nobody has
    written and no word means. Tests and tasks of maintenance of an excluded model are excluded too.

    Raises `UsageError` (`bad-selector`).
    """
    words = said_words(manifest.selectors, words, exclude, options)
    selection = parse_selection(words, exclude, manifest.selectors.find)
    has_tasks = with_tasks or bool(manifest.written) or any(_MEANS_TASKS.search(word) for word in words)
    graph = graph_with_tasks(manifest) if has_tasks else manifest.graph
    graph = add_tests(graph, manifest.data_tests) if with_tests else graph
    graph = _known_graph(graph, manifest, selection, options, with_tests=with_tests)
    selected = select_nodes(selection, graph)
    for word in selected.unmatched:
        say(f"'{word}' matches nothing. {_nearest(word, manifest)}".rstrip(), options)
    excluded = select_nodes(Selection(selection.exclude, ()), graph).ids if selection.exclude else frozenset()
    nodes = (graph.nodes[id_] for id_ in graph.order(selected.ids))
    return tuple(
        node for node in nodes if node.resource_type in ("model", "stream") or excluded.isdisjoint(node.depends_on)
    )


def _known_graph(
    graph: Graph, manifest: Manifest, selection: Selection, options: Options, *, with_tests: bool
) -> Graph:
    """The graph, whose nodes know what a selection asks of them: another version of the project, an earlier run."""
    if asks_for(selection, "state"):
        graph = with_states(graph, _compare(options))
    if asks_for(selection, "result"):
        from lakesql.observe.results import read_results

        graph = with_results(graph, read_results(options.state or manifest.outputs.target, with_tests=with_tests))
    return graph


def said_words(selectors: Selectors, words: Sequence[str], exclude: Sequence[str], options: Options) -> tuple[str, ...]:
    """The words of --select with those that --selector stands for; those of the default selector, where nothing is
    said. Raises `UsageError` (`unknown-selector`)."""
    for name in options.selector:
        if not re.fullmatch(r"[\w.-]+", name):
            selectors.find(name)  # is none: it would be several words
    named = options.selector
    if not (words or exclude or named) and selectors.default:
        say(f"Nothing is selected: selector '{selectors.default}' is the default.", options)
        named = (selectors.default,)
    return (*words, *(f"{SELECTOR}:{name}" for name in named))


def _compare(options: Options) -> Mapping[str, frozenset[str]]:
    if options.state is None and options.against is None:
        fix = "Name it: --state DIR or --against REF."
        raise UsageError.of("bad-selector", "state: compares with another version of the project.", fix=fix)
    from lakesql.cli.review import compared_states  # only here: it reads the project in both versions

    return compared_states(options)


_MEANS_TASKS = re.compile(r"[+@.]|maintenance|selector:")
"""What is in each word of a selection that may mean a task of maintenance: by its name, as a reader, or by its type."""


def _nearest(word: str, manifest: Manifest) -> str:
    """A suggestion for a plain name, with the operators that it has: the nearest model, or the stream of this name."""
    found = _PLAIN.fullmatch(word)
    if found is None:
        return ""
    before, name, after = found.groups()
    near = {model.lower(): model for model in manifest.models}
    near |= {stream.lower(): f"stream:{stream}" for stream in manifest.streams if stream.lower() not in near}
    close = difflib.get_close_matches(name.lower(), near, n=1, cutoff=0.6)
    return f"Did you mean '{before}{near[close[0]]}{after}'?" if close else ""


_PLAIN = re.compile(r"((?:@|\d*\+)?)([^:/,+@]+)((?:\+\d*)?)")


@dataclass(frozen=True, slots=True)
class Work:
    """A project, and what a command runs of it.

    `names` are models, each after those it reads; `tasks` are tasks of maintenance of other models, by these; `tests`
    are data tests.
    """

    manifest: Manifest
    names: tuple[str, ...]
    tasks: Mapping[str, frozenset[str]]
    tests: tuple[DataTest, ...] = ()


def load_work(
    options: Options, words: Sequence[str], exclude: Sequence[str], *, with_tests: bool = False, with_tasks: bool = True
) -> Work:
    """The project, and what is selected of it: models, tasks of maintenance, and with `with_tests` data tests.

    Everything, where nothing is said, is all models: each maintains its own tables. An empty selection is told on
    stderr, and so are the project's warnings. Raises what `load_project` and `select` raise.
    """
    manifest = load_project(options)
    show_warnings(manifest, options)
    nodes = select(manifest, words, exclude, options, with_tests=with_tests)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    tasks: dict[str, frozenset[str]] = {}
    is_chosen = bool(words or options.selector or (manifest.selectors.default and not exclude))
    for node in nodes:
        if is_chosen and with_tasks and node.resource_type == "maintenance":
            of = str(node.config["of"])
            if of not in names:
                tasks[of] = tasks.get(of, frozenset()) | {node.name}
    tests = _tests_of(manifest, nodes, exclude, options) if with_tests else ()
    if not names and not tasks and not tests:
        say("No model is selected: nothing to do.", options)
    return Work(manifest, names, tasks, tests)


def select_tests(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[tuple[str, ...], tuple[DataTest, ...]]:
    """The names of the selected models, and the data tests that are selected, or that test one of these models.

    As in dbt, a test of several models is one of each; and a test is excluded like a model, or with one that it tests.
    """
    nodes = select(manifest, words, exclude, options, with_tests=True)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    return names, _tests_of(manifest, nodes, exclude, options)


def _tests_of(
    manifest: Manifest, nodes: Sequence[GraphNode], exclude: Sequence[str], options: Options
) -> tuple[DataTest, ...]:
    selected, excluded = {node.id for node in nodes}, _excluded(manifest, exclude, options)
    return tuple(
        test
        for test in manifest.data_tests
        if (test.id in selected or not {*map(partial(node_id, "model"), test.depends_on)}.isdisjoint(selected))
        and excluded.isdisjoint({test.id, *map(partial(node_id, "model"), test.depends_on)})
    )


def _excluded(manifest: Manifest, exclude: Sequence[str], options: Options) -> frozenset[str]:
    if not exclude:
        return frozenset()
    selection = parse_selection(exclude, [], manifest.selectors.find)
    graph = add_tests(manifest.graph, manifest.data_tests)
    graph = _known_graph(graph, manifest, selection, options, with_tests=True)
    return select_nodes(selection, graph).ids


def check_tests(manifest: Manifest, compiled: CompiledFiles) -> None:
    """Raise `ProjectError` with what is wrong with models and data tests, as far as their columns are known."""
    compiled.check(manifest.models)
    if manifest.data_tests:
        from lakesql.unit.test_query import check_data_tests  # only here: it reads SQL

        check_data_tests(manifest, compiled)


def select_models(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[str, ...]:
    """The names of the selected models, each after those it reads. An empty selection is told on stderr."""
    nodes = select(manifest, words, exclude, options)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    if not names:
        say("No model is selected: nothing to do.", options)
    return names


def defer(manifest: Manifest, names: Collection[str], options: Options) -> Manifest:
    """The manifest of a command that runs the models `names`, with what --defer says of the others that they join.

    The catalog is asked which tables are there, unless --favor-state. Raises `UsageError` (`usage`, `state-missing`,
    `state-outdated`, and what `defer_refs` raises), and what opening the catalog raises.
    """
    if not options.defer:
        if options.favor_state:
            raise UsageError.of("usage", "--favor-state says how --defer chooses.", fix="Add --defer, or leave it out.")
        return manifest
    if options.state is None:
        raise UsageError.of(
            "usage", "--defer needs --state DIR.", fix="Name the folder of the other target's manifest."
        )
    from lakesql.catalog.tables import look_in
    from lakesql.run.defer import defer_refs
    from lakesql.run.former import read_state_tables

    state = read_state_tables(options.state)
    if options.favor_state:
        deferred = defer_refs(manifest, names, state, None)
    else:
        deferred = defer_refs(manifest, names, state, look_in(manifest.target.catalog))
    for name, table in deferred.deferred.items():
        say(f"ref('{name}') reads {table}.", options)
    return deferred
