"""The text of `target/manifest.json`: the facts about each node of the project, for
tools that read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lakesql import __version__
from lakesql.compile.checks import Check, checks_of
from lakesql.compile.made_columns import ModelLineage, SourceColumn
from lakesql.compile.maintenance import plain_options, when_due
from lakesql.graph.find_tests import test_node
from lakesql.graph.graph import GraphNode, node_id
from lakesql.graph.manifest import Manifest, ref_id
from lakesql.graph.task_nodes import task_node
from lakesql.model.data_tests import DataTest
from lakesql.model.maintenance_tasks import MaintenanceTask, maintenance_tasks
from lakesql.model.model import Model
from lakesql.model.properties import Freshness
from lakesql.modes.all_modes import MAINTENANCE
from lakesql.project.duration import Duration
from lakesql.project.files import shorten
from lakesql.project.procedures import DEFAULTS, Procedure
from lakesql.seed.seed import Seed
from lakesql.select.lineage_edges import direct_or_not
from lakesql.stream.stream import Column, Stream

if TYPE_CHECKING:
    from lakesql.compile.compiled import CompiledFiles


def render_manifest(
    manifest: Manifest, compiled: CompiledFiles, schemas: Mapping[str, str]
) -> str:
    """The text of manifest.json; `schemas` are the texts of schema files by their
    paths."""
    folder = shorten(compiled.folder, manifest.directory)
    nodes = {
        id_: {**_node(node), **_details(manifest, compiled, folder, node)}
        for id_, node in sorted(manifest.graph.nodes.items())
    }
    nodes |= {
        test.id: {**_node(test_node(test)), **_test(test, folder)}
        for test in manifest.data_tests
    }
    # One node a line: as easy to compare as indented text, and written ten times
    # faster.
    tasks = [f'"{id_}": {text}' for id_, text in sorted(_task_lines(manifest, folder))]
    lines = ",\n".join(
        [*tasks, *(f"{_text(id_)}: {_text(node)}" for id_, node in nodes.items())]
    )
    files = ",\n".join(
        f"{_text(path)}: {_text(text)}"
        for path, text in sorted({**manifest.texts, **schemas}.items())
    )
    metadata = _text(metadata_of(manifest))
    return f'{{"metadata": {metadata},\n"nodes": {{\n{lines}\n}},\n"files": {{\n{files}\n}}}}\n'


def metadata_of(manifest: Manifest) -> dict[str, Any]:
    """The `metadata` entry of manifest.json."""
    return {
        "lakesql_version": __version__,
        "project": manifest.settings.name,
        "target": manifest.target.facts,
    }


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _node(node: GraphNode) -> dict[str, Any]:
    return {
        "unique_id": node.id,
        "name": node.name,
        "resource_type": node.resource_type,
        "path": node.path,
        "fqn": list(node.fqn),
        "tags": sorted(node.tags),
        "config": node.config,
        "depends_on": list(node.depends_on),
    }


def _details(
    manifest: Manifest, compiled: CompiledFiles, folder: str, node: GraphNode
) -> dict[str, Any]:
    if node.resource_type == "stream":
        return stream_facts(manifest.streams[node.name])
    if node.resource_type == "seed":
        return seed_facts(manifest.seeds[node.name])
    return _model(manifest, compiled, folder, node)


def _task_lines(manifest: Manifest, folder: str) -> Iterator[tuple[str, str]]:
    """The ids of the maintenance tasks, each with its text as JSON; the options of a
    procedure are rendered once."""
    defaults = {
        name: _procedure_text(name, options) for name, options in DEFAULTS.items()
    }
    for model in manifest.models.values():
        parent = node_id("model", model.name)
        common = _text(
            {
                "resource_type": "maintenance",
                "path": model.path,
                "tags": [],
                "config": {"mode": "maintenance", "of": model.name},
                "depends_on": [parent],
                "mode": "maintenance",
                "compiled_path": f"{folder}/{model.compiled_path}",
            }
        )
        above = "".join(f"{_text(name)}, " for name in model.fqn[:-1])
        for task in maintenance_tasks(model):
            name, id_ = task.procedure, node_id("maintenance", task.name)
            if task.written is not None:
                yield id_, _written_task(manifest, folder, task)
                continue
            is_default = task.options == DEFAULTS[name]
            rest = defaults[name] if is_default else _procedure_text(name, task.options)
            fqn = f'[{above}"{task.owner}", "{name}"]'
            head = f'{{"unique_id": "{id_}", "name": "{task.name}", "fqn": {fqn}, "table": "{task.table}"'
            yield id_, f"{head}, {common[1:-1]}, {rest[1:]}"


def _written_task(manifest: Manifest, folder: str, task: MaintenanceTask) -> str:
    """A maintenance task that a file of its own declares, as JSON. Its statement is in
    the model's compiled file."""
    said = {
        **_node(task_node(manifest, task)),
        "mode": MAINTENANCE,
        "table": str(task.table),
        "compiled_path": f"{folder}/{manifest.models[task.model].compiled_path}",
        "procedure": task.procedure,
        "when": when_due(task.options, task.is_by_time),
        "options": plain_options(task.options),
    }
    return _text(said)


def _procedure_text(name: str, options: Procedure) -> str:
    return _text(
        {
            "procedure": name,
            "when": when_due(options),
            "options": plain_options(options),
        }
    )


def _model(
    manifest: Manifest, compiled: CompiledFiles, folder: str, node: GraphNode
) -> dict[str, Any]:
    model = manifest.models[node.name]
    known = compiled.known(model.name)
    return {
        "mode": node.config["mode"],
        "table": str(model.table),
        "dead_letter_table": str(model.table.dead_letter),
        "description": model.properties.description,
        "freshness": _freshness(model.properties.freshness),
        "expectations": [_expectation(check) for check in checks_of(model.properties)],
        "compiled_path": f"{folder}/{model.compiled_path}",
        "stateful": known.stateful if known else None,
        "contract": _model_contract(model, known.columns)
        if known and known.columns is not None
        else None,
        "lineage": _lineage(known.lineage) if known else None,
        "reads_streams": _names(found.name for found in model.facts.streams),
        "joins": [
            ref_id(manifest, name)
            for name in _names(found.name for found in model.facts.refs)
        ],
        "vars": sorted(model.facts.vars),
        "macros": sorted(model.facts.macros),
    }


def _lineage(lineage: ModelLineage) -> dict[str, Any]:
    """The lineage of a model: the source columns of each column, and of the conditions
    that decide which rows exist."""

    def sources(found: Iterable[SourceColumn]) -> list[dict[str, str]]:
        return [
            {
                "node": it.node,
                "column": it.column,
                "type": direct_or_not(it.kind),
                "kind": it.kind,
            }
            for it in found
        ]

    return {
        "columns": {column.name: sources(column.sources) for column in lineage.columns},
        "rows": sources(lineage.rows),
    }


def _expectation(check: Check) -> dict[str, str | None]:
    """An expectation on the rows of a batch; its condition is in Spark SQL. `column` is
    null for an expectation of the whole model."""
    return {
        "name": check.name,
        "column": check.column or None,
        "condition": check.condition,
        "on_fail": check.on_fail,
    }


def _test(test: DataTest, folder: str) -> dict[str, Any]:
    return {
        "description": test.description,
        "test": test.word,
        "compiled_path": f"{folder}/{test.compiled_path}",
    }


def _freshness(limits: Freshness) -> dict[str, str | float] | None:
    """The freshness limits of the model as its file gives them; null if there are
    none."""
    said = {field.name: getattr(limits, field.name) for field in fields(limits)}
    return {
        name: value.text if isinstance(value, Duration) else value
        for name, value in said.items()
        if value is not None
    } or None


def _model_contract(model: Model, columns: Iterable[Column]) -> list[dict[str, Any]]:
    """The columns of the table; the type is null if only Spark's analyzer knows it."""
    return [
        {
            "name": item.name,
            "type": item.type or None,
            "description": model.properties.description_of(item.name),
        }
        for item in columns
    ]


def stream_facts(stream: Stream) -> dict[str, Any]:
    """The entries of manifest.json that only a stream has."""
    watermark = stream.watermark
    return {
        "description": stream.description,
        "connection": stream.connection,
        **stream.origin.manifest(),
        "format": stream.format,
        "envelope": stream.envelope,
        "key": list(stream.key),
        "watermark": {"column": watermark.column, "delay": watermark.delay}
        if watermark
        else None,
        "contract": [
            {
                "name": item.name,
                "type": item.type,
                "required": item.required,
                "description": item.description,
                **({"from": item.from_field} if item.from_field else {}),
                **({"in": "key"} if item.is_in_key else {}),
                **({"sensitive": item.sensitive} if item.sensitive is not None else {}),
            }
            for item in stream.columns
        ],
    }


def seed_facts(seed: Seed) -> dict[str, Any]:
    """The entries of manifest.json that only a seed has."""
    return {
        "table": str(seed.table),
        "description": seed.properties.description,
        "digest": seed.digest,
        "contract": [
            {
                "name": item.name,
                "type": item.type,
                "required": item.required,
                "description": item.description,
                **({"from": item.from_field} if item.from_field else {}),
            }
            for item in seed.columns
        ],
    }


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
