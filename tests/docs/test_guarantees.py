"""Each promise names tests that are there, and the README lists the promises of
docs/guarantees.md."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from docs.anchors import anchor_of
from docs.readme import README
from tests.docs.test_links import TEST, functions

ROOT = README.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
ROWS = re.findall(r"^\| (?!Promise \||--- \|)(.+) \|$", PAGE, re.MULTILINE)


def test_there_are_promises() -> None:
    assert len(ROWS) == PAGE.count("\n| ") - 2 * PAGE.count("\n| Promise |") > 20


def test_each_row_follows_a_row() -> None:
    """What follows an empty line is shown as a line with bars."""
    lines = PAGE.splitlines()
    cut = [
        line
        for before, line in pairwise(lines)
        if line.startswith("| ") and not before.startswith("|")
    ]
    assert {line.split(" | ")[0] for line in cut} == {"| Promise"}


@pytest.mark.parametrize("row", ROWS)
def test_a_promise_says_what_could_break_it_and_names_tests_that_are_there(
    row: str,
) -> None:
    promise, risk, tests = row.split(" | ")
    assert promise and risk
    for cell in tests.split("<br>"):
        named = TEST.fullmatch(cell)
        assert named, cell
        path, test = named.groups()
        assert test and test.startswith("test_") and test in functions(ROOT / path), (
            cell
        )


def test_the_readme_lists_the_sections_of_the_promises() -> None:
    listed = (
        README.read_text("utf-8").split("\n## What it promises\n")[1].split("\n## ")[0]
    )
    links = re.findall(
        r"^- \[(.+?)\]\(docs/guarantees\.md#(.+?)\): ", listed, re.MULTILINE
    )
    sections = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert links == [(section, anchor_of(section)) for section in sections]
    assert len(links) == 8
