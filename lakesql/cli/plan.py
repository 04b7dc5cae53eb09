"""`lakesql plan`: what a change of the project does to its tables and streams."""

from __future__ import annotations

import click

from lakesql.cli.options import Command, Given, select_options
from lakesql.review.verdicts import VERDICTS, Verdict


@click.command("plan", cls=Command)
@select_options
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Output format; markdown: for a comment on a pull request.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Also read tables, checkpoints and topics, to check whether a run can continue.",
)
@click.option(
    "--fail-on",
    type=click.Choice(VERDICTS),
    metavar="VERDICT",
    help=f"Exit with 3 where a model has this verdict or a harder one: {', '.join(VERDICTS)}.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    output: str,
    live: bool,
    fail_on: Verdict | None,
) -> int:
    """Show what a change does to tables and streams, before it is run.

    The project with its uncommitted changes is compared with an earlier version:
    without --against and --state, with the commit at which this branch left the main
    branch. Neither Java nor Spark is needed. Only files are read; with --live also the
    catalog, the checkpoints and the brokers. The result is written to target/plan.json,
    for the site of `lakesql docs`.
    """
    from lakesql.cli.report import say
    from lakesql.cli.review import review_project
    from lakesql.clock import now_ms
    from lakesql.review.verdicts import reaches
    from lakesql.run.tell.last_plan import PLAN_FILE, PlanAsked, write_last_plan

    reviewed = review_project(given.options, select, exclude, live)
    review = reviewed.review
    for word in reviewed.unmatched:
        say(f"'{word}' matches nothing.", given.options)
    asked = PlanAsked(select, exclude, given.options.selector, live)
    try:
        write_last_plan(review, reviewed.files, reviewed.target, asked, now_ms())
    except OSError as error:  # what the plan says is what was asked for
        say(
            f"{PLAN_FILE} of the target folder was not written: {error.strerror}",
            given.options,
        )
    match output:
        case "json":
            from lakesql.review.as_json import render_json

            click.echo(render_json(review))
        case "markdown":
            from lakesql.review.as_markdown import render_markdown

            click.echo(render_markdown(review), nl=False)
        case _:
            from lakesql.review.as_text import render_text

            click.echo(render_text(review), nl=False)
    return 3 if fail_on is not None and reaches(review.verdict, fail_on) else 0
