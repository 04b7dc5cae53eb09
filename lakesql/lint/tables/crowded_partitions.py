"""LK031: a partition column with nearly as many values as there are rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.table import partition_text
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class CrowdedPartitions:
    """Finds partitions by the plain value of a key, of a time, or of a number with a
    fraction."""

    code: ClassVar[str] = "LK031"
    name: ClassVar[str] = "crowded-partitions"
    finds: ClassVar[str] = (
        "A table is partitioned by each value of a column that has very many."
    )
    why: ClassVar[str] = (
        "Each value makes a partition with files of its own. A batch of 10,000 orders writes 10,000 files, no "
        "compaction brings files of two partitions together, and a reader opens all of them."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    partition_by='order_id',
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
    partition_by='bucket(8, order_id)',
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such field of `partition_by`."""
        types, config = model.types, model.model.config
        keys = model.select.writing.keys
        for index, field in enumerate(config.partition_by):
            name = field.column.lower()
            if field.transform != "identity":
                continue
            kind = types.get(name, "")
            if [key.lower() for key in keys] == [name]:
                why = "is the key: each row has a partition of its own"
            elif kind.partition("(")[0] in _MANY:
                why = f"is of type {kind}, of which nearly every value is another one"
            else:
                continue
            what = f"{partition_text(field)} makes a partition of each value, and '{field.column}' {why}."
            fix = f"Partition by less: days({field.column}) of a time, bucket(8, {field.column}) of a key; or not at all."
            yield model.found_for("partition_by", what, fix, index)


_MANY = frozenset(
    {"timestamp", "timestamp_ntz", "float", "double", "decimal", "binary"}
)


RULE = CrowdedPartitions()
