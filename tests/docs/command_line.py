"""Command lines that files of the docs have, as lakesql's own command reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from docs.readme import README
from lakesql.cli.main import cli, run_command
from lakesql.cli.options import Given

MODEL = "{{ config(mode='append', tags=['report']) }}\nSELECT id FROM {{ stream('orders') }}\n"
FILES = {
    "pyproject.toml": '[tool.lakesql]\nname = "p"\nprofile = "p"\n',
    "models/orders.sql": MODEL,
    "models/orders.yml": "models: [{name: orders, freshness: {error_after: 1 hour}}]\n",
    "streams/orders.yml": "streams: [{name: orders, connection: c, topic: orders, columns: {id: bigint}}]\n",
    "profiles.yml": """\
p:
  outputs:
    prod:
      catalog: {name: lake, type: sql, uri: "sqlite:///catalog.db", warehouse: warehouse}
      namespace: p
      checkpoints: checkpoints
      connections: {c: {type: recorded, path: recorded}}
""",
}


def read_command(arguments: Sequence[str]) -> str:
    """The name of the command, all of whose options are known and have values that they
    take. Nothing is run."""
    name, *options = arguments
    context = click.Context(cli, info_name="lakesql", obj=Given())
    command = cli.get_command(context, name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, options, parent=context)
    return name


def write_project(directory: Path) -> None:
    """One model, a report, whose table is not there and may be an hour old; on a target
    `prod`."""
    for name, text in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def exit_code(arguments: Sequence[str], project: Path) -> int:
    """What the command ends with, in the folder of a project."""
    return run_command(["--project-dir", str(project), *arguments])


def lakesql(directory: Path, *arguments: str) -> str:
    """What a command prints that runs in a process of its own; it must succeed."""
    done = call(directory, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own comes to that runs a command in a folder, with nothing
    of the tests' own settings."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LAKESQL_")
    }
    environment.pop("COLUMNS", None)  # a terminal's, as wide as it may be
    if home := os.environ.get("LAKESQL_HOME"):
        environment["LAKESQL_HOME"] = home
    environment["PYTHONPATH"] = str(README.parent)
    return subprocess.run(
        [sys.executable, "-m", "lakesql", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
