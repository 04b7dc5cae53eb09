"""LK033: so many files a day that their metadata becomes the main cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.growth import assume
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.project.procedures import DAY_MS


class ManyFiles:
    """Finds models whose batches write into very many partitions, by the assumptions of
    `lakesql forecast --offline`."""

    code: ClassVar[str] = "LK033"
    name: ClassVar[str] = "many-files"
    finds: ClassVar[str] = "Partitions and trigger make more than 100,000 files a day."
    why: ClassVar[str] = (
        "Each batch writes a file into each partition that it has rows of. 64 buckets and a batch each ten seconds are "
        "half a million files a day, each with a few rows: compaction reads and writes all of them again, and planning "
        "a query takes longer than its answer."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    trigger='10 seconds',
    partition_by='bucket(64, order_id)',
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
    trigger='30 seconds',
    partition_by='bucket(4, order_id)',
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option `partition_by` if the model would write too many files
        a day."""
        if not model.model.config.partition_by or model.model.config.is_exchanged:
            return
        writes = assume(model.model).writes
        files = writes.files * DAY_MS / writes.interval_ms
        if files > MOST_FILES:
            what = (
                f"At 100 rows a second these partitions get {files:,.0f} files a day."
            )
            fix = "Take fewer buckets or a longer trigger; `lakesql forecast` shows what either costs."
            yield model.found_for("partition_by", what, fix)


MOST_FILES = 100_000


RULE = ManyFiles()
