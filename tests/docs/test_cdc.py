"""The files that docs/cdc.md has a newcomer write are a project, for the connector that
the page sets up."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.readme import README
from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.compile.compiled import compiled_files
from lakesql.source.kafka import Kafka
from lakesql.source.origin import Topics

PAGE = (README.parent / "docs" / "cdc.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROFILES = """
shop:
  target: dev
  outputs:
    dev:
      catalog: {name: lake, type: sql, uri: "sqlite:///.lakesql/catalog.db", warehouse: .lakesql/warehouse}
"""


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(PAGE) if found == kind]


def test_the_project_of_the_page_compiles_and_reads_what_its_connector_writes(
    tmp_path: Path,
) -> None:
    connections, stream, *_ = blocks("yaml")
    model = next(text for text in blocks("sql") if text.startswith("{{ config"))
    files = {
        "pyproject.toml": '[tool.lakesql]\nname = "shop"\n',
        "profiles.yml": PROFILES + connections,
        "streams/orders.yml": stream,
        "models/orders.sql": model,
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    project = load_project(Options(project_dir=tmp_path))
    assert "MERGE INTO" in compiled_files(project).compile(project.models)["orders"]

    connector = json.loads(blocks("json")[0])
    (declared,) = project.streams.values()
    topics = tuple(
        f"{connector['topic.prefix']}.{table}"
        for table in connector["table.include.list"].split(",")
    )
    assert declared.origin == Topics(topics)
    assert isinstance(project.target.connections[declared.connection], Kafka)
    created = next(text for text in blocks("sql") if "CREATE PUBLICATION" in text)
    for said in (
        connector["database.user"],
        connector["publication.name"],
        *declared.column_names,
    ):
        assert re.search(rf"\b{said}\b", created), said
