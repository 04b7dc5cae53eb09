"""Every case of the corpus has the verdicts, the conditions and the places that it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lakesql.cli.review import load_new
from lakesql.errors import ProjectError
from lakesql.project.files import read_project
from lakesql.review.compare import compare, refuse_all
from lakesql.review.verdicts import VERDICTS, Review
from tests.review.corpus import CASES, Case, apply, case_name, parse_case, render_case


def review_case(case: Case, directory: Path) -> Review:
    """The plan of the project in `directory`, which is edited."""
    options = case.options(directory)
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


@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_an_edit_has_the_verdicts_of_its_case(path: Path, project: Path, request: pytest.FixtureRequest) -> None:
    case = parse_case(path.read_text("utf-8"))
    found = plan_lines(review_case(case, project))
    if request.config.getoption("--update-golden"):
        path.write_text(render_case(replace(case, plan=found)), "utf-8")
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
