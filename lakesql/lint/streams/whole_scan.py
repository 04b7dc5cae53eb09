"""LK013: an append with keys that are looked up in the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import TIMES


class WholeScan:
    """Finds mode `append` with `keys` into a table partitioned by time, without
    `within`."""

    code: ClassVar[str] = "LK013"
    name: ClassVar[str] = "whole-scan"
    finds: ClassVar[str] = (
        "An append with `keys` into a table partitioned by time does not say `within`."
    )
    why: ClassVar[str] = (
        "Each batch looks for its keys in the table. Random keys, such as a UUID, may be in any file: without `within` "
        "all partitions are read, and a batch takes longer with each day of data. With it, those near the batch's own "
        "times are."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(mode='append', keys='view_id', partition_by='days(viewed_at)') }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/views.sql": """{{ config(
    mode='append',
    keys='view_id',
    partition_by='days(viewed_at)',
    within='2 days',
) }}
SELECT view_id, page, viewed_at
FROM {{ stream('clicks') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option `keys` of such a model."""
        writing, config = model.select.writing, model.model.config
        bounds = writing.compared.get("within")
        times = [
            field.column for field in config.partition_by if field.transform in TIMES
        ]
        keys = {key.lower() for key in writing.keys}
        if (
            bounds == ()
            and writing.keys
            and times
            and not keys & {name.lower() for name in times}
        ):
            what = f"Each batch looks for its keys in all partitions of {', '.join(times)}."
            fix = "Say by `within` how far apart two rows of a key may lie: `within='2 days'`."
            yield model.found_for("keys", what, fix)


RULE = WholeScan()
