"""`lakesql debug`: check everything that a run needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options

if TYPE_CHECKING:
    from lakesql.cli.checks import CheckResult


PARSED = ("project", "target", "models")
"""The checks whose problems `lakesql parse` shows too."""


@click.command("debug", cls=Command)
@click.pass_obj
def command(given: Given) -> int:
    """Check everything that a run needs.

    It prints one line each for project, Java, pyspark, target, models, streams, jars,
    catalog, checkpoints and each connection, with a fix if a check fails. The exit code
    is then 1. A stream without anything to read is a warning.
    """
    from lakesql.cli.checks import check_everything

    all_well = True
    for result in check_everything(given.options):
        _show(result, given.options)
        all_well = all_well and result.error is None
    return 0 if all_well else 1


def _show(result: CheckResult, options: Options) -> None:
    import json
    import os
    from dataclasses import asdict

    from lakesql.observe.text import printable

    problems = result.error.problems if result.error else ()
    if options.log_format == "json":
        fields = {
            "check": result.name,
            "ok": not problems,
            "found": result.found,
            "warnings": result.warnings,
        }
        click.echo(
            json.dumps(
                {**fields, "problems": [asdict(problem) for problem in problems]}
            )
        )
        return
    mark = click.style("ok    ", fg="green")
    if problems:
        mark = click.style("failed", fg="red", bold=True)
    elif result.warnings:
        mark = click.style("warn  ", fg="yellow")
    lines = [result.found, *result.warnings]
    if len(problems) > 1 and result.name in PARSED:
        lines = [f"{len(problems)} problems, shown by `lakesql parse`"]
    elif problems:
        said = [
            (f"{each.place or ''} {each.what}".strip(), each.why, each.fix)
            for each in problems
        ]
        lines = [text for texts in said for text in texts if text]
    head, *others = map(printable, lines)
    click.echo(
        f"{mark} {result.name}: {head}",
        color=False if os.environ.get("NO_COLOR") else None,
    )
    for text in others:
        click.echo(f"         {text}")
