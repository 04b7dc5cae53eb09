"""`lakesql rebuild`: fill the tables of models again, while their readers always see
complete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, complete_models
from lakesql.cli.run import run_selected

if TYPE_CHECKING:
    from lakesql.run.replacement.replacement_table import RebuildFrom


@click.command("rebuild", cls=Command)
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="SELECTION...",
    shell_complete=complete_models,
)
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar="WHERE",
    help=(
        "`start`: where the streams start. `earliest`: the first available record. Or a time, such as "
        "2026-01-31T12:00:00Z."
    ),
)
@click.option(
    "--dry-run", is_flag=True, help="Print how much would be read, and write nothing."
)
@click.option(
    "--abandon",
    is_flag=True,
    help="Remove what an unfinished rebuild has written beside the table.",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Continue with the records that the streams still have, although their first ones are gone.",
)
@click.option(
    "--fail-fast", is_flag=True, help="End at the first model that finally fails."
)
@click.pass_obj
def command(
    given: Given,
    words: tuple[str, ...],
    start: str,
    dry_run: bool,
    abandon: bool,
    accept_data_loss: bool,
    fail_fast: bool,
) -> int:
    """Fill tables again from their streams, and replace their rows in one commit.

    A table keeps its rows until the new ones are complete, and its history, tags and
    grants after that. The model may run meanwhile. An unfinished rebuild is continued
    by the same command. Java is needed, also for --dry-run.
    """
    from lakesql.cli import project, selection

    start_at = read_start(start)
    if not (dry_run or abandon):
        from lakesql.run.job import RunOptions

        work = selection.load_work(given.options, words, (), with_tasks=False)
        how = RunOptions(accept_data_loss=accept_data_loss, fail_fast=fail_fast)
        return run_selected(given.options, work, how, rebuild_from=start_at)
    manifest = project.load_project(given.options)
    names = selection.select_models(manifest, words, (), given.options)

    from lakesql.cli.report import say
    from lakesql.run.rebuild import abandon_rebuilds, preview_rebuilds

    if abandon:
        for name, was_there in abandon_rebuilds(
            manifest, names, lambda text: say(text, given.options)
        ):
            click.echo(
                f"{name}: {'its rebuild is removed' if was_there else 'no rebuild of it has been begun'}."
            )
        return 0
    for name, found in preview_rebuilds(
        manifest,
        names,
        start_at,
        accept_data_loss,
        lambda text: say(text, given.options),
    ):
        click.echo(f"{name}: {found}")
    return 0


def read_start(text: str) -> RebuildFrom:
    """The value of `--from`: a word, or a time in milliseconds since the epoch. Raises
    `UsageError`."""
    from lakesql.cli.rewind import read_time

    match text:
        case "start" | "earliest":
            return text
        case _:
            return read_time(
                text, "no place to begin at", "Write --from start, --from earliest,"
            )
