"""`lakesql ls`: the models, streams and seeds of a project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from lakesql.cli.options import Command, Given, Options, select_options

if TYPE_CHECKING:
    from lakesql.graph.graph import GraphNode
    from lakesql.graph.manifest import Manifest


@click.command("ls", cls=Command)
@select_options
@click.option(
    "--resource-type",
    type=click.Choice(["model", "stream", "seed", "test", "maintenance"]),
    help="List only nodes of this type.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["name", "path", "json"]),
    default="name",
    show_default=True,
    help="Content of a line; json: an object.",
)
@click.option(
    "--orphans",
    is_flag=True,
    help="List instead the tables and checkpoints that belong to no model of the project. Starts Spark.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    resource_type: str | None,
    output: str,
    orphans: bool,
) -> None:
    """List models, streams and seeds, each after those it reads.

    Data tests and maintenance tasks of models' tables are listed if --select or
    --resource-type selects them; handwritten tasks always. Tasks of listed models are
    only counted, on stderr, unless --resource-type selects them.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.report import say

    manifest = project.load_project(given.options)
    if orphans:
        _list_orphans(manifest, given.options)
        return
    asked = bool(select or given.options.selector)
    with_tests = asked or resource_type == "test"
    nodes = selection.select(
        manifest,
        select,
        exclude,
        given.options,
        with_tests=with_tests,
        with_tasks=resource_type == "maintenance",
    )
    wanted = (
        {resource_type}
        if resource_type
        else {"model", "stream", "seed", *(["maintenance", "test"] if asked else [])}
    )
    listed = [
        node
        for node in nodes
        if node.resource_type in wanted or not (resource_type or node.is_appended)
    ]
    folded = [] if resource_type else _tasks_beside_models(listed)
    if not listed:
        say("Nothing is selected.", given.options)
    shown = [node for node in listed if node not in folded]
    click.echo(
        "".join(f"{_line(manifest, node, output)}\n" for node in shown), nl=False
    )
    if folded:
        count = "1 task" if len(folded) == 1 else f"{len(folded)} tasks"
        say(
            f"{count} of these models' maintenance: --resource-type maintenance lists them.",
            given.options,
        )


def _tasks_beside_models(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """The maintenance tasks, except those written by hand, whose models are among the
    nodes too."""
    models = {node.name for node in nodes if node.resource_type == "model"}
    tasks = [
        node
        for node in nodes
        if node.resource_type == "maintenance" and node.is_appended
    ]
    return [task for task in tasks if task.config["of"] in models]


def _list_orphans(manifest: Manifest, options: Options) -> None:
    """Print a line for each table, checkpoint or other remainder of a model or seed
    that the project does not have: the model, the kind, and the name."""
    from lakesql.cli.report import say
    from lakesql.run.seeds.seed import find_seed_tables
    from lakesql.run.state.drop import open_dropper

    with open_dropper(manifest, lambda text: say(text, options)) as dropper:
        found = dropper.find_orphans()
        seeds = find_seed_tables(manifest, dropper.catalog)
    gone = {name: table for name, table in seeds.items() if name not in manifest.seeds}
    for name, table in gone.items():
        click.echo(f"{name} table {table}")
    for model, remains in found.items():
        for text in remains.shown:
            click.echo(f"{model} {text}")
    if not found and not gone:
        say("Every table and checkpoint has its model.", options)


def _line(manifest: Manifest, node: GraphNode, output: str) -> str:
    match output:
        case "path":
            return node.path
        case "json":
            return json.dumps(describe_node(manifest, node), ensure_ascii=False)
        case _:
            kind = (
                f"{node.resource_type}:"
                if node.resource_type in ("stream", "test")
                else ""
            )
            return f"{kind}{'.'.join(node.fqn)}"


def describe_node(manifest: Manifest, node: GraphNode) -> dict[str, Any]:
    """The object that `--output json` prints for a node. `mode` and `table` are None
    for a node without them, such as a stream."""
    from lakesql.graph.task_nodes import find_task

    table = None
    match node.resource_type:
        case "model":
            table = manifest.models[node.name].table
        case "seed":
            table = manifest.seeds[node.name].table
        case "maintenance":
            table = find_task(manifest, node).table
        case "stream" | "test":
            pass
    return {
        "unique_id": node.id,
        "name": node.name,
        "resource_type": node.resource_type,
        "path": node.path,
        "fqn": list(node.fqn),
        "mode": node.config.get("mode"),
        "tags": sorted(node.tags),
        "depends_on": list(node.depends_on),
        "table": str(table) if table else None,
        "config": node.config,
    }
