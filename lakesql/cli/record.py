"""`lakesql record`: copy a sample of a topic into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, Options, find_directory
from lakesql.cli.report import say

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest
    from lakesql.project.profiles import Target


@click.command("record", cls=Command)
@click.argument("name", metavar="STREAM")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Approximate number of newest records.",
)
@click.option(
    "--mask",
    metavar="COLUMN",
    multiple=True,
    help="Column whose values are masked. May be repeated.",
)
@click.option(
    "--output",
    "-o",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the recorded topics; that of the recorded connection of the default target if left out.",
)
@click.option(
    "--replace", is_flag=True, help="Remove the existing recording of the topics first."
)
@click.pass_obj
def command(
    given: Given,
    name: str,
    rows: int,
    mask: tuple[str, ...],
    output: Path | None,
    replace: bool,
) -> None:
    """Record a sample of a stream's topics, to run models without the broker.

    The target must read the stream from a broker: `lakesql record orders --target
    prod`. At the broker nothing is written, and no position is stored. For a connection
    `sources/<kind>.py` the project's own code is run. Schemas that records name by id
    are downloaded from their registry, to the folder that replaces it on the default
    target, or to `_schemas` beside the topics' folders.
    """
    from lakesql.cli import project
    from lakesql.counts import count
    from lakesql.run.samples.record import record_stream

    options = given.options
    manifest = project.load_project(options)
    folder = output.absolute() if output else _recorded_folder(manifest, name, options)
    schemas = (
        folder / "_schemas"
        if output
        else _schemas_folder(manifest, name, folder, options)
    )
    made = record_stream(
        manifest,
        name,
        rows,
        mask,
        folder,
        replace,
        lambda text: say(text, options),
        schemas,
    )
    for file in (*made.files, *made.schemas):
        click.echo(file)
    left_out = (
        f"; {count(made.left_out, 'record')} left out, which could not be masked"
        if made.left_out
        else ""
    )
    say(
        f"{count(sum(made.records.values()), 'record')} of {count(len(made.records), 'topic')}{left_out}",
        options,
    )


def _schemas_folder(
    manifest: Manifest, name: str, folder: Path, options: Options
) -> Path:
    """The folder that stands for the stream's registry on the profile's default target,
    or else `_schemas` in the recording."""
    stream = manifest.streams.get(name)
    if stream is None or not stream.registry:
        return folder
    registry = _default_target(manifest, options).registries.get(stream.registry)
    return (
        Path(registry.path)
        if registry is not None and registry.path
        else folder / "_schemas"
    )


def _default_target(manifest: Manifest, options: Options) -> Target:
    import os

    from lakesql.cli.project import profile_folders
    from lakesql.project.profiles import load_target, resolve_paths

    directory = find_directory(options)
    folders = profile_folders(options, directory)
    return resolve_paths(
        load_target(manifest.settings.profile, None, folders, os.environ), directory
    )


def _recorded_folder(manifest: Manifest, name: str, options: Options) -> Path:
    """The folder of the recorded connection on the profile's default target that has
    the same name as the stream's. Raises `UsageError` (`usage`) if there is none."""
    from lakesql.errors import UsageError

    target = _default_target(manifest, options)
    stream = manifest.streams.get(name)
    connection = target.connections.get(stream.connection) if stream else None
    folder = connection.recording if connection is not None else None
    if stream and folder is None:
        raise UsageError.of(
            "usage",
            f"Target '{target.name}' has no recorded connection '{stream.connection}' in a folder to write to.",
            fix="Say where to write: --output streams/recorded.",
        )
    return folder or Path()
