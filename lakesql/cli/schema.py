"""`lakesql schema`: write schemas into the project: those of subjects in registries,
tables of feeds, and the JSON Schemas of the project's own files."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given


@click.command("schema", cls=Command)
@click.argument("action", metavar="pull|write", type=click.Choice(["pull", "write"]))
@click.argument("names", metavar="[STREAM]...", nargs=-1)
@click.pass_obj
def command(given: Given, action: str, names: tuple[str, ...]) -> None:
    """Write schemas of registries and feeds into the project: `lakesql schema pull`.

    For a stream with a `registry` and no declared columns, it writes the newest schema
    of the subject, which is the stream's contract: streams/schemas/SUBJECT.avsc, or
    .proto. For the feed of a group, it writes its tables: streams/STREAM.tables.yml. It
    does so for all such streams, or for those that are named.

    `lakesql schema write` writes the JSON Schemas of the project's own files, for this
    version of lakesql, to .schemas/, where editors find them: after an upgrade, or in a
    project that was not created by `lakesql init`.
    """
    if action == "write":
        _write(given, names)
        return
    from lakesql.cli import project
    from lakesql.cli.report import say
    from lakesql.counts import count
    from lakesql.run.samples.pull_schemas import pull_schemas

    pulled = pull_schemas(project.load_project(given.options), names)
    for each in pulled:
        click.echo(f"{each.path}{'' if each.is_changed else ' (unchanged)'}")
    changed = [each for each in pulled if each.is_changed]
    say(f"{count(len(pulled), 'schema')}, {len(changed)} changed", given.options)


def _write(given: Given, names: tuple[str, ...]) -> None:
    from lakesql.cli.options import find_directory
    from lakesql.cli.report import say
    from lakesql.counts import count
    from lakesql.errors import UsageError
    from lakesql.project.file_schemas import schema_texts, write_schemas
    from lakesql.project.files import has_settings

    if names:
        raise UsageError.of(
            "usage", "`lakesql schema write` takes no streams.", fix="Leave them out."
        )
    directory = find_directory(given.options)
    if not has_settings(directory):
        raise UsageError.of(
            "no-project", f"{directory} has no pyproject.toml with [tool.lakesql]."
        )
    written = write_schemas(directory, schema_texts())
    for path, is_changed in written.items():
        click.echo(f"{path}{'' if is_changed else ' (unchanged)'}")
    say(
        f"{count(len(written), 'schema')}, {sum(written.values())} changed",
        given.options,
    )
