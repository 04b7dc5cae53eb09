"""`lakesql status`: the state of the tables of models and seeds."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options, complete_models, select_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakesql.plan.table_status import TableStatus
    from lakesql.seed.seed_state import SeedStatus


@click.command("status", cls=Command)
@click.argument(
    "name", metavar="[MODEL]", required=False, shell_complete=complete_models
)
@select_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "prometheus"]),
    default="table",
    show_default=True,
    help="Output format; json: one object per line; prometheus: its text format.",
)
@click.pass_obj
def command(
    given: Given,
    name: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    output: str,
) -> int:
    """Show the state of models' tables: freshness, files, deletes, uncompacted data. No
    Java is needed.

    For seeds, it shows whether their tables have the rows of their files, and since
    when; the format prometheus leaves them out. With MODEL it shows the last day of its
    table. The exit code is 1 if a table, or the catalog, cannot be read.
    """
    from lakesql.cli import project, selection
    from lakesql.clock import now_ms
    from lakesql.errors import UsageError
    from lakesql.observe.statuses import draw_seeds, render_seed_lines
    from lakesql.run.seeds.seed_statuses import read_seed_statuses
    from lakesql.run.tell.status import read_statuses

    if name is not None and (select or exclude):
        fix = f"Leave out one of them: `lakesql status {name}` draws the last day of its table."
        raise UsageError.of(
            "usage", "MODEL and --select both say which tables are shown.", fix=fix
        )
    manifest = project.load_project(given.options)
    if name is not None and name not in manifest.seeds:
        project.check_model(manifest, name)
    if name is None:
        names, seed_names = selection.select_tables(
            manifest, select, exclude, given.options
        )
    else:
        names = tuple({name} & manifest.models.keys())
        seed_names = tuple({name} & manifest.seeds.keys())
    at_ms = now_ms()
    statuses = read_statuses(manifest, names, at_ms) if names else ()
    seeds = () if output == "prometheus" else read_seed_statuses(manifest, seed_names)
    match output:
        case "json":
            from lakesql.observe.statuses import render_status_lines

            click.echo(
                render_status_lines(statuses) + render_seed_lines(seeds), nl=False
            )
        case "prometheus":
            from lakesql.observe.metrics import render_table_metrics

            click.echo(render_table_metrics(statuses, at_ms), nl=False)
        case _:
            if statuses:
                _draw(statuses, at_ms, is_one=name is not None)
            if statuses and seeds:
                click.echo()
            if seeds:
                draw_seeds(sys.stdout, seeds, at_ms, os.environ)
    return report_unknown((*statuses, *seeds), given.options)


def report_unknown(
    statuses: Sequence[TableStatus | SeedStatus], options: Options
) -> int:
    """Report on stderr why tables could not be read, each reason once. Returns the exit
    code: 1 if there are any."""
    from lakesql.cli.report import report_problem

    problems = dict.fromkeys(
        problem for status in statuses for problem in status.problems
    )
    for problem in problems:
        report_problem(problem, options)
    return 1 if problems else 0


def _draw(statuses: Sequence[TableStatus], at_ms: int, *, is_one: bool) -> None:
    from lakesql.observe.statuses import draw_day, draw_statuses

    if is_one:
        draw_day(sys.stdout, statuses[0], at_ms, os.environ)
    else:
        draw_statuses(sys.stdout, statuses, os.environ)
