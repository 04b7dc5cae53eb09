"""The README and the docs show what lakesql prints, and the README's commands do what
it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from docs.readme import README, fenced
from lakesql import __version__
from tests.docs.command_line import call, lakesql

ROOT = README.parent
PYTEST = ".venv/bin/pytest -n auto --dist loadfile"
PROJECT = ("models", "streams", "macros", "profiles.yml", "pyproject.toml")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A copy of the repository's project: a run of the tests leaves nothing in the
    tree."""
    for name in PROJECT:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    return tmp_path


def commands() -> list[list[str]]:
    """The parts of the two set-up lines, each as its words."""
    return [
        [shlex.join(shlex.split(part)) for part in line.strip().split(" && ")]
        for line in fenced("bash")
    ]


def sections(sql: str) -> list[str]:
    """The sections of a compiled file, each a comment and its statements."""
    return [part.strip() for part in re.split(r"\n\n(?=-- )", sql.strip())]


def test_the_model_is_the_repository_s() -> None:
    model, compiled = fenced("sql")
    assert model == (ROOT / "models" / "orders.sql").read_text("utf-8")
    assert compiled


def test_the_sql_shown_is_a_choice_of_the_compilers_sections(shop: Path) -> None:
    shown = sections(fenced("sql")[1])
    compiled = sections(lakesql(shop, "compile", "--select", "orders"))
    assert [section for section in compiled if section in shown] == shown
    assert any("MERGE INTO lake.shop.orders" in section for section in shown)


def test_set_up_is_two_lines() -> None:
    assert [len(block.strip().splitlines()) for block in fenced("bash")] == [1, 1]
    first, second = commands()
    assert first[:2] == [
        "python3 -m venv .venv",
        ".venv/bin/pip install -q '.[spark,java]'",
    ]
    assert second == [
        "python3 -m venv .venv",
        ".venv/bin/pip install -q '.[test]'",
        PYTEST,
    ]


def test_the_extras_that_it_installs_exist() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = {
        name for line in fenced("bash") for name in re.findall(r"\[(\w+)\]", line)
    }
    assert extras
    assert extras <= set(settings["project"]["optional-dependencies"])


def test_the_error_in_the_docs_is_the_one_that_compile_prints(shop: Path) -> None:
    shown = re.findall(
        r"^```text\n(error\[.*?)^```$",
        (ROOT / "docs" / "errors.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    model = shop / "models" / "orders.sql"
    model.write_text(model.read_text().replace("trigger=", "triger="))
    done = call(shop, "compile")
    assert (done.returncode, [done.stderr]) == (2, shown)


def test_the_changelog_has_this_version() -> None:
    headings = re.findall(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert headings[0] == __version__


@pytest.mark.spark
def test_the_first_line_runs_the_shop_and_again_does_nothing(shop: Path) -> None:
    run, show = [shlex.split(part)[1:] for part in commands()[0][2:]]
    lakesql(shop, *run)
    (first,) = results(shop)
    assert (first["name"], first["status"]) == ("orders", "success")
    assert first["rows"] > 0
    rows = lakesql(shop, *show).splitlines()
    limit = int(show[show.index("--limit") + 1])
    assert rows[0].split()[0] == "order_id"
    assert len(rows) == 2 + limit
    lakesql(shop, *run)
    (again,) = results(shop)
    assert (again["status"], again["batches"], again["rows"]) == ("success", 0, 0)


def results(directory: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        (directory / "target" / "run_results.json").read_text()
    )["results"]
    return found
