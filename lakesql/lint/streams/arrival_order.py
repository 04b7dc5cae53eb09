"""LK001: rows of a key that are ordered by arrival, if the records of a key may arrive
out of order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.arrival import why_unordered
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class ArrivalOrder:
    """Finds models that keep the newest row of a key without a `sequence_by`."""

    code: ClassVar[str] = "LK001"
    name: ClassVar[str] = "arrival-order"
    finds: ClassVar[str] = (
        "A model keeps one row a key, has no `sequence_by`, and records of a key may arrive in another order than they "
        "were written in."
    )
    why: ClassVar[str] = (
        "Without `sequence_by` the row that arrives last wins. Only records of one partition arrive in their order. "
        "After a backlog, or with a slow partition, an older state replaces a newer one, and stays."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_carts.sql": """{{ config(mode='upsert', keys='cart_id') }}
SELECT cart_id, status, changed_at
FROM {{ stream('carts') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/newest_carts.sql": """{{ config(mode='upsert', keys='cart_id', sequence_by='changed_at') }}
SELECT cart_id, status, changed_at
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option `keys` if only arrival orders the rows of a key, and it
        may differ from the order of writing."""
        select, config = model.select, model.model.config
        if (
            select.writing.sequence_by
            or not select.writing.keys
            or not config.changes_rows
            or select.query.stateful
        ):
            return
        why = why_unordered(select) if config.reads == "streams" else ""
        if why:
            what = f"The row of a key that arrives last wins, and it may be an older one: {why}."
            yield model.found_for(
                "keys", what, "Say by `sequence_by` which row is newer."
            )


RULE = ArrivalOrder()
