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
    "--dry-run", is_flag=True, help="Say what would be taken along, and change nothing."
)
@click.pass_obj
def command(given: Given, old: str, new: str, dry_run: bool) -> None:
    """Let a model whose file has another name continue with its table, its ledger and
    its checkpoint.

    OLD is the name that it had, NEW the one of its file. Tables get the new name in the
    catalog, unless the option `table` keeps theirs; their files stay where they are. A
    rename that broke off is continued by the same command.
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
