"""Builds the pages of a project's site, as values, from its parsed files, its compiled
models and its lineage. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesql.compile.checks import checks_of
from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.maintenance import when_due
from lakesql.compile.shown_text import read_header
from lakesql.decode import fields_of
from lakesql.errors import Problem
from lakesql.graph.find_tests import tested_ids
from lakesql.graph.graph import GraphNode
from lakesql.graph.manifest import Manifest
from lakesql.lineage.column_graph import ColumnEdge, ColumnGraph, ColumnKey
from lakesql.model.config import trigger_text
from lakesql.model.maintenance_tasks import maintenance_tasks
from lakesql.model.model import Model
from lakesql.model.owner import owner_of
from lakesql.project.cache import digest
from lakesql.seed.seed import Seed
from lakesql.select.lineage_edges import direct_or_not
from lakesql.site.content import (
    CheckRow,
    ColumnEdgeRow,
    ColumnRow,
    LastRun,
    Live,
    ModelPlan,
    NodePage,
    OptionRow,
    PageLink,
)
from lakesql.stream.stream import Column, Stream

FOLDERS = {"model": "models", "stream": "streams", "seed": "seeds", "table": "tables"}
"""The folder of the pages of nodes, by the type of the node."""

TestOutcome = tuple[str, str]
"""The outcome of a test, and a sentence on it."""


@dataclass(frozen=True, slots=True)
class KnownBeside:
    """What is known besides the project's files. `live`, `last_runs` and `plans` are by
    model, `outcomes` by the ids of tests and the names of expectations, `samples` by
    stream, and `problems` by the paths of files."""

    live: Mapping[str, Live] = field(default_factory=dict)
    last_runs: Mapping[str, LastRun] = field(default_factory=dict)
    plans: Mapping[str, ModelPlan] = field(default_factory=dict)
    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def build_pages(
    manifest: Manifest,
    compiled: CompiledFiles,
    texts: Mapping[str, str],
    graph: ColumnGraph,
    seen: KnownBeside,
) -> tuple[NodePage, ...]:
    """A page for each stream, seed, model, and table outside of the project, in the
    order in which they read each other.

    `texts` are the compiled texts of models, by name, for those that have one.
    """
    site = _SiteBuilder(manifest, compiled, texts, graph, seen)
    foreign = [
        id_ for id_, node in graph.nodes.items() if node.resource_type == "table"
    ]
    return (
        *map(site.table_page, sorted(foreign)),
        *map(site.page, manifest.graph.nodes.values()),
    )


def page_link(graph: ColumnGraph, id_: str) -> PageLink:
    """The link to the page of a node. Names of models, streams and seeds are valid
    names of files; the name of another table is converted to one."""
    node = graph.nodes[id_]
    slug = node.name
    if node.resource_type == "table":
        readable = "".join(
            each if each.isascii() and each.isalnum() else "-" for each in node.name
        )
        slug = f"{readable[:60]}-{digest(node.name)[:8]}"
    return PageLink(
        node.name, f"{FOLDERS[node.resource_type]}/{slug}.html", node.resource_type
    )


@dataclass(frozen=True, slots=True)
class _SiteBuilder:
    manifest: Manifest
    compiled: CompiledFiles
    texts: Mapping[str, str]
    graph: ColumnGraph
    seen: KnownBeside

    def page(self, node: GraphNode) -> NodePage:
        """The page of a node of the project's graph."""
        if node.resource_type == "stream":
            return self._stream_page(self.manifest.streams[node.name], node)
        if node.resource_type == "seed":
            return self._seed_page(self.manifest.seeds[node.name], node)
        return self._model_page(self.manifest.models[node.name], node)

    def table_page(self, id_: str) -> NodePage:
        """The page of a table outside of the project."""
        node, link = self.graph.nodes[id_], page_link(self.graph, id_)
        columns = tuple(
            ColumnRow(name, "", read_by=self._read_by(id_, name))
            for name in node.columns
        )
        return NodePage(
            id=id_,
            name=node.name,
            resource_type="table",
            href=link.href,
            table=node.name,
            columns=columns,
            has_unknown_columns=True,
            readers=self._links(self._readers_by_column(id_)),
        )

    def _model_page(self, model: Model, node: GraphNode) -> NodePage:
        text = self.texts.get(model.name, "")
        known = self.compiled.known(model.name)
        spelled = self.graph.nodes[node.id]
        descriptions = {
            it.name.lower(): it.description for it in model.properties.columns
        }
        keys = {key.lower() for key in _keys_of(model)}
        columns = tuple(
            ColumnRow(
                name,
                type_,
                descriptions.get(name.lower(), ""),
                is_key=name.lower() in keys,
                checks=self._checks(model.name, node.id, name),
                made_of=self._made_of(node.id, name),
                read_by=self._read_by(node.id, name),
            )
            for name, type_ in spelled.columns.items()
        )
        foreign = [
            it
            for it in self._sources_by_column(node.id)
            if self.graph.nodes[it].resource_type == "table"
        ]
        facts = [("File", model.path), ("Trigger", trigger_text(model.trigger))]
        if known is not None:
            facts.append(("Keeps state", "yes" if known.stateful else "no"))
        return NodePage(
            id=node.id,
            name=model.name,
            resource_type="model",
            href=page_link(self.graph, node.id).href,
            path=model.path,
            mode=model.config.mode,
            table=str(model.table),
            description=model.properties.description,
            owner=owner_of(node.config),
            tags=tuple(sorted(node.tags)),
            facts=tuple(facts),
            meaning=read_header(text),
            options=tuple(_options(model)),
            columns=columns,
            has_unknown_columns=spelled.is_open,
            reads=self._links((*node.depends_on, *foreign)),
            readers=self._links(self._model_readers(node.id)),
            rows_by=self._rows_by(node.id),
            checks=self._checks(model.name, node.id, ""),
            unit_tests=tuple(_unit_tests(self.manifest, model.name)),
            maintenance=tuple(
                (task.name, when_due(task.options)) for task in maintenance_tasks(model)
            ),
            source=model.source,
            compiled=text,
            problems=self.seen.problems.get(model.path, ()),
            live=self.seen.live.get(model.name),
            last_run=self.seen.last_runs.get(model.name),
            plan=self.seen.plans.get(model.name),
        )

    def _stream_page(self, stream: Stream, node: GraphNode) -> NodePage:
        said = {
            name.replace("_", " ").capitalize(): value
            for name, value in stream.origin.manifest().items()
        }
        facts = [
            ("Connection", stream.connection),
            *((name, _plain(value)) for name, value in said.items()),
        ]
        facts += [
            ("Format", stream.format),
            ("Envelope", stream.envelope),
            ("Key", ", ".join(stream.key)),
        ]
        if stream.watermark is not None:
            facts.append(
                ("Watermark", f"{stream.watermark.delay} on {stream.watermark.column}")
            )
        facts.append(("File", node.path))
        return NodePage(
            id=node.id,
            name=stream.name,
            resource_type="stream",
            href=page_link(self.graph, node.id).href,
            path=node.path,
            description=stream.description,
            facts=tuple(
                (name, value) for name, value in facts if value not in ("", "none")
            ),
            columns=self._contract(node.id, stream.columns, stream.key),
            has_unknown_columns=not stream.columns,
            readers=self._links(self._model_readers(node.id)),
            sample=self.seen.samples.get(stream.name, ()),
            problems=self.seen.problems.get(node.path, ()),
        )

    def _seed_page(self, seed: Seed, node: GraphNode) -> NodePage:
        return NodePage(
            id=node.id,
            name=seed.name,
            resource_type="seed",
            href=page_link(self.graph, node.id).href,
            path=seed.path,
            table=str(seed.table),
            description=seed.properties.description,
            owner=owner_of(node.config),
            tags=tuple(sorted(node.tags)),
            facts=(("File", seed.path),),
            columns=self._contract(node.id, seed.columns, ()),
            readers=self._links(self._model_readers(node.id)),
            checks=self._checks(seed.name, node.id, ""),
            problems=self.seen.problems.get(seed.path, ()),
        )

    def _contract(
        self, id_: str, columns: Sequence[Column], key: Sequence[str]
    ) -> tuple[ColumnRow, ...]:
        keys = {name.lower() for name in key}
        declared = tuple(
            ColumnRow(
                column.name,
                column.type,
                column.description,
                is_required=column.required,
                is_key=column.name.lower() in keys,
                is_sensitive=column.sensitive or False,
                from_field=column.from_field or "",
                checks=self._checks("", id_, column.name),
                read_by=self._read_by(id_, column.name),
            )
            for column in columns
        )
        added = [*self.graph.nodes[id_].columns][len(declared) :]
        return (
            *declared,
            *(ColumnRow(name, "", read_by=self._read_by(id_, name)) for name in added),
        )

    def _links(self, ids: Iterable[str]) -> tuple[PageLink, ...]:
        return tuple(
            page_link(self.graph, id_)
            for id_ in dict.fromkeys(ids)
            if id_ in self.graph.nodes
        )

    def _model_readers(self, id_: str) -> tuple[str, ...]:
        return self.manifest.graph.readers.get(id_, ())

    def _readers_by_column(self, id_: str) -> Iterator[str]:
        for (source, _), edges in self.graph.out_of.items():
            if source == id_:
                yield from (edge.made[0] for edge in edges)

    def _sources_by_column(self, id_: str) -> Iterator[str]:
        for column in self.graph.nodes[id_].columns:
            yield from (
                edge.source[0]
                for edge in self.graph.into.get((id_, column.lower()), ())
            )
        yield from (edge.source[0] for edge in self.graph.rows.get(id_, ()))

    def _made_of(self, id_: str, column: str) -> tuple[ColumnEdgeRow, ...]:
        edges = self.graph.into.get((id_, column.lower()), ())
        return tuple(self._edge_row(edge.source, edge) for edge in edges)

    def _read_by(self, id_: str, column: str) -> tuple[ColumnEdgeRow, ...]:
        edges = self.graph.out_of.get((id_, column.lower()), ())
        return tuple(self._edge_row(edge.made, edge) for edge in edges)

    def _rows_by(self, id_: str) -> tuple[ColumnEdgeRow, ...]:
        return tuple(
            self._edge_row(edge.source, edge) for edge in self.graph.rows.get(id_, ())
        )

    def _edge_row(self, other: ColumnKey, edge: ColumnEdge) -> ColumnEdgeRow:
        column = self.graph.spelled(other) if other[1] else ""
        return ColumnEdgeRow(
            page_link(self.graph, other[0]),
            column,
            edge.kind,
            direct_or_not(edge.kind) == "DIRECT",
        )

    def _checks(self, owner: str, id_: str, column: str) -> tuple[CheckRow, ...]:
        """The expectations and data tests of a column; those of the whole table if the
        column is ''."""
        found: list[CheckRow] = []
        model = self.manifest.models.get(owner)
        for check in checks_of(model.properties) if model is not None else ():
            if check.column.lower() == column.lower():
                of_others = self.seen.outcomes.get(f"{owner}.*", ("", ""))
                status, said = self.seen.outcomes.get(
                    f"{owner}.{check.name}", of_others
                )
                found.append(
                    CheckRow(check.name, check.condition, check.on_fail, status, said)
                )
        for test in self.manifest.data_tests:
            if test.column.lower() == column.lower() and id_ in tested_ids(test):
                status, said = self.seen.outcomes.get(test.id, ("", ""))
                found.append(
                    CheckRow(
                        test.name,
                        test.description or test.word,
                        test.options.severity,
                        status,
                        said,
                    )
                )
        return tuple(found)


def _options(model: Model) -> Iterator[OptionRow]:
    """The options that a model or its folder sets, each with its description, then
    those with their defaults."""
    own = set(model.options)
    rows = [
        OptionRow(
            each.name,
            _plain(model.options.get(each.name, each.default)),
            each.doc,
            each.name in own,
        )
        for each in fields_of(type(model.config))
        if each.name in own or isinstance(each.default, str | int | bool)
    ]
    yield from sorted(rows, key=lambda row: not row.is_own)


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _keys_of(model: Model) -> Sequence[str]:
    keys = model.options.get("keys", ())
    return (
        [keys]
        if isinstance(keys, str)
        else [str(key) for key in keys]
        if isinstance(keys, list | tuple)
        else []
    )


def _unit_tests(manifest: Manifest, name: str) -> Iterator[CheckRow]:
    for test in manifest.unit_tests:
        if test.model == name:
            yield CheckRow(test.name, test.description)
