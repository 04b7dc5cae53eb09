"""LK037: rows that move to another partition with each update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.table import partition_text
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class MovingPartitions:
    """Finds tables of the newest rows that are partitioned by a column of
    `sequence_by`."""

    code: ClassVar[str] = "LK037"
    name: ClassVar[str] = "moving-partitions"
    finds: ClassVar[str] = (
        "A table of the newest rows is partitioned by a column of `sequence_by`."
    )
    why: ClassVar[str] = (
        "That column is another one with each update. So each update deletes a row in one partition and writes it into "
        "another, old partitions hold more deletes than rows, and no filter by it finds all states of a row."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    partition_by='days(updated_at)',
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/newest_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    partition_by='days(created_at)',
) }}
SELECT order_id, status, created_at, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such field of `partition_by`."""
        config, writing = model.model.config, model.select.writing
        sequence = {name.lower() for name in writing.sequence_by} - {
            key.lower() for key in writing.keys
        }
        if config.versions is not None:
            return
        for index, field in enumerate(config.partition_by):
            if field.column.lower() in sequence:
                what = f"Each update moves a row to another partition: {partition_text(field)} is of sequence_by."
                fix = "Partition by what stays: when a row was made, a bucket of its key; or not at all."
                yield model.found_for("partition_by", what, fix, index)


RULE = MovingPartitions()
