"""`lakesql lineage`: what a column is made of, and what is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, complete_models

if TYPE_CHECKING:
    from lakesql.lineage.column_graph import Direction


@click.command("lineage", cls=Command)
@click.argument("name", metavar="MODEL[.COLUMN]", shell_complete=complete_models)
@click.option("--upstream", is_flag=True, help="What it is made of alone.")
@click.option("--downstream", is_flag=True, help="What is made of it alone.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "dot"]),
    default="text",
    show_default=True,
    help="Output format; dot: the language of Graphviz.",
)
@click.pass_obj
def command(given: Given, name: str, upstream: bool, downstream: bool, output: str) -> None:
    """Show the columns that a column is made of, through all models, and those that are made of it.

    A word says how: identity, transformation and aggregation take the value in; conditional and window decide which
    value it is; filter, join, group_by and sort decide which rows there are. Without COLUMN: each column of the model,
    and what decides about its rows. Other things are called stream:NAME, seed:NAME and table:CATALOG.NAMESPACE.NAME.
    Neither Java nor Spark is needed.
    """
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files
    from lakesql.lineage.column_graph import build_column_graph, find_column
    from lakesql.lineage.lineage_text import render_dot, render_json, render_text

    manifest = project.load_project(given.options)
    compiled = compiled_files(manifest)
    compiled.check(manifest.models)
    graph = build_column_graph(manifest, compiled)
    node, column = find_column(graph, name)
    both: list[Direction] = ["upstream", "downstream"]
    asked = {"upstream": upstream, "downstream": downstream}
    directions = [each for each in both if asked[each]] or both
    columns = [column] if column is not None else [each.lower() for each in node.columns]
    match output:
        case "json":
            click.echo(render_json(graph, node, columns, directions), nl=False)
        case "dot":
            click.echo(render_dot(graph, node, columns, directions), nl=False)
        case _:
            click.echo(render_text(graph, node, columns, directions, with_rows=column is None), nl=False)
