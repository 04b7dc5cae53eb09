"""Every case of the corpus has the verdicts, the conditions and the places that it
says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from lakesql.cli.review import load_new
from lakesql.errors import ProjectError
from lakesql.project.files import read_project
from lakesql.review.as_text import render_text
from lakesql.review.compare import compare, refuse_all
from lakesql.review.verdicts import VERDICTS, Review
from tests.review.corpus import CASES, Case, apply, case_name, parse_case, render_case


def review_case(case: Case, directory: Path, selected: Collection[str] = ()) -> Review:
    """The plan of the project in `directory`, which is edited: of the selected models,
    or of all."""
    options = case.options(directory)
    old = load_new(options, read_project(directory))
    for path, edit in case.edits.items():
        apply(edit, directory / path)
    files = read_project(directory)
    try:
        new = load_new(options, files)
    except ProjectError as error:
        return refuse_all(files, error.problems, "before")
    names = selected or {*old.manifest.models, *new.manifest.models}
    return compare(old, new, names, "before")


def plan_lines(review: Review) -> str:
    return "\n".join(
        f"{model.name}: {reason.verdict} {reason.condition} {reason.place}"
        for model in sorted(review.models, key=lambda it: it.name)
        for reason in model.reasons
    )


def check_text(review: Review) -> None:
    """A person tells where a command ends, and to which model each line of a plan
    belongs."""
    shown = render_text(review)
    assert all(
        f"[{reason.condition}]" in shown
        for model in review.models
        for reason in model.reasons
    )
    _, *models = shown.rstrip("\n").split("\n\n")
    assert len(models) == sum(bool(model.reasons) for model in review.models)
    for model in models:
        first, *others = model.split("\n")
        assert not first.startswith(" ")
        assert all(line.startswith("  ") for line in others), model
    for reason in (reason for model in review.models for reason in model.reasons):
        assert not re.search(r"(?<!`)\blakesql [a-z]+[^`]*\. [A-Z]", reason.do), reason


@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_an_edit_has_the_verdicts_of_its_case(
    path: Path, project: Path, request: pytest.FixtureRequest
) -> None:
    case = parse_case(path.read_text("utf-8"))
    review = review_case(case, project)
    check_text(review)
    found = plan_lines(review)
    if request.config.getoption("--update-golden"):
        path.write_text(render_case(replace(case, plan=found)), "utf-8")
    else:
        assert found == case.plan


@pytest.mark.parametrize(
    "edits",
    [
        {
            "models/clicks.sql": "-    mode='append',\n+    mode='append', keys='view_id',"
        },
        {
            "models/clicks.sql": "-    mode='append',\n+    mode='append', keys='view_id',",
            "streams/shop.yml": "-    topic: shop.page_views\n+    topic: shop.page_views_2",
        },
        {
            "models/reports/views_per_10_minutes.sql": "-viewed_at, '10 minutes'\n+viewed_at, '20 minutes'"
        },
    ],
    ids=["keys", "behind another topic", "state"],
)
@pytest.mark.parametrize("selected", [(), ("late", "later")])
def test_who_streams_a_rebuilt_table_is_told_whatever_is_selected(
    edits: dict[str, str], selected: tuple[str, ...], project: Path
) -> None:
    read = (
        "views_per_10_minutes"
        if len(edits) == 1 and "models/clicks.sql" not in edits
        else "clicks"
    )
    for name, stream in {"late": read, "later": "late"}.items():
        text = f"{{{{ config(mode='append') }}}}\nSELECT * FROM {{{{ stream('{stream}') }}}}\n"
        (project / f"models/{name}.sql").write_text(text)
    review = review_case(Case("", edits, ""), project, selected)
    found = {
        model.name: [reason.condition for reason in model.reasons]
        for model in review.models
    }
    assert [found["late"], found["later"]] == [["upstream-rebuilt"]] * 2
    assert not selected or found.keys() == {"late", "later"}
    assert (read in found) is not bool(selected)


def test_every_verdict_has_cases() -> None:
    verdicts = Counter(
        line.split(" ")[1]
        for path in CASES
        for line in parse_case(path.read_text("utf-8")).plan.splitlines()
    )
    assert set(VERDICTS) <= set(verdicts)


def test_a_project_that_is_as_it_was_has_no_reason(project: Path) -> None:
    review = review_case(Case("", {}, ""), project)
    assert review.verdict == "none"
    assert len(review.models) == 15
    assert all(not model.reasons for model in review.models)


def test_who_streams_a_renamed_model_is_told_to_take_it_along(project: Path) -> None:
    case = parse_case((CASES[0].parent / "rename_with_table.case").read_text("utf-8"))
    review = review_case(case, project)
    (reason,) = (
        reason
        for model in review.models
        if model.name == "checkouts"
        for reason in model.reasons
        if reason.condition == "streams-changed"
    )
    assert "`lakesql rename clicks views`" in reason.do
    assert "rewind" not in reason.do and "start" not in reason.do
