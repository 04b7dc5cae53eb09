"""`lakesql docs`: write a site of the project."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Filled, Given

if TYPE_CHECKING:
    from lakesql.errors import Problem


@click.command("docs", cls=Command)
@click.option(
    "--output",
    "-o",
    metavar="DIR",
    type=Filled(click.Path(file_okay=False, path_type=Path)),
    help="Folder of the site; target/site if left out.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Add the state of tables from the catalog, as `lakesql status` shows it.",
)
@click.option(
    "--serve",
    is_flag=True,
    help="Also serve the site on this machine, until interrupted.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port for --serve; 0 chooses a free one.",
)
@click.pass_obj
def command(
    given: Given, output: Path | None, live: bool, serve: bool, port: int
) -> int:
    """Make a site of the project: its lineage down to columns, and a page for each
    model and stream.

    It is a folder of files that a browser opens directly, without a server or the
    network. A project with errors also gets a site, which shows them; the exit code is
    then 2. Java and Spark are not needed, and pyiceberg only with --live.
    """
    from lakesql.cli.options import find_directory, find_outputs
    from lakesql.cli.part import load_part
    from lakesql.cli.report import explain, in_order, report_problem
    from lakesql.clock import now_ms
    from lakesql.counts import count
    from lakesql.errors import LakesqlError
    from lakesql.project.files import outputs_of
    from lakesql.run.manifest.part import ProjectPart
    from lakesql.run.tell.project_site import read_content, shown_path, write_site

    directory = find_directory(given.options)
    # garbage collection would scan all the objects made here again and again
    gc.disable()
    try:
        part = load_part(given.options)
    except (LakesqlError, OSError) as error:
        part = ProjectPart(None, explain(error).problems)
        if any(
            problem.condition in ("no-project", "usage") for problem in part.problems
        ):
            raise
    manifest, at_ms = part.manifest, now_ms()
    statuses = None
    if live and manifest is not None:
        from lakesql.run.tell.status import read_statuses

        names = [
            name for name, model in manifest.models.items() if model.config.is_stored
        ]
        statuses = read_statuses(manifest, names, at_ms)
    content = read_content(
        manifest, part.problems, part.left_out, at_ms, statuses, project=directory.name
    )
    folder = (
        output or (find_outputs(given.options) or outputs_of(directory)).target / "site"
    )
    pages = write_site(content, folder.absolute())
    problems: list[Problem] = in_order(content.problems)
    for problem in problems:
        report_problem(problem, given.options)
    errors = f", {count(len(problems), 'error')} on it" if problems else ""
    click.echo(
        f"{count(pages, 'page')}{errors}: {shown_path(manifest, folder.absolute() / 'index.html')}"
    )
    if serve:
        gc.enable()
        from lakesql.cli.serve import serve_folder

        serve_folder(
            folder.absolute(),
            port,
            lambda address: click.echo(f"Served at {address} until it is interrupted"),
        )
    return 2 if problems else 0
