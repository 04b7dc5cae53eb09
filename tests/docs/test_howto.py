"""The command lines in the docs can be read: each command, option and selector word
exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from docs.readme import README
from lakesql.cli.init import write_empty_project, write_project
from lakesql.cli.main import cli, run_command
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import UsageError
from lakesql.graph.selector import parse_selection

PAGES = [README, *sorted((README.parent / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```(?:sh|bash|console|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def command_lines(text: str) -> list[list[str]]:
    """The arguments of each `lakesql …` in the fenced blocks, without what the shell
    makes of the line besides."""
    found = []
    for block in BLOCK.findall(text):
        for part in re.split(r"\n| && ", block):
            if "lakesql" not in part:
                continue  # what a command says may be no words of a shell
            words = shlex.split(
                re.split(r"  +", part.removeprefix("$ "))[0], comments=True
            )
            if words[:1] == ["lakesql"]:
                found.append(words[1:])
    return found


def test_a_project_that_begins_empty_becomes_that_of_the_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its connection, stream, model, records and tests as the page has them."""
    page = (README.parent / "docs" / "quickstart.md").read_text("utf-8")
    connection, stream, model, records, tests = re.findall(
        r"^```(?:yaml|sql|json)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    write_empty_project(tmp_path, "shop")
    files = {
        "profiles.yml": re.sub(
            "      connections: .*\n",
            connection,
            (tmp_path / "profiles.yml").read_text(),
        ),
        "streams/payments.yml": stream,
        "models/payments.sql": model,
        "streams/recorded/shop.payments/part-00001.jsonl": records,
        "models/payments.yml": tests,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run_command(["compile", "--select", "payments"]) == 0
    assert run_command(["test", "--unit"]) == 0
    commit = re.search(r"^git init .*$", page, re.MULTILINE)
    assert commit is not None
    environ = {
        **os.environ,
        **{
            f"GIT_{who}_{what}": "x"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    subprocess.run(
        commit[0], shell=True, check=True, env=environ, stdout=subprocess.DEVNULL
    )
    (tmp_path / "models/payments.sql").write_text(model + "WHERE order_id > 0\n")
    capsys.readouterr()
    assert run_command(["plan", "--output", "json"]) == 0
    planned = json.loads(capsys.readouterr().out)["models"]
    assert [(each["name"], each["verdict"]) for each in planned] == [
        ("payments", "next-batch")
    ]
    run_command(["debug", "--log-format", "json"])
    checks = {
        line["check"]: line
        for line in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert checks["models"]["ok"] and checks["connection shop"]["ok"]
    assert (
        checks["connection shop"]["found"] and not checks["connection shop"]["warnings"]
    )


@pytest.mark.parametrize("given", ["recorded", "kafka"])
def test_an_empty_project_shows_connections_that_are_ones(
    tmp_path: Path, given: str
) -> None:
    write_empty_project(tmp_path, "shop")
    text = (tmp_path / "profiles.yml").read_text()
    (example,) = re.findall(rf"{{type: {given},.*?}}", text)
    (tmp_path / "profiles.yml").write_text(
        text.replace("connections: {}", f"connections: {{shop: {example}}}")
    )
    assert load_project(Options(project_dir=tmp_path)).target.connections["shop"]


def read(arguments: list[str]) -> click.Context:
    """The command line as click reads it; nothing is run. Raises for what is not
    there."""
    context = cli.make_context("lakesql", list(arguments))
    _, command, rest = cli.resolve_command(
        context, [*context._protected_args, *context.args]
    )
    assert command is not None
    return command.make_context(command.name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_there(page: Path) -> None:
    for arguments in command_lines(page.read_text("utf-8")):
        parameters = read(arguments).params
        if "select" in parameters:
            parse_selection(parameters["select"], parameters["exclude"])


def test_what_is_not_there_is_found() -> None:
    text = "```sh\nmake && lakesql rebuild orders --now   # at once\n$ lakesql rebuidl orders\nlakesql drop\n```\n"
    lines = command_lines(text)
    assert lines == [["rebuild", "orders", "--now"], ["rebuidl", "orders"], ["drop"]]
    for wrong in lines:
        with pytest.raises((click.UsageError, UsageError)):
            read(wrong)


def test_the_review_sees_changed_new_and_removed_models_and_nothing_else(
    tmp_path: Path,
) -> None:
    text = (README.parent / "docs" / "howto.md").read_text("utf-8")
    (recipe,) = [block for block in BLOCK.findall(text) if "--output-dir" in block]
    script = recipe.replace("lakesql", f"{shlex.quote(sys.executable)} -m lakesql")
    write_project(tmp_path / "shop", "shop")
    models = tmp_path / "shop" / "models"
    (models / "shop.yml").unlink()

    def is_reviewed() -> bool:
        environ = {**os.environ, "PYTHONPATH": str(README.parent)}
        done = subprocess.run(
            script,
            shell=True,
            cwd=tmp_path / "shop",
            env=environ,
            stdout=subprocess.DEVNULL,
        )
        return done.returncode == 0

    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "shop", check=True)
    commit = (
        "git -c user.name=a -c user.email=a@example.org commit -q --no-gpg-sign -m x"
    )
    assert not is_reviewed()
    subprocess.run(shlex.split(commit), cwd=tmp_path / "shop", check=True)
    assert is_reviewed()
    model, text = models / "checkouts.sql", (models / "checkouts.sql").read_text()
    for edited, expected in (
        (text + " ", True),
        (text.replace("/checkout", "/paid"), False),
        (text, True),
        ("", False),
    ):
        model.write_text(edited) if edited else model.unlink()
        assert is_reviewed() is expected
    model.write_text(text)
    (models / "more.sql").write_text(text)
    assert not is_reviewed()


def test_each_task_has_a_heading_and_its_commands() -> None:
    text = (README.parent / "docs" / "howto.md").read_text("utf-8")
    tasks = {task.split("\n")[0]: task for task in text.split("\n## … ")[1:]}
    wanted = (
        "backfill",
        "drop",
        "rename",
        "key",
        "late",
        "environments",
        "scheduler",
        "container",
        "review",
        "dbt",
    )
    for word in wanted:
        (task,) = [
            task
            for heading, task in tasks.items()
            if re.search(rf"\b{word}\b", heading)
        ]
        assert command_lines(task) or "`lakesql " in task, word
