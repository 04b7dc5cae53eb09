"""`lakesql debug`: is everything there that a run needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options

if TYPE_CHECKING:
    from lakesql.cli.checks import Result


@click.command("debug", cls=Command)
@click.pass_obj
def command(given: Given) -> int:
    """Check that everything is there that a run needs.

    Project, target, Java, jars, catalog, checkpoints and each connection: one line each, with what to do where
    something is wrong. The exit code is 1 then.
    """
    from lakesql.cli.checks import check_everything

    all_well = True
    for result in check_everything(given.options):
        _show(result, given.options)
        all_well = all_well and result.error is None
    return 0 if all_well else 1


def _show(result: Result, options: Options) -> None:
    import json
    import os
    from dataclasses import asdict

    problems = result.error.problems if result.error else ()
    if options.log_format == "json":
        fields = {"check": result.name, "ok": not problems, "found": result.found}
        click.echo(json.dumps({**fields, "problems": [asdict(problem) for problem in problems]}))
        return
    mark = click.style("failed", fg="red", bold=True) if problems else click.style("ok    ", fg="green")
    said = (
        f"{len(problems)} problems, shown by `lakesql parse`"
        if len(problems) > 1
        else "".join(f"{f'{problem.place} ' if problem.place else ''}{problem.what}" for problem in problems)
    )
    click.echo(f"{mark} {result.name}: {said or result.found}", color=False if os.environ.get("NO_COLOR") else None)
    for problem in problems if len(problems) == 1 else ():
        for text in (problem.why, problem.fix):
            click.echo(f"         {text}" if text else "", nl=bool(text))
