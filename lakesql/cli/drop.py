"""`lakesql drop`: remove a model's table with everything that is kept for the model, or
the table of a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, complete_models

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest
    from lakesql.model.table_name import TableName


@click.command("drop", cls=Command)
@click.argument("name", metavar="MODEL", shell_complete=complete_models)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation; required without a terminal.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print what would be removed, and remove nothing."
)
@click.pass_obj
def command(given: Given, name: str, yes: bool, dry_run: bool) -> int:
    """Remove a model's table, dead letters, checkpoints and lease.

    The model's file, if it exists, stays: the next run fills a new table from the start
    of its streams. A model without a file can be dropped by its name; `lakesql ls
    --orphans` lists such models. Java is needed, also for --dry-run. For a seed, its
    table is removed, without Java.
    """
    import sys

    from lakesql.cli import project
    from lakesql.cli.report import say
    from lakesql.errors import UsageError, did_you_mean
    from lakesql.graph.graph import node_id
    from lakesql.run.state.drop import Remains, open_dropper

    manifest = project.load_project(given.options)
    if not yes and not dry_run and not sys.stdin.isatty():
        raise UsageError.of(
            "usage",
            "`lakesql drop` asks before it removes anything, and this is no terminal.",
            fix="Add --yes.",
        )
    if (table := _find_seed(manifest, name)) is not None:
        return _drop_seed(manifest, name, table, is_sure=yes, is_dry=dry_run)
    with open_dropper(manifest, lambda text: say(text, given.options)) as dropper:
        found = dropper.find()
        if name not in found and name not in manifest.models:
            raise UsageError.of(
                "unknown-model",
                f"There is no model '{name}', no table of it, and no checkpoint.",
                fix=did_you_mean(name, {*manifest.models, *found}),
            )
        remains = found.get(name, Remains())
        for table in remains.foreign:
            click.echo(
                f"Table {table} stays: a model '{name}' of another project or target has written it."
            )
        if not remains:
            click.echo(
                f"There is nothing of '{name}' to remove: no table, no checkpoint."
            )
            return 0
        click.echo(
            f"{'This would be removed' if dry_run else 'To be removed'}, of model '{name}':"
        )
        for text in remains.shown:
            click.echo(f"  {text}")
        for reader in manifest.graph.readers.get(node_id("model", name), ()):
            click.echo(f"{reader.replace('.', ' ', 1).capitalize()} reads its table.")
        if remains.tables and _keeps_what_was(manifest, name):
            click.echo(
                "Its versions are in no other table: a run would begin the history anew."
            )
        if dry_run:
            return 0
        if not yes and not click.confirm("All of it, with its history?"):
            return 1
        dropper.drop(name, remains, lambda text: say(text, given.options))
    click.echo(
        f"Removed. {f'To fill it again: lakesql run --select {name}' if name in manifest.models else ''}".rstrip()
    )
    return 0


def _keeps_what_was(manifest: Manifest, name: str) -> bool:
    """Whether a model's table has rows that are stored nowhere else and cannot be
    computed again: the versions of a history of tables."""
    model = manifest.models.get(name)
    return (
        model is not None
        and model.config.reads == "tables"
        and not model.config.is_exchanged
    )


def _find_seed(manifest: Manifest, name: str) -> TableName | None:
    """The table of the seed with this name, also of one whose file is gone; None if the
    name is not a seed's.

    Raises `RunError`: `table-missing` if a seed has no table, and `table-not-of-seed`
    if something else has written the table.
    """
    from lakesql.errors import RunError
    from lakesql.run.seeds.seed import find_dropped, open_if_there

    if name in manifest.models:
        return None
    opened = open_if_there(manifest)
    table = find_dropped(manifest, opened, name) if opened is not None else None
    if table is None and name in manifest.seeds:
        what = f"There is nothing of seed '{name}' to remove: there is no table {manifest.seeds[name].table}."
        raise RunError.of(
            "table-missing", what, fix=f"Fill it: lakesql seed --select {name}"
        )
    return table


def _drop_seed(
    manifest: Manifest, name: str, table: TableName, *, is_sure: bool, is_dry: bool
) -> int:
    """Show what is to be removed, ask, and remove it. Returns the exit code."""
    from lakesql.catalog.connect import open_catalog
    from lakesql.catalog.seed_table import drop_seed_table
    from lakesql.graph.graph import node_id

    click.echo(
        f"{'This would be removed' if is_dry else 'To be removed'}, of seed '{name}':\n  table {table}"
    )
    for reader in manifest.graph.readers.get(node_id("seed", name), ()):
        click.echo(f"{reader.replace('.', ' ', 1).capitalize()} reads its table.")
    if is_dry:
        return 0
    if not is_sure and not click.confirm("All of it, with its history?"):
        return 1
    drop_seed_table(open_catalog(manifest.target.catalog), table)
    again = (
        f" To fill it again: lakesql seed --select {name}"
        if name in manifest.seeds
        else ""
    )
    click.echo(f"Removed.{again}")
    return 0
