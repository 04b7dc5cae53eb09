"""How much a rewrite of data files would process, by Iceberg's own planner. Only
manifests are read, no data."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakesql.compile.quote import table_name
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.spark.gateway import java_class
from lakesql.model.table_name import TableName

_ACTIONS = "org.apache.iceberg.actions"
_CONVERTER = "org.apache.spark.sql.execution.datasources.SparkExpressionConverter"


def plan_rewrite(
    session: SparkSession, name: TableName, where: str, options: Mapping[str, str]
) -> tuple[int, int]:
    """How many files of a table a rewrite with these Iceberg options would rewrite, and
    how many bytes.

    `where` is a condition on partitions in Spark's SQL, '' for all. Raises what Java
    raises if it cannot be parsed.
    """
    if where:
        converter = java_class(_CONVERTER)
        condition = converter.collectResolvedSparkExpression(
            session._jsparkSession, table_name(name), where
        )
        condition = converter.convertToIcebergExpression(condition)
    else:
        condition = java_class(
            "org.apache.iceberg.expressions.Expressions"
        ).alwaysTrue()
    planner = java_class(f"{_ACTIONS}.BinPackRewriteFilePlanner")(
        load_table(session, name), condition
    )
    planner.init(dict(options))
    groups = planner.plan().groups().iterator()
    files = size = 0
    while groups.hasNext():
        group = groups.next()
        files, size = files + group.inputFileNum(), size + group.inputFilesSizeInBytes()
    return files, size
