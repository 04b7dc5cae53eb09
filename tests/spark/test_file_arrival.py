"""Which row of a key arrived last, where the rows of a batch are those of several
files."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.spark.project import Project

COLUMNS = {"id": "int", "v": "string"}
T0_S = 1_772_400_000
MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "newest": ({"mode": "upsert", "keys": ["id"]}, "c"),
    "first": ({"mode": "append", "keys": ["id"]}, "a"),
}
FILES = ("9.json", "10.json", "8/11.json")
"""Files from the oldest to the newest, which are in no order of their names."""


def write(project: Project, number: int, at_s: int) -> None:
    # Spark reads the largest file of a batch first
    padding = '{"id": 2, "v": "-"}\n' * (1000 if number == 1 else 1)
    value = "abc"[number]
    file = project.write(
        f"in/{FILES[number]}", f'{padding}{{"id": 1, "v": "{value}"}}\n'
    )
    os.utime(file, (at_s, at_s))


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_rows_arrive_in_the_order_of_their_files_times_whichever_batch_has_them(
    project: Project, is_one_batch: bool
) -> None:
    project.stream("s", COLUMNS, path="in/**/*.json")
    for name, (config, _) in MODELS.items():
        project.model(name, "SELECT id, v FROM {s}", **config)
    for number in range(len(FILES)):
        write(project, number, T0_S + number)
        if not is_one_batch:
            project.run().check()
    project.run().check()
    for name, (_, wanted) in MODELS.items():
        assert [row["v"] for row in project.rows(name) if row["id"] == 1] == [wanted], (
            name
        )


def test_files_of_one_time_arrive_in_the_order_of_their_names(project: Project) -> None:
    project.stream("s", COLUMNS, path="in/**/*.json")
    project.model("newest", "SELECT id, v FROM {s}", **MODELS["newest"][0])
    for number in range(len(FILES)):
        write(project, number, T0_S)
    project.run().check()
    assert [row["v"] for row in project.rows("newest") if row["id"] == 1] == ["a"]


def test_files_that_are_read_by_their_names_arrive_in_that_order(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, path="in/**/*.json", ordered_by="name")
    project.model("newest", "SELECT id, v FROM {s}", **MODELS["newest"][0])
    for number in range(len(FILES)):
        write(project, number, T0_S + number)
    project.run().check()
    assert [row["v"] for row in project.rows("newest") if row["id"] == 1] == ["a"]
