"""A mode is one value and its statements: the type checker says so of a mode that is added here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DECLARED = '''
@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNew(TableConfig):
    """`mode='insert_new'`: a row is inserted where its key is not there."""

    keys: tuple[str, ...] = option("Columns that identify a row.", read=_read_keys)


Config = {modes} | InsertNew
MODES: Mapping[str, type[Config]] = {{{words}, "insert_new": InsertNew}}
'''

MEANT = """        case InsertNew(keys=keys):
            return Writing(
                mode="insert_new",
                keys=keys,
                not_null=keys,
                compared={"keys": keys},
                is_positioned=False,
                output_mode="append",
                can_replay=False,
                is_idempotent=True,
                can_be_streamed=True,
                empty_when="no rows added",
            )
"""

WRITTEN = """        case InsertNew(keys=keys):
            names = ", ".join(keys)
            unknown = f"({names}) NOT IN (SELECT {names} FROM {table})"
            insert = f"INSERT INTO {table} SELECT * FROM {ROWS_VIEW} WHERE {unknown}"
            return *rows, Write(COMMIT, Bounded((insert,), ()))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which the mode is declared, and no more."""
    directory = tmp_path_factory.mktemp("mode")
    shutil.copytree(ROOT / "lakesql", directory / "lakesql", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", directory)
    config = directory / "lakesql" / "model" / "config.py"
    declared = re.compile(r"\nConfig = (?P<modes>.+)\nMODES: .+ = \{(?P<words>.+)\}\n")
    text, count = declared.subn(lambda found: DECLARED.format_map(found.groupdict()), config.read_text())
    assert count == 1
    config.write_text(text)
    return directory


def check_types(package: Path) -> set[str]:
    """The files in which the type checker finds an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(package / "cache")],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )
    found = set(re.findall(r"^(lakesql/\S+?):\d+: error: ", done.stdout, flags=re.MULTILINE))
    assert done.returncode == (1 if found else 0), done.stdout + done.stderr
    return found


def add_case(file: Path, case: str) -> None:
    text = file.read_text().replace("Append, ", "Append, InsertNew, ", 1) if "Append, " in file.read_text() else ""
    before, last, after = text.rpartition("        case _:\n            assert_never(config)\n")
    assert last
    file.write_text(f"{before}{case}{last}{after}")


def test_a_new_mode_needs_what_it_means_and_its_statements_and_nothing_else(package: Path, tmp_path: Path) -> None:
    assert check_types(package) == {"lakesql/compile/batch.py", "lakesql/model/writing.py"}
    add_case(package / "lakesql" / "model" / "writing.py", MEANT)
    assert check_types(package) == {"lakesql/compile/batch.py"}
    add_case(package / "lakesql" / "compile" / "batch.py", WRITTEN)
    assert check_types(package) == set()

    for name in ("models", "streams", "macros"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("recorded"))
    for name in ("profiles.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    model = "{{ config(mode='insert_new', keys=['view_id']) }}\nSELECT * FROM {{ stream('clicks') }}\n"
    (tmp_path / "models" / "first_clicks.sql").write_text(model)
    done = subprocess.run(
        [sys.executable, "-m", "lakesql", "compile", "--select", "first_clicks"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WHERE (view_id) NOT IN (SELECT view_id FROM lake.shop.first_clicks);" in done.stdout
