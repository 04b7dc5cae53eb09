"""`lineage` of a target: what its options say, what is refused, and what things are
called in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesql.errors import ProfileError
from lakesql.lineage.lineage_inputs import catalog_namespace
from lakesql.project.lineage_target import (
    BATCH,
    LineageFile,
    LineageHttp,
    LineageKafka,
    LineageTarget,
)
from lakesql.project.profiles import Catalog, Target, load_target, resolve_paths
from lakesql.source.dataset import Dataset, dataset_at, folder_before
from tests.cases import each_of

CONNECTIONS = "{broker: {type: kafka, bootstrap_servers: 'b:9092'}, files: {type: files, path: in}}"


def load(folder: Path, lineage: str) -> Target:
    (folder / "profiles.yml").write_text(
        f"p:\n  outputs:\n    dev:\n      connections: {CONNECTIONS}\n      lineage: {lineage}\n"
    )
    return load_target("p", None, [folder], os.environ)


@pytest.mark.parametrize(
    ("lineage", "target"),
    [
        ("{type: file, path: a.jsonl}", LineageFile(path="a.jsonl")),
        (
            "{type: file, path: a.jsonl, every: batch}",
            LineageFile(path="a.jsonl", every=BATCH),
        ),
        (
            "{type: http, url: 'https://m:5000', token: t}",
            LineageHttp(url="https://m:5000", token="t"),
        ),
        (
            "{type: kafka, connection: broker, topic: lineage, namespace: prod}",
            LineageKafka(connection="broker", topic="lineage", namespace="prod"),
        ),
    ],
)
def test_each_type_is_read(tmp_path: Path, lineage: str, target: LineageTarget) -> None:
    assert load(tmp_path, lineage).lineage == target


@pytest.mark.parametrize(
    ("lineage", "condition"),
    [
        ("{}", "lineage-options"),
        ("{type: htpp, url: 'http://m'}", "lineage-options"),
        ("{type: http}", "missing-option"),
        ("{type: http, url: 'http://m', urll: x}", "unknown-option"),
        ("{type: http, url: 'ftp://m'}", "lineage-options"),
        ("{type: http, url: 'http://m:port'}", "lineage-options"),
        ("{type: http, url: 'http://'}", "lineage-options"),
        ("{type: http, url: 'http://u:s3cret@m:5000'}", "lineage-options"),
        ("{type: http, url: 'http://m:5000/?key=s3cret'}", "lineage-options"),
        ("{type: file, path: 's3://bucket/a'}", "lineage-options"),
        ("{type: file, path: ''}", "wrong-value"),
        ("{type: file, path: a, every: often}", "bad-interval"),
        ("{type: kafka, connection: brokr, topic: t}", "unknown-connection"),
        ("{type: kafka, connection: files, topic: t}", "lineage-options"),
    ],
)
def test_what_says_nothing_is_refused(
    tmp_path: Path, lineage: str, condition: str
) -> None:
    with pytest.raises(ProfileError) as raised:
        load(tmp_path, lineage)
    (problem,) = raised.value.problems
    assert problem.condition == condition
    assert problem.place is not None
    assert "s3cret" not in f"{problem.what}{problem.why}{problem.fix}"


def test_paths_are_those_of_the_project(tmp_path: Path) -> None:
    for lineage, name in (
        ("{type: file, path: a}", "path"),
        ("{type: http, url: 'http://m', ca: a}", "ca"),
    ):
        target = resolve_paths(load(tmp_path, lineage), tmp_path / "project")
        assert getattr(target.lineage, name) == str(tmp_path / "project" / "a")


@each_of(
    ("place", "dataset"),
    [
        ("/w/shop/orders/", Dataset("file", "/w/shop/orders")),
        ("file:/w/orders", Dataset("file", "/w/orders")),
        ("file:///w/orders", Dataset("file", "/w/orders")),
        ("s3a://bucket/w/orders", Dataset("s3://bucket", "w/orders")),
        ("gs://bucket/w", Dataset("gs://bucket", "w")),
        ("hdfs://u:p@name:9000/w", Dataset("hdfs://name:9000", "w")),
    ],
)
def test_a_place_is_named_as_openlineage_does(place: str, dataset: Dataset) -> None:
    assert dataset_at(place) == dataset


@each_of(
    ("pattern", "folder"),
    [
        ("in/2026-*/x.json", "in"),
        ("in/a", "in/a"),
        ("*.json", ""),
        ("in/{a,b}/*", "in"),
    ],
)
def test_a_pattern_of_files_is_the_folder_before_it(pattern: str, folder: str) -> None:
    assert folder_before(pattern) == folder


@each_of(
    ("type_", "uri", "namespace"),
    [
        (
            "sql",
            "postgresql+psycopg://u:p@db:5432/iceberg?sslmode=require",
            "postgresql://db:5432/iceberg",
        ),
        ("sql", "sqlite:////p/catalog.db", "sqlite:////p/catalog.db"),
        ("rest", "https://catalog/api/", "https://catalog/api"),
        ("hive", "thrift://meta:9083", "hive://meta:9083"),
        ("glue", "", "glue://lake"),
    ],
)
def test_a_catalog_is_its_address_without_a_login(
    type_: str, uri: str, namespace: str
) -> None:
    assert catalog_namespace(Catalog(type=type_, uri=uri)) == namespace
