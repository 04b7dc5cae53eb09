"""`lakesql replay`: read a model's dead letters again."""

from __future__ import annotations

from collections.abc import Mapping

import click

from lakesql.cli.options import Command, Given, complete_models
from lakesql.cli.report import say


@click.command("replay", cls=Command)
@click.argument("name", metavar="MODEL", shell_complete=complete_models)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what would happen to the dead letters, and write nothing.",
)
@click.pass_obj
def command(given: Given, name: str, dry_run: bool) -> None:
    """Read a model's dead letters again, through the model and its streams as they are
    now.

    Those that are now valid are written to the table, once, and marked as done; the
    others stay dead letters.
    """
    from lakesql.cli import project

    manifest = project.load_project(given.options)
    project.check_model(manifest, name)

    from lakesql.counts import count
    from lakesql.run.state.replay import replay

    found = replay(
        manifest, name, dry_run=dry_run, say=lambda text: say(text, given.options)
    )
    if found.finished:
        click.echo(
            f"{name}: {count(found.finished, 'dead letter')} of a replay that broke off: done now."
        )
    if not found.reasons:
        if not found.finished:
            click.echo(f"{name} has no dead letter to replay.")
        return
    click.echo(
        f"{name}: {count(sum(found.reasons.values()), 'dead letter')} ({_listed(found.reasons)})"
    )
    rows = count(found.rows, "row")
    click.echo(
        f"  {found.done} {'would be' if dry_run else 'are'} done, with {rows} for the table"
    )
    stay = sum(found.failing.values())
    click.echo(
        f"  {stay} {'would stay' if dry_run else 'stay'}{f' ({_listed(found.failing)})' if stay else ''}"
    )


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in reasons.items())
