"""The part of a project that a command works on: the models, streams, maintenance tasks
and tests that its options select."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesql.cli.options import Options
from lakesql.cli.project import load_project, said_words, show_warnings
from lakesql.cli.report import say
from lakesql.errors import UsageError, nearest, quoted
from lakesql.graph.graph import Graph, GraphNode, with_results, with_states
from lakesql.graph.manifest import Manifest
from lakesql.graph.selector import Selection, asks_for, parse_selection, select_nodes
from lakesql.project.files import check_folder_of_tests

if TYPE_CHECKING:
    from lakesql.model.data_tests import DataTest


@dataclass(frozen=True, slots=True)
class Work:
    """A project, and the part of it that a command runs.

    `names` are models, each after those it reads; `tasks` are the maintenance tasks of
    other models, by the names of these models; `tests` are data tests; `seeds` are the
    selected seeds, which only some commands use.
    """

    manifest: Manifest
    names: tuple[str, ...]
    tasks: Mapping[str, frozenset[str]]
    tests: tuple[DataTest, ...] = ()
    seeds: tuple[str, ...] = ()


def load_work(
    options: Options,
    words: Sequence[str],
    exclude: Sequence[str],
    *,
    with_tests: bool = False,
    with_tasks: bool = True,
    with_seeds: bool = False,
    asks: bool = False,
) -> Work:
    """The project, and what is selected of it: models, maintenance tasks, with
    `with_tests` data tests, and with `with_seeds` seeds.

    Without any selection all models are selected, and no tasks: each model maintains
    its own tables. An empty selection is reported on stderr, and so are the project's
    warnings. With `asks` brokers are asked for the tables of feeds. Raises what
    `load_project` and `select` raise.
    """
    manifest = load_project(options, asks=asks)
    show_warnings(manifest, options)
    nodes = select(manifest, words, exclude, options, with_tests=with_tests)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    tasks: dict[str, frozenset[str]] = {}
    is_chosen = bool(
        words or options.selector or (manifest.selectors.default and not exclude)
    )
    for node in nodes:
        if is_chosen and with_tasks and node.resource_type == "maintenance":
            of = str(node.config["of"])
            if of not in names:
                tasks[of] = tasks.get(of, frozenset()) | {node.name}
    tests = _tests_of(manifest, nodes, exclude, options) if with_tests else ()
    seeds = tuple(
        node.name for node in nodes if with_seeds and node.resource_type == "seed"
    )
    if not names and not tasks and not tests and not seeds:
        only_seeds = any(node.resource_type == "seed" for node in nodes)
        hint = (
            " Seeds are filled by `lakesql seed` and `lakesql build`."
            if only_seeds
            else ""
        )
        say(f"No model is selected: nothing to do.{hint}", options)
    return Work(manifest, names, tasks, tests, seeds)


def select(
    manifest: Manifest,
    words: Sequence[str],
    exclude: Sequence[str],
    options: Options,
    *,
    with_tests: bool = False,
    with_tasks: bool = False,
) -> tuple[GraphNode, ...]:
    """The selected nodes, each after those it reads: models, streams and seeds. Words
    that match nothing are reported on stderr.

    With `with_tests` data tests are among them. With `with_tasks` maintenance tasks
    are; without it, only if the project defines some by hand, or a word may mean them.
    Tests and maintenance tasks of an excluded model are excluded too.

    Raises `UsageError` (`bad-selector`), and `ProjectError` (`unknown-folder`) if the
    folder of tests does not exist.
    """
    if with_tests:
        check_folder_of_tests(manifest.directory, manifest.settings.paths)
    words = said_words(manifest.selectors, words, exclude, options)
    selection = parse_selection(words, exclude, manifest.selectors.find)
    has_tasks = (
        with_tasks
        or bool(manifest.written)
        or any(_MEANS_TASKS.search(word) for word in words)
    )
    graph = manifest.graph
    if has_tasks:
        # only here: few selections mean tasks
        from lakesql.graph.task_nodes import graph_with_tasks

        graph = graph_with_tasks(manifest)
    if with_tests and manifest.data_tests:
        from lakesql.graph.find_tests import add_tests

        graph = add_tests(graph, manifest.data_tests)
    graph = _known_graph(graph, manifest, selection, options, with_tests=with_tests)
    selected = select_nodes(selection, graph)
    for word in selected.unmatched:
        say(f"'{word}' matches nothing. {_nearest(word, manifest)}".rstrip(), options)
    excluded = (
        select_nodes(Selection(selection.exclude, ()), graph).ids
        if selection.exclude
        else frozenset()
    )
    nodes = (graph.nodes[id_] for id_ in graph.order(selected.ids))
    return tuple(
        node
        for node in nodes
        if node.resource_type in ("model", "stream", "seed")
        or excluded.isdisjoint(node.depends_on)
    )


def _known_graph(
    graph: Graph,
    manifest: Manifest,
    selection: Selection,
    options: Options,
    *,
    with_tests: bool,
) -> Graph:
    """The graph, with what the selection needs in its nodes: their states compared with
    another version of the project, or their results in an earlier run."""
    if asks_for(selection, "state"):
        graph = with_states(graph, _compare(options))
    if asks_for(selection, "result"):
        from lakesql.observe.results import read_results

        graph = with_results(
            graph,
            read_results(
                options.state or manifest.outputs.target, with_tests=with_tests
            ),
        )
    return graph


def select_models(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[str, ...]:
    """The names of the selected models, each after those it reads. An empty selection
    is reported on stderr."""
    nodes = select(manifest, words, exclude, options)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    if not names:
        say("No model is selected: nothing to do.", options)
    return names


def stored_models(
    manifest: Manifest, names: Sequence[str], options: Options
) -> tuple[str, ...]:
    """The models among `names` that have a table. If none has one, this is reported on
    stderr."""
    stored = tuple(name for name in names if manifest.models[name].config.is_stored)
    if names and not stored:
        say(
            f"{quoted(names)}: no row of a view is stored. It is as fresh as what it reads.",
            options,
        )
    return stored


def select_tables(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the selected models that have a table, each after those it reads,
    and of the selected seeds.

    An empty selection is reported on stderr.
    """
    nodes = select(manifest, words, exclude, options)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    seeds = tuple(node.name for node in nodes if node.resource_type == "seed")
    if not names and not seeds:
        say("Neither a model nor a seed is selected: nothing to do.", options)
    return stored_models(manifest, names, options), seeds


def select_seeds(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[str, ...]:
    """The names of the selected seeds. An empty selection is reported on stderr."""
    nodes = select(manifest, words, exclude, options)
    names = tuple(node.name for node in nodes if node.resource_type == "seed")
    if not names:
        say("No seed is selected: nothing to do.", options)
    return names


def select_tests(
    manifest: Manifest, words: Sequence[str], exclude: Sequence[str], options: Options
) -> tuple[tuple[str, ...], tuple[DataTest, ...]]:
    """The names of the selected models, and the data tests that are selected themselves
    or test one of these models.

    As in dbt, a test of several models belongs to each of them; and a test is excluded
    if it, or a model that it tests, is excluded.
    """
    nodes = select(manifest, words, exclude, options, with_tests=True)
    names = tuple(node.name for node in nodes if node.resource_type == "model")
    return names, _tests_of(manifest, nodes, exclude, options)


def _tests_of(
    manifest: Manifest,
    nodes: Sequence[GraphNode],
    exclude: Sequence[str],
    options: Options,
) -> tuple[DataTest, ...]:
    from lakesql.graph.find_tests import tested_ids

    selected, excluded = (
        {node.id for node in nodes},
        _excluded(manifest, exclude, options),
    )
    return tuple(
        test
        for test in manifest.data_tests
        if not selected.isdisjoint({test.id, *tested_ids(test)})
        and excluded.isdisjoint({test.id, *tested_ids(test)})
    )


def _excluded(
    manifest: Manifest, exclude: Sequence[str], options: Options
) -> frozenset[str]:
    if not exclude:
        return frozenset()
    selection = parse_selection(exclude, [], manifest.selectors.find)
    from lakesql.graph.find_tests import add_tests

    graph = add_tests(manifest.graph, manifest.data_tests)
    graph = _known_graph(graph, manifest, selection, options, with_tests=True)
    return select_nodes(selection, graph).ids


def _compare(options: Options) -> Mapping[str, frozenset[str]]:
    if options.state is None and options.against is None:
        fix = "Name it: --state DIR or --against REF."
        raise UsageError.of(
            "bad-selector",
            "state: compares with another version of the project.",
            fix=fix,
        )
    # only here: few selections compare two versions of the project
    from lakesql.cli.review import compared_states

    return compared_states(options)


_MEANS_TASKS = re.compile(r"[+@.]|maintenance|selector:")
"""Matches each word of a selection that may mean a maintenance task: by the task's
name, as a descendant of a model, or by its type."""


def _nearest(word: str, manifest: Manifest) -> str:
    """A suggestion for a plain name, with its graph operators: the nearest name of a
    model or seed, or `stream:` with that of a stream. '' if there is none."""
    found = _PLAIN.fullmatch(word)
    if found is None:
        return ""
    before, name, after = found.groups()
    near = {model.lower(): model for model in manifest.models}
    near |= {seed.lower(): seed for seed in manifest.seeds}
    near |= {
        stream.lower(): f"stream:{stream}"
        for stream in manifest.streams
        if stream.lower() not in near
    }
    close = nearest(name, near)
    return f"Did you mean '{before}{near[close]}{after}'?" if close else ""


_PLAIN = re.compile(r"((?:@|\d*\+)?)([^:/,+@]+)((?:\+\d*)?)")
