"""`lakesql freshness`: whether tables keep the limits set in their models'
properties."""

from __future__ import annotations

import os
import sys

import click

from lakesql.cli.options import Command, Given, select_options


@click.command("freshness", cls=Command)
@select_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format; json: one object per limit and line.",
)
@click.pass_obj
def command(
    given: Given, select: tuple[str, ...], exclude: tuple[str, ...], output: str
) -> int:
    """Check tables against the `freshness` of their models' properties. No Java is
    needed.

    The exit code is 1 if a limit is exceeded, or a table cannot be read. A warning does
    not change the exit code.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.report import say
    from lakesql.cli.status import report_unknown
    from lakesql.clock import now_ms
    from lakesql.model.properties import NO_LIMITS
    from lakesql.observe.status_text import checked
    from lakesql.run.tell.status import read_statuses

    manifest = project.load_project(given.options)
    names = selection.select_models(manifest, select, exclude, given.options)
    names = selection.stored_models(manifest, names, given.options)
    held = [
        name
        for name in names
        if manifest.models[name].properties.freshness != NO_LIMITS
    ]
    if names and not held:
        say(
            "No selected model has `freshness` in its properties: nothing to check.",
            given.options,
        )
    statuses = read_statuses(manifest, held, now_ms())
    found = [each for status in statuses for each in checked(status)]
    if output == "json":
        from lakesql.observe.statuses import render_check_lines

        click.echo(render_check_lines(found), nl=False)
    elif found:
        from lakesql.observe.statuses import draw_checks

        draw_checks(sys.stdout, found, os.environ)
    report_unknown(statuses, given.options)
    return 1 if any(each.result == "error" for each in found) else 0
