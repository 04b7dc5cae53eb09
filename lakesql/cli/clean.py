"""`lakesql clean`: remove what can be made again."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given


@click.command("clean", cls=Command)
@click.pass_obj
def command(given: Given) -> None:
    """Remove target/ and logs/. Tables and checkpoints stay."""
    import shutil

    from lakesql.cli import project
    from lakesql.cli.options import find_directory
    from lakesql.cli.report import say
    from lakesql.project.files import read_project

    outputs = project.Outputs(read_project(find_directory(given.options)).directory)
    for folder in (outputs.target, outputs.logs):
        if folder.is_symlink() or not folder.is_dir():
            continue
        shutil.rmtree(folder)
        say(f"Removed {folder.name}/", given.options)
