"""Names of columns that SQL could take for something else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.project import Project

NAMES = (
    "order",
    "select",
    "from",
    "null",
    "true",
    "current_date",
    "current_user",
    "interval",
    "case",
    "not",
    "timestamp",
    "user",
    "values",
    "with space",
    " edge ",
    "quo'te",
    'dou"ble',
    "back\\slash",
    "100%",
    "a-b",
    "semi;colon",
    "--comment",
    "/*comment*/",
    "{brace}",
    "größe",
    "名前",
    "MixedCase",
    "1st",
    "$x",
    "#",
)


def record_of(key: str, value: str) -> dict[str, Any]:
    return {
        "k e y": key,
        "order": 1,
        **{name: f"{value} {name}" for name in NAMES if name != "order"},
    }


@pytest.mark.parametrize("by_name", [False, True], ids=["star", "named"])
def test_every_name_works_in_append_and_upsert(project: Project, by_name: bool) -> None:
    columns = {
        "k e y": {"type": "string", "required": True},
        **dict.fromkeys(NAMES, "string"),
        "order": "int",
    }
    listed = "*" if not by_name else ", ".join(f"`{name}`" for name in columns)
    listed = listed.replace("{", "{{").replace("}", "}}")
    project.stream("s", columns, max_per_batch=1)
    project.model(
        "appended",
        f"SELECT {listed} FROM {{s}}",
        mode="append",
        partition_by=["`größe`"],
        order_by="`null`",
    )
    project.model(
        "upserted",
        f"SELECT {listed} FROM {{s}}",
        mode="upsert",
        keys=["k e y", "null", "MixedCase"],
        sequence_by=["order", "select"],
        delete_when="`from` = 'b from'",
        order_by=["select", "`with space` desc", "`quo'te`"],
    )
    one, two = record_of("1", "a"), record_of("2", "b")
    project.record("s", [one, two, {"order": 1}])
    newer = {**one, "order": 2, "名前": "neu"}
    project.record("s", [newer])

    project.run().check()

    assert _values(project, "appended") == _by_text([one, two, newer])
    assert _values(project, "upserted") == _by_text([newer])
    assert project.reasons("upserted") == {"required-missing": 1}


def _values(project: Project, table: str) -> list[dict[str, Any]]:
    return _by_text(project.rows(table))


def _by_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
