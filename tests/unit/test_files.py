from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.report import read_line
from lakesql.errors import LakesqlError, Place, ProfileError, ProjectError, UsageError
from lakesql.project.files import (
    SourceFile,
    check_folder_of_tests,
    date_by_name,
    find_project,
    read_project,
    write_atomically,
)
from lakesql.project.settings import Paths

SETTINGS = "[tool.lakesql]\nname = 'shop'\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", {"pyproject.toml": SETTINGS})


def write(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def problems(caught: pytest.ExceptionInfo[LakesqlError]) -> list[tuple[str, str]]:
    return [
        (problem.condition, str(problem.place)) for problem in caught.value.problems
    ]


def test_files_are_found_by_folder_and_kind_in_the_order_of_their_paths(
    project: Path,
) -> None:
    write(
        project,
        {
            "models/b.sql": "B",
            "models/a/z.sql": "Z",
            "models/shop.yml": "y: 1",
            "models/deep/er/x.yaml": "x: 1",
            "models/readme.md": "no",
            "models/c.sql.bak": "no",
            "streams/s.yml": "s: 1",
            "streams/recorded/t/1.jsonl": "no",
            "macros/m.sql": "M",
            "elsewhere/e.sql": "no",
        },
    )
    files = read_project(project)
    assert files.models == (
        SourceFile("models/a/z.sql", "Z"),
        SourceFile("models/b.sql", "B"),
    )
    assert files.properties == (
        SourceFile("models/deep/er/x.yaml", "x: 1"),
        SourceFile("models/shop.yml", "y: 1"),
    )
    assert files.streams == (SourceFile("streams/s.yml", "s: 1"),)
    assert files.macros == (SourceFile("macros/m.sql", "M"),)
    assert files.settings.name == "shop"


def test_a_file_that_would_be_passed_over_is_refused(project: Path) -> None:
    tests = "version: 2\nunit_tests:\n  - {name: t, model: a, given: [], expect: {rows: []}}\n"
    files = {
        "models/a.SQL": "A",
        "models/a.Yml": "y: 1",
        "seeds/s.CSV": "id\n1\n",
        "macros/m.sql": "M",
    }
    write(
        project,
        {
            **files,
            "tests/t.yml": tests,
            "tests/compose.yml": "services: {}",
            "macros/m.yml": "macros: []",
        },
    )
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    places = ["models/a.SQL", "models/a.Yml", "seeds/s.CSV", "tests/t.yml"]
    assert sorted(problems(caught)) == [("unread-file", place) for place in places]
    for place in places:
        (project / place).unlink()
    assert read_project(project).macros == (SourceFile("macros/m.sql", "M"),)


def test_a_folder_of_the_settings_is_there(project: Path) -> None:
    paths = "models = 'modles'\nmacros = 'macros'\ntests = 'checks'\n"
    write(project, {"pyproject.toml": f"{SETTINGS}[tool.lakesql.paths]\n{paths}"})
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("unknown-folder", "pyproject.toml")]
    (project / "modles").mkdir()
    files = read_project(project)
    assert files.models == ()
    with pytest.raises(ProjectError) as caught:
        check_folder_of_tests(project, files.settings.paths)
    assert problems(caught) == [("unknown-folder", "pyproject.toml")]
    (project / "checks").mkdir()
    check_folder_of_tests(project, files.settings.paths)
    check_folder_of_tests(project, Paths())


def test_a_link_that_leads_to_nothing_is_refused(project: Path) -> None:
    write(project, {"models/a.sql": "A"})
    (project / "models/b.sql").symlink_to(project / "shared" / "b.sql")
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("unread-file", "models/b.sql")]


def test_hidden_files_and_folders_are_passed_over(project: Path) -> None:
    write(
        project,
        {
            "models/a.sql": "A",
            "models/._a.sql": b"\x00\xff",
            "models/.ipynb_checkpoints/a.sql": "B",
        },
    )
    write(
        project,
        {
            "streams/._s.yml": b"\xff",
            "macros/.m.sql": b"\xff",
            "models/.hidden/x.yml": b"\xff",
        },
    )
    files = read_project(project)
    assert files.models == (SourceFile("models/a.sql", "A"),)
    assert (files.streams, files.macros, files.properties) == ((), (), ())


def test_a_project_in_a_hidden_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / ".hidden", {"pyproject.toml": SETTINGS, "models/a.sql": "A"})
    assert read_project(tmp_path / ".hidden").models == (
        SourceFile("models/a.sql", "A"),
    )


LARGE = [
    "pyproject.toml",
    "models/a.sql",
    "models/a.yml",
    "streams/s.yml",
    "macros/m.sql",
    "tests/t.sql",
    "selectors.yml",
]


@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_is_refused_and_not_quoted_before_it_is_read(
    project: Path, name: str
) -> None:
    write(project, {name: b"[tool.lakesql]\n"})
    os.truncate(project / name, 1 << 40)  # a hole: nothing could read all of it
    assert find_project(project) == project
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("file-too-large", name)]
    assert read_line(Place(name, 1, 1), Options(project_dir=project)) is None
    assert read_line(Place(name), Options(project_dir=project)) is None


def test_an_empty_project_is_one(project: Path) -> None:
    files = read_project(project)
    assert (files.models, files.streams, files.macros, files.properties) == (
        (),
        (),
        (),
        (),
    )


def test_folders_are_those_of_the_settings(project: Path) -> None:
    write(
        project,
        {
            "pyproject.toml": SETTINGS + "paths.models = './sql/'\n",
            "sql/a.sql": "A",
            "models/b.sql": "B",
        },
    )
    assert read_project(project).models == (SourceFile("sql/a.sql", "A"),)


def test_a_byte_order_mark_is_no_text_and_line_ends_stay(project: Path) -> None:
    mark = "\ufeff"
    write(
        project,
        {
            "pyproject.toml": mark + SETTINGS,
            "models/a.sql": mark + "SELECT 1\r\nFROM x",
        },
    )
    assert read_project(project).models == (
        SourceFile("models/a.sql", "SELECT 1\r\nFROM x"),
    )


@pytest.mark.parametrize("name", ["pyproject.toml", "models/a.sql", "streams/s.yml"])
def test_a_file_that_is_not_utf8_is_named(project: Path, name: str) -> None:
    write(project, {name: b"a = '\xe4'"})
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("not-text", name)]


def test_a_directory_without_settings_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_project(tmp_path)
    assert problems(caught) == [("no-project", "None")]


def test_links_that_leave_the_project_are_refused(
    project: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"secret.sql": "SELECT 1", "folder/other.sql": "SELECT 2"})
    (project / "models").mkdir()
    (project / "models/a.sql").symlink_to(tmp_path / "secret.sql")
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("outside-project", "pyproject.toml")]

    (project / "models/a.sql").unlink()
    (project / "models").rmdir()
    (project / "models").symlink_to(tmp_path / "folder")
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("outside-project", "pyproject.toml")]


def test_links_inside_the_project_are_followed(project: Path) -> None:
    write(
        project,
        {
            "shared/a.sql": "A",
            "models/b.sql": "B",
            "other/c.sql": "C",
            "other/deep/c.yml": "c: 1",
        },
    )
    (project / "models/a.sql").symlink_to(project / "shared/a.sql")
    (project / "models/linked").symlink_to("../other")
    files = read_project(project)
    assert [(file.path, file.text) for file in files.models] == [
        ("models/a.sql", "A"),
        ("models/b.sql", "B"),
        ("models/linked/c.sql", "C"),
    ]
    assert [file.path for file in files.properties] == ["models/linked/deep/c.yml"]


def test_a_linked_folder_that_leaves_the_project_is_refused(
    project: Path, tmp_path: Path
) -> None:
    write(project, {"models/b.sql": "B"})
    write(tmp_path, {"folder/other.sql": "no"})
    (project / "models/linked").symlink_to(tmp_path / "folder")
    with pytest.raises(ProjectError) as caught:
        read_project(project)
    assert problems(caught) == [("outside-project", "pyproject.toml")]
    assert "models/linked" in caught.value.problems[0].what


def test_links_in_a_circle_end(project: Path) -> None:
    write(project, {"models/x/a.sql": "A", "models/y/b.sql": "B", "macros/m.sql": "M"})
    for link, to in {
        "x/up": "../..",
        "x/self": ".",
        "x/y1": "../y",
        "y/x1": "../x",
        "x/y2": "../y",
    }.items():
        (project / "models" / link).symlink_to(to)
    found = [file.path for file in read_project(project).models]
    assert found == sorted({*found}) and not any(
        "/up/" in path or "/self/" in path for path in found
    )
    assert {
        "models/x/a.sql",
        "models/x/y1/b.sql",
        "models/x/y2/b.sql",
        "models/y/x1/a.sql",
    } < {*found}


def test_a_linked_project_is_read_as_if_it_stood_there(
    project: Path, tmp_path: Path
) -> None:
    write(project, {"models/a.sql": "A"})
    (tmp_path / "link").symlink_to(project)
    assert read_project(tmp_path / "link").models == (SourceFile("models/a.sql", "A"),)


def test_the_nearest_project_above_is_found(project: Path, tmp_path: Path) -> None:
    deep = (
        write(project, {"models/deep/pyproject.toml": b"[tool.other]\nx = '\xff'\n"})
        / "models/deep"
    )
    assert find_project(deep) == project
    assert find_project(project) == project
    assert find_project(tmp_path) == tmp_path


def test_a_file_is_written_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new/folder/f.txt"
    write_atomically(path, "one\r\nä")
    write_atomically(path, "two")
    assert path.read_bytes() == b"two"
    assert [file.name for file in path.parent.iterdir()] == ["f.txt"]

    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomically(tmp_path / "taken", "x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new", "taken"]


def test_recorded_files_become_as_old_as_their_names_say(tmp_path: Path) -> None:
    write(tmp_path, {f"t/{name}.jsonl": "x" for name in "abcd"})
    for name, age in zip("abcd", (5, 3, 3, 9), strict=True):
        os.utime(tmp_path / f"t/{name}.jsonl", (age, age))
    date_by_name(tmp_path)
    ages = [
        (tmp_path / f"t/{name}.jsonl").stat().st_mtime_ns // 1_000_000
        for name in "abcd"
    ]
    assert ages == [5_000, 5_001, 5_002, 9_000]


def test_times_that_cannot_be_set_are_an_error_only_where_they_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    write(tmp_path, {"t/a.jsonl": "x", "t/b.jsonl": "x"})
    os.utime(tmp_path / "t/a.jsonl", (5, 5))
    monkeypatch.setattr(os, "utime", refuse)
    date_by_name(tmp_path)
    (tmp_path / "t/b.jsonl").rename(tmp_path / "t/0.jsonl")
    with pytest.raises(ProfileError) as caught:
        date_by_name(tmp_path)
    (problem,) = caught.value.problems
    assert (problem.condition, "a.jsonl" in problem.what) == ("not-accessible", True)
