"""LK006: an aggregate over records that are successive states of the same row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.compile.notes import find_notes
from lakesql.lint.finding import RuleMatch, word_span
from lakesql.lint.linted_model import LintedModel


class CountedStates:
    """Finds aggregates over a stream of states or of changes, as the notes of `parse`
    do."""

    code: ClassVar[str] = "LK006"
    name: ClassVar[str] = "counted-states"
    finds: ClassVar[str] = (
        "An aggregate over a stream counts each state of a row, not each row once."
    )
    why: ClassVar[str] = (
        "A stream with a `key` brings each row again when it has changed. A sum over it adds the amount of an order "
        "once for each state that the order goes through, and nothing takes the former one off."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/revenue.sql": """{{ config(mode='upsert', keys='status') }}
SELECT status, sum(amount) AS revenue
FROM {{ stream('orders') }}
GROUP BY status
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/revenue.sql": """{{ config(mode='materialized_view') }}
SELECT status, sum(amount) AS revenue
FROM {{ ref('latest_orders') }}
GROUP BY status
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each stream of states if the SELECT aggregates, joins or
        deduplicates one."""
        note = dict(find_notes(model.select)).get("records", "")
        if not note:
            return
        streams = [
            reference
            for reference in model.model.facts.streams
            if _is_of_states(model, reference.name)
        ]
        done, _, fix = note.rpartition("; ")
        for reference in streams:
            yield RuleMatch(
                word_span(model.model.source, reference.place),
                f"Records are {done}.",
                f"{fix[:1].upper()}{fix[1:]}.",
            )


def _is_of_states(model: LintedModel, name: str) -> bool:
    stream = model.select.streams[name]
    return name in model.select.query.streams_read and bool(
        stream.is_feed or stream.key
    )


RULE = CountedStates()
