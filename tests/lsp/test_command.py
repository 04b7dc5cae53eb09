"""The command: what it needs, what others import of it, and the schemas that `init`
writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakesql.cli.init import write_empty_project, write_project
from lakesql.cli.main import run_command
from tests.cli.test_processes import ROOT, modules_of


def test_without_its_extra_the_command_says_which_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name
        for name in sys.modules
        if name.startswith(("pygls", "lsprotocol", "lakesql.lsp."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    assert run_command(["lsp"]) == 2
    said = capsys.readouterr().err
    assert "error[extra-missing]" in said and "pip install '.[lsp]'" in said


def test_no_other_command_imports_the_server(tmp_path: Path) -> None:
    write_project(tmp_path / "shop", "shop")
    for words in (["parse"], ["lint"], ["--help"]):
        assert not {
            name.partition(".")[0] for name in modules_of(words, tmp_path / "shop")
        } & {"pygls", "lsprotocol"}


def test_a_client_that_goes_away_ends_the_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakesql", "lsp"],
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("write", [write_project, write_empty_project])
def test_the_files_of_a_new_project_name_their_schemas_which_are_in_it(
    write: object, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    root.mkdir()
    write(root, "new")  # type: ignore[operator]
    named = [
        path
        for path in root.rglob("*")
        if path.suffix in (".yml", ".toml") and ".schemas" not in path.parts
    ]
    assert {"profiles.yml", "pyproject.toml"} <= {path.name for path in named}
    for path in named:
        first = path.read_text().splitlines()[0]
        _, found, schema = (
            first.partition("$schema=")
            if path.suffix == ".yml"
            else first.partition("#:schema ")
        )
        assert found, path
        assert json.loads((path.parent / schema).read_text())["title"]
    assert run_command(["parse", "--project-dir", str(root)]) == 0


def test_schemas_are_written_again_after_an_upgrade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path / "shop", "shop")
    old = tmp_path / "shop" / ".schemas" / "properties.json"
    fresh = old.read_text()
    old.write_text("{}")
    assert (
        run_command(["schema", "write", "--project-dir", str(tmp_path / "shop")]) == 0
    )
    assert ".schemas/profiles.json (unchanged)" in capsys.readouterr().out
    assert old.read_text() == fresh
    assert (
        run_command(
            ["schema", "write", "orders", "--project-dir", str(tmp_path / "shop")]
        )
        == 2
    )
    assert run_command(["schema", "write", "--project-dir", str(tmp_path)]) == 2
