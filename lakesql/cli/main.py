"""The command `lakesql`: which commands exist, and how each of them ends.

Nothing heavy is imported here, so that `lakesql --help` answers at once; each command
imports what it needs inside.
"""

from __future__ import annotations

import codecs
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn, cast

import click

from lakesql import __version__
from lakesql.cli.options import (
    COMMON_TITLE,
    Given,
    asks_for_json,
    common_options,
    write_options,
)
from lakesql.cli.report import report_error
from lakesql.errors import UsageError
from lakesql.secrets import find_secrets, guard
from lakesql.words import answer, suggest

COMMANDS = {
    "init": "Create a project in DIR: a small shop that is ready to run.",
    "debug": "Check everything that a run needs.",
    "parse": "Check every file of the project and write target/manifest.json.",
    "ls": "List models, streams and seeds, each after those it reads.",
    "compile": "Write and print the SQL that models run.",
    "lineage": "Show the columns that a column depends on, through all models, and those that depend on it.",
    "docs": "Make a site of the project: its lineage down to columns, and a page for each model and stream.",
    "lint": "Find code in the project that is valid, but likely a mistake.",
    "lsp": "Serve an editor: diagnostics of `parse` and `lint`, completion, docs, definitions and renames.",
    "mcp": "Answer an assistant's questions about the project, by the Model Context Protocol over stdin and stdout.",
    "plan": "Show what a change does to tables and streams, before it is run.",
    "test": "Run unit tests of models, and data tests of their tables.",
    "seed": "Fill the tables of seeds whose files or contracts have changed.",
    "run": "Run models: read new records of their streams, and write them to their tables.",
    "build": "Run models and their tests: unit tests before a model, data tests of its table after it.",
    "show": "Show rows of a model's table, in no particular order.",
    "status": "Show the state of models' tables: freshness, files, deletes, uncompacted data.",
    "freshness": "Check tables against the `freshness` of their models' properties.",
    "forecast": "Forecast commits, files, snapshots and metadata of tables, for the model's trigger and for others.",
    "infer": "Write a stream's contract from samples of files or of a topic, for review.",
    "record": "Record a sample of a stream's topics, to run models without the broker.",
    "schema": "Write schemas of registries and feeds into the project: `lakesql schema pull`.",
    "maintain": "Maintain the tables of models: their own, their dead letters, and their remembered deleted keys.",
    "replay": "Read a model's dead letters again, through the model and its streams as they are now.",
    "rewind": "Make a model continue from another position.",
    "rename": "Let a renamed model continue with its table, its ledger and its checkpoint.",
    "rebuild": "Fill tables again from their streams, and replace their rows in one commit.",
    "drop": "Remove a model's table, dead letters, checkpoints and lease.",
    "clean": "Remove lakesql's own files from target/ and logs/.",
}
"""A sentence on each command for the list of `lakesql --help`: the first sentence of
the command's own help."""

REMOVING = ("rebuild", "drop", "clean")
"""Commands that remove or replace data: they are never suggested for a mistyped word,
as somebody might run them unawares."""

_GARBAGE_AFTER = 50_000
"""Garbage is searched for after so many new objects: Python's own 700 are too few."""

COMMON = common_options()

EPILOG = """\b
Selecting models, as in dbt:
  orders, report*       by name            path:models/reports  by folder or file
  +orders, orders+      with what it       tag:web              by tag
  2+orders+1, @orders   reads, what reads  config.mode:upsert   by any option
  a,b                   selected by both   stream:orders        a stream
  "a b"                 selected by either stream:orders+       all that reads it
  state:modified+       what has changed   result:error         what has failed
                        (--state DIR,                           (of the run before,
                        --against REF)                          or of --state DIR)

\b
Completion with Tab: add the line for your shell to its start-up file.
  bash  eval "$(_LAKESQL_COMPLETE=bash_source lakesql)"
  zsh   eval "$(_LAKESQL_COMPLETE=zsh_source lakesql)"
  fish  _LAKESQL_COMPLETE=fish_source lakesql | source

\b
Exit codes: 0 fine, 1 a model failed, `lint` found something or a service did not respond, 2 the project or the
command line is wrong, 3 --fail-on (plan, test).
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line `arguments`, by default this process's, and exit. Secrets
    are masked in everything that is printed."""
    _open_outputs()
    _guard_outputs()
    # most of what a command makes stays to its end: modules, and what files declare
    gc.set_threshold(_GARBAGE_AFTER)
    sys.exit(run_command(sys.argv[1:] if arguments is None else arguments))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. All errors have been reported by
    then."""
    given, stdout = Given(), sys.stdout
    try:
        # If an environment variable tells that the shell asks for completions, this
        # prints them and exits.
        code = cli.main(
            list(arguments), prog_name="lakesql", standalone_mode=False, obj=given
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        # An option unknown to click ends parsing before --log-format is stored.
        options = (
            replace(given.options, log_format="json")
            if asks_for_json(arguments)
            else given.options
        )
        return report_error(_usage_error(error), options)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return _end_unread()
    except SystemExit:
        if sys.stdout is stdout:
            raise
        # click has handled the broken pipe itself: it has replaced stdout and exits
        # with an error
        return _end_unread()
    except Exception as error:
        return report_error(error, given.options)


def _end_unread() -> int:
    """0, after stdout is redirected to nowhere: its reader has closed it, and Python
    would try to flush the rest when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _open_outputs() -> None:
    """Make sure that any text can be printed: stdout may be missing, or may not encode
    every character."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  open as long as the process
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # click replaces an ASCII output by its own, and would bypass the masking of
        # secrets
        is_ascii = codecs.lookup(sys.stdout.encoding).name == "ascii"
        sys.stdout.reconfigure(
            encoding="utf-8" if is_ascii else None, errors="backslashreplace"
        )


def _guard_outputs() -> None:
    """Mask secrets in whatever is printed: by lakesql, as a library's warning, or as a
    stack trace."""
    secrets = find_secrets(os.environ)
    if not secrets:
        return
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            setattr(sys, name, guard(stream, secrets))


class LazyGroup(click.Group):
    """The commands of `COMMANDS` as a click group. The module of a command is imported
    only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        return cast("click.Command", import_module(f"lakesql.cli.{cmd_name}").command)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the list of commands to the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the list of commands to the help, as readers look for it first, then
        the options."""
        self.format_commands(ctx, formatter)
        write_options(
            "Options",
            [option for option in self.get_params(ctx) if option not in COMMON],
            ctx,
            formatter,
        )
        write_options(COMMON_TITLE, COMMON, ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with. Raises a `UsageError` that suggests the
        nearest one if there is none."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            harmless = [name for name in COMMANDS if name not in REMOVING]
            fix = suggest("command", args[0], harmless)
            raise UsageError.of("usage", f"There is no command '{args[0]}'.", fix=fix)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    params=[*COMMON],
    epilog=EPILOG,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, "--version", "-V", message="lakesql %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """SQL models that keep Apache Iceberg tables fresh from streams, exactly once."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "lakesql"
    said = (
        answer("option", error.option_name)
        if isinstance(error, click.NoSuchOption)
        else ""
    )
    return UsageError.of(
        "usage",
        error.format_message(),
        fix=said or f"`{path} --help` shows what there is.",
    )
