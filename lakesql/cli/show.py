"""`lakesql show`: rows of a model's table, or of its SELECT."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from lakesql.cli.options import Command, Given, Options, complete_models
from lakesql.cli.report import say

if TYPE_CHECKING:
    from lakesql.catalog.connect import OpenCatalog
    from lakesql.graph.manifest import Manifest

    Shown = tuple[Sequence[str], Sequence[Sequence[Any]], str]


@click.command("show", cls=Command)
@click.argument("name", metavar="MODEL", shell_complete=complete_models)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--dead-letters",
    is_flag=True,
    help="Show the model's dead letters in place of its rows.",
)
@click.option(
    "--at",
    type=click.Choice(["consistent"]),
    help="For a group with consistent=True: the rows up to the last transaction that all of its tables have.",
)
@click.option(
    "--preview",
    is_flag=True,
    help="Run the SELECT over the first records of its stream, and write nothing.",
)
@click.pass_obj
def command(
    given: Given,
    name: str,
    limit: int,
    output: str,
    dead_letters: bool,
    at: str | None,
    preview: bool,
) -> None:
    """Show rows of a model's table, in no particular order. Java is needed only for a
    view and with --preview.

    MODEL may also be a seed.

    A table that is wider than the terminal is shown with one line per column of a row.
    """
    from lakesql.cli import project
    from lakesql.cli.rows import render_json, render_rows
    from lakesql.errors import UsageError
    from lakesql.graph.manifest import is_stored

    if dead_letters and preview:
        raise UsageError.of(
            "usage",
            "--preview writes nothing, so it has no --dead-letters.",
            fix="Leave one out.",
        )
    if at and (preview or dead_letters):
        raise UsageError.of(
            "usage",
            "--at shows a table's rows.",
            fix="Leave --preview and --dead-letters out.",
        )
    manifest = project.load_project(given.options)
    if name not in manifest.seeds:
        project.check_model(manifest, name)
    elif preview or dead_letters:
        raise UsageError.of(
            "usage", f"'{name}' is a seed: it has neither a SELECT nor dead letters."
        )
    if preview or not is_stored(manifest, name):
        columns, rows, note = _preview(manifest, name, limit, given.options)
    else:
        columns, rows, note = _stored(
            manifest, name, limit, dead_letters, at is not None
        )
    is_json = output == "json"
    # in a pipe, each row is one line
    width = shutil.get_terminal_size(fallback=(sys.maxsize, 0)).columns
    click.echo(
        render_json(columns, rows) if is_json else render_rows(columns, rows, width),
        nl=False,
    )
    if note:
        say(note, given.options)


def _stored(
    manifest: Manifest, name: str, limit: int, dead_letters: bool, is_consistent: bool
) -> Shown:
    from lakesql.catalog.connect import open_catalog
    from lakesql.catalog.tables import load_table_state, missing_table, read_rows
    from lakesql.graph.manifest import own_table
    from lakesql.names import is_reserved

    table = own_table(manifest, name)
    catalog = open_catalog(manifest.target.catalog)
    if name in manifest.seeds and load_table_state(catalog, table) is None:
        raise missing_table(catalog, table, f"Fill it: lakesql seed --select {name}")
    if dead_letters:
        table = table.dead_letter
        # the table is created with the first dead letter
        if load_table_state(catalog, table) is None:
            return (), (), f"'{name}' has no dead letters: there is no table {table}."
    snapshot = _consistent_snapshot(manifest, name, catalog) if is_consistent else None
    columns, rows = read_rows(catalog, table, limit, snapshot)
    # reserved columns are internal to refreshes
    shown = [at for at, column in enumerate(columns) if not is_reserved(column)]
    rows = [tuple(row[at] for at in shown) for row in rows]
    return (
        tuple(columns[at] for at in shown),
        rows,
        "" if rows or not limit else f"{table} has no rows.",
    )


def _consistent_snapshot(
    manifest: Manifest, name: str, catalog: OpenCatalog
) -> int | None:
    """The id of the newest snapshot of a model's table that is consistent with the
    other tables of its group; None for the current one, if the catalog commits all
    tables of a group at once. Raises if the model is in no consistent group."""
    from lakesql.catalog.snapshot_list import ATOMIC_CATALOGS, list_of, read_list
    from lakesql.errors import RunError, UsageError

    model = manifest.models.get(name)
    group = (
        manifest.groups.get(model.member.group)
        if model is not None and model.member is not None
        else None
    )
    if model is None or group is None or not group.config.consistent:
        what = f"'{name}' is none of a group that says consistent=True."
        raise UsageError.of("usage", what, fix="Leave --at out.")
    if manifest.target.catalog.type in ATOMIC_CATALOGS:
        return None
    table = list_of(manifest.target.catalog.name, manifest.target.namespace, group.name)
    found = read_list(catalog, table).get(f"{model.table.namespace}.{model.table.name}")
    if found is None:
        what = f"{table} does not say yet which snapshots belong together."
        fix = f"The first run of the group makes it: lakesql run --select {group.name}"
        raise RunError.of("table-missing", what, fix=fix)
    return found


def _preview(manifest: Manifest, name: str, limit: int, options: Options) -> Shown:
    from lakesql.counts import count
    from lakesql.run.test.show_preview import preview_model

    preview = preview_model(manifest, name, limit, lambda text: say(text, options))
    if manifest.models[name].config.reads == "tables":
        return (
            preview.columns,
            preview.rows,
            f"{count(len(preview.rows), 'row')} of the tables as they are",
        )
    rejected = sum(times for _, times in preview.rejected)
    note = f"{count(len(preview.rows), 'row')} of {count(preview.records, 'record')}"
    return (
        preview.columns,
        preview.rows,
        f"{note}; {count(rejected, 'dead letter')}" if rejected else note,
    )
