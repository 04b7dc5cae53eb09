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
    help="The stream's name: that of the path or topic if left out.",
)
@click.option(
    "--connection",
    metavar="NAME",
    type=Filled(str),
    help="The connection of the target that has the files or the topic; files of the project if left out.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "csv", "parquet", "orc", "avro"]),
    help="How records are written, where neither their files' names nor their first bytes say it.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="About how many samples are looked at.",
)
@click.option(
    "--map",
    "maps",
    metavar="COLUMN",
    multiple=True,
    help="A column of JSON whose objects have keys for fields, or a field in one (a.b). May be repeated.",
)
@click.option(
    "--registry",
    metavar="NAME",
    type=Filled(str),
    help="The registry whose schemas a topic's values name.",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file to write, streams/NAME.yml if left out; `-` prints.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace the file of the stream, if it has no other one.",
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

    `lakesql infer landing/orders/*.json` looks at files of the project, with
    --connection at files or a topic of the target. What is guessed stands in comments,
    with how often it holds. Nothing is ever inferred while a model runs.
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
