"""LK059: an ORDER BY that has no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch, TextEdit
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead
from lakesql.select.sqltext import clause
from lakesql.views.steadiness import ordered_aggregates


class LostOrder:
    """Finds ORDER BY without LIMIT in a subquery, or in the SELECT of a table."""

    code: ClassVar[str] = "LK059"
    name: ClassVar[str] = "lost-order"
    finds: ClassVar[str] = "ORDER BY stands where rows have no order."
    why: ClassVar[str] = (
        "The rows of a table and of a query inside of another one have no order: Spark sorts all of them for nothing, "
        "or leaves the ORDER BY out. Files are sorted by the option `order_by`, an answer by whoever asks."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/sorted_orders.sql": """{{ config(mode='table') }}
WITH sorted AS (SELECT order_id, amount FROM {{ ref('latest_orders') }} ORDER BY amount)
SELECT order_id, amount
FROM sorted
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/sorted_orders.sql": """{{ config(mode='table', order_by='amount') }}
SELECT order_id, amount
FROM {{ ref('latest_orders') }}
"""
    }
    fix: ClassVar[str] = (
        "It is removed from a query inside of another one, unless an aggregate looks at the order, or a LIMIT of the "
        "model may take the first of these rows."
    )

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such ORDER BY."""
        for read in model.selects:
            select = read.select
            is_outermost = select is model.read.tree
            if (
                not select.args.get("order")
                or select.args.get("limit")
                or select.args.get("offset")
            ):
                continue
            if is_outermost and not model.model.config.is_stored:
                continue
            span = clause(model.read.text, read.mark, frozenset({TokenType.ORDER_BY}))
            if span is None:
                continue
            tokens = model.tokens
            start, end = tokens[span[0]].start, tokens[span[1] - 1].end + 1
            what = (
                "The rows of a table have no order."
                if is_outermost
                else "The rows of an inner query have no order."
            )
            if is_outermost:
                yield model.found(
                    start,
                    end,
                    what,
                    "Say by the option `order_by` how files are sorted.",
                    (),
                )
            elif _is_limited(model):
                yield model.found(
                    start,
                    end,
                    what,
                    "Write it beside the LIMIT whose rows it is to choose.",
                    (),
                )
            else:
                yield model.found(
                    start, end, what, "Leave ORDER BY out.", _removal(model, read, span)
                )


def _is_limited(model: LintedModel) -> bool:
    """Whether any query of the model has a LIMIT or an OFFSET. The ORDER BY of a
    subquery may decide which rows it takes."""
    return any(
        query.args.get("limit") or query.args.get("offset")
        for query in model.read.tree.find_all(exp.Query)
    )


def _removal(
    model: LintedModel, read: SelectRead, span: tuple[int, int]
) -> tuple[TextEdit | None, ...]:
    """The edit that removes the clause and the blank before it; none if it has a
    comment, or the model has an aggregate that depends on the order."""
    if any(True for _ in ordered_aggregates(model.read.text)):
        return ()
    start, end = model.tokens[span[0] - 1].end + 1, model.tokens[span[1] - 1].end + 1
    removed = model.written_between(start, end)
    has_comment = removed is None or any(sign in removed for sign in ("--", "/*", "{#"))
    return () if has_comment else (model.edit_over(start, end, ""),)


RULE = LostOrder()
