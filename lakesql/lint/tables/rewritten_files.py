"""LK036: copy-on-write with a short trigger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every


class RewrittenFiles:
    """Finds `copy-on-write` with a trigger of less than five minutes."""

    code: ClassVar[str] = "LK036"
    name: ClassVar[str] = "rewritten-files"
    finds: ClassVar[str] = (
        "`write.merge.mode` is copy-on-write, and the trigger is short."
    )
    why: ClassVar[str] = (
        "Each batch writes every file anew that has a row which changes: a file of 256 MB for one order. With merge on "
        "read it writes a small file of deletes, and maintenance rewrites the large ones when that is worth it."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    trigger='30 seconds',
    properties={'write.merge.mode': 'copy-on-write'},
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
    trigger='1 hour',
    properties={'write.merge.mode': 'copy-on-write'},
) }}
SELECT order_id, status, updated_at
FROM {{ stream('orders') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option `properties`."""
        config, trigger = model.model.config, model.model.trigger
        if not (
            config.changes_rows and config.rewrites_files and not config.is_exchanged
        ):
            return
        if isinstance(trigger, Every) and trigger.interval_ms < SHORT_MS:
            what = f"Every {trigger.text} all files are written anew that have a row which changes."
            yield model.found_for(
                "properties",
                what,
                "Leave `write.merge.mode` out, or take a longer trigger.",
            )


SHORT_MS = 300_000


RULE = RewrittenFiles()
