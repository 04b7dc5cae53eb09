"""`lakesql test`: unit tests of models, without Java and Spark."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given, select_options


@click.command("test", cls=Command)
@select_options
@click.option("--unit", is_flag=True, help="Run the unit tests of the selected models. Other tests are not run yet.")
@click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.option(
    "--fail-on",
    type=click.Choice(["needs-spark"]),
    metavar="needs-spark",
    help="Exit with 3 where a test could not be answered without Spark, if none fails.",
)
@click.pass_obj
def command(
    given: Given, select: tuple[str, ...], exclude: tuple[str, ...], unit: bool, output: str, fail_on: str | None
) -> int:
    """Run the unit tests of models, in seconds.

    The SELECT runs on DuckDB over the records that the test gives, batch by batch, and so do the statements that write
    its rows. What is not known to mean the same there as on Spark is not run: the test needs Spark, and says why.
    Exit code 1: a test fails.
    """
    from lakesql.cli import project
    from lakesql.cli.report import say
    from lakesql.errors import UsageError
    from lakesql.unit.outcomes import NeedsSpark, is_failed, render_json, render_text
    from lakesql.unit.run import run_tests

    if not unit:
        raise UsageError.of("usage", "Which tests?", fix="Say --unit: unit tests are those that there are.")
    manifest = project.load_project(given.options)
    names = set(project.select_models(manifest, select, exclude, given.options))
    tests = [test for test in manifest.unit_tests if test.model in names]
    if names and not tests:
        say("No selected model has a unit test: nothing to do.", given.options)
    results = run_tests(manifest, tests)
    click.echo(render_json(results) if output == "json" else render_text(results), nl=output == "json")
    if any(is_failed(result) for result in results):
        return 1
    return 3 if fail_on and any(isinstance(result.outcome, NeedsSpark) for result in results) else 0
