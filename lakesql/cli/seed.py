"""`lakesql seed`: fill the tables of seeds with the rows of their files."""

from __future__ import annotations

import shlex
import sys

import click

from lakesql.cli.options import Command, Given, select_options


@click.command("seed", cls=Command)
@select_options
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Also fill the tables of seeds that have not changed.",
)
@click.pass_obj
def command(
    given: Given, select: tuple[str, ...], exclude: tuple[str, ...], full_refresh: bool
) -> int:
    """Fill the tables of seeds whose files or contracts have changed.

    The rows of a table are replaced in one commit, together with its columns. No Java
    is needed. `lakesql build` also does this before it runs models. Exit code 1: a seed
    fails; 2: a value in a file is wrong, and nothing is filled.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.render import open_emitter, told
    from lakesql.compile.compiled import compiled_files
    from lakesql.run.seeds.check_seeds import check_seeds
    from lakesql.run.seeds.seed import run_seeds

    manifest = project.load_project(given.options)
    project.show_warnings(manifest, given.options)
    names = selection.select_seeds(manifest, select, exclude, given.options)
    if not names:
        return 0
    check_seeds(manifest, names)
    project.write_manifest(manifest, compiled_files(manifest))
    with (
        told(manifest, {}, continuous=False) as lineage,
        open_emitter(
            given.options, manifest.outputs, shlex.join(sys.argv[1:]), lineage
        ) as emit,
    ):
        return 0 if run_seeds(manifest, names, emit, is_forced=full_refresh) else 1
