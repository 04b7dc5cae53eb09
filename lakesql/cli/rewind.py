"""`lakesql rewind`: make a model continue from another position than its
checkpoint's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from lakesql.cli.options import Command, Given, complete_models
from lakesql.cli.report import say

if TYPE_CHECKING:
    from lakesql.progress.start import RewindTo


@click.command("rewind", cls=Command)
@click.argument("name", metavar="MODEL", shell_complete=complete_models)
@click.option(
    "--to",
    default="ledger",
    show_default=True,
    metavar="WHERE",
    help=(
        "`ledger`: where the table stands. `checkpoint`: where the checkpoint stands, whatever the table holds. "
        "`start`: where the streams start. Or a time, such as 2026-01-31T12:00:00Z."
    ),
)
@click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)
@click.option(
    "--allow-duplicates",
    is_flag=True,
    help="Allow a position from which rows may be written twice: `start` or a time, for a model without keys.",
)
@click.option(
    "--files",
    type=click.Choice(["same", "new"]),
    help=(
        "After the error `files-moved`: the existing files are the `same` as those that were read, or `new` ones. "
        "Nothing else is changed."
    ),
)
@click.pass_obj
def command(
    given: Given,
    name: str,
    to: str,
    dry_run: bool,
    allow_duplicates: bool,
    files: Literal["same", "new"] | None,
) -> None:
    """Make a model continue from another position.

    It creates a new checkpoint and keeps the old one beside it. No row of a table is
    written or removed; the next run continues from the new checkpoint.
    """
    from lakesql.cli import project

    target = _read_target(to)
    manifest = project.load_project(given.options)
    project.check_model(manifest, name)

    from lakesql.run.state.rewind import rewind, settle

    if files is not None:
        if settle(
            manifest, name, files == "same", lambda text: say(text, given.options)
        ):
            click.echo(
                f"Its files are {'those that it has read' if files == 'same' else 'new ones'}."
            )
            click.echo(f"Continue with: lakesql run --select {name}")
        else:
            click.echo(
                f"No file that {name} has read has moved: there is nothing to say."
            )
        return

    done = rewind(
        manifest,
        name,
        target,
        allow_duplicates=allow_duplicates,
        dry_run=dry_run,
        say=lambda text: say(text, given.options),
    )
    click.echo(
        f"{name} {'would continue' if dry_run else 'continues'} elsewhere: it {done.because}."
    )
    for stream, position in done.positions:
        click.echo(f"  {stream}: {position}")
    if done.aside:
        click.echo(f"The old checkpoint is kept: {done.aside}")
    if not dry_run:
        click.echo(f"Continue with: lakesql run --select {name}")


def _read_target(text: str) -> RewindTo:
    match text:
        case "ledger" | "checkpoint" | "start":
            return text
        case _:
            return read_time(
                text,
                "no position to continue from",
                "Write --to ledger, --to checkpoint, --to start,",
            )


def read_time(text: str, what: str, words: str) -> int:
    """A time in the past, in milliseconds since the epoch; a time without a zone is in
    UTC. Raises `UsageError`, whose text has `what` and `words`."""
    from datetime import UTC, datetime

    from lakesql.clock import epoch_ms
    from lakesql.errors import UsageError

    fix = f"{words} or a time such as 2026-01-31T12:00:00Z."
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError.of("usage", f"'{text}' is {what}.", fix=fix) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at > datetime.now(UTC):
        raise UsageError.of(
            "usage",
            f"'{text}' is {what}: that time is still to come.",
            why="No stream has a record of it yet, and what arrives from now on would be read whatever its time.",
            fix=fix,
        )
    return epoch_ms(at)
