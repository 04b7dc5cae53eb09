"""Protobuf on a real cluster, whose executors have a Python of their own, without
lakesql."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.messages import framed, message_of
from tests.servers.cluster import Cluster
from tests.servers.process import LOOPBACK, running

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDER = (
    'syntax = "proto3"; package shop; message Order { int64 id = 1; string name = 2; }'
)
NEEDED = (
    "ptars",
    "google",
    "pyarrow",
    "pyarrow.libs",
    "numpy",
    "numpy.libs",
    "pyspark",
    "py4j",
)
ENDS_WITHIN_S = 180


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(Cluster(tmp_path_factory.mktemp("cluster"))) as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    """A model over messages, with the cluster as its master."""
    values = [
        framed(7, message_of(ORDER)(id=number, name=f"n{number}"))
        for number in range(500)
    ]
    encoded = [base64.b64encode(each).decode() for each in values]
    lines = [
        json.dumps({"partition": 0, "offset": at, "value_base64": each})
        for at, each in enumerate(encoded)
    ]
    spark = {
        "master": cluster.master,
        "conf": {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK},
    }
    dev = {
        "catalog": {
            "name": "lake",
            "type": "sql",
            "uri": "sqlite:///catalog.db",
            "warehouse": "warehouse",
        },
        "checkpoints": "checkpoints",
        "spark": spark,
        "connections": {
            "broker": {"type": "recorded", "path": "."},
            "schemas": {"type": "registry", "path": "schemas"},
        },
    }
    stream = {
        "name": "orders",
        "connection": "broker",
        "topic": "orders",
        "format": "protobuf",
        "registry": "schemas",
    }
    files = {
        "pyproject.toml": '[tool.lakesql]\nname = "shop"\nprofile = "shop"\n',
        "profiles.yml": json.dumps(
            {"shop": {"target": "dev", "outputs": {"dev": dev}}}
        ),
        "streams/orders.yml": json.dumps(
            {"streams": [{**stream, "columns": {"id": "bigint", "name": "string"}}]}
        ),
        "models/landed.sql": "{{ config(mode='append') }}\nSELECT id, name FROM {{ stream('orders') }}\n",
        "schemas/7.proto": ORDER,
        "orders/1.jsonl": "\n".join(lines) + "\n",
    }
    for name, text in files.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "project"


def python_with(folder: Path, needed: tuple[str, ...]) -> Path:
    """A Python that has these packages, and no other."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for name in needed:
        if (source := Path(sysconfig.get_path("purelib"), name)).exists():
            (packages / name).symlink_to(source)
    program = folder / "python3"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    program.chmod(0o755)
    return program


def run(project: Path, python: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakesql", "run"]
    environ = {**os.environ, "PYSPARK_PYTHON": str(python)}
    return subprocess.run(
        command,
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=False,
    )


def test_executors_need_what_reads_messages_and_not_lakesql(
    project: Path, tmp_path: Path
) -> None:
    python = python_with(tmp_path / "whole", NEEDED)
    asked = [python, "-c", "import lakesql"]
    own = subprocess.run(
        asked, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "No module named 'lakesql'" in own.stderr
    ran = run(project, python)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    table = SqlCatalog("lake", uri=f"sqlite:///{project}/catalog.db").load_table(
        "shop.landed"
    )
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [*range(500)]


def test_what_the_executors_lack_is_named_and_is_installed(
    project: Path, tmp_path: Path
) -> None:
    without = python_with(
        tmp_path / "half", tuple(name for name in NEEDED if name != "ptars")
    )
    for python, what in (
        (without, "has no ptars"),
        (tmp_path / "no" / "python3", "find no Python at"),
    ):
        ran = run(project, python)
        assert ran.returncode == 1
        assert "executor-python" in ran.stdout + ran.stderr
        assert what in ran.stdout + ran.stderr
    assert run(project, python_with(tmp_path / "whole", NEEDED)).returncode == 0
