"""What can be read of a project with errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesql.errors import ProjectError
from lakesql.graph.load_manifest import load_manifest
from lakesql.graph.manifest import Manifest
from lakesql.project.changed_files import with_buffers
from lakesql.project.files import ProjectFiles, read_project
from lakesql.project.profiles import load_target
from lakesql.run.manifest.part import read_part
from tests.lint.samples import lay

CARTS = "models/all_carts.sql"


def load(files: ProjectFiles) -> Manifest:
    return load_manifest(files, load_target("sample", None, [files.directory], {}), {})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("selectors.yml", "selectors: 1\n"),
        ("models/broken.sql", "{{ config("),
        ("streams/broken.yml", "streams: ["),
        ("macros/broken.sql", "{{ 1 }}"),
        ("tests/broken.sql", "SELECT 1"),
        ("seeds/broken.yml", "seeds: 1\n"),
    ],
)
def test_a_broken_file_of_any_kind_is_left_out(
    path: str, text: str, tmp_path: Path
) -> None:
    part = read_part(read_project(lay(tmp_path, {path: text})), load)
    assert part.manifest is not None and CARTS in {
        model.path for model in part.manifest.models.values()
    }
    assert part.left_out == (path,)
    assert {problem.place.path for problem in part.problems if problem.place} == {path}


def test_a_former_text_stands_for_one_that_cannot_be_read(tmp_path: Path) -> None:
    files = read_project(lay(tmp_path))
    former = files.texts
    broken = with_buffers(files, {CARTS: "SELECT {{"})
    with pytest.raises(ProjectError):
        load(broken)
    part = read_part(broken, load, former)
    assert part.manifest is not None and part.left_out == ()
    assert part.manifest.models["all_carts"].source == former[CARTS]
    assert [problem.condition for problem in part.problems] == ["template-syntax"]


def test_a_former_text_that_cannot_be_read_now_is_left_out_too(tmp_path: Path) -> None:
    files = with_buffers(read_project(lay(tmp_path)), {CARTS: "SELECT {{"})
    part = read_part(files, load, {CARTS: "SELECT {%"})
    assert part.manifest is not None and part.left_out == (CARTS,)


def test_a_text_of_no_folder_of_the_project_is_none_of_its_files(
    tmp_path: Path,
) -> None:
    files = read_project(lay(tmp_path))
    texts = {
        "elsewhere/a.sql": "SELECT",
        "models/.hidden/a.sql": "SELECT",
        "models/a.txt": "SELECT",
    }
    assert with_buffers(files, texts) == files
    added = with_buffers(files, {"models/new.sql": "SELECT 1"})
    assert "models/new.sql" in {file.path for file in added.models}
