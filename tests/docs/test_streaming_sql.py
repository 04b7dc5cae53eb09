"""What streaming-sql.md says of a SELECT is what the compiler says of it, and its unit
tests pass on Spark."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.readme import README
from lakesql.cli.main import run_command
from lakesql.conditions import CONDITIONS
from tests.docs.command_line import lakesql

PAGE = README.parent / "docs" / "streaming-sql.md"
PROJECT = README.parent / "docs" / "pictures" / "project"
BLOCK = re.compile(r"^( *)```(sql|yaml|text)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CONFIG = "{{ config("


@dataclass(frozen=True, slots=True)
class Said:
    """A SELECT of the page: its file, the condition that it is refused with, if any,
    and lines of its header."""

    name: str
    sql: str
    refused: str
    header: tuple[str, ...]


def read_page() -> tuple[list[Said], str, str]:
    """The SELECTs, the streams and the unit tests of the page."""
    blocks = [
        (kind, textwrap.dedent(text))
        for _, kind, text in BLOCK.findall(PAGE.read_text("utf-8"))
    ]
    streams, tests = (text for kind, text in blocks if kind == "yaml")
    found = []
    for at, (kind, text) in enumerate(blocks):
        if kind != "sql":
            continue
        named = re.match(r"-- models/(\w+)\.sql\n", text)
        refused = re.match(r"-- refused: (\S+)\n", text)
        header = blocks[at + 1][1].splitlines() if blocks[at + 1][0] == "text" else []
        name = named[1] if named else f"select_{at}"
        found.append(
            Said(
                name,
                text[text.index(CONFIG) :],
                refused[1] if refused else "",
                tuple(header),
            )
        )
    return found, streams, tests


SELECTS, STREAMS, TESTS = read_page()


def write_project(folder: Path, selects: list[Said]) -> None:
    for name in ("pyproject.toml", "profiles.yml"):
        shutil.copy(PROJECT / name, folder)
    for name in ("models", "streams"):
        (folder / name).mkdir()
    (folder / "streams/streams.yml").write_text(STREAMS, "utf-8")
    for said in selects:
        (folder / f"models/{said.name}.sql").write_text(said.sql, "utf-8")


@pytest.mark.parametrize("said", SELECTS, ids=lambda said: said.refused or said.name)
def test_a_select_of_the_page_is_what_the_page_says_of_it(
    said: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    others = [
        each for each in SELECTS if each.name in re.findall(r"ref\('(\w+)'\)", said.sql)
    ]
    write_project(tmp_path, [*others, said])
    monkeypatch.chdir(tmp_path)
    code = run_command(["compile", "--select", said.name, "--log-format", "json"])
    lines = [
        json.loads(line)
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("{")
    ]
    conditions = {line["condition"] for line in lines if line["event"] == "problem"}
    assert (code, conditions) == ((2, {said.refused}) if said.refused else (0, set()))
    if not said.refused:
        (compiled,) = (tmp_path / "target/compiled").rglob(f"{said.name}.sql")
        header = re.sub(r"\n--   ", " ", compiled.read_text("utf-8").split("\n\n")[0])
        assert {f"-- {line}" for line in said.header} <= set(header.splitlines())


def test_the_page_has_what_it_is_about() -> None:
    assert len([said for said in SELECTS if not said.refused]) > 15
    named = set(re.findall(r"errors\.md#([\w-]+)", PAGE.read_text("utf-8")))
    assert named <= {said.refused for said in SELECTS} and named <= CONDITIONS.keys()


@pytest.mark.spark
def test_the_unit_tests_of_the_page_pass(tmp_path: Path) -> None:
    write_project(
        tmp_path, [said for said in SELECTS if f"model: {said.name}\n" in TESTS]
    )
    (tmp_path / "models/tests.yml").write_text(TESTS, "utf-8")
    tests = json.loads(
        lakesql(tmp_path, "test", "--unit", "--engine", "spark", "--output", "json")
    )["tests"]
    assert [test["outcome"] for test in tests] == ["passed"] * TESTS.count("  - name: ")
