"""The anchors of headings, as GitHub gives them: for the links in the pages, and for
the site that is built of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def anchor_of(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {
        anchor_of(heading)
        for heading in re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    }


def make_slugify() -> Callable[[str, str], str]:
    """What Python's Markdown asks for the anchor of a heading."""
    return _slugify


def _slugify(heading: str, _: str) -> str:
    """The heading's anchor; the character in the place of spaces is GitHub's, whatever
    the caller's is."""
    return anchor_of(heading)
