"""LK032: partitions by time that get only one or two batches each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.table import partition_text
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every


class ThinPartitions:
    """Finds partitions by a time that is shorter than two intervals of the trigger."""

    code: ClassVar[str] = "LK032"
    name: ClassVar[str] = "thin-partitions"
    finds: ClassVar[str] = "Partitions by time are finer than the trigger fills."
    why: ClassVar[str] = (
        "A partition by hour that gets one batch an hour is one small file, and nothing can be compacted into a larger "
        "one: files of two partitions stay two files."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='1 hour', partition_by='hours(viewed_at)') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', trigger='1 hour', partition_by='days(viewed_at)') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such field of `partition_by`."""
        trigger = model.model.trigger
        if not isinstance(trigger, Every):
            return
        for index, field in enumerate(model.model.config.partition_by):
            length_ms = _LENGTHS_MS.get(field.transform, 0)
            if length_ms and length_ms < 2 * trigger.interval_ms:
                what = f"A partition of {partition_text(field)} gets a batch or two: there is one every {trigger.text}."
                yield model.found_for(
                    "partition_by",
                    what,
                    "Partition by a longer time, or not at all.",
                    index,
                )


_LENGTHS_MS = {"hours": 3_600_000, "days": 86_400_000}


RULE = ThinPartitions()
