"""`lakesql infer`: write a stream's declaration from samples, for review."""

from __future__ import annotations

from pathlib import Path

import click

from lakesql.cli.options import Command, Filled, Given


@click.command("infer", cls=Command)
@click.argument("place", metavar="PATH|TOPIC")
@click.option(
    "--name",
    metavar="NAME",
    type=Filled(str),
    help="Name of the stream; that of the path or topic if left out.",
)
@click.option(
    "--connection",
    metavar="NAME",
    type=Filled(str),
    help="Connection of the target with the files or the topic; files of the project if left out.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "csv", "parquet", "orc", "avro"]),
    help="Format of the records; detected from the files' names or first bytes if left out.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Approximate number of samples that are read.",
)
@click.option(
    "--map",
    "maps",
    metavar="COLUMN",
    multiple=True,
    help=(
        "Column of JSON that is a map, whose objects have keys in place of fields, or a field in one (a.b). May be "
        "repeated."
    ),
)
@click.option(
    "--registry",
    metavar="NAME",
    type=Filled(str),
    help="Connection of the registry with the schemas of a topic's values.",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="File to write; streams/NAME.yml if left out; `-` prints.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace the file of the stream if it has no other stream.",
)
@click.pass_obj
def command(
    given: Given,
    place: str,
    name: str | None,
    connection: str | None,
    format_: str | None,
    rows: int,
    maps: tuple[str, ...],
    registry: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Write a stream's contract from samples of files or of a topic, for review.

    `lakesql infer landing/orders/*.json` reads files of the project; with --connection
    it reads files or a topic of the target. Comments mark guesses, with the share of
    samples that support them. Nothing is inferred while a model runs.
    """
    from lakesql.cli import project
    from lakesql.cli.report import say
    from lakesql.run.samples.infer import AskedContract, infer_contract, write_contract

    options = given.options
    files, target = project.load_files_and_target(options)
    asked = AskedContract(
        place, name or "", connection or "", format_ or "", registry or "", rows, maps
    )
    found = infer_contract(files, target, asked, lambda text: say(text, options))
    if output is not None and str(output) == "-":
        click.echo(found.text, nl=False)
        return
    click.echo(write_contract(files, found, output, force))
    say(
        f"stream '{found.name}' from {found.samples}; review it, then: lakesql parse",
        options,
    )
