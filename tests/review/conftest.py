from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.review import load_new
from lakesql.project.files import read_project
from tests.review.corpus import FOLDER


@pytest.fixture(scope="session")
def unedited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with what its compiling has kept."""
    directory = tmp_path_factory.mktemp("unedited")
    shutil.copytree(FOLDER / "project", directory, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        load_new(Options(project_dir=directory), read_project(directory))
    return directory


@pytest.fixture
def project(unedited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(unedited, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
