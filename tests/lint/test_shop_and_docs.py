"""What is right is not found: the shop, and what the docs show, which other tools
accept too."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlfluff.core import FluffConfig, Linter
from sqlfmt.api import format_string
from sqlfmt.mode import Mode

from lakesql.cli.init import write_project
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import LakesqlError
from lakesql.lint.all_rules import MODULES
from lakesql.lint.finding import LintFinding
from lakesql.lint.lint import lint
from lakesql.lint.lint_settings import LintSettings
from tests.lint.samples import find

ROOT = Path(__file__).parents[2]
OWN_PROJECTS = ("lint.md", "streaming-sql.md")
"""Pages whose models are of projects of their own, and some of which are shown because
they are refused."""

PAGES = [
    ROOT / "README.md",
    *sorted(
        path for path in (ROOT / "docs").glob("*.md") if path.name not in OWN_PROJECTS
    ),
]
BLOCK = re.compile(r"^ *```(sql|yaml)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop", "shop")
    return tmp_path / "shop"


def test_the_shop_is_clean_and_says_why_where_it_is_not(shop: Path) -> None:
    manifest = load_project(Options(project_dir=shop))
    assert find(manifest) == ()
    noqas = [
        line
        for text in manifest.texts.values()
        for line in text.splitlines()
        if "noqa" in line
    ]
    assert noqas and all(re.search(r"-- noqa: LK\d{3} \w+", line) for line in noqas), (
        "each with a reason"
    )
    without = {
        path: re.sub(r" -- noqa.*", "", text) for path, text in manifest.texts.items()
    }
    for path, text in without.items():
        (shop / path).write_text(text)
    assert {
        finding.code for finding in find(load_project(Options(project_dir=shop)))
    } == {"LK005", "LK007"}


STREAMS = """streams:
  - name: customers
    connection: shop
    topic: shop.customers
    key: [customer_id]
    columns: {customer_id: bigint, city: string, tier: string, phone: string, changed_at: timestamp}
  - name: clicks
    connection: shop
    topic: shop.clicks
    columns: {id: string, event_id: string, sent_at: timestamp, page: string, url: string, at: timestamp}
  - name: order_records
    connection: shop
    topic: shop.orders
    key: [id]
    columns: {id: bigint, status: string, at: timestamp}
"""
ORDERS = """{{ config(mode='upsert', keys='id', sequence_by='at') }}
SELECT id, status, at
FROM {{ stream('order_records') }}
"""
"""Streams, and a model, that some pages read without declaring them."""


def models_of(page: Path) -> list[str]:
    """The models that a page shows as a whole; CALL statements are none, and no SELECT
    of a data test."""
    blocks = [
        (kind, textwrap.dedent(text))
        for kind, text in BLOCK.findall(page.read_text("utf-8"))
    ]
    models = [text for kind, text in blocks if kind == "sql" and "{{ config(" in text]
    return [
        text
        for text in models
        if "mode='" in text and "FROM {{" in text and "tables={" not in text
    ]


def streams_of(page: Path) -> Iterator[str]:
    """The streams that a page declares, and those of this test."""
    for kind, text in BLOCK.findall(page.read_text("utf-8")):
        if kind == "yaml" and (
            found := re.search(
                r"^streams:\n(?: +.*\n)+", textwrap.dedent(text), re.MULTILINE
            )
        ):
            yield found[0]
    yield STREAMS


def connections_of(streams: str) -> set[str]:
    return set(re.findall(r"connection: (\w+)", streams))


def lint_sample(text: str, page: Path, folder: Path) -> tuple[LintFinding, ...]:
    """What is found in a model: beside the shop, or where streams are declared as its
    page does.

    Raises `LakesqlError` where it parses nowhere.
    """
    error: LakesqlError | None = None
    for number, streams in enumerate(("", *streams_of(page))):
        project = folder / str(number)
        write_project(project, "shop")
        if streams:
            shutil.rmtree(project / "models")
            (project / "models").mkdir()
            (project / "streams" / "shop.yml").write_text(streams)
            if streams == STREAMS:
                (project / "models" / "orders.sql").write_text(ORDERS)
            (project / "pyproject.toml").write_text('[tool.lakesql]\nname = "shop"\n')
            named = ", ".join(
                f"{name}: {{type: recorded, path: recorded}}"
                for name in connections_of(streams)
            )
            profiles = (project / "profiles.yml").read_text()
            (project / "profiles.yml").write_text(
                re.sub(
                    r"connections:\n +shop: .*", f"connections: {{{named}}}", profiles
                )
            )
        (project / "models" / "sample_of_docs.sql").write_text(text)
        try:
            manifest = load_project(Options(project_dir=project))
            return lint(manifest, LintSettings(), ["sample_of_docs"], whole=False)
        except LakesqlError as found:
            error = found
    assert error is not None
    raise error


SAMPLES = [(page, text) for page in PAGES for text in models_of(page)]


def test_the_docs_show_models() -> None:
    assert len(SAMPLES) >= 12


@pytest.mark.parametrize(
    ("page", "text"), SAMPLES, ids=[page.name for page, _ in SAMPLES]
)
def test_a_model_of_the_docs_is_clean(page: Path, text: str, tmp_path: Path) -> None:
    assert lint_sample(text, page, tmp_path) == ()


# --- other tools


def test_sqlfluff_accepts_the_shop(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    (shop / ".sqlfluff").write_text(sqlfluff_text())
    linted = Linter(config=FluffConfig.from_path(str(shop))).lint_paths(
        (str(shop / "models"),)
    )
    said = [
        (record["filepath"], each["code"])
        for record in linted.as_records()
        for each in record["violations"]
    ]
    assert said == []
    assert len(linted.as_records()) == len(list((shop / "models").rglob("*.sql")))
    (shop / "models" / "checkouts.sql").write_text(
        "{{ config(mode='append') }}\nselect view_id FROM {{ stream('clicks') }}\n"
    )
    linted = Linter(config=FluffConfig.from_path(str(shop))).lint_paths(
        (str(shop / "models"),)
    )
    assert "CP01" in [
        each["code"] for record in linted.as_records() for each in record["violations"]
    ], "it does look"


def sqlfluff_text() -> str:
    """The `.sqlfluff` of docs/lint.md."""
    page = (ROOT / "docs" / "lint.md").read_text("utf-8")
    found = re.search(r"^```ini\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_sqlfmt_formats_the_shop_and_keeps_what_it_says(shop: Path) -> None:
    before = load_project(Options(project_dir=shop))
    for path in (*(shop / "models").rglob("*.sql"), *(shop / "macros").rglob("*.sql")):
        formatted = format_string(path.read_text(), Mode(line_length=120))
        assert format_string(formatted, Mode(line_length=120)) == formatted
        path.write_text(formatted)
    after = load_project(Options(project_dir=shop))
    assert find(after) == (), "each noqa stands where it stood"
    assert {name: model.options for name, model in after.models.items()} == {
        name: model.options for name, model in before.models.items()
    }


def test_codes_of_sqlfluff_are_none_of_ours() -> None:
    assert not any(re.fullmatch(r"[A-Z]{2}\d\d", code) for code in MODULES)
