from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.review import load_new
from lakesql.project.files import read_project
from tests.review.corpus import FOLDER, project_of


@pytest.fixture(scope="session")
def unedited(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A project of the corpus by its folder, with what its compiling has kept."""

    @cache
    def unedited(folder: Path) -> Path:
        directory = tmp_path_factory.mktemp("unedited")
        shutil.copytree(folder, directory, dirs_exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(directory)
            load_new(Options(project_dir=directory), read_project(directory))
        return directory

    return unedited


@pytest.fixture
def project(
    unedited: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Path:
    """The project of the test's case, or the shop, to be edited; the working directory
    is in it."""
    case = (
        request.node.callspec.params.get("path")
        if hasattr(request.node, "callspec")
        else None
    )
    folder = project_of(case) if isinstance(case, Path) else FOLDER / "project"
    shutil.copytree(unedited(folder), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
