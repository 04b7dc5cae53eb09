"""Every `.case` file: an edit of a project, and what a plan says of it.

A case opens with a sentence. The project is that of `project/`, a shop. A section
`=== models/orders.sql` is an edit of a file: lines that begin with `-` stand in it, and those with `+` are put in their
place; without any `-` they are the whole file, and without any line the file is removed. A section
`=== plan` has a line for each reason: model, verdict, condition and place.

`pytest tests/review --update-golden` writes what is there now into the cases; read the difference like code.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.review import load_new
from lakesql.errors import ProjectError
from lakesql.project.files import read_project
from lakesql.review.compare import compare, refuse_all
from lakesql.review.verdicts import VERDICTS, Review

FOLDER = Path(__file__).parent
CASES = sorted((FOLDER / "cases").rglob("*.case"))
HEAD = re.compile(r"^=== (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One file: its sentence, the edits by path, and the lines of the plan."""

    says: str
    edits: dict[str, str]
    plan: str


def parse_case(text: str) -> Case:
    says, *parts = HEAD.split(text)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(sections) == len(parts) / 2, "two sections have one head"
    plan = sections.pop("plan", "")
    return Case(says.strip(), {path: body.strip("\n") for path, body in sections.items()}, plan.strip("\n"))


def render_case(case: Case) -> str:
    sections = {**case.edits, "plan": case.plan}
    return f"{case.says}\n\n" + "\n".join(f"=== {head}\n{body}\n" for head, body in sections.items())


def apply(edit: str, path: Path) -> None:
    if not edit:
        path.unlink()
        return
    text = path.read_text("utf-8") if path.exists() else ""
    for before, after in hunks(edit):
        assert not before or text.count(before) == 1, f"{path.name} has {text.count(before)} times: {before}"
        text = text.replace(before, after) if before else f"{after}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def hunks(edit: str) -> Iterator[tuple[str, str]]:
    """The texts of each group of lines with `-`, and of the lines with `+` that follow it."""
    for found in re.finditer(r"((?:^-.*\n)*)((?:^\+.*\n)*)", f"{edit}\n", re.MULTILINE):
        if found[0]:
            yield tuple("\n".join(line[1:] for line in lines.splitlines()) for lines in found.groups())


def review_case(case: Case, directory: Path) -> Review:
    """The plan of the project in `directory`, which is edited."""
    options = Options(project_dir=directory)
    old = load_new(options, read_project(directory))
    for path, edit in case.edits.items():
        apply(edit, directory / path)
    files = read_project(directory)
    try:
        new = load_new(options, files)
    except ProjectError as error:
        return refuse_all(files, error.problems, "before")
    names = {*old.manifest.models, *new.manifest.models}
    return compare(old, new, names, "before")


def plan_lines(review: Review) -> str:
    return "\n".join(
        f"{model.name}: {reason.verdict} {reason.condition} {reason.place}"
        for model in sorted(review.models, key=lambda it: it.name)
        for reason in model.reasons
    )


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


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_an_edit_has_the_verdicts_of_its_case(path: Path, project: Path, request: pytest.FixtureRequest) -> None:
    case = parse_case(path.read_text("utf-8"))
    found = plan_lines(review_case(case, project))
    if request.config.getoption("--update-golden"):
        path.write_text(render_case(Case(case.says, case.edits, found)), "utf-8")
    else:
        assert found == case.plan


def test_every_verdict_has_cases() -> None:
    verdicts = Counter(
        line.split(" ")[1] for path in CASES for line in parse_case(path.read_text("utf-8")).plan.splitlines()
    )
    assert set(VERDICTS) <= set(verdicts)


def test_a_project_that_is_as_it_was_has_no_reason(project: Path) -> None:
    review = review_case(Case("", {}, ""), project)
    assert review.verdict == "none"
    assert len(review.models) == 15
    assert all(not model.reasons for model in review.models)
