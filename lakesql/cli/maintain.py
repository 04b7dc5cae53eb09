"""`lakesql maintain`: compact tables, expire snapshots and remove orphaned files,
without a run of their models."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

import click

from lakesql.cli.options import Command, Given, complete_models

if TYPE_CHECKING:
    from lakesql.model.model import Model


@click.command("maintain", cls=Command)
@click.argument(
    "words", metavar="MODEL...", nargs=-1, required=True, shell_complete=complete_models
)
@click.option(
    "--now", is_flag=True, help="Run every enabled procedure, whether due or not."
)
@click.option(
    "--unknown-files",
    type=click.Choice(["list", "delete"]),
    help=(
        "List files below the tables' locations that no snapshot references and lakesql did not write, or delete the "
        "listed ones. Nothing else is done."
    ),
)
@click.pass_obj
def command(
    given: Given,
    words: tuple[str, ...],
    now: bool,
    unknown_files: Literal["list", "delete"] | None,
) -> int:
    """Maintain the tables of models: their own, their dead letters, and their
    remembered deleted keys.

    A MODEL is a name, or a word of --select of other commands, such as 'tag:daily' or
    '*.expire_snapshots'. `lakesql run` does this automatically, between two batches. A
    model that another runner holds is left to that runner; with --now that is an error.
    Java is needed. The exit code is 1 if a procedure fails.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.render import open_emitter
    from lakesql.compile.compiled import compiled_files
    from lakesql.model.maintenance_tasks import maintenance_tasks
    from lakesql.run.job import RunOptions
    from lakesql.run.maintain import maintenance_jobs
    from lakesql.run.models import run_models

    work = selection.load_work(given.options, words, ())
    manifest = work.manifest
    for word in words:
        if word.isidentifier() and word not in manifest.written:
            project.check_model(manifest, word)
    whole = {
        name: frozenset(task.name for task in maintenance_tasks(manifest.models[name]))
        for name in work.names
    }
    tasks = {**whole, **work.tasks}
    if unknown_files is not None:
        tasks = {
            name: _orphan_tasks(manifest.models[name], chosen)
            for name, chosen in tasks.items()
        }
    if not any(tasks.values()):
        return 0
    compiled = compiled_files(manifest)
    compiled.compile(tasks)
    with open_emitter(
        given.options, manifest.outputs, shlex.join(sys.argv[1:])
    ) as emit:
        jobs_by = maintenance_jobs(
            tasks, now or unknown_files is not None, unknown_files or ""
        )
        return (
            0
            if run_models(
                manifest, compiled.selects(tasks), RunOptions(), emit, jobs_by=jobs_by
            )
            else 1
        )


def _orphan_tasks(model: Model, chosen: Collection[str]) -> frozenset[str]:
    """The chosen tasks that remove orphaned files."""
    from lakesql.model.maintenance_tasks import maintenance_tasks

    removing = (
        task.name
        for task in maintenance_tasks(model)
        if task.procedure == "remove_orphan_files"
    )
    return frozenset(removing) & frozenset(chosen)
