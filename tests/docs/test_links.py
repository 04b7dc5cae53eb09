"""Links and names in the docs lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.anchors import anchors
from docs.readme import README

ROOT = README.parent
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:lakesql|tests|docs|bench|models|streams|macros)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_and_tests_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, name in TEST.findall(text):
        assert (ROOT / path).is_file(), path
        if name:
            assert name in functions(ROOT / path), f"{path}::{name}"
    for path in FILE.findall(text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_level_of_headings_is_left_out(page: Path) -> None:
    """Who hears a page, and does not see it, goes from heading to heading."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    levels = [0, *(len(marks) for marks, _ in headings)]
    skipped = [
        text
        for (_, text), above, own in zip(headings, levels, levels[1:], strict=False)
        if own > above + 1
    ]
    assert skipped == []


def test_every_page_is_reached_from_the_readme() -> None:
    text = README.read_text("utf-8")
    assert {
        page.name for page in PAGES[2:] if f"(docs/{page.name})" not in text
    } == set()


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
