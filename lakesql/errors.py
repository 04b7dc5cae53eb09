"""The errors of lakesql: problems as values, exceptions that carry them, and how they
are shown.

A `Problem` has a condition, a place, what is wrong, why, and what to do. The exceptions
carry one or more problems, and their type says who must act. `CONDITIONS` lists all
conditions: a `Problem` with another one cannot be made.
"""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from lakesql.conditions import CONDITIONS, UNREACHABLE

MAX_LISTED = 20
"""The most known names that a suggestion lists."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file of the project: its path, and the line and column, both counted
    from 1, None if unknown."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(
            str(part)
            for part in (self.path, self.line, self.column)
            if part is not None
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that somebody must act on: the condition's name, what is wrong, why,
    what to do, and where.

    Without a `fix` of its own it has the advice of its condition. Raises
    `InternalError` for an unknown condition.
    """

    condition: str
    what: str
    why: str = ""
    fix: str = ""
    place: Place | None = None

    def __post_init__(self) -> None:
        if self.condition not in CONDITIONS:
            raise InternalError.of(
                "internal",
                f"'{self.condition}' is not a condition of lakesql/conditions.py",
            )
        if not self.fix:
            object.__setattr__(self, "fix", CONDITIONS[self.condition].do)

    def at(self, place: Place) -> Problem:
        """The same problem with a place, if it had none."""
        return self if self.place else replace(self, place=place)


class LakesqlError(Exception):
    """One or more problems that end a command."""

    own_code: ClassVar[int] = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(
                f"{problem.condition}: {problem.what}" for problem in self.problems
            )
        )

    @property
    def exit_code(self) -> int:
        """The exit code of the command: that of the error's type, but 1 if all problems
        are servers that do not answer, as schedulers do not retry after a 2."""
        may_pass = self.problems and UNREACHABLE.issuperset(
            problem.condition for problem in self.problems
        )
        return 1 if may_pass else self.own_code

    @classmethod
    def of(
        cls,
        condition: str,
        what: str,
        *,
        why: str = "",
        fix: str = "",
        place: Place | None = None,
    ) -> Self:
        """The error of one problem. Subclasses inherit this: `ProjectError.of(…)` is a
        `ProjectError`."""
        return cls([Problem(condition, what, why, fix, place)])


class ProjectError(LakesqlError):
    """The project's files are wrong: the author of a model or a stream must act."""


class ProfileError(LakesqlError):
    """The profile or the machine is wrong: whoever set up the target must act."""


class UsageError(LakesqlError):
    """The command line is wrong."""


class RunError(LakesqlError):
    """A model failed while it ran. Other models continue."""

    own_code: ClassVar[int] = 1
    transient: ClassVar[bool] = False


class TransientError(RunError):
    """A transient failure: the model is retried."""

    transient: ClassVar[bool] = True


class FilesSetAside(Exception):  # noqa: N818  not an error: the query starts anew
    """Raised when a query has made dead letters of unreadable files, so that it must be
    started again without them."""


class InternalError(LakesqlError):
    """lakesql itself is wrong: its maintainers must act."""

    own_code: ClassVar[int] = 1

    @classmethod
    def of_defect(
        cls, error: BaseException, about: str = "", place: Place | None = None
    ) -> Self:
        """The error for an unforeseen exception, with the place in lakesql's code that
        raised it. `about` names what was being done."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame for frame in frames if _PACKAGE in Path(frame.filename).parents
        ] or frames
        raised = (
            f"Raised in {Path(own[-1].filename).name}:{own[-1].lineno}, {own[-1].name}."
            if own
            else ""
        )
        what = f"{type(error).__name__}: {without_object(str(error))}".rstrip(": ")
        return cls.of(
            "internal", f"{about}: {what}" if about else what, why=raised, place=place
        )


def without_object(text: str) -> str:
    """The text of an exception without Java's stack trace and py4j's ids of objects, in
    one line if it had these."""
    if not _ASKS_JAVA.search(text):
        return text
    lines = _ASKS_JAVA.sub("", text).splitlines()
    return " ".join(
        line.strip(" :") for line in lines if not line.startswith("\t")
    ).strip()


_ASKS_JAVA = re.compile(r"An error occurred while calling (?:o\d+|z:)[\w.:$]*|:o\d+\b")
"""Matches py4j's mention of a call or an object by its internal id, such as
`o109108.select`."""


EXTRAS = {
    **dict.fromkeys(
        ("pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "prometheus_client"),
        "spark",
    ),
    "duckdb": "unit",
    **dict.fromkeys(("pygls", "lsprotocol"), "lsp"),
    "psycopg": "postgres",
    "boto3": "glue",
    "aws_kinesis_agg": "kinesis",
    "pulsar": "pulsar",
    "openlineage": "openlineage",
    "paho": "mqtt",
    "confluent_kafka": "kafka",
    **dict.fromkeys(
        ("authlib", "httpx", "httpx2", "attrs", "attr", "cachetools", "fastavro"),
        "registry",
    ),
    **dict.fromkeys(("thrift", "thrift_sasl"), "hive"),
    **dict.fromkeys(("ptars", "google"), "protobuf"),
    **dict.fromkeys(("mcp", "mcp_types", "anyio"), "mcp"),
}
"""The extra of lakesql's that installs a module, by the module's name."""

_PACKAGE = Path(__file__).parent


def explain_missing(error: BaseException) -> ProfileError | None:
    """The error of a missing extra, if the exception is that one of its modules cannot
    be imported; else None."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    extra = EXTRAS.get(error.name.partition(".")[0])
    module = (
        "pyspark" if error.name.partition(".")[0] == "py4j" else error.name
    )  # which comes with it, and which nobody knows
    return not_installed(module, extra) if extra else None


def not_installed(module: str, extra: str) -> ProfileError:
    """The error that a module is not installed, with the advice to install its
    extra."""
    condition = "spark-missing" if extra == "spark" else "extra-missing"
    fix = f"Install lakesql with its extra: in its folder, pip install '.[{extra}]'."
    return ProfileError.of(condition, f"{module} is not installed.", fix=fix)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; its type if it has none."""
    text = without_object(str(error).strip())
    return text.splitlines()[0] if text else type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the known name nearest to `name`, or lists the known
    names when none is near."""
    names = sorted(set(known))
    if close := nearest(name, names):
        return f"Did you mean '{close}'?"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Known: {', '.join(names[:MAX_LISTED])}{more}." if names else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most similar to `name`, whatever their capitals; '' if none is
    similar."""
    spelled = {known_name.lower(): known_name for known_name in known}
    close = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return spelled[close[0]] if close else ""


def quoted(names: Iterable[str]) -> str:
    """The names in quotes, separated by commas."""
    return ", ".join(f"'{name}'" for name in names)


def misspelt(name: str, known: Iterable[str]) -> str:
    """The known name of which `name` is probably a misspelling, by one or two letters;
    '' if it is known itself, or not close to any.

    For names of which not all valid ones are known, so that only a very similar one is
    taken for a mistake.
    """
    names = frozenset(known)
    close = (
        difflib.get_close_matches(
            name.lower(), names, n=1, cutoff=max(0.8, 1 - 2 / len(name))
        )
        if name
        else []
    )
    return (
        close[0]
        if close and name not in names and abs(len(close[0]) - len(name)) <= 1
        else ""
    )


def render_problem(problem: Problem, source: str | None = None) -> str:
    """The problem as a text: condition and place, the line with a caret, what is wrong,
    why, and what to do.

    `source` is the line of the file at the problem's place, None if it could not be
    read.
    """
    lines = [
        f"error[{problem.condition}]" + (f" {problem.place}" if problem.place else "")
    ]
    if source is not None and problem.place and problem.place.line:
        lines += render_line(problem.place, source, _hide_values(problem, source))
    lines.append(f"  {problem.what}")
    lines.extend(f"  {text}" for text in (problem.why, problem.fix) if text)
    return "\n".join(lines)


def render_line(place: Place, source: str, shown: str, width: int = 1) -> list[str]:
    """The line of a place with its number, and carets below `width` characters of it.

    `source` is the line, `shown` the same without secrets. There are no carets if a
    secret before them was hidden, as they would be shifted.
    """
    number = str(place.line)
    lines = [f"  {number} | {shown}"]
    before = source[: (place.column or 1) - 1]
    if place.column and shown.startswith(before):
        gap = "".join("\t" if character == "\t" else " " for character in before)
        carets = "^" * max(1, min(width, len(shown) - len(before)))
        lines.append(f"  {' ' * len(number)} | {gap}{carets}")
    return lines


_SECRET_KEY = re.compile(
    r"((?:pass|pwd|secret|token|credential|jaas|private|(?:api|access)[._-]?key)[\w.-]*[\"']?\s*[:=]\s*).+",
    re.IGNORECASE,
)
_LOGIN_IN_URL = re.compile(r"(://[^\s/:@]*:)\S*@")


def _hide_values(problem: Problem, line: str) -> str:
    """The line of a file with possible secrets hidden: the value of a client's option,
    and in YAML files logins in URLs and values of keys such as `password`."""
    if problem.condition in ("client-option", "kafka-option"):
        at = (problem.place.column or 1) - 1 if problem.place else 0
        line = line[:at] + re.sub(r"([:=]\s*).+", r"\1…", line[at:], count=1)
    elif not problem.place or not problem.place.path.endswith((".yml", ".yaml")):
        return line
    return hide_secrets(line)


def hide_secrets(line: str) -> str:
    """A line of settings with possible secrets hidden: passwords in URLs, and values of
    keys such as `password` or `token`."""
    return _LOGIN_IN_URL.sub(r"\1…@", _SECRET_KEY.sub(r"\1…", line))
