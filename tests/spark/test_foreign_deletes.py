"""Equality deletes of another engine, which pyiceberg cannot read: they go with the
data files that they apply to."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.spark.gateway import java_class
from lakesql.run.maintain import maintenance_jobs
from tests.spark.project import Project

pytestmark = pytest.mark.long


def delete_as_flink_does(project: Project, name: str, id_: int, partition: str) -> None:
    """Commit an equality delete of an id, in a partition such as 'n=1', or in '' where
    the table has none."""
    table = load_table(project.lake.session, project.manifest().models[name].table)
    field = int(table.schema().findField("id").fieldId())
    path = Path(
        str(table.location()).removeprefix("file:"),
        "data",
        f"{uuid4()}-deletes.parquet",
    )
    schema = pa.schema(
        [pa.field("id", pa.int32(), False, {"PARQUET:field_id": str(field)})]
    )
    pq.write_table(pa.table({"id": [id_]}, schema), path)
    gateway = SparkContext._gateway
    assert gateway is not None
    fields = gateway.new_array(gateway.jvm.int, 1)
    fields[0] = field
    file = (
        java_class("org.apache.iceberg.FileMetadata")
        .deleteFileBuilder(table.spec())
        .ofEqualityDeletes(fields)
    )
    file = (
        file.withPath(str(path))
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(1)
    )
    if partition:
        file = file.withPartitionPath(partition)
    table.newRowDelta().addDeletes(file.build()).commit()


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("partition_by", [[], ["n"]], ids=["whole", "partitioned"])
def test_equality_deletes_go_once_their_data_files_are_rewritten(
    project: Project, version: str, partition_by: list[str]
) -> None:
    options: dict[str, Any] = {
        "partition_by": partition_by,
        "properties": {"format-version": version},
    }
    project.stream("e", {"id": "int", "n": "int"})
    project.model("u", "SELECT * FROM {e}", mode="upsert", keys="id", **options)
    project.record("e", [{"id": id_, "n": id_ % 2} for id_ in range(100)])
    project.run().check()
    delete_as_flink_does(project, "u", 7, "n=1" if partition_by else "")
    assert len(project.rows("u")) == 99
    every = maintenance_jobs({"u": frozenset({"u.rewrite_data_files"})}, at_once=True)
    project.run(jobs_by=every).check()
    project.record("e", [{"id": 1, "n": 1}])
    project.run().check()
    assert len(project.rows_without_spark("u")) == 99
