"""`lakesql schema pull`: the newest schemas of subjects, as files of the project."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given


@click.command("schema", cls=Command)
@click.argument("action", metavar="pull", type=click.Choice(["pull"]))
@click.argument("names", metavar="[STREAM]...", nargs=-1)
@click.pass_obj
def command(given: Given, action: str, names: tuple[str, ...]) -> None:
    """Write what is known of streams elsewhere into the project: `lakesql schema pull`.

    Of streams that have a `registry` and declare no columns, the newest schema of the subject, which is their contract:
    streams/schemas/SUBJECT.avsc, or .proto. Of the feed of a group, its tables: streams/STREAM.tables.yml. All of
    those are asked for, or the streams that are named.
    """
    from lakesql.cli import project
    from lakesql.cli.report import say
    from lakesql.counts import count
    from lakesql.run.schemas import pull_schemas

    pulled = pull_schemas(project.load_project(given.options), names)
    for each in pulled:
        click.echo(f"{each.path}{'' if each.is_changed else ' (unchanged)'}")
    changed = [each for each in pulled if each.is_changed]
    say(f"{count(len(pulled), 'schema')}, {len(changed)} changed", given.options)
