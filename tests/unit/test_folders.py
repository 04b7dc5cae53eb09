"""What lies in a table's folder and is no part of the table, against an oracle that
compares plain paths."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lakesql.cli.options import Options
from lakesql.cli.project import load_project
from lakesql.errors import LakesqlError
from lakesql.names import MEMORY_SUFFIXES

PROFILE = """\
case:
  target: dev
  outputs:
    dev:
      catalog: {{name: lake, type: {kind}, uri: "{uri}", warehouse: "{warehouse}"}}
      namespace: t
      checkpoints: "{checkpoints}"
      connections:
        db: {{type: recorded, path: "{recorded}"}}
        raw: {{type: files, path: "{files}"}}
"""
STREAMS = """\
streams:
  - {{name: s, connection: db, topic: topic, columns: {{id: bigint}}}}
  - {{name: f, connection: raw, path: "{path}", format: json, columns: {{id: bigint}}}}
"""
USUAL = {
    "kind": "sql",
    "uri": "sqlite:///catalog.db",
    "warehouse": "lake",
    "checkpoints": "checkpoints",
    "recorded": "recorded",
    "files": ".",
    "path": "incoming/*.json",
}
MODELS = {"a": "s", "ab": "f"}
BESIDE = (
    "",
    "__dead_letter",
    *MEMORY_SUFFIXES.values(),
    "__rebuild",
    "__rebuild__dead_letter",
)


def write(folder: Path, given: Mapping[str, str], config: str = "") -> None:
    said = {**USUAL, **given}
    (folder / "models").mkdir(exist_ok=True)
    (folder / "streams").mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text('[tool.lakesql]\nname = "case"\n')
    (folder / "profiles.yml").write_text(PROFILE.format(**said))
    (folder / "streams" / "s.yml").write_text(STREAMS.format(**said))
    for name, stream in MODELS.items():
        text = f"{{{{ config(mode='append'{config}) }}}}\nSELECT id FROM {{{{ stream('{stream}') }}}}\n"
        (folder / "models" / f"{name}.sql").write_text(text)


def conditions(folder: Path, **options: Path) -> list[str]:
    try:
        load_project(Options(project_dir=folder, **options))
    except LakesqlError as error:
        return [problem.condition for problem in error.problems]
    return []


def table_folders(folder: Path, warehouse: str) -> Iterator[Path]:
    for name in MODELS:
        for suffix in BESIDE:
            yield folder / warehouse / "t" / f"{name}{suffix}"


def is_within(place: Path, around: Path) -> bool:
    one, other = os.path.realpath(place), os.path.realpath(around)
    return one == other or one.startswith(other.rstrip("/") + "/")


NAMES = (
    "a",
    "ab",
    "a__dead_letter",
    "a__rebuild",
    "abc",
    "t",
    "lake",
    "data",
    "checkpoints",
    "x",
)


@pytest.mark.checks
def test_a_folder_is_refused_where_a_table_would_be_touched_and_nowhere_else(
    tmp_path: Path,
) -> None:
    chance = random.Random(5)
    refused = 0
    for _ in range(60):
        places = {
            key: "/".join(chance.choices(NAMES, k=chance.choice((1, 2, 3, 4))))
            if chance.random() < 0.4
            else "/".join(
                ("lake", "t", *chance.choices(NAMES, k=chance.choice((0, 1, 2))))
            )
            for key in ("checkpoints", "recorded", "files")
            if chance.random() < 0.5
        }
        write(tmp_path, places)
        said = {**USUAL, **places}
        tables = list(table_folders(tmp_path, "lake"))
        own = [
            tmp_path / said["checkpoints"] / f"{name}{end}"
            for name in MODELS
            for end in ("", ".lease", "__rebuild")
        ]
        read = [
            tmp_path / said["recorded"] / "topic",
            tmp_path / said["files"] / "incoming",
        ]
        expected = [
            any(
                is_within(place, table) or is_within(table, place)
                for place in own
                for table in tables
            ),
            *(any(is_within(place, table) for table in tables) for place in read),
        ]
        found = conditions(tmp_path)
        assert found == ["unsafe-folder"] * sum(expected), places
        refused += bool(found)
    assert 10 < refused < 55


def test_links_lead_to_the_folders_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "lake" / "t" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "lake" / "t" / "a")
    write(tmp_path, {"checkpoints": "elsewhere/checkpoints"})
    assert conditions(tmp_path) == ["unsafe-folder"]
    (tmp_path / "data").mkdir()
    (tmp_path / "lake" / "t" / "ab").symlink_to(tmp_path / "data")
    write(tmp_path, {"checkpoints": "data/checkpoints"})
    assert conditions(tmp_path) == ["unsafe-folder"]
    write(tmp_path, {"checkpoints": "data_of_others/checkpoints"})
    assert conditions(tmp_path) == []


@pytest.mark.parametrize(
    ("warehouse", "checkpoints", "is_refused"),
    [
        ("s3://bucket/lake", "s3a://bucket/lake/t/a/checkpoints", True),
        ("s3://bucket/lake/", "s3://bucket/lake/t", True),
        ("s3://bucket/lake", "s3://other/lake/t/a", False),
        ("s3://bucket/lake", "s3://bucket/lake/checkpoints", False),
        ("file:///tmp/lakesql_lake", "/tmp/lakesql_lake/t/a", True),
    ],
)
def test_urls_are_compared_as_the_storages_that_they_name(
    tmp_path: Path, warehouse: str, checkpoints: str, is_refused: bool
) -> None:
    write(tmp_path, {"warehouse": warehouse, "checkpoints": checkpoints})
    assert conditions(tmp_path) == ["unsafe-folder"] * is_refused


def test_folders_that_a_table_is_given_count_in_every_catalog(tmp_path: Path) -> None:
    config = f", properties={{'write.data.path': '{tmp_path}/data'}}"
    server = {"kind": "rest", "uri": "http://127.0.0.1:1", "warehouse": "w"}
    write(tmp_path, {**server, "checkpoints": f"{tmp_path}/data/checkpoints"}, config)
    assert conditions(tmp_path) == ["unsafe-folder"]
    write(tmp_path, server, config)
    assert conditions(tmp_path) == []


def test_what_is_written_beside_the_tables_stays_out_of_their_folders(
    tmp_path: Path,
) -> None:
    write(tmp_path, {})
    assert conditions(tmp_path, log_path=tmp_path / "lake" / "t" / "ab" / "logs") == [
        "unsafe-folder"
    ]
    assert conditions(tmp_path, target_path=tmp_path / "lake" / "t" / "ab") == [
        "unsafe-folder"
    ]
    write(tmp_path, {"uri": "sqlite:///lake/t/a/catalog.db"})
    assert conditions(tmp_path) == ["unsafe-folder"]
