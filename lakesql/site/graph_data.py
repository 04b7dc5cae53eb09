"""The data that the graph and the search of a site read, as JSON: nodes, their columns,
and edges by the numbers of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakesql.graph.manifest import Manifest
from lakesql.lineage.column_graph import ColumnGraph
from lakesql.select.lineage_edges import DIRECT, INDIRECT
from lakesql.site.content import NodePage

KINDS = (*DIRECT, *INDIRECT)


def graph_data(
    manifest: Manifest | None, graph: ColumnGraph | None, pages: Sequence[NodePage]
) -> Mapping[str, Any]:
    """The nodes in the order of the pages, and the edges. An edge between columns is
    `[node, column, node, column, kind]`, all by number; an edge to the rows of a node
    has the column -1."""
    numbers = {page.id: number for number, page in enumerate(pages)}
    columns = {
        page.id: {column.name.lower(): at for at, column in enumerate(page.columns)}
        for page in pages
    }
    edges: dict[tuple[int, int], None] = {}
    lineage: list[list[int]] = []
    if graph is not None:
        found = [
            edge
            for into in (graph.into, graph.rows)
            for each in into.values()
            for edge in each
        ]
        for edge in found:
            (source, source_column), (made, made_column) = edge.source, edge.made
            at, to = (
                columns[source].get(source_column),
                columns[made].get(made_column, -1),
            )
            if source != made:
                edges[numbers[source], numbers[made]] = None
            if at is not None and (to >= 0 or made_column == ""):
                lineage.append(
                    [numbers[source], at, numbers[made], to, KINDS.index(edge.kind)]
                )
    for node in manifest.graph.nodes.values() if manifest is not None else ():
        for read in node.depends_on:
            edges[numbers[read], numbers[node.id]] = None
    return {
        "kinds": KINDS,
        "direct": len(DIRECT),
        "nodes": [_node(page, manifest) for page in pages],
        "edges": [list(edge) for edge in edges],
        "lineage": lineage,
    }


def _node(page: NodePage, manifest: Manifest | None) -> dict[str, Any]:
    known = manifest.graph.nodes.get(page.id) if manifest is not None else None
    return {
        "id": page.id,
        "name": page.name,
        "type": page.resource_type,
        "mode": page.mode,
        "href": page.href,
        "path": page.path,
        "fqn": list(known.fqn) if known is not None else [page.name],
        "tags": list(page.tags),
        "config": known.config if known is not None else {},
        "about": page.description,
        "owner": page.owner,
        "columns": [[column.name, column.type] for column in page.columns],
        "errors": len(page.problems),
        "health": page.live.health if page.live is not None else "",
        "tone": page.live.tone if page.live is not None else "",
    }
