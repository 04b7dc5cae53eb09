"""LK011: tombstones that are dropped while older rows of their keys may still
arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every
from lakesql.project.duration import interval_text


class ShortMemory:
    """Finds a `tombstone_retention` that is shorter than records may be late."""

    code: ClassVar[str] = "LK011"
    name: ClassVar[str] = "short-memory"
    finds: ClassVar[str] = (
        "Deleted keys are forgotten sooner than an hour, or before some batches have passed."
    )
    why: ClassVar[str] = (
        "A deleted key is remembered for `tombstone_retention`, so that an older row of it that comes later does not "
        "bring it back. A partition that was stuck, or a producer that sends again, is late by hours; a key that is "
        "forgotten by then comes back to life."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/open_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    delete_when="status = 'cancelled'",
    tombstone_retention='5 minutes',
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/open_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    delete_when="status = 'cancelled'",
    tombstone_retention='3 days',
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option."""
        kept = model.select.writing.retention
        if kept is None:
            return
        trigger = model.model.trigger
        least_ms = max(
            LEAST_MS, 2 * trigger.interval_ms if isinstance(trigger, Every) else 0
        )
        if kept.length_ms < least_ms:
            what = f"Deleted keys are remembered for {kept.text}: an older row that comes later brings one back."
            fix = f"Remember them as long as a record may be late: {interval_text(least_ms)} at least, days as a rule."
            yield model.found_for("tombstone_retention", what, fix)


LEAST_MS = 3_600_000
"""The shortest retention that is not reported. Records are late by as much every week,
when a broker restarts or a producer retries."""


RULE = ShortMemory()
