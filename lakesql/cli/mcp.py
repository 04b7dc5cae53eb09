"""`lakesql mcp`: the server by which an assistant asks about the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, read_interval

if TYPE_CHECKING:
    from lakesql.cli.assistant.tools import Allowance
    from lakesql.project.duration import Duration


@click.command("mcp", cls=Command)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["run", "test"]),
    help="Also let the assistant run models, or run tests. May be repeated.",
)
@click.option(
    "--timeout",
    metavar="INTERVAL",
    default="1 minute",
    show_default=True,
    callback=read_interval,
    help="Maximum time of a read-only tool.",
)
@click.option(
    "--run-timeout",
    metavar="INTERVAL",
    default="15 minutes",
    show_default=True,
    callback=read_interval,
    help="Maximum time of a run or of tests; a run ends after its batch.",
)
@click.pass_obj
def command(
    given: Given, allow: tuple[Allowance, ...], timeout: Duration, run_timeout: Duration
) -> None:
    """Answer an assistant's questions about the project, by the Model Context Protocol
    over stdin and stdout.

    An assistant starts it; docs/assistants.md describes how it is registered. Its tools
    return what the commands of the same names print as JSON. They change nothing, show
    no secret and read only the project and the target's catalog; with --allow there are
    also tools that run models and tests.
    """
    import anyio  # the SDK's own

    from lakesql.cli.assistant.mcp_server import refuse_without_project, serve

    refuse_without_project(given.options)
    anyio.run(
        serve,
        given.options,
        frozenset(allow),
        timeout.length_ms / 1000,
        run_timeout.length_ms / 1000,
    )
