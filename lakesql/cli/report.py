"""How commands write errors, warnings and notes to stderr: as text, or as lines of
JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import click

from lakesql.cli.options import Options, find_directory
from lakesql.clock import now_ms
from lakesql.errors import (
    InternalError,
    LakesqlError,
    Place,
    Problem,
    ProfileError,
    explain_missing,
    render_problem,
)


def report_error(error: Exception, options: Options) -> int:
    """Show all problems of an error, and return the exit code of its kind."""
    if options.debug:
        _write("".join(traceback.format_exception(error)))
    known = explain(error)
    for problem in in_order(known.problems):
        report_problem(problem, options)
    return known.exit_code


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems sorted for a reader: those without a place first, then by file, line
    and column."""
    places = ((problem.place or Place(""), problem) for problem in problems)
    ordered = sorted(
        places,
        key=lambda found: (found[0].path, found[0].line or 0, found[0].column or 0),
    )
    return [problem for _, problem in ordered]


def explain(error: Exception) -> LakesqlError:
    """The lakesql error for any exception: itself if it is one, else the error that
    stands for it."""
    if missing := explain_missing(error):
        return missing
    match error:
        case LakesqlError():
            return error
        case OSError():
            what = (
                f"{error.filename}: {error.strerror}."
                if error.filename
                else f"{error}."
            )
            return ProfileError.of("not-accessible", what)
        case _:
            return InternalError.of_defect(error)


def report_problem(
    problem: Problem, options: Options, *, as_warning: bool = False
) -> None:
    """Show one problem, with the line of the file that it is about. Warnings are shown
    as such."""
    if options.log_format == "json":
        _write_json("warning" if as_warning else "problem", asdict(problem))
        return
    from lakesql.observe.text import printable

    source = read_line(problem.place, options) if problem.place else None
    text = render_problem(problem, source)
    text = f"warning{text.removeprefix('error')}" if as_warning else text
    _write(
        paint(
            printable(text, keep="\n\t"), "yellow" if as_warning else "red", sys.stderr
        )
        + "\n"
    )


def say(text: str, options: Options) -> None:
    """Show a note: something that needs no action."""
    if options.log_format == "json":
        _write_json("noted", {"text": text})
    else:
        _write(text + "\n")


def _write_json(event: str, fields: Mapping[str, object]) -> None:
    """Write a line of JSON like those of a run's events: the event, its time, and its
    fields."""
    from lakesql.observe.text import iso_time

    _write(json.dumps({"event": event, "at": iso_time(now_ms()), **fields}) + "\n")


def read_line(place: Place, options: Options) -> str | None:
    """The text of the line at `place`, in a file of the project, or else of the current
    directory, such as a profile.

    None if the place has no line, or if its file cannot be read or is too large.
    """
    if not place.line:
        return None
    # only here: most commands have no problem to show
    from lakesql.project.files import read_text

    for folder in (find_directory(options), Path.cwd()):
        try:
            lines = read_text(folder / place.path, place.path).splitlines()
        except FileNotFoundError:
            continue
        except (OSError, LakesqlError):
            return None
        return lines[place.line - 1] if place.line <= len(lines) else None
    return None


def is_colourful(output: TextIO) -> bool:
    """Whether an output is a terminal that shows colours, and its user has not disabled
    them."""
    return (
        output.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def paint(text: str, colour: str, output: TextIO) -> str:
    """The text of a problem with colours: the condition and the carets in `colour`, the
    place bold, the line numbers faint. Unchanged if the output shows no colours."""
    if not is_colourful(output):
        return text
    head, *rest = text.split("\n")
    condition, _, place = head.partition(" ")
    lines = [
        f"{click.style(condition, fg=colour, bold=True)} {click.style(place, bold=True)}".rstrip()
    ]
    for line in rest:
        gutter, bar, quoted = line.partition(" | ")
        if not bar or gutter.strip().strip("0123456789"):
            lines.append(line)
        elif quoted.strip() and not quoted.strip().strip("^"):
            lines.append(
                click.style(gutter + bar, dim=True)
                + click.style(quoted, fg=colour, bold=True)
            )
        else:
            lines.append(click.style(gutter + bar, dim=True) + quoted)
    return "\n".join(lines)


def _write(text: str) -> None:
    # Characters that the terminal's encoding lacks are shown escaped.
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()
