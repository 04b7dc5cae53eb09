"""Which columns the streams, seeds, models and foreign tables of a project have, and
which columns are made of which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lakesql.compile.compiled import CompiledFiles
from lakesql.compile.made_columns import ModelLineage, SourceColumn
from lakesql.errors import UsageError, did_you_mean
from lakesql.graph.graph import node_id
from lakesql.graph.manifest import Manifest
from lakesql.select.lineage_edges import Kind

ColumnKey = tuple[str, str]
"""The id of a node, and the name of one of its columns in lower case ('' for its
rows)."""

Direction = Literal["upstream", "downstream"]


@dataclass(frozen=True, slots=True)
class ColumnNode:
    """A stream, a seed, a model, or a table that is not the project's. `columns` are
    the types of its columns by name, '' for a type that is not known; `is_open`: it has
    columns that are not known too."""

    id: str
    name: str
    resource_type: str
    columns: Mapping[str, str]
    is_open: bool = False

    @property
    def label(self) -> str:
        """The node's name on the command line: that of a model alone, others with their
        type, as in `stream:orders`."""
        return (
            self.name
            if self.resource_type == "model"
            else f"{self.resource_type}:{self.name}"
        )


@dataclass(frozen=True, slots=True)
class ColumnEdge:
    """The column `made` is made of the column `source`, in the way `kind`. If `made`
    has no column, `source` decides about its rows."""

    source: ColumnKey
    made: ColumnKey
    kind: Kind


@dataclass(frozen=True, slots=True)
class ColumnGraph:
    """The columns of a project and the edges between them.

    `nodes` are by id. `into` has the edges by the column that they lead to, `out_of` by
    the column that they come from. `rows` has, by node, the edges of the columns that
    decide which rows it has.
    """

    nodes: Mapping[str, ColumnNode]
    into: Mapping[ColumnKey, Sequence[ColumnEdge]]
    out_of: Mapping[ColumnKey, Sequence[ColumnEdge]]
    rows: Mapping[str, Sequence[ColumnEdge]]

    def spelled(self, key: ColumnKey) -> str:
        """The name of a column with the case that its node declares."""
        id_, column = key
        return next(
            (name for name in self.nodes[id_].columns if name.lower() == column), column
        )


def build_column_graph(manifest: Manifest, compiled: CompiledFiles) -> ColumnGraph:
    """The graph of all models whose lineage is known; models with errors have no
    edges."""
    lineages = {
        name: known.lineage
        for name in manifest.models
        if (known := compiled.known(name)) is not None
    }
    nodes = {node.id: node for node in _declared(manifest, compiled, lineages)}
    edges = [
        edge
        for name, lineage in lineages.items()
        for edge in _edges(node_id("model", name), lineage)
    ]
    _add_read(nodes, edges)
    into: dict[ColumnKey, list[ColumnEdge]] = {}
    out_of: dict[ColumnKey, list[ColumnEdge]] = {}
    rows: dict[str, list[ColumnEdge]] = {}
    for edge in edges:
        id_, column = edge.made
        if column:
            into.setdefault(edge.made, []).append(edge)
        else:
            rows.setdefault(id_, []).append(edge)
        out_of.setdefault(edge.source, []).append(edge)
    return ColumnGraph(nodes, into, out_of, rows)


def _add_read(nodes: dict[str, ColumnNode], edges: Sequence[ColumnEdge]) -> None:
    """Adds to `nodes` what is read and not declared: tables that are not the project's,
    fields of `_record` and `_change`, and columns of a node whose columns are not all
    known."""
    read: dict[str, dict[str, str]] = {}
    for id_, column in (edge.source for edge in edges):
        known = (
            {name.lower() for name in nodes[id_].columns}
            if id_ in nodes
            else frozenset()
        )
        if column not in known:
            read.setdefault(id_, {})[column] = ""
    for id_, columns in read.items():
        type_, _, name = id_.partition(".")
        node = nodes.get(id_) or ColumnNode(id_, name, type_, {}, is_open=True)
        added = {name: type_ for name, type_ in sorted(columns.items()) if name != "*"}
        nodes[id_] = replace(node, columns={**node.columns, **added})


def _declared(
    manifest: Manifest, compiled: CompiledFiles, lineages: Mapping[str, ModelLineage]
) -> Iterator[ColumnNode]:
    for stream in manifest.streams.values():
        columns = {column.name: column.type for column in stream.columns}
        yield ColumnNode(
            node_id("stream", stream.name),
            stream.name,
            "stream",
            columns,
            is_open=not columns,
        )
    for seed in manifest.seeds.values():
        columns = {column.name: column.type for column in seed.columns}
        yield ColumnNode(node_id("seed", seed.name), seed.name, "seed", columns)
    for name in manifest.models:
        known = compiled.known(name)
        types = (
            {it.name: it.type for it in known.columns or ()}
            if known is not None
            else {}
        )
        made = lineages.get(name, ModelLineage()).columns
        columns = {
            column.name: types.get(column.name, "")
            for column in made
            if column.name != "*"
        }
        is_open = known is None or any(column.name == "*" for column in made)
        yield ColumnNode(node_id("model", name), name, "model", columns, is_open)


def _edges(id_: str, lineage: ModelLineage) -> Iterator[ColumnEdge]:
    for column in lineage.columns:
        for source in column.sources:
            yield ColumnEdge(_key(source), (id_, column.name.lower()), source.kind)
    for source in lineage.rows:
        yield ColumnEdge(_key(source), (id_, ""), source.kind)


def _key(source: SourceColumn) -> ColumnKey:
    return source.node, source.column.lower()


def find_column(graph: ColumnGraph, word: str) -> tuple[ColumnNode, str | None]:
    """The node and the column that `orders.amount`, `stream:orders` or
    `table:lake.shop.prices.price` means; None for the column if a node alone is meant.

    A name without a type is that of a model, else a seed, a stream or a table. Raises
    `UsageError` (`unknown-model`, `unknown-column`) with the nearest name.
    """
    type_, _, path = word.rpartition(":")
    for id_, column in _readings(type_, path):
        node = graph.nodes.get(id_)
        if node is None:
            continue
        if column is None or column.lower() in (name.lower() for name in node.columns):
            return node, column.lower() if column is not None else None
        if node.is_open and any(
            key == (id_, column.lower()) for key in (*graph.into, *graph.out_of)
        ):
            return node, column.lower()
        what = f"'{node.label}' has no column '{column}'."
        raise UsageError.of(
            "unknown-column", what, fix=did_you_mean(column, node.columns)
        )
    nodes = [node for node in graph.nodes.values() if type_ in ("", node.resource_type)]
    named = (
        word
        if any(node.name == path for node in nodes) or type_ == "table"
        else word.partition(".")[0]
    )
    fix = did_you_mean(named, [node.label for node in nodes])
    raise UsageError.of(
        "unknown-model", f"Nothing in the project is called '{word}'.", fix=fix
    )


def _readings(type_: str, path: str) -> Iterator[tuple[str, str | None]]:
    """The ids of nodes that a word may mean, each with the column if the word would
    name one."""
    for each in (type_,) if type_ else ("model", "seed", "stream", "table"):
        yield f"{each}.{path}", None
        name, dot, column = path.rpartition(".")
        if dot:
            yield f"{each}.{name}", column


def trace(
    graph: ColumnGraph, start: ColumnKey, direction: Direction
) -> tuple[ColumnEdge, ...]:
    """All edges between a column and the columns that it is made of, or those that are
    made of it; each once, the nearest first.

    An edge to the rows of a node, from the column itself or from one on the way, is
    included but not followed: otherwise almost everything would be made of everything.
    """
    found: dict[ColumnEdge, None] = {}
    seen, waiting = {start}, [start]
    while waiting:
        key = waiting.pop(0)
        for edge in (graph.into if direction == "upstream" else graph.out_of).get(
            key, ()
        ):
            found[edge] = None
            other = edge.source if direction == "upstream" else edge.made
            if other not in seen and other[1]:
                seen.add(other)
                waiting.append(other)
    return tuple(found)
