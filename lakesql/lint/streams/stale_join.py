"""LK005: a stream joined with a table whose rows change later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.notes import find_notes
from lakesql.lint.finding import RuleMatch, word_span
from lakesql.lint.linted_model import LintedModel


class StaleJoin:
    """Finds streams that are joined with the table of a model that updates rows, as the
    notes of `parse` do."""

    code: ClassVar[str] = "LK005"
    name: ClassVar[str] = "stale-join"
    finds: ClassVar[str] = "A stream is joined with a table whose rows change."
    why: ClassVar[str] = (
        "A record is joined with the table as it is when the batch runs. What changes there later changes no row that "
        "is written, and a rebuild makes other rows than those that are there. That is right where the values of that "
        "moment are meant, such as the price at the time of the order; then say so by a noqa."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/named_carts.sql": """{{ config(mode='append') }}
SELECT c.cart_id, c.changed_at, u.name
FROM {{ stream('carts') }} AS c
LEFT JOIN {{ ref('customers') }} AS u ON u.customer_id = c.customer_id
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/named_carts.sql": """{{ config(mode='materialized_view', keys=['cart_id', 'changed_at']) }}
SELECT c.cart_id, c.changed_at, u.name
FROM {{ ref('all_carts') }} AS c
LEFT JOIN {{ ref('customers') }} AS u ON u.customer_id = c.customer_id
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each joined table that changes."""
        if "joined tables" not in dict(find_notes(model.select)):
            return
        for reference in model.model.facts.refs:
            joined = model.manifest.models.get(reference.name)
            if joined is None or not joined.config.changes_rows:
                continue
            what = f"Rows keep what '{reference.name}' has when their batch runs: later changes of it reach none."
            fix = "Join the tables in a model in mode materialized_view; or say by a noqa that this moment is meant."
            yield RuleMatch(word_span(model.model.source, reference.place), what, fix)


RULE = StaleJoin()
