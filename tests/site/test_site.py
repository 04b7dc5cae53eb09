"""The site of a project as files: what stands on its pages, and what may not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote
from urllib.request import urlopen

import pytest

from lakesql.cli.init import write_project
from lakesql.conditions import CONDITIONS
from lakesql.run.tell import project_site
from tests.servers.process import hear_interrupts
from tests.site.hostile import (
    LONG_COLUMN,
    ODD_COLUMN,
    SCRIPT,
    write_broken,
    write_hostile,
)

pytestmark = pytest.mark.checks

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_") and name != "LAKESQL_HOME":
            monkeypatch.delenv(name)


class Page(HTMLParser):
    """The elements, the links and the text of a page; of links, and of what it loads,
    the addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name == "src" or (name == "href" and tag == "link"):
                self.loaded.append(value or "")
            if name == "href" and tag == "a":
                self.links.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        self.text += data


def pages_of(site: Path) -> dict[str, Page]:
    return {
        path.relative_to(site).as_posix(): Page(path.read_text("utf-8"))
        for path in site.rglob("*.html")
    }


def make(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[int, Path]:
    monkeypatch.chdir(project)
    code, _, err = run("docs", *options)
    assert "Traceback" not in err
    return code, project / "target/site"


def data_of(site: Path) -> dict[str, object]:
    text = (site / "data.js").read_text("utf-8")
    found: dict[str, object] = json.loads(
        text.removeprefix("window.lakesqlSite = ").rstrip(";\n")
    )
    return found


def test_each_model_stream_and_condition_has_a_page(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    code, site = make(run, tmp_path / "shop", monkeypatch)
    pages = pages_of(site)
    models = {
        f"models/{path.stem}.html" for path in (tmp_path / "shop/models").rglob("*.sql")
    }
    assert code == 0
    assert models | {f"conditions/{name}.html" for name in CONDITIONS} <= pages.keys()
    assert "streams/orders.html" in pages
    orders = pages["models/orders.html"].text
    for said in (
        "Orders as they are now",
        "lake.shop.orders",
        "delete_when",
        "MERGE INTO",
        "decimal(12,2)",
        "config(",
    ):
        assert said in orders
    assert '"order_id"' in pages["streams/orders.html"].text, (
        "a record of its recording"
    )


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, site = make(run, write_hostile(tmp_path / "shop"), monkeypatch)
    pages = pages_of(site)
    wrong: list[tuple[str, str]] = []
    for path, page in pages.items():
        for address in (*page.loaded, *page.links):
            file, _, anchor = address.partition("#")
            target = (site / path).parent / unquote(file) if file else site / path
            relative = os.path.relpath(target, site)
            is_there = target.is_file() and not re.match(r"[a-z]+:|//", address)
            if (
                is_there
                and anchor
                and relative in pages
                and not relative.endswith("graph.html")
            ):
                is_there = unquote(anchor) in pages[relative].ids
            wrong += [] if is_there else [(path, address)]
    assert wrong == []


def test_nothing_that_a_project_says_is_markup(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, site = make(run, write_hostile(tmp_path / "shop"), monkeypatch)
    pages = pages_of(site)
    page = pages["models/hostile.html"]
    ours = pages["models/orders.html"]
    assert code == 0
    assert (
        SCRIPT.replace("`", "") in page.text.replace("`", "")
        and LONG_COLUMN in page.text
        and ODD_COLUMN in page.text
    )
    assert {
        tag for each in pages.values() for tag in each.tags if tag in ("b", "i", "img")
    } <= {"b", "img"}
    assert page.tags.count("img") == ours.tags.count("img") and page.tags.count(
        "script"
    ) == ours.tags.count("script")
    assert [path for path, each in pages.items() if each.handlers] == []
    assert "</script" not in (site / "data.js").read_text("utf-8")
    names = [column for node in data_of(site)["nodes"] for column, _ in node["columns"]]  # type: ignore[attr-defined]
    assert ODD_COLUMN in names


def test_a_project_with_errors_gets_its_site_with_the_errors_on_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, site = make(run, write_broken(tmp_path / "shop"), monkeypatch)
    pages = pages_of(site)
    overview = pages["index.html"].text
    assert code == 2
    for condition in ("unknown-option", "unknown-column"):
        assert condition in overview
    assert "models/option.sql" in overview and "streams/odd.yml" in overview
    assert "There is no column 'order_idd'" in pages["models/misspelt.html"].text
    assert "order_idd FROM" in pages["models/misspelt.html"].text, (
        "its SQL is readable all the same"
    )
    assert "Orders as they are now" in pages["models/orders.html"].text
    assert "models/option.html" not in pages and "unknown-ref" not in overview
    assert "In this project" in pages["conditions/unknown-column.html"].text


@pytest.mark.parametrize(
    "text", ["[tool.lakesql\n", "[tool.lakesql]\nname = 'a'\nprofile = 'nowhere'\n"]
)
def test_a_project_of_which_nothing_can_be_read_gets_a_page_that_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    write_project(tmp_path / "shop", "shop")
    (tmp_path / "shop/pyproject.toml").write_text(text)
    code, site = make(run, tmp_path / "shop", monkeypatch)
    assert code == 2
    assert "Errors" in pages_of(site)["index.html"].text


def test_a_folder_that_is_no_site_is_left_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    code, _, err = run("docs", "--output", "models", "--log-format", "json")
    assert (code, "bad-output-dir" in err) == (2, True)
    assert not (tmp_path / "shop/models/index.html").exists()


def test_pages_of_models_that_are_gone_are_removed_and_no_other_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    _, site = make(run, tmp_path / "shop", monkeypatch)
    (site / "CNAME").write_text("mine")
    (tmp_path / "shop/models/top_customers.sql").unlink()
    (tmp_path / "shop/models/tables.yml").unlink(missing_ok=True)
    make(run, tmp_path / "shop", monkeypatch)
    assert not (site / "models/top_customers.html").exists()
    assert (site / "CNAME").read_text() == "mine" and (
        site / "models/orders.html"
    ).exists()


def test_the_libraries_of_the_site_have_their_licences() -> None:
    vendor = Path(__file__).parents[2] / "lakesql/site/assets/vendor"
    libraries = {path.name.split(".")[0] for path in vendor.glob("*.js")}
    assert (
        libraries
        == {path.name.split(".")[0] for path in vendor.glob("*.LICENSE")}
        != set()
    )


def test_live_pages_say_what_status_says(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    code, site = make(run, tmp_path / "shop", monkeypatch, "--live")
    assert (code, "missing" in pages_of(site)["models/orders.html"].text) == (0, True)
    _, out, _ = run("status", "orders", "--output", "json")
    assert json.loads(out)["remarks"][0] in pages_of(site)["models/orders.html"].text


def test_the_site_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    write_project(tmp_path / "shop", "shop")
    command = [sys.executable, "-m", "lakesql", "docs", "--serve", "--port", "0"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONUNBUFFERED": "1",
    }
    served = subprocess.Popen(
        command,
        cwd=tmp_path / "shop",
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=hear_interrupts,
    )
    try:
        assert served.stdout is not None
        served.stdout.readline()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", served.stdout.readline())
        with urlopen(f"{address}models/orders.html") as answer:
            assert "Orders as they are now" in answer.read().decode()
        with pytest.raises(HTTPError):
            urlopen(f"{address}../../pyproject.toml")
        served.send_signal(signal.SIGINT)
        assert served.wait(20) in (0, 130)
    finally:
        served.kill()
        served.wait()


def test_checks_have_their_last_results(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    (tmp_path / "shop/models/late.sql").write_text(
        "{{ config(mode='append') }}\nSELECT order_id, amount FROM {{ stream('orders') }}\n"
    )
    (tmp_path / "shop/models/late.yml").write_text(
        "models:\n  - name: late\n    columns:\n"
        "      - name: order_id\n        expect: [not_null]\n        tests: [unique]\n"
        "      - name: amount\n        expect: [not_null]\n"
    )
    target = tmp_path / "shop/target"
    target.mkdir()
    metadata = {"lakesql_version": "0.1.0", "generated_at": "2026-01-02T03:04:05Z"}
    ran = {"name": "late", "status": "success", "message": "12 rows", "batches": 2}
    ran["violations"] = {"not_null amount": 3}
    tested = {
        "unique_id": "test.unique_late_order_id",
        "name": "unique_late_order_id",
        "status": "fail",
    }
    tested["message"] = "2 keys stand twice"
    (target / "run_results.json").write_text(
        json.dumps({"metadata": metadata, "results": [ran]})
    )
    (target / "test_results.json").write_text(
        json.dumps({"metadata": metadata, "results": [tested]})
    )
    code, site = make(run, tmp_path / "shop", monkeypatch)
    text = " ".join(pages_of(site)["models/late.html"].text.split())
    assert code == 0
    assert (
        "3 rows failed it in the last run" in text
        and "2 keys stand twice" in text
        and "12 rows" in text
    )
    shown = re.findall(
        r'class="health \w+">(\w+)<', (site / "models/late.html").read_text("utf-8")
    )
    assert sorted(shown) == ["fail", "pass", "success", "warn"]


def test_a_stream_of_many_topics_shows_what_is_recorded_of_the_first(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    recorded = tmp_path / "shop" / "streams" / "recorded"
    for name, value in (
        ("plant.b", "second"),
        ("plant.a%2F1", "first"),
        ("plants", "none"),
    ):
        (recorded / name).mkdir()
        line = {
            "topic": name,
            "partition": 0,
            "offset": 0,
            "timestamp": "2026-03-01T00:00:00Z",
        }
        line |= {"value": {"which": value}}
        (recorded / name / "part-00001.jsonl").write_text(json.dumps(line) + "\n")
    stream = "streams: [{name: plants, connection: shop, pattern: 'plant\\..*', columns: {which: string}}]\n"
    (tmp_path / "shop" / "streams" / "plants.yml").write_text(stream)
    code, site = make(run, tmp_path / "shop", monkeypatch)
    text = pages_of(site)["streams/plants.html"].text
    assert code == 0
    assert '"first"' in text and '"second"' not in text and '"none"' not in text


def test_a_site_that_was_broken_off_is_made_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    with monkeypatch.context() as patch:
        patch.setattr(
            project_site, "site_assets", lambda: iter([(f"assets/{'n' * 300}", b"")])
        )
        assert make(run, tmp_path / "shop", monkeypatch)[0] != 0
    assert (tmp_path / "shop/target/site/index.html").exists()
    assert make(run, tmp_path / "shop", monkeypatch)[0] == 0
