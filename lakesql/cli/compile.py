"""`lakesql compile`: the SQL that each model runs."""

from __future__ import annotations

from pathlib import Path

import click

from lakesql.cli.options import Command, Filled, Given, defer_options, select_options


@click.command("compile", cls=Command)
@select_options
@defer_options
@click.option(
    "--output-dir",
    metavar="DIR",
    type=Filled(click.Path(file_okay=False, path_type=Path)),
    help=(
        "Write the compiled files to this folder as well, to commit them, and print nothing. Files of removed models "
        "are deleted."
    ),
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    output_dir: Path | None,
) -> None:
    """Write and print the SQL that models run.

    The statements of each model are written to target/compiled/, under the model's own
    path, and to stdout; the manifest of the project is written to target/manifest.json.
    For a maintenance task that is selected without its model, its statement is printed.
    For a stream of files on this machine, stderr has the number of files that its path
    matches. Neither Java nor Spark is needed.
    """
    from lakesql.cli import project, selection
    from lakesql.compile.compiled import compiled_files, write_copies
    from lakesql.counts import count
    from lakesql.graph.graph import node_id

    work = selection.load_work(given.options, select, exclude)
    names, tasks = work.names, work.tasks
    manifest = project.defer(work.manifest, names, given.options)
    compiled = compiled_files(manifest)
    texts = compiled.compile((*names, *tasks))
    project.write_manifest(manifest, compiled)
    ids = {
        read
        for name in names
        for read in manifest.graph.nodes[node_id("model", name)].depends_on
    }
    read = {name for name in manifest.file_streams if node_id("stream", name) in ids}
    if read:
        # only here: many projects read none
        from lakesql.run.streams.count_files import count_files

        for said in count_files(manifest, read):
            click.echo(said, err=True)
    if output_dir is None:
        shown = [texts[name] for name in names]
        if tasks:
            from lakesql.compile.shown_text import with_times
            from lakesql.compile.statements import task_texts

            selects = compiled.selects(tasks)
            shown += [
                with_times(task_texts(selects[model], chosen))
                for model, chosen in tasks.items()
            ]
        click.echo("\n".join(shown), nl=False)
    else:
        write_copies(manifest, {name: texts[name] for name in names}, output_dir)
        click.echo(f"{count(len(names), 'model')} compiled: {output_dir}")
