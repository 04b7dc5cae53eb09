"""`lakesql compile`: the SQL that each model runs."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given, select_options


@click.command("compile", cls=Command)
@select_options
@click.pass_obj
def command(given: Given, select: tuple[str, ...], exclude: tuple[str, ...]) -> None:
    """Write and print the SQL that models run.

    Each model's statements go to target/compiled/, under the model's own path, and to stdout. Neither Java nor Spark
    is needed.
    """
    from lakesql.cli import project

    manifest = project.load_project(given.options)
    project.show_warnings(manifest, given.options)
    names = project.select_models(manifest, select, exclude, given.options)
    texts = project.compiled_files(manifest).compile(names)
    click.echo("\n".join(texts[name] for name in names), nl=False)
