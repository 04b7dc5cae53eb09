"""Which renderer the console gets: the live view on a terminal, else plain lines.

The run's log, its live view and its closing table are the command's output and go to
stdout, as in dbt; each failure in full goes to stderr.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from io import TextIOWrapper
from typing import TextIO

from lakesql.clock import now_ms
from lakesql.observe.emitter import Clock, Renderer
from lakesql.observe.lines import PlainLines
from lakesql.observe.summary import ReadLine


def console(
    out: TextIO,
    err: TextIO,
    *,
    environ: Mapping[str, str],
    clock: Clock = now_ms,
    read_line: ReadLine,
    zone: tzinfo | None = None,
) -> Renderer:
    """The renderer for `out`, with the failures on `err`: the live view on a terminal,
    else plain lines. Times of day are in `zone`, or in this machine's zone if None.

    With `CI` set, or on a terminal that cannot move its cursor, lines are plain.
    `NO_COLOR` removes the colours of the live view. Both streams are set to write `?`
    for a character that their encoding lacks.
    """
    for stream in (out, err):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not is_watched(out, environ):
        return PlainLines(out, err, zone=zone, read_line=read_line)
    # Imported here, as rich's live display loads slowly and most commands draw nothing.
    from lakesql.observe.live import LiveView

    return LiveView(
        out, err, environ=environ, clock=clock, zone=zone, read_line=read_line
    )


def is_watched(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether `out` is a terminal that can show a live view, and not a log of CI."""
    in_ci = environ.get("CI", "").lower() not in ("", "0", "false")
    return out.isatty() and not in_ci and environ.get("TERM") != "dumb"
