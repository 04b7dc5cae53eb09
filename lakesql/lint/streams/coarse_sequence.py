"""LK010: a `sequence_by` in which many changes are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.arrival import why_unordered
from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class CoarseSequence:
    """Finds a `sequence_by` of dates, with which arrival decides between the changes of
    one day."""

    code: ClassVar[str] = "LK010"
    name: ClassVar[str] = "coarse-sequence"
    finds: ClassVar[str] = (
        "`sequence_by` is a date, and records of a key may arrive in another order."
    )
    why: ClassVar[str] = (
        "Of two rows of a key that are equal in `sequence_by` the one that arrives last wins. Two changes of one day "
        "are equal, so an older one may win over a newer one."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/newest_carts.sql": """{{ config(mode='upsert', keys='cart_id', sequence_by='changed_on') }}
SELECT cart_id, status, changed_on
FROM {{ stream('carts') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/newest_carts.sql": """{{ config(
    mode='upsert',
    keys='cart_id',
    sequence_by=['changed_on', 'changed_at'],
) }}
SELECT cart_id, status, changed_on, changed_at
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match at the option if all of its columns are dates."""
        sequence = model.select.writing.sequence_by
        types = model.types
        if not sequence or any(types.get(name.lower()) != "date" for name in sequence):
            return
        if why := why_unordered(model.select):
            what = f"Two changes of a key on one day are equal in sequence_by, and arrival decides: {why}."
            yield model.found_for(
                "sequence_by",
                what,
                "Add a column that tells them apart, such as the time.",
            )


RULE = CoarseSequence()
