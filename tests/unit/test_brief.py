"""Which runs are over in seconds, by what their streams hold before they start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesql.graph.load_manifest import load_manifest
from lakesql.project.files import read_project
from lakesql.project.profiles import load_target
from lakesql.run.start.brief import FEW_BYTES, TEXT_OF_PACKED, is_brief
from tests.servers.process import LOOPBACK, free_ports

PROFILES = """\
shop:
  target: dev
  outputs:
    dev:
      catalog: {{name: lake, type: sql, uri: "sqlite:///catalog.db", warehouse: warehouse}}
      checkpoints: checkpoints
      connections:
        landing: {{type: files, path: landing}}
        away: {{type: files, path: "s3://bucket"}}
        broker: {{type: kafka, bootstrap_servers: "{servers}"}}
        clock: {{type: rate}}
"""
FILES = {
    "pyproject.toml": '[tool.lakesql]\nname = "shop"\n',
    "streams/all.yml": """\
streams:
  - {name: sales, connection: landing, path: "sales/*", format: json, columns: {id: bigint}}
  - {name: far, connection: away, path: "sales/*.json", format: json, columns: {id: bigint}}
  - {name: topic, connection: broker, topic: topic, columns: {id: bigint}}
  - {name: ticks, connection: clock}
""",
    **{
        f"models/{name}.sql": f"{{{{ config(mode='append') }}}}\nSELECT {columns} FROM {source}\n"
        for name, columns, source in (
            ("sold", "id", "{{ stream('sales') }}"),
            ("distant", "id", "{{ stream('far') }}"),
            ("sent", "id", "{{ stream('topic') }}"),
            ("ticked", "value", "{{ stream('ticks') }}"),
            ("after", "id", "{{ stream('sold') }}"),
            (
                "joined",
                "s.id",
                "{{ stream('sales') }} AS s JOIN {{ ref('sold') }} AS o ON o.id = s.id",
            ),
        )
    },
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (nobody,) = free_ports(1)
    files = {**FILES, "profiles.yml": PROFILES.format(servers=f"{LOOPBACK}:{nobody}")}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "landing/sales").mkdir(parents=True)
    return tmp_path


def is_brief_there(shop: Path, *models: str) -> bool:
    return is_brief(
        load_manifest(
            read_project(shop), load_target("shop", None, [shop], os.environ), {}
        ),
        models,
    )


def write_sparse(file: Path, size: int) -> None:
    with file.open("wb") as content:
        content.truncate(size)


def test_few_files_are_read_in_seconds(shop: Path) -> None:
    assert is_brief_there(shop, "sold")
    write_sparse(shop / "landing/sales/1.json", FEW_BYTES)
    assert is_brief_there(shop, "sold")
    write_sparse(shop / "landing/sales/2.json", 1)
    assert not is_brief_there(shop, "sold")


def test_a_compressed_file_holds_more_than_its_size(shop: Path) -> None:
    write_sparse(shop / "landing/sales/1.json.gz", FEW_BYTES // TEXT_OF_PACKED + 1)
    assert not is_brief_there(shop, "sold")


def test_a_model_that_reads_another_is_as_brief_as_that_if_they_run_together(
    shop: Path,
) -> None:
    assert is_brief_there(shop, "sold", "after")
    assert not is_brief_there(shop, "after")


def test_a_model_that_has_run_before_may_have_a_large_table(shop: Path) -> None:
    (shop / "checkpoints/sold").mkdir(parents=True)
    assert not is_brief_there(shop, "sold")


@pytest.mark.parametrize("model", ["joined", "distant", "sent", "ticked"])
def test_what_is_joined_or_cannot_be_counted_may_be_much(
    shop: Path, model: str
) -> None:
    assert not is_brief_there(shop, model, "sold")
