"""LK039: a key that is NULL if an outer join finds no match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.lint.optional_sides import optional_sides


class NullableKey:
    """Finds columns of `keys` or `sequence_by` from the side of an outer join that may
    be missing."""

    code: ClassVar[str] = "LK039"
    name: ClassVar[str] = "nullable-key"
    finds: ClassVar[str] = (
        "A key is a column of the side of an outer join that may have no row."
    )
    why: ClassVar[str] = (
        "A row without a key cannot be found again: it becomes a dead letter. So the rows for which a LEFT JOIN was "
        "written, those without a partner, are the ones that are not in the table."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/cart_names.sql": """{{ config(mode='append', keys=['cart_id', 'customer_id']) }}
SELECT c.cart_id, z.customer_id, z.name
FROM {{ stream('carts') }} AS c
LEFT JOIN {{ ref('zones') }} AS z ON z.customer_id = c.customer_id
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/cart_names.sql": """{{ config(mode='append', keys=['cart_id', 'customer_id']) }}
SELECT c.cart_id, c.customer_id, z.name
FROM {{ stream('carts') }} AS c
LEFT JOIN {{ ref('zones') }} AS z ON z.customer_id = c.customer_id
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such column."""
        writing = model.select.writing
        keys = {key.lower() for key in (*writing.keys, *writing.sequence_by)} & {
            it.lower() for it in writing.not_null
        }
        for name, expression, read in model.columns_made():
            if name not in keys or not isinstance(expression, exp.Column):
                continue
            side = read.source_of(expression)
            if side is not None and side in optional_sides(read.select):
                what = f"'{name}' is NULL where '{side}' has no row, and such a row becomes a dead letter."
                fix = "Take the column of the other side; or coalesce it, or use JOIN, if such rows are not wanted."
                yield model.found_at(expression, what, fix)


RULE = NullableKey()
