"""A command leaves a Spark session alone that another part of its process has
opened."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.spark.project import Project

GIVEN = [{"stream": "orders", "batches": [[{"id": 1}, {"id": 1}], [{"id": 1}]]}]
UNIT_TEST = {
    "name": "sums",
    "model": "counted",
    "given": GIVEN,
    "expect": {"rows": [{"id": 1, "n": 3}]},
}


@pytest.mark.long
def test_unit_tests_beside_a_session_with_tables_of_their_names_touch_none_of_them(
    project: Project, run: Callable[..., tuple[int, str, str]]
) -> None:
    project.stream("orders", {"id": "int"})
    project.model(
        "counted",
        "SELECT id, count(*) AS n FROM {orders} GROUP BY id",
        mode="upsert",
        keys=["id"],
    )
    project.write("models/tests.yml", json.dumps({"unit_tests": [UNIT_TEST]}))
    project.record("orders", [{"id": 7}])
    project.run().check()
    command = [
        "test",
        "--unit",
        "--engine",
        "spark",
        "--project-dir",
        str(project.directory),
    ]

    code, out, err = run(*command, "--log-format", "json")
    assert project.has("counted"), out
    assert (code, json.loads(err.splitlines()[-1])["condition"]) == (2, "spark-open"), (
        out + err
    )
    assert project.rows("counted") == [{"id": 7, "n": 1}]

    done = subprocess.run(
        [sys.executable, "-m", "lakesql", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert project.rows("counted") == [{"id": 7, "n": 1}]
