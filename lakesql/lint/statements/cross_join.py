"""LK058: a cross join that is not written as CROSS JOIN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead


class CrossJoin:
    """Finds `FROM a, b` and JOIN without ON if no condition compares columns of the
    two."""

    code: ClassVar[str] = "LK058"
    name: ClassVar[str] = "cross-join"
    finds: ClassVar[str] = "Two tables are joined without a condition."
    why: ClassVar[str] = (
        "Each row meets each row of the other: a million rows and a thousand make a billion. A condition was "
        "forgotten, or `CROSS JOIN` says that it is meant."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/pairs.sql": """{{ config(mode='table') }}
SELECT c.customer_id, o.order_id
FROM {{ ref('customers') }} AS c, {{ ref('latest_orders') }} AS o
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/pairs.sql": """{{ config(mode='table') }}
SELECT c.customer_id, o.order_id
FROM {{ ref('customers') }} AS c
JOIN {{ ref('latest_orders') }} AS o ON o.customer_id = c.customer_id
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such join."""
        for read in model.selects:
            for join in read.select.args.get("joins") or ():
                if not isinstance(join.this, exp.Table | exp.Subquery) or _is_said(
                    model, read, join
                ):
                    continue
                if _has_one_row(join.this):
                    continue
                name = join.this.alias_or_name
                if not isinstance(join.this.this, exp.Func) and not _is_compared(
                    read, name.lower()
                ):
                    what = (
                        f"Each row meets each row of '{name}': no condition joins them."
                    )
                    yield model.found_at(
                        join.this, what, "Add ON, or write CROSS JOIN if it is meant."
                    )


def _is_said(model: LintedModel, read: SelectRead, join: exp.Join) -> bool:
    """Whether a join has a condition or is written as CROSS JOIN. sqlglot reads a comma
    as a cross join too, so the tokens decide."""
    if join.args.get("using") or join.method:
        return True
    start, end = model.range_of(join.this)
    depth = model.read.text.depths[read.mark]
    before = [
        token.token_type
        for token, each in zip(model.tokens, model.read.text.depths, strict=True)
        if token.start < start and each == depth and token.token_type in _SIGNS
    ]
    if join.kind.upper() == "CROSS":
        return before[-1:] != [TokenType.COMMA]
    after = next(
        (token.token_type for token in model.tokens if token.start >= end), None
    )
    return after is TokenType.ON or not isinstance(
        join.args.get("on"), exp.Boolean | None
    )


_SIGNS = frozenset({TokenType.COMMA, TokenType.JOIN, TokenType.CROSS})


def _has_one_row(table: exp.Expr) -> bool:
    """Whether a table is a subquery that aggregates all rows into one. A join with it
    is meant: its values are wanted in each row."""
    query = table.this
    if (
        not isinstance(table, exp.Subquery)
        or not isinstance(query, exp.Select)
        or query.args.get("group")
    ):
        return False
    return any(item.find(exp.AggFunc) for item in query.expressions)


def _is_compared(read: SelectRead, name: str) -> bool:
    """Whether the WHERE compares a column of this source with one of another. Also true
    if it has a column whose source is not known."""
    where = read.select.args.get("where")
    for comparison in where.find_all(exp.Binary) if where is not None else ():
        if isinstance(comparison, exp.Connector):
            continue
        sources = {read.source_of(column) for column in comparison.find_all(exp.Column)}
        if None in sources or (name in sources and len(sources) > 1):
            return True
    return False


RULE = CrossJoin()
