"""Lineage of a whole project: as edges in manifest.json, and as a command."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.share import a_few

Run = Callable[..., tuple[int, str, str]]

MODELS = {
    "open_orders": "{{ config(mode='view') }}\nSELECT order_id, amount, customer_id FROM {{ ref('orders') }} "
    "WHERE status = 'open'",
    "open_totals": "{{ config(mode='materialized_view') }}\nSELECT o.customer_id, sum(o.amount * p.rate) AS total "
    "FROM {{ ref('open_orders') }} AS o JOIN lake.money.rates AS p ON p.day = current_date() "
    "JOIN {{ ref('regions') }} AS r ON r.region = 'north' GROUP BY o.customer_id",
}


@pytest.fixture
def shop(parsed_shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop with a view, what reads it, a seed, and a table that is none of the
    project's."""
    shutil.copytree(parsed_shop, tmp_path / "shop")
    for name, text in MODELS.items():
        (tmp_path / "shop/models" / f"{name}.sql").write_text(text)
    (tmp_path / "shop/seeds").mkdir()
    (tmp_path / "shop/seeds/regions.csv").write_text("region,manager\nnorth,Ada\n")
    (tmp_path / "shop/seeds/regions.yml").write_text(
        "seeds:\n  - name: regions\n    columns: {region: string, manager: string}\n"
    )
    monkeypatch.chdir(tmp_path / "shop")
    for name in tuple(os.environ):
        if name.startswith("LAKESQL_") and name != "LAKESQL_HOME":
            monkeypatch.delenv(name)
    return tmp_path / "shop"


def sources(run: Run, word: str, *options: str) -> list[tuple[str, str, str, str]]:
    code, out, err = run("lineage", word, "--output", "json", *options)
    assert code == 0, err
    (found,) = json.loads(out)["columns"].values()
    edges = [*found.get("upstream", ()), *found.get("downstream", ())]
    spelled = [(edge["from"], edge["to"], edge["type"], edge["kind"]) for edge in edges]
    return [
        (f"{a['node']}.{a['column']}", f"{b['node']}.{b['column']}", kind, how)
        for a, b, kind, how in spelled
    ]


def test_a_column_is_traced_through_views_to_streams(run: Run, shop: Path) -> None:
    assert sources(run, "open_totals.total", "--upstream") == [
        (
            "model.open_orders.amount",
            "model.open_totals.total",
            "DIRECT",
            "aggregation",
        ),
        (
            "table.lake.money.rates.rate",
            "model.open_totals.total",
            "DIRECT",
            "aggregation",
        ),
        ("model.orders.amount", "model.open_orders.amount", "DIRECT", "identity"),
        ("stream.orders.amount", "model.orders.amount", "DIRECT", "identity"),
    ]


def test_what_decides_about_rows_is_an_edge_to_no_column(run: Run, shop: Path) -> None:
    assert sources(run, "seed:regions.region", "--downstream") == [
        ("seed.regions.region", "model.open_totals.None", "INDIRECT", "join")
    ]
    code, out, _ = run("lineage", "open_totals", "--output", "json")
    assert code == 0
    assert {
        (edge["from"]["node"], edge["from"]["column"], edge["kind"])
        for edge in json.loads(out)["rows"]
    } == {
        ("model.open_orders", "customer_id", "group_by"),
        ("seed.regions", "region", "join"),
        ("table.lake.money.rates", "day", "join"),
    }
    decided = sources(run, "orders.status", "--downstream")
    assert (
        "model.orders.status",
        "model.open_orders.None",
        "INDIRECT",
        "filter",
    ) in decided


def test_the_options_of_a_mode_decide_about_rows(run: Run, shop: Path) -> None:
    code, out, _ = run("lineage", "orders", "--output", "json")
    assert code == 0
    rows = {(edge["from"]["column"], edge["kind"]) for edge in json.loads(out)["rows"]}
    assert {
        ("order_id", "group_by"),
        ("updated_at", "sort"),
        ("status", "filter"),
    } <= rows


@pytest.mark.parametrize(
    ("word", "condition", "near"),
    a_few(
        [
            ("open_totls", "unknown-model", "open_totals"),
            ("open_totals.totl", "unknown-column", "total"),
            ("stream:ordres", "unknown-model", "stream:orders"),
            ("stream:orders.amuont", "unknown-column", "amount"),
            ("seed:regoins.region", "unknown-model", "seed:regions"),
            ("", "unknown-model", ""),
            (".", "unknown-model", ""),
        ],
        3,
    ),
)
def test_a_misspelt_name_is_refused_with_the_nearest(
    run: Run, shop: Path, word: str, condition: str, near: str
) -> None:
    code, out, err = run("lineage", word, "--log-format", "json")
    (problem,) = [
        line for line in map(json.loads, err.splitlines()) if line["event"] == "problem"
    ]
    assert (code, out, problem["condition"]) == (2, "", condition)
    assert f"'{near}'" in problem["fix"] if near else "Known:" in problem["fix"]


def test_names_are_found_in_any_capitals_and_of_any_kind(run: Run, shop: Path) -> None:
    assert run("lineage", "orders.AMOUNT") == run("lineage", "orders.amount")
    code, out, _ = run("lineage", "table:lake.money.rates.rate")
    assert (code, out.splitlines()[1].split()) == (
        0,
        ["->", "open_totals.total", "aggregation"],
    )


def test_the_manifest_has_the_edges(run: Run, shop: Path) -> None:
    assert run("parse")[0] == 0
    nodes = json.loads((shop / "target/manifest.json").read_text())["nodes"]
    assert nodes["model.open_orders"]["lineage"]["columns"]["amount"] == [
        {
            "node": "model.orders",
            "column": "amount",
            "type": "DIRECT",
            "kind": "identity",
        }
    ]
    assert {
        "node": "model.orders",
        "column": "status",
        "type": "INDIRECT",
        "kind": "filter",
    } in nodes["model.open_orders"]["lineage"]["rows"]
    again = (shop / "target/manifest.json").read_bytes()
    shutil.rmtree(shop / "target")
    assert run("parse")[0] == 0
    assert (shop / "target/manifest.json").read_bytes() == again


def test_graphviz_gets_each_edge_between_nodes_that_it_knows(
    run: Run, shop: Path
) -> None:
    code, out, _ = run("lineage", "open_totals.total", "--output", "dot")
    lines = out.splitlines()
    assert (code, lines[0], lines[-1], out.count("{"), out.count("}")) == (
        0,
        "digraph lineage {",
        "}",
        6,
        6,
    )
    nodes = set(re.findall(r'^    ("[^"]+") \[label=', out, re.MULTILINE))
    edges = re.findall(r'^  ("[^"]+") -> ("[^"]+") \[label="(\w+)"', out, re.MULTILINE)
    assert [
        f"{source[1:-1]}, {made[1:-1]}, {kind}" for source, made, kind in edges
    ] == [
        f"{source}, {made}, {kind}"
        for source, made, _, kind in sources(run, "open_totals.total")
    ]
    assert {name for source, made, _ in edges for name in (source, made)} == nodes


def test_text_has_a_line_for_each_edge(run: Run, shop: Path) -> None:
    code, out, _ = run("lineage", "open_totals.total", "--upstream")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["<-", "open_orders.amount"],
        ["<-", "orders.amount"],
        ["<-", "stream:orders.amount"],
        ["<-", "table:lake.money.rates.rate"],
    ]
