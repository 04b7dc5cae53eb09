"""`lakesql lineage`: what a column is made of, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, complete_models

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest
    from lakesql.lineage.column_graph import ColumnGraph, ColumnNode, Direction


@click.command("lineage", cls=Command)
@click.argument("name", metavar="MODEL[.COLUMN]", shell_complete=complete_models)
@click.option(
    "--upstream", is_flag=True, help="Show only the columns that it depends on."
)
@click.option(
    "--downstream", is_flag=True, help="Show only the columns that depend on it."
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "dot"]),
    default="text",
    show_default=True,
    help="Output format; dot: the language of Graphviz.",
)
@click.pass_obj
def command(
    given: Given, name: str, upstream: bool, downstream: bool, output: str
) -> None:
    """Show the columns that a column depends on, through all models, and those that
    depend on it.

    Each edge has a kind: identity, transformation and aggregation take their value from
    the column; conditional and window decide which value it is; filter, join, group_by
    and sort decide which rows exist. Without COLUMN, each column of the model and the
    columns that decide its rows are shown. Other nodes are named stream:NAME, seed:NAME
    and table:CATALOG.NAMESPACE.NAME. Neither Java nor Spark is needed.
    """
    from lakesql.cli import project

    traced = trace_columns(
        project.load_project(given.options),
        name,
        upstream=upstream,
        downstream=downstream,
    )
    match output:
        case "json":
            click.echo(traced.render_json(), nl=False)
        case "dot":
            click.echo(traced.render_dot(), nl=False)
        case _:
            click.echo(traced.render_text(), nl=False)


@dataclass(frozen=True, slots=True)
class TracedColumns:
    """The columns of a node whose lineage is shown. `with_rows`: also what determines
    the node's rows."""

    graph: ColumnGraph
    node: ColumnNode
    columns: Sequence[str]
    directions: Sequence[Direction]
    with_rows: bool

    def render_json(self) -> str:
        """The edges as JSON."""
        from lakesql.lineage import lineage_text

        return lineage_text.render_json(
            self.graph, self.node, self.columns, self.directions
        )

    def render_dot(self) -> str:
        """The edges in Graphviz's language."""
        from lakesql.lineage import lineage_text

        return lineage_text.render_dot(
            self.graph, self.node, self.columns, self.directions
        )

    def render_text(self) -> str:
        """The edges as text for a terminal."""
        from lakesql.lineage import lineage_text

        return lineage_text.render_text(
            self.graph,
            self.node,
            self.columns,
            self.directions,
            with_rows=self.with_rows,
        )


def trace_columns(
    manifest: Manifest, name: str, *, upstream: bool, downstream: bool
) -> TracedColumns:
    """The lineage of the column that `name` means, or of all columns of a model:
    upstream, downstream, or both if neither is chosen.

    Raises `ProjectError`, and `UsageError` if there is no such column.
    """
    from lakesql.compile.compiled import compiled_files
    from lakesql.lineage.column_graph import build_column_graph, find_column

    compiled = compiled_files(manifest)
    compiled.check(manifest.models)
    graph = build_column_graph(manifest, compiled)
    node, column = find_column(graph, name)
    both: list[Direction] = ["upstream", "downstream"]
    asked = {"upstream": upstream, "downstream": downstream}
    directions = [each for each in both if asked[each]] or both
    columns = (
        [column] if column is not None else [each.lower() for each in node.columns]
    )
    return TracedColumns(graph, node, columns, directions, with_rows=column is None)
