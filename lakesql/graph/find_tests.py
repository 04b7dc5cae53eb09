"""The data tests of a project, from its properties files and the files of `tests/`, and
their nodes in the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from lakesql.decode import collect, node_of
from lakesql.errors import Place, Problem, ProjectError, did_you_mean
from lakesql.graph.graph import Graph, GraphNode, node_id
from lakesql.model.data_tests import (
    DataTest,
    FailingRows,
    Relationships,
    TestEntry,
    check_place,
    name_of,
    read_file_options,
)
from lakesql.model.model import Model
from lakesql.model.properties import ModelProperties
from lakesql.names import check_name
from lakesql.project.files import SourceFile
from lakesql.project.settings import Settings
from lakesql.seed.seed import Seed
from lakesql.template.template import Macros, parse_template


def find_data_tests(
    properties: Mapping[str, ModelProperties],
    files: Iterable[SourceFile],
    tables: Mapping[str, Model | Seed],
    seeds: Collection[str],
    table_names: Collection[str],
    settings: Settings,
    macros: Macros,
    problems: list[Problem],
) -> tuple[DataTest, ...]:
    """The enabled data tests. `table_names` are the names of models that write a table,
    including models that could not be parsed, and of seeds; `seeds` are those of the
    seeds.

    A test is a problem, added to `problems`, if what it tests has no table, if it is at
    a wrong place, or if it has the name of another test.
    """
    found: list[DataTest] = []
    for described in properties.values():
        for column, entry in described.test_entries:
            if described.name in table_names:
                test = collect(
                    problems,
                    partial(
                        _of_entry,
                        tables.get(described.name),
                        column,
                        entry,
                        table_names,
                    ),
                )
                found += [test] if test is not None else []
            else:
                what = f"'{described.name}' writes no table of its own that could be tested."
                problems.append(Problem("wrong-value", what, place=entry.place))
    for file in files:
        test = collect(problems, partial(_of_file, file, settings, macros, table_names))
        found += [test] if test is not None else []
    problems.extend(_check_names(found))
    enabled = (test for test in found if test.options.enabled)
    return tuple(
        replace(test, seeds=frozenset(test.depends_on) & frozenset(seeds))
        for test in enabled
    )


def tested_ids(test: DataTest) -> tuple[str, ...]:
    """The ids of the models and seeds whose tables a test reads."""
    return tuple(
        node_id("seed" if name in test.seeds else "model", name)
        for name in test.depends_on
    )


def add_tests(graph: Graph, tests: Iterable[DataTest]) -> Graph:
    """The graph with the tests added, each as a reader of the models and seeds whose
    tables it reads."""
    nodes, readers = (
        dict(graph.nodes),
        {id_: [*reading] for id_, reading in graph.readers.items()},
    )
    for test in tests:
        node = test_node(test)
        nodes[node.id] = node
        readers[node.id] = []
        for read in node.depends_on:
            readers[read].append(node.id)
    return Graph(nodes, {id_: tuple(reading) for id_, reading in readers.items()})


def _of_entry(
    table: Model | Seed | None,
    column: str,
    entry: TestEntry,
    table_names: Collection[str],
) -> DataTest | None:
    check_place(entry, column)
    reads = [entry.check.to] if isinstance(entry.check, Relationships) else []
    if unknown := [name for name in reads if name not in table_names]:
        what, hint = (
            f"ref('{unknown[0]}') names no model and no seed.",
            did_you_mean(unknown[0], table_names),
        )
        raise ProjectError.of("unknown-ref", what, fix=hint, place=entry.place)
    if table is None:
        return None
    name = name_of(table.name, column, entry)
    return DataTest(
        name=check_name(node_of(name, entry.place)),
        word=entry.word,
        place=entry.place,
        check=entry.check,
        model=table.name,
        column=column,
        depends_on=tuple(dict.fromkeys([table.name, *reads])),
        where=entry.given.where,
        description=entry.given.description,
        options=entry.options,
        fqn=(*table.fqn[:-1], name),
        path=entry.place.path,
    )


def _of_file(
    file: SourceFile, settings: Settings, macros: Macros, table_names: Collection[str]
) -> DataTest:
    relative = PurePosixPath(file.path).relative_to(settings.paths.tests)
    name = check_name(node_of(relative.stem, Place(file.path)))
    template = parse_template(file.path, file.text, macros)
    start = Place(file.path, 1, 1)
    problems = [
        Problem(
            "unknown-ref",
            f"ref('{it.name}') names no model and no seed.",
            "",
            did_you_mean(it.name, table_names),
            it.place,
        )
        for it in template.refs
        if it.name not in table_names
    ]
    fix = "Read the table of a model: ref('orders')."
    for reference in template.streams:
        what = f"stream('{reference.name}') reads what arrives, and a data test has a table to read."
        problems.append(Problem("test-template", what, "", fix, reference.place))
    for word in sorted(template.reads & {"this", "is_full_refresh"}):
        problems.append(
            Problem(
                "test-template",
                f"A data test has no table of its own: '{word}'.",
                "",
                fix,
                start,
            )
        )
    if not template.refs and not problems:
        why = "So it tests no model, and no selection of models would run it."
        fix = (
            "Name a model: SELECT * FROM {{ ref('orders') }} WHERE amount < 0. SELECTs that are no tests belong "
            "elsewhere: `tests` in [tool.lakesql.paths] names the folder."
        )
        problems.append(
            Problem("no-ref", "The file reads no table by ref('…').", why, fix, start)
        )
    options = collect(problems, partial(read_file_options, template.config))
    if problems or options is None:
        raise ProjectError(problems)
    return DataTest(
        name=name,
        word="sql",
        place=start,
        check=FailingRows(file.path, file.text, template),
        model="",
        column="",
        depends_on=tuple(dict.fromkeys(found.name for found in template.refs)),
        where=None,
        description="",
        options=options,
        fqn=(settings.name, *relative.parts[:-1], name),
        path=file.path,
    )


def _check_names(tests: Iterable[DataTest]) -> Iterator[Problem]:
    first: dict[str, DataTest] = {}
    for test in tests:
        earlier = first.setdefault(test.name.lower(), test)
        if earlier is not test:
            what = f"The data test '{test.name}' stands at {earlier.place} already."
            fix = f"Give one of them a name of its own: `name: {test.name}_2`."
            if isinstance(test.check, FailingRows):
                fix = "Rename the file."
            yield Problem(
                "duplicate-name", what, "Capitals make no difference.", fix, test.place
            )


def test_node(test: DataTest) -> GraphNode:
    """The node of a test for the graph."""
    options = test.options
    return GraphNode(
        id=test.id,
        name=test.name,
        resource_type="test",
        path=test.path,
        fqn=test.fqn,
        tags=frozenset(options.tags),
        config={
            "test": test.word,
            "model": test.model or None,
            "column": test.column or None,
            "severity": options.severity,
            "error_if": str(options.error_if),
            "warn_if": str(options.warn_if),
            "where": test.where.plain() if test.where else None,
            "limit": options.limit,
            "store_failures": options.store_failures,
            "tags": list(options.tags),
            "meta": options.meta.plain(),
        },
        depends_on=tested_ids(test),
        place=test.place,
        references=dict.fromkeys(tested_ids(test), test.place),
        is_appended=bool(test.model),
    )
