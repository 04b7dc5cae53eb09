"""`lakesql rename`: let a model with a new name keep its table, its ledger and its
checkpoint."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given, complete_models
from lakesql.cli.report import say


@click.command("rename", cls=Command)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW", shell_complete=complete_models)
@click.option(
    "--dry-run", is_flag=True, help="Print what would be renamed, and change nothing."
)
@click.pass_obj
def command(given: Given, old: str, new: str, dry_run: bool) -> None:
    """Let a renamed model continue with its table, its ledger and its checkpoint.

    OLD is the former name of the model, NEW the name of its file. Tables are renamed in
    the catalog, unless the option `table` keeps their name; their files stay where they
    are. An unfinished rename is continued by the same command.
    """
    from lakesql.cli import project

    manifest = project.load_project(given.options)

    from lakesql.run.state.rename import rename

    lines = rename(
        manifest, old, new, dry_run=dry_run, say=lambda text: say(text, given.options)
    )
    click.echo(f"{old} {'would be' if dry_run else 'is'} {new}:")
    for line in lines:
        click.echo(f"  {line}")
    if not dry_run:
        click.echo(f"Continue with: lakesql run --select {new}")
