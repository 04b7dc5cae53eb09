"""`lakesql forecast`: the commits, files and metadata that models will make of their
tables, with their trigger and with others."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from lakesql.cli.options import Command, Given, read_interval, select_options

if TYPE_CHECKING:
    from lakesql.project.duration import Duration

MOST_MS = 92 * 86_400_000
"""The greatest span of a forecast, in milliseconds: what a stream brings after a
quarter of a year cannot be foreseen anyway."""

LEAST_RATE, MOST_RATE = 1e-6, 1e9


def _read_rate(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not LEAST_RATE <= value <= MOST_RATE:
        raise click.BadParameter(
            "it is not a number of rows, such as 250 or 0.5, from 0.000001 to a billion."
        )
    return value


def _read_bytes(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> float | None:
    from lakesql.decode import node_of
    from lakesql.errors import LakesqlError, Place
    from lakesql.project.size import parse_size

    if text is None:
        return None
    try:
        return float(
            parse_size(
                node_of(f"{text} B" if text.strip().isdecimal() else text, Place(""))
            ).size_bytes
        )
    except LakesqlError:
        raise click.BadParameter(
            f"'{text}' is not a size, such as 200 or '1.5 KB'."
        ) from None


def _read_span(
    context: click.Context, parameter: click.Parameter, text: str
) -> Duration:
    found = read_interval(context, parameter, text)
    if not 0 < found.length_ms <= MOST_MS:
        raise click.BadParameter(
            f"'{text}' is not between 1 second and {MOST_MS // 86_400_000} days."
        )
    return found


@click.command("forecast", cls=Command)
@select_options
@click.option(
    "--rows-per-second",
    metavar="N",
    type=float,
    callback=_read_rate,
    help="Rows per second that reach the table; measured, or else assumed, if left out.",
)
@click.option(
    "--row-bytes",
    metavar="B",
    callback=_read_bytes,
    help="Bytes of a row in data files (200, '1.5 KB'); measured, or else assumed, if left out.",
)
@click.option(
    "--after",
    metavar="INTERVAL",
    default="1 day",
    show_default=True,
    callback=_read_span,
    help="Period of the forecast.",
)
@click.option(
    "--offline",
    is_flag=True,
    help="Read no table; values that are not given are assumed.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format; json: one object per model and line.",
)
@click.pass_obj
def command(
    given: Given,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    rows_per_second: float | None,
    row_bytes: float | None,
    after: Duration,
    offline: bool,
    output: str,
) -> int:
    """Forecast commits, files, snapshots and metadata of tables, for the model's
    trigger and for others.

    The forecast is made with and without the model's maintenance. Values are measured
    from a table's last commits where possible; no Java is needed. The exit code is 1 if
    a table cannot be read.
    """
    from lakesql.cli import project, selection
    from lakesql.cli.status import report_unknown
    from lakesql.clock import now_ms
    from lakesql.plan.forecast import ForecastInput
    from lakesql.run.tell.forecast import read_forecasts

    manifest = project.load_project(given.options)
    names = selection.select_models(manifest, select, exclude, given.options)
    names = selection.stored_models(manifest, names, given.options)
    said = ForecastInput(rows_per_second, row_bytes)
    forecasts, unknown = read_forecasts(
        manifest, names, said, after.length_ms, now_ms(), offline=offline
    )
    if output == "json":
        from lakesql.observe.forecast_json import render_forecast_lines

        click.echo(render_forecast_lines(forecasts), nl=False)
    elif forecasts:
        from lakesql.observe.forecast_table import draw_forecasts

        draw_forecasts(sys.stdout, forecasts, os.environ)
    return report_unknown(unknown, given.options)
