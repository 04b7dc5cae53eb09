"""Whose a model is, and what the last plan has said of it, on its page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesql.cli.init import write_project
from lakesql.model.owner import owner_of
from tests.site.test_site import Page, make

pytestmark = pytest.mark.checks

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shop in a repository of its own, and the working directory in it."""
    folder = tmp_path / "shop"
    write_project(folder, "shop")
    (folder / ".gitignore").write_text("target/\nlogs/\n")
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["commit", "-q", "-m", "one"],
    ):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
        subprocess.run(
            ["git", *who, *arguments], cwd=folder, check=True, capture_output=True
        )
    monkeypatch.chdir(folder)
    return folder


def replace_in(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")


def page(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, name: str = "orders"
) -> str:
    code, site = make(run, shop, monkeypatch)
    assert code == 0
    return " ".join(
        Page((site / f"models/{name}.html").read_text("utf-8")).text.split()
    )


def doubts(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    page(run, shop, monkeypatch)
    return re.findall(
        r'class="remark doubt">([^<]*)<',
        (shop / "target/site/models/orders.html").read_text("utf-8"),
    )


@pytest.mark.parametrize(
    ("meta", "shown"),
    [
        ({"owner": "the shop team"}, "the shop team"),
        ({"owner": ["a", {"name": "B", "email": "b@c.d"}]}, "a, B (b@c.d)"),
        ({"owner": {"email": "b@c.d"}}, "b@c.d"),
        ({"owner": {"slack": "#shop"}}, '{"slack": "#shop"}'),
        ({"owner": None}, ""),
        ({"team": "x"}, ""),
    ],
)
def test_an_owner_is_read_as_dbt_has_it(meta: object, shown: str) -> None:
    assert owner_of({"meta": meta}) == shown


def test_properties_say_the_owner_over_the_folder_and_under_the_file(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = shop / "pyproject.toml"
    of_folder = "[tool.lakesql.models]\nmeta = {owner = 'of the folder', tier = '2'}\n"
    settings.write_text(f"{settings.read_text()}\n{of_folder}")
    described = shop / "models/shop.yml"
    replace_in(
        described,
        "  - name: orders\n",
        "  - name: orders\n    meta: {owner: <b>Ada</b>, pager: call}\n",
    )
    replace_in(
        described, "  - name: clicks\n", "  - name: clicks\n    meta: {owner: nobody}\n"
    )
    replace_in(
        shop / "models/clicks.sql",
        "mode='append'",
        "mode='append', meta={'owner': 'of the file'}",
    )
    _, site = make(run, shop, monkeypatch)
    read = {
        name: Page((site / f"models/{name}.html").read_text("utf-8"))
        for name in ("orders", "clicks", "customers")
    }
    shown = {name: " ".join(each.text.split()) for name, each in read.items()}
    assert "Owner <b>Ada</b>" in shown["orders"]
    assert (
        "Owner of the file" in shown["clicks"]
        and "nobody" not in shown["clicks"].split("As written")[0]
    )
    assert "Owner of the folder" in shown["customers"]
    _, out, _ = run("ls", "--select", "orders", "--output", "json")
    assert json.loads(out)["config"]["meta"] == {
        "owner": "<b>Ada</b>",
        "tier": "2",
        "pager": "call",
    }
    assert run("ls", "--select", "config.meta.owner:<b>Ada</b>")[1] == "shop.orders\n"
    run("parse", "--dbt", "target/dbt")
    of_dbt = json.loads((shop / "target/dbt/manifest.json").read_text())["nodes"][
        "model.shop.orders"
    ]
    assert (
        of_dbt["meta"]
        == of_dbt["config"]["meta"]
        == {"owner": "<b>Ada</b>", "tier": "2", "pager": "call"}
    )


def test_a_seed_has_an_owner_too(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "seeds").mkdir()
    (shop / "seeds/regions.csv").write_text("id,name\n1,north\n")
    (shop / "seeds/regions.yml").write_text(
        "seeds: [{name: regions, meta: {owner: the atlas team}}]\n"
    )
    _, site = make(run, shop, monkeypatch)
    assert "Owner the atlas team" in " ".join(
        Page((site / "seeds/regions.html").read_text("utf-8")).text.split()
    )


def test_the_word_owner_leads_to_meta(run: Run, shop: Path) -> None:
    replace_in(
        shop / "models/shop.yml",
        "  - name: orders\n",
        "  - name: orders\n    owner: Ada\n",
    )
    code, _, err = run("parse")
    assert (code, "meta: {owner: …}" in err) == (2, True)


def test_a_page_shows_what_the_last_plan_has_said(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "None is kept." in page(run, shop, monkeypatch)
    replace_in(
        shop / "models/orders.sql",
        "SELECT order_id,",
        "SELECT order_id, order_id * 2 AS doubled,",
    )
    assert run("plan")[0] == 0
    shown = page(run, shop, monkeypatch).split("Last plan")[1]
    assert (
        "alter The table is altered in place." in shown
        and "compared with main (" in shown
    )
    assert (
        "column-added" in shown
        and "+ doubled bigint" in shown
        and "ADD COLUMNS (doubled bigint);" in shown
    )
    assert "none The same rows" in page(run, shop, monkeypatch, "clicks")
    assert doubts(run, shop, monkeypatch) == []
    assert (
        json.loads(run("plan", "--output", "json")[1])
        == json.loads((shop / "target/plan.json").read_text())["plan"]
    )


@pytest.mark.parametrize(
    "path",
    ["models/clicks.sql", "models/shop.yml", "streams/shop.yml", "pyproject.toml"],
)
def test_a_plan_of_other_files_is_doubted(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    run("plan")
    (shop / path).write_text((shop / path).read_text("utf-8") + "\n")
    assert doubts(run, shop, monkeypatch) == [
        f"Changed since: {path}. It may hold no longer."
    ]


def test_a_file_that_has_come_or_is_gone_is_a_change(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("plan")
    (shop / "models/top_customers.sql").rename(shop / "models/best_customers.sql")
    said = doubts(run, shop, monkeypatch)
    assert said == [
        "Changed since: models/best_customers.sql, models/top_customers.sql. It may hold no longer."
    ]


def test_a_seed_whose_rows_have_changed_is_a_change(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "seeds").mkdir()
    (shop / "seeds/regions.csv").write_text("id,name\n1,north\n")
    run("plan")
    assert doubts(run, shop, monkeypatch) == []
    (shop / "seeds/regions.csv").write_text("id,name\n2,north\n")
    assert doubts(run, shop, monkeypatch) == [
        "Changed since: seeds/regions.csv. It may hold no longer."
    ]


def test_a_plan_of_another_target_is_doubted(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("plan")
    replace_in(shop / "profiles.yml", "namespace: shop", "namespace: other")
    assert doubts(run, shop, monkeypatch) == [
        "Target dev has changed since. It may hold no longer."
    ]


def test_a_plan_of_another_model_says_so(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("plan", "--select", "clicks")
    shown = page(run, shop, monkeypatch).split("Last plan")[1]
    assert (
        "It had other models alone." in shown
        and "lakesql plan --select clicks" in shown
    )
    assert "The same rows" not in shown.split("What it means")[0]


def test_a_model_that_has_run_since_says_so(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("plan")
    metadata, result = (
        {"generated_at": "2999-01-01T00:00:00.000Z"},
        {"name": "orders", "status": "error"},
    )
    results = {"metadata": metadata, "results": [result]}
    (shop / "target/run_results.json").write_text(json.dumps(results))
    assert doubts(run, shop, monkeypatch) == [
        "It has run since, at 2999-01-01T00:00:00.000Z."
    ]


def test_a_plan_of_a_project_that_cannot_be_read_is_kept_too(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = (shop / "streams/shop.yml").read_text("utf-8")
    (shop / "streams/shop.yml").write_text(stream + "\nstraems: []\n")
    run("plan")
    (shop / "streams/shop.yml").write_text(stream)
    shown = page(run, shop, monkeypatch).split("Last plan")[1]
    assert (
        "refused It will not run." in shown
        and "Changed since: streams/shop.yml." in shown
    )


@pytest.mark.parametrize(
    "text", ["", "{}", '{"metadata": {}}', "[1]", '{"metadata": {"generated_at": 3}}']
)
def test_a_file_that_is_no_plan_is_told(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (shop / "target").mkdir(exist_ok=True)
    (shop / "target/plan.json").write_text(text)
    assert (
        "is not what this version of lakesql writes"
        in doubts(run, shop, monkeypatch)[0]
    )


def test_no_secret_is_kept(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESQL_SECRET_WORD", "open-sesame-now")
    replace_in(
        shop / "models/orders.sql",
        "SELECT order_id,",
        "SELECT order_id, 'open-sesame-now' AS word,",
    )
    run("plan")
    assert "open-sesame-now" not in (shop / "target/plan.json").read_text("utf-8")


def test_clean_removes_it(run: Run, shop: Path) -> None:
    run("plan")
    assert (shop / "target/plan.json").is_file()
    run("clean")
    assert not (shop / "target").exists()
