"""How a command says on stderr what went wrong, and what somebody should know: as text,
or as lines of JSON."""

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
    """Show every problem that `error` stands for, and give the exit code of its
    kind."""
    if options.debug:
        _write("".join(traceback.format_exception(error)))
    known = explain(error)
    for problem in in_order(known.problems):
        report_problem(problem, options)
    return known.exit_code


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems as somebody walks through the files: those without a place first,
    each file from its top."""
    places = ((problem.place or Place(""), problem) for problem in problems)
    ordered = sorted(
        places,
        key=lambda found: (found[0].path, found[0].line or 0, found[0].column or 0),
    )
    return [problem for _, problem in ordered]


def explain(error: Exception) -> LakesqlError:
    """The error of lakesql that an exception of somebody else's stands for."""
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
    """Show one problem, with the line of the file that it stands in. A warning is one
    that ends no command."""
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
    """Tell something that nobody needs to act on."""
    if options.log_format == "json":
        _write_json("noted", {"text": text})
    else:
        _write(text + "\n")


def _write_json(event: str, fields: Mapping[str, object]) -> None:
    """A line like those of a run's events: what it is, when, and the rest."""
    from lakesql.observe.text import iso_time

    _write(json.dumps({"event": event, "at": iso_time(now_ms()), **fields}) + "\n")


def read_line(place: Place, options: Options) -> str | None:
    """The text of the line at `place`, of a file of the project or, for a profile, of
    the working directory.

    None for a place without a line, and of a file that is not read for its size.
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
    """Whether an output is a terminal whose user has nothing against colours."""
    return (
        output.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def paint(text: str, colour: str, output: TextIO) -> str:
    """The first word and the carets in a colour, the place bold, the quoted line faint:
    what the eye looks for."""
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
    # Whatever cannot be written in this terminal's encoding is shown escaped rather
    # than not at all.
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()
