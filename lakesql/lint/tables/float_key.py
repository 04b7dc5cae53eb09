"""LK030: a key that is a floating-point number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class FloatKey:
    """Finds columns of `keys` of type float or double."""

    code: ClassVar[str] = "LK030"
    name: ClassVar[str] = "float-key"
    finds: ClassVar[str] = "A key is of type float or double."
    why: ClassVar[str] = (
        "Two computations of one number differ in its last digits, and then a row is not found: it is there twice. NaN "
        "and -0.0 are compared otherwise by each engine that reads the table."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/weights.sql": """{{ config(mode='upsert', keys='weight', sequence_by='changed_at') }}
SELECT weight, cart_id, changed_at
FROM {{ stream('carts') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/weights.sql": """{{ config(mode='upsert', keys='weight', sequence_by='changed_at') }}
SELECT CAST(weight AS decimal(12, 3)) AS weight, cart_id, changed_at
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such key."""
        types = model.types
        for key in model.select.writing.keys:
            kind = types.get(key.lower())
            if kind in ("float", "double"):
                what = f"Key '{key}' is of type {kind}: equal numbers may differ in their last digits."
                yield model.found_for(
                    "keys",
                    what,
                    "Cast it to a decimal or a string, or take another key.",
                )


RULE = FloatKey()
