"""`lakesql parse --dbt`: what OpenMetadata's reader of dbt's files takes, and what
stands in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesql.cli.init import write_project

pytestmark = pytest.mark.checks

Run = Callable[..., tuple[int, str, str]]

VIEW = (
    "{{ config(mode='view') }}\nSELECT o.order_id FROM {{ ref('orders') }} AS o "
    "JOIN {{ ref('regions') }} AS r ON r.order_id = o.order_id"
)


_STREAMS = ("customers", "orders", "page_views", "product_changes")


@pytest.fixture
def artifacts(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], dict[str, Any]]:
    """dbt's manifest and catalog of a fresh shop with a view and a seed."""
    write_project(tmp_path / "shop", "shop")
    (tmp_path / "shop/seeds").mkdir()
    (tmp_path / "shop/seeds/regions.csv").write_text("order_id,manager\n1,Ada\n")
    (tmp_path / "shop/seeds/regions.yml").write_text(
        "seeds:\n  - name: regions\n    columns: {order_id: bigint, manager: string}\n"
    )
    (tmp_path / "shop/models/open_orders.sql").write_text(VIEW)
    monkeypatch.chdir(tmp_path / "shop")
    code, _, err = run("parse", "--dbt", "target/dbt")
    assert code == 0, err
    manifest, catalog = (
        json.loads(Path(f"target/dbt/{name}.json").read_text())
        for name in ("manifest", "catalog")
    )
    return manifest, catalog


def test_the_files_are_those_of_dbt(
    artifacts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    # To import them takes a second.
    from collate_dbt_artifacts_parser.parsers.catalog.catalog_v1 import CatalogV1
    from collate_dbt_artifacts_parser.parsers.manifest.manifest_v12 import ManifestV12

    manifest, catalog = artifacts
    read = ManifestV12(**manifest)
    assert {*read.nodes} == {*CatalogV1(**catalog).nodes}
    assert {*read.sources} == {f"source.shop.shop.{name}" for name in _STREAMS}


def test_models_depend_on_what_they_read(
    artifacts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    manifest, _ = artifacts
    orders = manifest["nodes"]["model.shop.orders"]
    assert orders["depends_on"]["nodes"] == ["source.shop.shop.orders"]
    assert orders["sources"] == [["shop", "orders"]]
    assert (orders["database"], orders["schema"], orders["alias"]) == (
        "lake",
        "shop",
        "orders",
    )
    assert orders["config"]["materialized"] == "incremental"
    assert orders["columns"]["amount"]["data_type"] == "decimal(12,2)"
    view = manifest["nodes"]["model.shop.open_orders"]
    assert view["config"]["materialized"] == "view"
    assert view["depends_on"]["nodes"] == ["model.shop.orders", "seed.shop.regions"]
    assert "model.shop.open_orders" in manifest["child_map"]["seed.shop.regions"]
    # A stream that is another model's table is that model, and no source.
    assert manifest["nodes"]["model.shop.checkouts"]["depends_on"]["nodes"] == [
        "model.shop.clicks"
    ]
    assert manifest["sources"]["source.shop.shop.orders"]["identifier"] == "shop.orders"


def test_the_catalog_has_the_columns_in_their_order(
    artifacts: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    manifest, catalog = artifacts
    columns = catalog["nodes"]["model.shop.orders"]["columns"]
    assert [*columns] == [*manifest["nodes"]["model.shop.orders"]["columns"]]
    assert [column["index"] for column in columns.values()] == [
        *range(1, len(columns) + 1)
    ]
    assert catalog["nodes"]["model.shop.open_orders"]["metadata"]["type"] == "VIEW"


def test_no_file_is_written_of_a_project_with_errors(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "shop", "shop")
    bad = "{{ config(mode='append') }}\nSELECT nothing FROM {{ stream('orders') }}"
    (tmp_path / "shop/models/bad.sql").write_text(bad)
    monkeypatch.chdir(tmp_path / "shop")
    code, _, _ = run("parse", "--dbt", "target/dbt")
    assert code == 2
    assert not Path("target/dbt").exists()
