"""The rules for all of Spark's SQL that DuckDB is known to answer alike, by sqlglot's
class of the expression."""

from __future__ import annotations

from sqlglot import exp

from lakesql.unit import (
    duck_aggregates,
    duck_nested,
    duck_numbers,
    duck_texts,
    duck_times,
    duck_values,
)
from lakesql.unit.duck_scope import DuckScope, Rule, Typed, describe
from lakesql.unit.duck_types import NeedsSparkError

NAMED: dict[str, Rule] = {
    **duck_values.NAMED,
    **duck_numbers.NAMED,
    **duck_times.NAMED,
    **duck_nested.NAMED,
    **duck_aggregates.NAMED,
}
"""Rules for functions that sqlglot has no class for, by name."""


def _named(node: exp.Expr, scope: DuckScope) -> Typed:
    found = NAMED.get(node.name.lower())
    if found is None:
        raise NeedsSparkError(
            f"{describe(node)} is not among what is known to mean the same without Spark"
        )
    return found(node, scope)


ALLOWED: dict[type[exp.Expr], Rule] = {
    **duck_values.RULES,
    **duck_numbers.RULES,
    **duck_texts.RULES,
    **duck_times.RULES,
    **duck_nested.RULES,
    **duck_aggregates.RULES,
    exp.Anonymous: _named,
}
"""The rules by sqlglot's class. An expression without a rule needs Spark. Each rule is
verified by a test that compares it with Spark over generated rows."""
