"""LK063: a condition that is true of no row, as its parts contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.three_valued import Truth, filters_of, possible_truths


class NeverTrue:
    """Finds a WHERE, HAVING or ON whose comparisons of columns are never all true."""

    code: ClassVar[str] = "LK063"
    name: ClassVar[str] = "never-true"
    finds: ClassVar[str] = "A WHERE, HAVING or ON is true of no row."
    why: ClassVar[str] = (
        "What it says of a column no value can be: the model gets no rows, the join none of the other side, "
        "and no error tells."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/settled_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE status = 'paid' AND status = 'cancelled'
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/settled_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE status IN ('paid', 'cancelled')
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such condition. Conditions without columns, such as `WHERE
        false`, are left out, as they are meant; and so are comparisons with NULL, which
        are LK051's."""
        for _, condition in filters_of(model.read.tree):
            is_plain = condition.find(exp.Column) and not condition.find(exp.Null)
            if is_plain and Truth.TRUE not in possible_truths(condition):
                what = "This is true of no row: its parts contradict each other."
                fix = "Join alternatives by OR, or correct a value."
                yield model.found_at(condition, what, fix)


RULE = NeverTrue()
