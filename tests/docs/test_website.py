"""The site of lakesql's own documentation: links and anchors, what a page loads, and
that it says what GitHub shows."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from docs import build
from docs.build import name_of, navigation, pages
from docs.readme import README

COUNTED = {
    "li",
    "table",
    "tr",
    "th",
    "pre",
    "code",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "ul",
    "ol",
    "img",
    "em",
    "strong",
}


class Html(HTMLParser):
    """Of a page: ids, links and what it loads; of its article, without what Zensical
    adds, elements and text."""

    def __init__(self, text: str, whole: bool = False) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.elements: Counter[str] = Counter()
        self.text = ""
        self.reading = whole
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.reading |= tag == "article"
        self.ids |= {given["id"]} if given.get("id") else set()
        self.loaded += [
            given[name] for name in ("src", "srcset", "data") if given.get(name)
        ]
        self.loaded += (
            [given["href"]]
            if tag == "link" and given.get("rel") not in ("prev", "next")
            else []
        )
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        if self.reading:
            self.elements["th" if tag == "td" else tag] += 1
        if given.get("class") == "headerlink":
            self.reading = False

    def handle_endtag(self, tag: str) -> None:
        self.reading &= tag != "article"
        self.reading |= tag in ("h1", "h2", "h3", "h4", "h5") and bool(self.text)

    def handle_data(self, data: str) -> None:
        if self.reading:
            self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("website") / "site"
    assert build.build(folder, strict=True) == 0
    return folder


def html_pages(site: Path) -> dict[Path, Html]:
    return {
        path: Html(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"
    }


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    found = html_pages(site)
    wrong, followed = [], 0
    for path, page in found.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            address, _, anchor = unquote(link).partition("#")
            target = (path.parent / address).resolve() if address else path
            followed += 1
            if target not in found or (anchor and anchor not in found[target].ids):
                wrong.append((path.name, link))
    assert wrong == []
    assert followed > 2_000


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {
        (path, address)
        for path, page in html_pages(site).items()
        for address in page.loaded
    }
    assert [
        address
        for path, address in loaded
        if not (path.parent / unquote(address)).is_file()
    ] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']+", styles) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_says_what_github_shows_of_it(site: Path, page: Path) -> None:
    """Lists, tables, code and each word: Python's Markdown reads some things otherwise,
    and says nothing of it."""
    built = Html((site / name_of(page)).with_suffix(".html").read_text("utf-8"))
    markdown = MarkdownIt("commonmark", {"html": True}).enable(
        ["table", "strikethrough"]
    )
    shown = Html(markdown.render(page.read_text("utf-8")), whole=True)
    assert {tag: built.elements[tag] for tag in COUNTED} == {
        tag: shown.elements[tag] for tag in COUNTED
    }
    assert "".join(built.text.split()) == "".join(shown.text.split())


def test_the_shelves_have_every_page_once() -> None:
    shelves = navigation()
    assert re.findall(r'\{"(.+?)" = ', shelves) == [
        "Home",
        "Start",
        "Write models",
        "Run",
        "Understand",
    ]
    listed = re.findall(r'"([\w-]+\.md)"', shelves)
    assert sorted(listed) == sorted(name_of(page) for page in pages())


def test_files_of_the_repository_are_shown(site: Path) -> None:
    shown = Html((site / "files/models/orders.sql.html").read_text("utf-8")).text
    written = (README.parent / "models/orders.sql").read_text("utf-8")
    assert "".join(written.split()) in "".join(shown.split())


def test_or_where_the_repository_is(tmp_path: Path) -> None:
    build.write_pages(tmp_path / "pages", "https://example.org/lakesql/blob/main")
    assert "(https://example.org/lakesql/blob/main/models/orders.sql)" in (
        tmp_path / "pages/index.md"
    ).read_text("utf-8")
    assert not (tmp_path / "pages/files").exists()


def test_a_link_that_leads_nowhere_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("README.md", "# A\n\n## Read on\n\n- **Start**: [b](docs/b.md).\n"),
        ("CHANGELOG.md", "# C\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "docs").mkdir()
    text = "# B\n\n[here](#nowhere):\n- a\n- b\n"
    (tmp_path / "docs/b.md").write_text(text)
    monkeypatch.setattr(build, "README", tmp_path / "README.md")
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(build, "CHANGELOG", tmp_path / "CHANGELOG.md")
    assert build.build(tmp_path / "loose") == 0
    assert build.build(tmp_path / "strict", strict=True) == 1
    assert not (tmp_path / "strict").exists()
    built, shown = (
        Html((tmp_path / "loose/b.html").read_text("utf-8")),
        Html(MarkdownIt().render(text), whole=True),
    )
    assert (built.elements["li"], shown.elements["li"]) == (0, 2), (
        "what a page may not have: Zensical sees no list"
    )
