"""The command-line options that every command has, before and after the command's name,
and those that select models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from lakesql.errors import LakesqlError

if TYPE_CHECKING:
    from lakesql.project.duration import Duration
    from lakesql.project.files import Outputs

COMMON_TITLE = "Options of every command, before or after its name (in the environment: LAKESQL_TARGET, …)"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Options:
    """The values of the common options, and of those that select models; None or '' if
    not given."""

    target: str | None = None
    profiles_dir: Path | None = None
    project_dir: Path | None = None
    target_path: Path | None = None
    log_path: Path | None = None
    vars: str = ""
    log_format: Literal["text", "json"] = "text"
    debug: bool = False
    selector: tuple[str, ...] = ()
    state: Path | None = None
    against: str | None = None
    defer: bool = False
    favor_state: bool = False


@dataclass(frozen=True, slots=True)
class MetricsAt:
    """Where a run's metrics are served, and how long a model may take for a batch
    before it counts as unhealthy."""

    address: str
    port: int
    healthy_within: Duration


def find_directory(options: Options) -> Path:
    """The project's directory: the given one, or else the nearest one that is a
    project, from the current directory upwards."""
    from lakesql.project.files import find_project

    return (
        options.project_dir.absolute()
        if options.project_dir is not None
        else find_project(Path.cwd())
    )


def find_outputs(options: Options) -> Outputs:
    """The folders that a command writes files to, such as `target/` and `logs/`."""
    from lakesql.project.files import outputs_of

    return outputs_of(find_directory(options), options.target_path, options.log_path)


class Given:
    """The common options, collected while the command line is being parsed: they may be
    given before or after the command's name."""

    def __init__(self) -> None:
        self.options = Options()

    def keep(
        self, context: click.Context, parameter: click.Parameter, value: Any
    ) -> None:
        """Store the value of one option. An option after the command's name wins over
        one before it, and the command line wins over the environment."""
        source = context.get_parameter_source(str(parameter.name))
        is_first = context.parent is None
        if source is ParameterSource.COMMANDLINE or (
            source is ParameterSource.ENVIRONMENT and is_first
        ):
            self.options = replace(self.options, **{str(parameter.name): value})


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether a command line that cannot be parsed has `--log-format json`: then its
    error is written as a line of JSON."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    words = [word for first, word in pairs if first == "--log-format"]
    words += [
        argument.partition("=")[2]
        for argument in arguments
        if argument.startswith("--log-format=")
    ]
    return "json" in words


def common_options() -> list[click.Parameter]:
    """The common options, as new objects for each command. `Given.keep` stores their
    values."""
    word, directory = Filled(str), Filled(click.Path(file_okay=False, path_type=Path))
    return [
        _common(
            ["--target", "-t"],
            "TARGET",
            "Target of profiles.yml, if not the default one.",
            word,
        ),
        _common(
            ["--project-dir"],
            "DIR",
            "The project's folder, if not this one or one above it.",
            directory,
        ),
        _common(
            ["--profiles-dir"],
            "DIR",
            "Folder of profiles.yml, if not the project's or ~/.lakesql.",
            directory,
        ),
        _common(
            ["--target-path"],
            "DIR",
            "Folder of compiled files and results, if not the project's target/.",
            directory,
        ),
        _common(
            ["--log-path"],
            "DIR",
            "Folder of logs, if not the project's logs/.",
            directory,
        ),
        _common(["--vars"], "YAML", "Variables, such as '{big_order: 100}'."),
        _common(
            ["--log-format"],
            None,
            "Format of events and errors.",
            click.Choice(["text", "json"]),
        ),
        _common(["--debug"], None, "Show the stack trace of an error.", flag=True),
    ]


def _common(
    names: list[str],
    metavar: str | None,
    text: str,
    kind: click.ParamType[Any] | None = None,
    flag: bool = False,
) -> click.Option:
    variable = "LAKESQL_" + names[0].removeprefix("--").replace("-", "_").upper()
    return click.Option(
        names,
        metavar=metavar,
        type=kind,
        help=text,
        is_flag=flag or None,  # False would let an option stand without its value
        envvar=variable,
        # eager, so that errors of later options are written in this --log-format
        is_eager=True,
        expose_value=False,
        callback=_keep,
    )


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.ensure_object(Given).keep(context, parameter, value)


class Filled(click.ParamType[Any]):
    """A click type that refuses an empty value, such as that of a variable which a
    script has not set; `kind` converts the others."""

    def __init__(self, kind: Any) -> None:
        self.kind = click.types.convert_type(kind)
        self.name = self.kind.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """The value as `kind` converts it. Fails if it is empty."""
        if value == "":
            self.fail("it is empty.", param, ctx)
        return self.kind.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The completions of `kind`."""
        offered: list[CompletionItem] = self.kind.shell_complete(ctx, param, incomplete)
        return offered


class Command(click.Command):
    """A command with the common options, and with options that take several values:
    `--select a b --exclude c d`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.common = common_options()
        self.params = [*self.params, *self.common]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, after the name of an option of several values has
        been repeated before each of its values."""
        several = {
            name
            for option in self.params
            if isinstance(option, Several)
            for name in option.opts
        }
        expanded = list(expand_several(args, several))
        ctx.meta["lakesql.arguments"] = tuple(expanded)
        return super().parse_args(ctx, expanded)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the command's own options to its help, then the common ones."""
        own = [option for option in self.get_params(ctx) if option not in self.common]
        write_options("Options", own, ctx, formatter)
        write_options(COMMON_TITLE, self.common, ctx, formatter)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """The completions of the next word: further values if the last option takes
        several."""
        before = ctx.meta.get("lakesql.arguments", ())
        for option in self.params:
            if (
                isinstance(option, Several)
                and len(before) > 1
                and before[-2] in option.opts
                and incomplete[:1] != "-"
            ):
                return option.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


def write_options(
    title: str,
    parameters: Sequence[click.Parameter],
    context: click.Context,
    formatter: click.HelpFormatter,
) -> None:
    """Write a section that lists options to the help."""
    options = [
        parameter for parameter in parameters if isinstance(parameter, click.Option)
    ]
    rows = [
        row
        for option in options
        if (row := option.get_help_record(context)) is not None
    ]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


class Several(click.Option):
    """An option that takes all words up to the next option, as dbt's `--select` does,
    and may be repeated."""


def expand_several(arguments: Sequence[str], several: set[str]) -> Iterator[str]:
    """The arguments with `--select a b` written as `--select a --select b`, for the
    options in `several`."""
    open_option, has_value = "", False
    for position, argument in enumerate(arguments):
        if argument == "--":
            yield from arguments[position:]
            return
        if argument.startswith("-"):
            name, equals, _ = argument.partition("=")
            open_option, has_value = (
                (name, bool(equals)) if name in several else ("", False)
            )
        elif open_option:
            if has_value:
                yield open_option
            has_value = True
        yield argument


engine_option = click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="Engine of the tests. With duckdb, data tests that need Spark still run on Spark; unit tests do not.",
)
"""Decorator that gives a command which runs tests the option `--engine`."""


def select_options(function: F) -> F:
    """Decorator that gives a command `--select` and `--exclude`, as arguments; and
    `--selector`, `--state` and `--against`, whose values are in `Options`."""
    directory = Filled(click.Path(file_okay=False, path_type=Path))
    kept: tuple[tuple[str, str, str, click.ParamType[Any]], ...] = (
        (
            "--state",
            "DIR",
            "Folder of a manifest.json to compare with, and of the run_results.json of result:.",
            directory,
        ),
        (
            "--against",
            "REF",
            "Commit to compare with: a branch, a tag, a hash.",
            Filled(str),
        ),
        (
            "--selector",
            "NAME",
            "Selector of selectors.yml whose selection is added. May be repeated.",
            Filled(str),
        ),
    )
    for name, metavar, text, kind in kept:
        several = name == "--selector"
        option = click.option(
            name,
            metavar=metavar,
            type=kind,
            help=text,
            multiple=several,
            expose_value=False,
            callback=_keep,
        )
        function = option(function)
    options = (
        (["--exclude"], "Words that exclude nodes, as those of --select."),
        (
            ["--select", "-s"],
            "Words that select nodes; everything if left out. `lakesql --help` lists them.",
        ),
    )
    for names, text in options:
        option = click.option(
            *names,
            cls=Several,
            multiple=True,
            metavar="WORDS…",
            help=text,
            shell_complete=complete_models,
        )
        function = option(function)
    return function


def defer_options(function: F) -> F:
    """Decorator that gives a command `--defer` and `--favor-state`, whose values are in
    `Options`."""
    for name, text in (
        (
            "--favor-state",
            "With --defer: read the tables of --state even where this target has its own.",
        ),
        (
            "--defer",
            "For ref of a model that is not selected and has no table in this target, read the table of --state.",
        ),
    ):
        function = click.option(
            name, is_flag=True, help=text, expose_value=False, callback=_keep
        )(function)
    return function


def read_interval(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> Duration:
    """The duration given as an option's value, in the syntax of project files. Raises
    `BadParameter` if it is not a duration."""
    from lakesql.decode import node_of
    from lakesql.errors import Place
    from lakesql.project.duration import parse_duration

    try:
        return parse_duration(node_of(text, Place("")))
    except LakesqlError:
        raise click.BadParameter(
            f"'{text}' is not an interval, such as '15 minutes'."
        ) from None


def complete_models(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completions for names of models and seeds that begin with `incomplete`, taken
    from file names: nothing is parsed."""
    from lakesql.project.files import SEED_SUFFIX, find_files, read_text
    from lakesql.project.settings import SETTINGS_FILE, parse_settings

    directory = find_directory(context.ensure_object(Given).options)
    try:
        paths = parse_settings(
            SETTINGS_FILE, read_text(directory / SETTINGS_FILE, SETTINGS_FILE)
        ).paths
        files = (
            *find_files(directory, paths.models, (".sql",)),
            *find_files(directory, paths.seeds, (SEED_SUFFIX,)),
        )
        names = sorted({path.stem for path in files})
    except (OSError, LakesqlError):  # completes nothing; a command will say why
        return []
    operators = incomplete[: len(incomplete) - len(incomplete.lstrip("+@"))]
    return [
        CompletionItem(operators + name)
        for name in names
        if (operators + name).startswith(incomplete)
    ]
