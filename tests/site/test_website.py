"""lakesql's own documentation in a real browser: every page without an error, read by
everybody, found by search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.build import build, name_of, pages
from tests.site.test_browser import CHROMIUM, browser, contrast_violations, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium"),
]

PAGES = [name_of(page).replace(".md", ".html") for page in pages()]
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("website") / "site"
    assert build(folder, strict=True) == 0
    return folder


class Tab:
    """A page in the browser, with all that its console said and all that it asked the
    network for."""

    def __init__(self, browser: Browser, site: Path, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": 1360, "height": 860}, color_scheme=scheme
        )  # type: ignore[arg-type]
        self.site, self.scheme = site, scheme
        self.said: list[str] = []
        self.page = self.context.new_page()
        self.page.on(
            "console",
            lambda it: (
                self.said.append(it.text) if it.type in ("error", "warning") else None
            ),
        )
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("requestfailed", lambda request: self.said.append(request.url))
        self.page.on(
            "request",
            lambda request: self.said.extend(addresses_elsewhere(request.url)),
        )

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.site.as_uri()}/{path}")
        return self.page


def addresses_elsewhere(url: str) -> list[str]:
    """The address, if it is none of a file's or of a page's own."""
    return [] if url.startswith(("file:", "data:", "blob:", "about:")) else [url]


@pytest.fixture(params=SCHEMES)
def tab(browser: Browser, site: Path, request: pytest.FixtureRequest) -> Iterator[Tab]:
    found = Tab(browser, site, request.param)
    yield found
    found.context.close()
    assert found.said == []


def test_every_page_is_readable_for_everybody(tab: Tab) -> None:
    """Of a dark page the colours alone are other than of the light one."""
    judge = violations if tab.scheme == "light" else contrast_violations
    found = {path: judge(tab.open(path)) for path in PAGES}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_a_dark_text_of_too_little_contrast_is_found(
    browser: Browser, site: Path
) -> None:
    tab = Tab(browser, site, "dark")
    page = tab.open("index.html")
    page.add_style_tag(
        content="article table td { color: #555 !important; background: #444 !important; }"
    )
    assert [rule for rule, _ in contrast_violations(page)] == ["color-contrast"]
    tab.context.close()


def test_the_search_leads_to_a_heading(tab: Tab) -> None:
    page = tab.open("index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("the watermark")
    found = page.locator("a[href*='streams.html'][href$='#the-watermark']")
    found.wait_for()
    found.click()
    page.wait_for_url("**/streams.html*#the-watermark")
