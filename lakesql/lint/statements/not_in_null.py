"""LK050: `NOT IN` with values of which one may be NULL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch, TextEdit
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead


class NotInNull:
    """Finds `x NOT IN (…)` if one of the values is NULL or may be."""

    code: ClassVar[str] = "LK050"
    name: ClassVar[str] = "not-in-null"
    finds: ClassVar[str] = "`NOT IN` compares with values of which one may be NULL."
    why: ClassVar[str] = (
        "With one NULL among the values, `NOT IN` is true of nothing: whether a row equals the NULL is not known. The "
        "query works until the first such value arrives, and gives no row from then on."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/lost_customers.sql": """{{ config(mode='table') }}
SELECT customer_id, name
FROM {{ ref('customers') }}
WHERE customer_id NOT IN (SELECT customer_id FROM {{ ref('latest_orders') }})
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/lost_customers.sql": """{{ config(mode='table') }}
SELECT customer_id, name
FROM {{ ref('customers') }}
WHERE customer_id NOT IN (SELECT customer_id FROM {{ ref('latest_orders') }} WHERE customer_id IS NOT NULL)
"""
    }
    fix: ClassVar[str] = (
        "`WHERE … IS NOT NULL` is added to a query that has no other clause."
    )

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each NULL in a list of values, and for each column of a subquery
        that may be NULL."""
        reads = {id(read.select): read for read in model.selects}
        for read in model.selects:
            for negated in read.parts(exp.Not):
                inside = negated.this
                if not isinstance(inside, exp.In):
                    continue
                if any(isinstance(value, exp.Null) for value in inside.expressions):
                    what = "NULL is among the values of NOT IN, so that it is true of no row."
                    yield model.found_at(
                        inside.this,
                        what,
                        "Leave NULL out, and say `AND … IS NOT NULL` if it is meant.",
                    )
                query = inside.args.get("query")
                inner = (
                    reads.get(id(query.this))
                    if isinstance(query, exp.Subquery)
                    else None
                )
                if inner is None or len(inner.select.expressions) != 1:
                    continue
                column = inner.select.expressions[0].unalias()
                if isinstance(column, exp.Column) and _may_be_null(
                    model, inner, column
                ):
                    what = f"If one '{column.name}' of this query is NULL, NOT IN is true of no row."
                    fix = f"Add `WHERE {column.sql('spark')} IS NOT NULL`, or use NOT EXISTS."
                    yield model.found_at(
                        column, what, fix, _edits(model, inner, column)
                    )


def _may_be_null(model: LintedModel, read: SelectRead, column: exp.Column) -> bool:
    """Whether a column may be NULL: it may, unless the WHERE tests it with IS NOT NULL,
    the contract of its stream requires it, or its table cannot have NULL in it."""
    where = read.select.args.get("where")
    for test in where.find_all(exp.Is) if where is not None else ():
        is_negated = isinstance(test.parent, exp.Not)
        if (
            is_negated
            and isinstance(test.expression, exp.Null)
            and test.this.name.lower() == column.name.lower()
        ):
            return False
    tables = {table.alias_or_name.lower(): table for table in read.parts(exp.Table)}
    table = tables.get(read.source_of(column) or "")
    if not isinstance(table, exp.Table):
        return True
    parts = tuple(part.name.lower() for part in table.parts)
    if len(parts) == 1:
        stream = model.select.streams.get(table.name)
        columns = stream.columns if stream is not None else ()
        return not any(
            each.required and each.name.lower() == column.name.lower()
            for each in columns
        )
    for other in model.manifest.models.values():
        if other.table.folded == parts:
            return column.name.lower() not in {
                name.lower() for name in other.config.writing().not_null
            }
    return True


def _edits(
    model: LintedModel, read: SelectRead, column: exp.Column
) -> tuple[TextEdit | None, ...]:
    """The edit that adds `WHERE … IS NOT NULL` to a subquery; none if it has other
    clauses than SELECT and FROM."""
    given = {key for key, value in read.select.args.items() if value}
    table = read.select.args["from_"].this
    if not given <= {"expressions", "from_", "kind"} or not isinstance(
        table, exp.Table
    ):
        return ()
    _, end = model.range_of(table)
    text = f" WHERE {column.sql('spark')} IS NOT NULL"
    return (model.insertion(end, text) or _behind_expression(model, end, text),)


def _behind_expression(model: LintedModel, end: int, text: str) -> TextEdit | None:
    """The same edit if a template expression produces the table's name: the text is
    inserted after the expression."""
    span = model.span(end - 1, end)
    if span is None or model.select.rendered.origin(end)[1] is False:
        return None
    place = model.select.rendered.place(end)
    return TextEdit(type(span)(place, place), text)


RULE = NotInNull()
