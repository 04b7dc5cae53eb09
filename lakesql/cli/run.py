"""`lakesql run`: run models, and show their progress."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given, select_options


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
    import shlex
    import sys

    from lakesql.cli import project
    from lakesql.compile.manifest_file import render_manifest
    from lakesql.project.files import write_atomically

    options = given.options
    if full_refresh:
        from lakesql.cli.rebuild import rebuild_selected
        from lakesql.errors import UsageError

        if once is False:
            fix = "Rebuild first, and then run: lakesql run --full-refresh, lakesql run --continuous"
            raise UsageError.of("usage", "--full-refresh ends when the tables are filled.", fix=fix)
        return rebuild_selected(options, select, exclude, "start", accept_data_loss, fail_fast, fail_if_empty)
    manifest = project.load_project(options)
    project.show_warnings(manifest, options)
    names = project.select_models(manifest, select, exclude, options)
    compiled = project.compiled_files(manifest)
    compiled.compile(names)
    outputs = manifest.outputs
    write_atomically(outputs.target / "manifest.json", render_manifest(manifest, compiled))
    if not names:
        return 0

    from lakesql.cli.render import open_emitter
    from lakesql.run.models import run_models

    continuous = manifest.target.run == "continuous" if once is None else not once
    with open_emitter(options, outputs, shlex.join(sys.argv[1:])) as emit:
        selects = compiled.selects(names)
        succeeded = run_models(
            manifest,
            selects,
            continuous,
            emit,
            accept_data_loss=accept_data_loss,
            fail_fast=fail_fast,
            fail_if_empty=fail_if_empty,
        )
        return 0 if succeeded else 1
