"""A table is planned with what its model's configuration names, before Spark is asked
for anything."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from pyiceberg import types
from pyiceberg.schema import Schema
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from lakesql.catalog.connect import open_catalog
from lakesql.engine.batch.sync_table import TableSync
from lakesql.errors import RunError
from lakesql.events import Event
from lakesql.project.profiles import Catalog
from tests.unit.test_select import build


class Statements:
    """A session that remembers its statements, and does none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sql(self, statement: str) -> None:
        self.asked.append(statement)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("mode='upsert', keys='Status'", "keys"),
        ("mode='upsert', keys='id', sequence_by='Status'", "sequence_by"),
        ("mode='append', order_by='Status'", "order_by"),
    ],
)
def test_an_ignored_column_that_an_option_names_is_refused_before_any_step(
    tmp_path: Path, options: str, named: str
) -> None:
    select = build(
        f"{options}, on_schema_change='ignore'",
        "SELECT id, Status FROM {{ stream('orders') }}",
    )
    table, session, events = select.model.table, Statements(), list[Event]()
    catalog = open_catalog(
        Catalog(table.catalog, "sql", f"sqlite:///{tmp_path}/c.db", str(tmp_path))
    )
    catalog.iceberg.create_namespace(table.namespace)
    catalog.iceberg.create_table(
        (table.namespace, table.name),
        Schema(types.NestedField(1, "id", types.LongType())),
    )
    sync = TableSync(cast(SparkSession, session), catalog, select, events.append)
    with pytest.raises(RunError) as caught:
        sync.columns(StructType().add("id", LongType()).add("Status", StringType()))
    assert [problem.condition for problem in caught.value.problems] == ["schema-change"]
    assert f"'Status', which {named} " in caught.value.problems[0].what
    assert (session.asked, events) == ([], [])
