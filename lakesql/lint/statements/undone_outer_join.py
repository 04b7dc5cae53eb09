"""LK057: an outer join whose unmatched rows are filtered out by WHERE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.lint.optional_sides import optional_sides
from lakesql.select.selects_read import SelectRead


class UndoneOuterJoin:
    """Finds conditions of a WHERE that are never true for a row that an outer join has
    not matched."""

    code: ClassVar[str] = "LK057"
    name: ClassVar[str] = "undone-outer-join"
    finds: ClassVar[str] = (
        "A WHERE leaves out the rows for which an outer join was written."
    )
    why: ClassVar[str] = (
        "Where a LEFT JOIN finds nothing, the columns of the right side are NULL, and `right.status = 'paid'` is not "
        "true: the join is an inner one. A condition on the right side belongs into ON."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/customers_paid.sql": """{{ config(mode='table') }}
SELECT c.customer_id, o.order_id
FROM {{ ref('customers') }} AS c
LEFT JOIN {{ ref('latest_orders') }} AS o ON o.customer_id = c.customer_id
WHERE o.status = 'paid'
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/customers_paid.sql": """{{ config(mode='table') }}
SELECT c.customer_id, o.order_id
FROM {{ ref('customers') }} AS c
LEFT JOIN {{ ref('latest_orders') }} AS o ON o.customer_id = c.customer_id AND o.status = 'paid'
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such condition."""
        for read in model.selects:
            where = read.select.args.get("where")
            optional = optional_sides(read.select)
            for condition in (
                _conjuncts(where.this) if where is not None and optional else ()
            ):
                for column in _rejecting(condition):
                    side = read.source_of(column)
                    if side in optional and _is_of_source(read, side):
                        what = f"Rows without one of '{side}' do not pass this condition: the outer join is an inner one."
                        fix = "Put the condition into ON, or write JOIN."
                        yield model.found_at(column, what, fix)


def _is_of_source(read: SelectRead, side: str | None) -> bool:
    return any(name.lower() == side for name, _ in read.sources)


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    else:
        yield condition


def _rejecting(condition: exp.Expr) -> Iterator[exp.Column]:
    """The columns that a condition compares directly, so that it is not true if one of
    them is NULL."""
    if isinstance(condition, exp.Not):
        inner = (
            condition.this.this
            if isinstance(condition.this, exp.Is | exp.In | exp.Between | exp.Like)
            else None
        )
        if isinstance(inner, exp.Column):
            yield inner
        return
    if isinstance(condition, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        yield from (
            side
            for side in (condition.left, condition.right)
            if isinstance(side, exp.Column)
        )
    elif isinstance(condition, exp.In | exp.Between | exp.Like) and isinstance(
        condition.this, exp.Column
    ):
        yield condition.this


RULE = UndoneOuterJoin()
