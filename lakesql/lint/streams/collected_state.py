"""LK009: an aggregate that keeps all values of a group, so that its state grows with
the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class CollectedState:
    """Finds aggregates that collect values over a stream whose groups never end."""

    code: ClassVar[str] = "LK009"
    name: ClassVar[str] = "collected-state"
    finds: ClassVar[str] = (
        "An aggregate collects all values of a group that never ends."
    )
    why: ClassVar[str] = (
        "A count is one number a group; `collect_list` keeps every value. Without a window of event time the list "
        "grows as long as the stream runs, and each batch writes all of it again, into the state and into the row."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/pages_of_visitors.sql": """{{ config(mode='upsert', keys='visitor') }}
SELECT visitor, collect_list(page) AS pages
FROM {{ stream('clicks') }}
GROUP BY visitor
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/pages_of_visitors.sql": """{{ config(mode='append') }}
SELECT window.start AS since, visitor, collect_list(page) AS pages
FROM {{ stream('clicks') }}
GROUP BY window(viewed_at, '1 hour'), visitor
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each call of such an aggregate."""
        query, text = model.select.query, model.read.text
        if not (query.stateful and query.aggregated) or query.grouped_by_event_time:
            return
        for calls in text.aggregates.values():
            for at in calls:
                token = text.tokens[at]
                if token.text.lower() in _COLLECTING:
                    what = (
                        f"{token.text}() keeps all values of a group that never ends."
                    )
                    fix = "Group by a window of the event time too, or keep a number: count, max, approx_count_distinct."
                    yield model.found(token.start, token.end + 1, what, fix)


_COLLECTING = frozenset(
    {"collect_list", "collect_set", "array_agg", "listagg", "string_agg"}
)


RULE = CollectedState()
