"""`lakesql run`: run models, and show their progress."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options, select_options
from lakesql.errors import UsageError

if TYPE_CHECKING:
    from lakesql.run.rebuild import RebuildFrom


@click.command("run", cls=Command)
@select_options
@click.option(
    "--once/--continuous",
    default=None,
    help="Process the available records and stop, or continue until Ctrl-C. The target's `run:` if left out.",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Continue although unread records are gone from their topic. The table's ledger keeps which.",
)
@click.option(
    "--full-refresh", is_flag=True, help="Fill the tables again: the same as `lakesql rebuild` of the selection."
)
@click.option("--fail-fast", is_flag=True, help="End the run with the first model that fails for good.")
@click.option(
    "--fail-if-empty",
    is_flag=True,
    help="Fail a model that has read nothing because no file, topic or record is there. Otherwise that is a warning.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    once: bool | None,
    accept_data_loss: bool,
    full_refresh: bool,
    fail_fast: bool,
    fail_if_empty: bool,
) -> int:
    """Run models: read what arrived in their streams, and write it to their tables.

    A table that does not exist is created first. Ctrl-C ends the run between two batches.
    """
    rebuild_from: RebuildFrom | None = None
    if full_refresh:
        if once is False:
            fix = "Rebuild first, and then run: lakesql run --full-refresh, lakesql run --continuous"
            raise UsageError.of("usage", "--full-refresh ends when the tables are filled.", fix=fix)
        once, rebuild_from = True, "start"
    return run_selected(
        given.options,
        select,
        exclude,
        once=once,
        rebuild_from=rebuild_from,
        accept_data_loss=accept_data_loss,
        fail_fast=fail_fast,
        fail_if_empty=fail_if_empty,
    )


def run_selected(
    options: Options,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    *,
    once: bool | None,
    rebuild_from: RebuildFrom | None,
    accept_data_loss: bool,
    fail_fast: bool,
    fail_if_empty: bool = False,
) -> int:
    """Compile and run the selected models, each after those that it reads, and show the progress. The exit code.

    Of models whose maintenance alone is selected, the tasks that are due are run. With `rebuild_from` the models'
    tables are filled again from there.
    """
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files
    from lakesql.run.columns import ask_topics

    manifest = project.load_project(options)
    project.show_warnings(manifest, options)
    names, tasks = project.select_work(manifest, select, exclude, options)
    if rebuild_from is not None:
        tasks = {}
    manifest = ask_topics(manifest, names)
    names = (*names, *tasks)
    compiled = compiled_files(manifest)
    compiled.compile(names)
    project.write_manifest(manifest, compiled)
    if not names:
        return 0

    from lakesql.cli.render import open_emitter
    from lakesql.run.maintain import maintenance_queries
    from lakesql.run.models import QueriesBy, run_models
    from lakesql.run.rebuild import rebuild_queries

    queries_by: QueriesBy | None = maintenance_queries(tasks, at_once=False) if tasks else None
    if rebuild_from is not None:
        queries_by = rebuild_queries(manifest, names, rebuild_from, accept_data_loss)
    with open_emitter(options, manifest.outputs, shlex.join(sys.argv[1:])) as emit:
        succeeded = run_models(
            manifest,
            compiled.selects(names),
            manifest.target.run == "continuous" if once is None else not once,
            emit,
            accept_data_loss=accept_data_loss,
            fail_fast=fail_fast,
            fail_if_empty=fail_if_empty,
            queries_by=queries_by,
        )
        return 0 if succeeded else 1
