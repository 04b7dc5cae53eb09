"""How the lineage of columns is printed: as text, as JSON, or as a graph for
Graphviz."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lakesql.lineage.column_graph import (
    ColumnEdge,
    ColumnGraph,
    ColumnKey,
    ColumnNode,
    Direction,
    trace,
)
from lakesql.select.lineage_edges import direct_or_not

_ARROWS: dict[Direction, str] = {"upstream": "<-", "downstream": "->"}


def render_text(
    graph: ColumnGraph,
    node: ColumnNode,
    columns: Sequence[str],
    directions: Sequence[Direction],
    *,
    with_rows: bool,
) -> str:
    """A tree for each column: the columns that it is made of behind `<-`, those that
    are made of it behind `->`. `with_rows` adds the columns that decide about the
    node's rows."""
    lines: list[str] = []
    for column in columns:
        key = node.id, column
        kind = node.columns.get(graph.spelled(key), "")
        lines.append(
            f"{node.label}.{graph.spelled(key)}" + (f"  {kind}" if kind else "")
        )
        for direction in directions:
            lines += _tree(graph, key, direction, "  ", {key})
    decides = (
        graph.rows.get(node.id, ()) if with_rows and "upstream" in directions else ()
    )
    if decides:
        lines.append(f"rows of {node.label}")
        lines += [f"  <- {_named(graph, edge.source)}  {edge.kind}" for edge in decides]
    return "".join(f"{line}\n" for line in lines)


def _tree(
    graph: ColumnGraph,
    key: ColumnKey,
    direction: Direction,
    indent: str,
    above: set[ColumnKey],
) -> Iterator[str]:
    """The lines below a column. A column that has been printed before is named, and not
    followed again."""
    edges = (graph.into if direction == "upstream" else graph.out_of).get(key, ())
    for edge in edges:
        other = edge.source if direction == "upstream" else edge.made
        is_told = other in above
        yield f"{indent}{_ARROWS[direction]} {_named(graph, other)}  {edge.kind}"
        if not is_told and other[1]:
            above.add(other)
            yield from _tree(graph, other, direction, f"{indent}  ", above)


def _named(graph: ColumnGraph, key: ColumnKey) -> str:
    label = graph.nodes[key[0]].label
    return f"{label}.{graph.spelled(key)}" if key[1] else f"rows of {label}"


def render_json(
    graph: ColumnGraph,
    node: ColumnNode,
    columns: Sequence[str],
    directions: Sequence[Direction],
) -> str:
    """The columns as JSON, with all edges of their lineage and the edges of the columns
    that decide about the node's rows."""
    said: dict[str, Any] = {"node": node.id, "columns": {}}
    for column in columns:
        key = node.id, column
        said["columns"][graph.spelled(key)] = {
            direction: [_edge(graph, edge) for edge in trace(graph, key, direction)]
            for direction in directions
        }
    if "upstream" in directions:
        said["rows"] = [_edge(graph, edge) for edge in graph.rows.get(node.id, ())]
    return json.dumps(said, ensure_ascii=False, indent=2) + "\n"


def _edge(graph: ColumnGraph, edge: ColumnEdge) -> dict[str, Any]:
    """An edge as JSON. The `column` that it leads to is null if the source decides
    about the rows of the node."""
    return {
        "from": {"node": edge.source[0], "column": graph.spelled(edge.source)},
        "to": {
            "node": edge.made[0],
            "column": graph.spelled(edge.made) if edge.made[1] else None,
        },
        "type": direct_or_not(edge.kind),
        "kind": edge.kind,
    }


def render_dot(
    graph: ColumnGraph,
    node: ColumnNode,
    columns: Sequence[str],
    directions: Sequence[Direction],
) -> str:
    """A graph in Graphviz's language: a box for each node of the project, and a dashed
    line for an indirect edge."""
    traced = [
        trace(graph, (node.id, column), direction)
        for column in columns
        for direction in directions
    ]
    edges = list(dict.fromkeys(edge for found in traced for edge in found))
    keys = {(node.id, column): None for column in columns}
    for edge in edges:
        keys |= {edge.source: None, edge.made: None}
    lines = [
        "digraph lineage {",
        "  rankdir=LR;",
        '  node [shape=box, fontname="sans-serif"];',
    ]
    for number, id_ in enumerate(dict.fromkeys(id_ for id_, _ in keys)):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quote(graph.nodes[id_].label)};")
        lines += _boxes(graph, (key for key in keys if key[0] == id_))
        lines.append("  }")
    for edge in edges:
        style = "" if direct_or_not(edge.kind) == "DIRECT" else ", style=dashed"
        lines.append(
            f"  {_dot_id(edge.source)} -> {_dot_id(edge.made)} [label={_quote(edge.kind)}{style}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _boxes(graph: ColumnGraph, keys: Iterable[ColumnKey]) -> Iterator[str]:
    for key in keys:
        yield f"    {_dot_id(key)} [label={_quote(graph.spelled(key) if key[1] else 'rows')}];"


def _dot_id(key: ColumnKey) -> str:
    return _quote(".".join(key))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
