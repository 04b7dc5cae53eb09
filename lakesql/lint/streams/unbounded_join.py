"""LK004: a join of streams for which Spark keeps all records forever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch, word_span
from lakesql.lint.linted_model import LintedModel


class UnboundedJoin:
    """Finds joins of streams without a range of event time on one side."""

    code: ClassVar[str] = "LK004"
    name: ClassVar[str] = "unbounded-join"
    finds: ClassVar[str] = (
        "A join of streams has no range of event time, so that all records of a side are kept."
    )
    why: ClassVar[str] = (
        "A record waits for those that it may meet. Where nothing says how far apart the two may lie, it waits for "
        "ever: the state, and each checkpoint of it, grow with the stream until the disk or the memory is full."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/paid_views.sql": """{{ config(mode='append') }}
SELECT c.view_id, p.payment_id, p.paid_at
FROM {{ stream('clicks') }} AS c
JOIN {{ stream('payments') }} AS p ON p.customer_id = c.customer_id
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/paid_views.sql": """{{ config(mode='append') }}
SELECT c.view_id, p.payment_id, p.paid_at
FROM {{ stream('clicks') }} AS c
JOIN {{ stream('payments') }} AS p
    ON p.customer_id = c.customer_id
    AND p.paid_at >= c.viewed_at
    AND p.paid_at <= c.viewed_at + INTERVAL 1 HOUR
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each stream whose records are kept forever."""
        for reference in model.model.facts.streams:
            if reference.name not in model.select.query.unbounded:
                continue
            what = f"All records of '{reference.name}' are kept for ever: no range of event time bounds them."
            fix = (
                "Give both streams a watermark, and say in ON how far apart they may lie: `AND b.at BETWEEN a.at AND "
                "a.at + INTERVAL 1 HOUR`."
            )
            yield RuleMatch(word_span(model.model.source, reference.place), what, fix)


RULE = UnboundedJoin()
