"""What `lakesql compile` shows is what Spark is given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from lakesql.compile.merge import BOUNDS_PLACE
from lakesql.compile.statements import compiled_text
from lakesql.run.run import build_selects

if TYPE_CHECKING:
    from tests.spark.project import Project

COLUMNS = {"id": {"type": "bigint", "required": True}, "status": "string", "at": "timestamp"}
RECORDS = [
    {"id": 1, "status": "new", "at": "2026-03-01T10:00:00Z"},
    {"id": 2, "status": "gone", "at": "2026-03-01T11:00:00Z"},
]
MODELS: dict[str, dict[str, Any]] = {
    "appended": {"mode": "append", "partition_by": ["days(at)"]},
    "kept": {"mode": "upsert", "keys": ["id"], "sequence_by": "at", "delete_when": "status = 'gone'"},
}
NOT_SHOWN = ("CREATE NAMESPACE", "CALL lake.system.cherrypick_snapshot")
"""What is no statement of the model's own: the namespace, and how a staged batch is published."""


@pytest.mark.spark
@pytest.mark.parametrize("name", MODELS)
def test_spark_is_given_the_compiled_statements_and_no_other(
    name: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.stream("orders", COLUMNS)
    project.record("orders", RECORDS)
    project.model(name, "SELECT id, status, at FROM {orders}", **MODELS[name])
    compiled = statements(compiled_text(build_selects(project.manifest(), [name])[name]))

    given = record_statements(monkeypatch)
    project.run(name).check()

    executed = {with_place_for_bounds(text) for text in given if not text.startswith(NOT_SHOWN)}
    assert executed == compiled
    assert project.rows(name)


def record_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that goes to Spark from now on."""
    from pyspark.sql import SparkSession

    given: list[str] = []
    run = SparkSession.sql

    def recorded(self: SparkSession, text: str, *arguments: Any, **options: Any) -> Any:
        given.append(text.strip())
        return run(self, text, *arguments, **options)

    monkeypatch.setattr(SparkSession, "sql", recorded)
    return given


def statements(compiled: str) -> set[str]:
    """The statements of a compiled file; of a view, which the engine makes by itself, the query."""
    without_comments = re.sub(r"^--.*\n", "", compiled, flags=re.MULTILINE)
    found = (text.strip() for text in without_comments.split(";\n"))
    return {re.sub(r"^CREATE OR REPLACE TEMPORARY VIEW \w+ AS\n", "", text) for text in found if text}


def with_place_for_bounds(text: str) -> str:
    """A batch's MERGE as the compiled file shows it, with a mark where the batch's keys stand."""
    return re.sub(r"target\.id IN \([\d, ]+\)", lambda _: BOUNDS_PLACE, text)
