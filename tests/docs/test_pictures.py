"""The pictures of the docs say what lakesql does: their rows come of unit tests, their
verdicts of plans."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs import generate
from docs.pictures.cases import PROJECT, load_batches, load_cases
from docs.pictures.late import fates_of
from docs.pictures.pictures import PICTURES
from docs.pictures.verdicts import EDITS, Edit
from docs.pictures.which_mode import STREAMS, TABLES
from lakesql.cli.main import run_command
from lakesql.modes.all_modes import MODES
from lakesql.review.verdicts import VERDICTS
from tests.docs.command_line import lakesql

DOCS = Path(generate.__file__).parent
WIDTHS = {"code": 7.4, "text": 6.8}
"""Of a letter, on average, in a wide font."""

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(PROJECT, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_fresh_and_in_a_page_with_a_text_instead(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PICTURES[name](), (
        "run `python docs/generate.py`"
    )
    shown = [
        alt
        for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md")
        for alt in re.findall(
            rf"!\[([^\]]+)\]\((?:docs/)?{name}\)", page.read_text("utf-8")
        )
    ]
    assert shown and all(len(alt) > 30 for alt in shown)


@pytest.mark.parametrize("name", PICTURES)
def test_no_word_stands_outside_of_a_picture(name: str) -> None:
    """By the width of its letters in a common font, in the worst case."""
    root = ElementTree.fromstring((DOCS / name).read_text("utf-8"))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for word in root.iter(f"{SVG}text"):
        length = (
            len(word.text or "")
            * WIDTHS["code" if "code" in word.get("class", "") else "text"]
        )
        start = float(word.get("x", "0")) - (
            length / 2 if word.get("text-anchor") == "middle" else 0
        )
        assert start >= 0 and start + length <= width, word.text
        assert 0 < float(word.get("y", "0")) < height, word.text


@pytest.mark.spark
def test_the_rows_are_those_that_the_modes_make(project: Path) -> None:
    tests = json.loads(
        lakesql(project, "test", "--unit", "--engine", "spark", "--output", "json")
    )["tests"]
    assert {test["model"]: test["outcome"] for test in tests} == dict.fromkeys(
        load_cases(), "passed"
    )


def test_the_picture_of_modes_has_each_row() -> None:
    """Each cell of each row that a unit test expects, in the order of its columns."""
    root = ElementTree.fromstring((DOCS / "modes.svg").read_text("utf-8"))
    words = [word.text or "" for word in root.iter(f"{SVG}text")]
    cases = load_cases()
    records = [record for batch in load_batches(cases["log"]) for record in batch]
    assert len(records) == 10
    for model in ("log", "newest", "mirror", "history"):
        rows = cases[model]["expect"]["rows"]
        cells = [
            [
                str(row["record"]),
                *([row["op"]] if "op" in row else []),
                str(row["order_id"]),
            ]
            for row in rows
        ]
        assert all(follow_each_other(words, row) for row in cells)


def follow_each_other(words: list[str], row: list[str]) -> bool:
    return any(words[at : at + len(row)] == row for at in range(len(words)))


def test_dead_letters_of_the_late_picture_are_those_of_the_unit_test() -> None:
    case = load_cases()["clicks_per_hour"]
    fates = fates_of(case, load_batches(case))
    dead = sorted(fate for fate in fates.values() if fate in ("late", "ahead-of-time"))
    assert dead == sorted(letter["reason"] for letter in case["expect"]["dead_letters"])
    assert set(fates.values()) == {
        "in time",
        "its window is open",
        "late",
        "ahead-of-time",
        "waits",
    }


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.verdict)
def test_an_edit_has_its_verdict(
    edit: Edit, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["parse", "--target-path", "../before"]) == 0
    apply(edit, project)
    capsys.readouterr()
    run_command(["plan", "--state", "../before", "--output", "json"])
    planned = {
        model["name"]: model["verdict"]
        for model in json.loads(capsys.readouterr().out)["models"]
    }
    assert edit.verdict in planned.values()
    assert set(planned.values()) <= {edit.verdict, "none"}


def apply(edit: Edit, project: Path) -> None:
    path = project / edit.path
    if edit.verdict in ("removed", "renamed"):
        tests = project / "models/tests.yml"
        tests.unlink()
        path.unlink() if edit.verdict == "removed" else path.rename(
            path.with_name("another.sql")
        )
        return
    text = path.read_text("utf-8") if edit.old else ""
    assert edit.old in text
    path.write_text(
        text.replace(edit.old, edit.new, 1) if edit.old else edit.new, "utf-8"
    )


def test_every_verdict_and_every_mode_is_in_its_picture() -> None:
    assert [edit.verdict for edit in EDITS] == list(VERDICTS)
    drawn = {(mode, "streams") for _, mode, _ in STREAMS} | {
        (mode, "tables") for _, mode, _ in TABLES
    }
    assert drawn - {("maintenance", "tables")} == {
        (mode, reads) for mode, reads in MODES
    }
