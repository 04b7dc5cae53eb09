"""LK038: a table that is recomputed as a whole on each commit of a table with frequent
commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.graph.manifest import stored_refs
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.model.config import Every, OnChange


class RestlessTable:
    """Finds tables that are recomputed as a whole on each change of a table with a
    commit more often than every half minute."""

    code: ClassVar[str] = "LK038"
    name: ClassVar[str] = "restless-table"
    finds: ClassVar[str] = (
        "A table is computed as a whole on each change of a table that changes all the time."
    )
    why: ClassVar[str] = (
        "A model in mode `table`, or with `refresh='full'`, reads all rows of its tables each time. With the trigger "
        "'on change' below a model with a batch every ten seconds, it does so without a pause."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/fast_orders.sql": """{{ config(
    mode='upsert',
    keys='order_id',
    sequence_by='updated_at',
    trigger='10 seconds',
) }}
SELECT order_id, amount, updated_at
FROM {{ stream('orders') }}
""",
        "models/top_orders.sql": """{{ config(mode='table') }}
SELECT order_id, amount
FROM {{ ref('fast_orders') }}
ORDER BY amount DESC
LIMIT 10
""",
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/top_orders.sql": """{{ config(mode='table', trigger='10 minutes') }}
SELECT order_id, amount
FROM {{ ref('fast_orders') }}
ORDER BY amount DESC
LIMIT 10
""",
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for the trigger of such a model."""
        config = model.model.config
        read = [
            reference.name for reference in stored_refs(model.manifest, model.model)
        ]
        is_whole = (
            config.is_exchanged
            and config.is_stored
            and not config.compared_inputs(read)
        )
        if not is_whole or not isinstance(model.model.trigger, OnChange):
            return
        triggers = {
            name: model.manifest.models[name].trigger
            for name in read
            if name in model.manifest.models
        }
        for name, trigger in triggers.items():
            if isinstance(trigger, Every) and trigger.interval_ms < OFTEN_MS:
                what = f"All rows are computed anew on each change of '{name}', which has a batch every {trigger.text}."
                fix = "Say how often is enough, `trigger='10 minutes'`; or use mode materialized_view."
                yield model.found_for("trigger", what, fix)
                return


OFTEN_MS = 30_000
"""The interval of batches below which a trigger is reported: a full recomputation is
assumed to keep up with one every half minute."""


RULE = RestlessTable()
