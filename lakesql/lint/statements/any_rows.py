"""LK060: a LIMIT without ORDER BY, which takes arbitrary rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class AnyRows:
    """Finds LIMIT without ORDER BY."""

    code: ClassVar[str] = "LK060"
    name: ClassVar[str] = "any-rows"
    finds: ClassVar[str] = "LIMIT stands without ORDER BY."
    why: ClassVar[str] = (
        "Which rows are taken depends on how files lie: each refresh may take others, and a test cannot say which."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/some_orders.sql": """{{ config(mode='table') }}
SELECT order_id, amount
FROM {{ ref('latest_orders') }}
LIMIT 10
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/some_orders.sql": """{{ config(mode='table') }}
SELECT order_id, amount
FROM {{ ref('latest_orders') }}
ORDER BY amount DESC, order_id
LIMIT 10
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such LIMIT, except in EXISTS, where any row will do."""
        for read in model.selects:
            limit = read.select.args.get("limit")
            asks_for_any = read.select.find_ancestor(exp.Exists) is not None
            if (
                limit is not None
                and not read.select.args.get("order")
                and not asks_for_any
            ):
                yield model.found_at(
                    limit,
                    "LIMIT takes any rows, as nothing orders them.",
                    "Add ORDER BY.",
                )


RULE = AnyRows()
