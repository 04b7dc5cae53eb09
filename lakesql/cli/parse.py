"""`lakesql parse`: check the whole project."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given


@click.command("parse", cls=Command)
@click.pass_obj
def command(given: Given) -> None:
    """Check every file of the project and write target/manifest.json.

    Every SELECT is read too, and where a table may hold something else than one expects of it, a note says so.
    Connections, the Avro schema of a stream, and what Spark alone knows of a SELECT are checked when a model runs.
    Neither Java nor Spark is needed.
    """
    from lakesql.cli import project
    from lakesql.compile.compiled import compiled_files
    from lakesql.observe.text import count
    from lakesql.project.files import shorten

    manifest = project.load_project(given.options)
    project.show_warnings(manifest, given.options)
    compiled = compiled_files(manifest)
    project.check_tests(manifest, compiled)
    for name, model in manifest.models.items():
        known = compiled.known(name)
        for note in known.notes if known is not None else ():
            click.echo(f"note  {model.path}: {note}")
    path = project.write_manifest(manifest, compiled)
    checked = f"{count(len(manifest.models), 'model')} and {count(len(manifest.streams), 'stream')}"
    click.echo(f"{checked}, no errors: {shorten(path, manifest.directory)}")
