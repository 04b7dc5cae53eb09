"""Whether rows can enter a model's table while it is empty, where its SELECT reads that
table itself."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakesql.select.relation import offset_of
from lakesql.select.sqltext import Findings

_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Like,
    exp.Between,
)

_GIVING = (
    exp.Count,
    exp.CountIf,
    exp.ApproxDistinct,
    exp.Coalesce,
    exp.Case,
    exp.If,
    exp.ArrayAgg,
    exp.Anonymous,
)
"""Functions that return a value for no rows or for NULL, or may do so."""


def check_beginning(tree: exp.Query, this: tuple[str, ...], findings: Findings) -> None:
    """Adds a finding for a WHERE that no row passes while the model's own table is
    empty. `this` is its name, by parts in lower case.

    A set operation is not checked, as its branches may fill the table for each other.
    """
    if not this or tree.find(exp.SetOperation) is not None:
        return
    for where in tree.find_all(exp.Where):
        select = where.parent
        if not isinstance(select, exp.Select) or _reads(select.args.get("from_"), this):
            continue
        for condition in (
            where.this.unnest().flatten()
            if isinstance(where.this.unnest(), exp.And)
            else [where.this]
        ):
            if (query := _empty_query(condition.unnest(), this)) is not None:
                findings.add(
                    "never-begins",
                    offset_of(condition),
                    "No row passes this WHERE while the model's own table is empty, so none ever enters.",
                    "A comparison with what an empty table gives is NULL.",
                    f"Say what holds then, as in coalesce({query.sql('spark')}, …).",
                )


def _empty_query(condition: exp.Expr, this: tuple[str, ...]) -> exp.Expr | None:
    """The query that makes a condition NULL or false for all rows while the table is
    empty; None if there is none."""
    match condition:
        case exp.Exists():
            query = condition.this
            gives_row = (
                isinstance(query, exp.Select)
                and not query.args.get("group")
                and query.find(exp.AggFunc)
            )
            return query if _reads(query, this) and not gives_row else None
        case exp.In():
            query = condition.args.get("query")
            return (
                query
                if isinstance(query, exp.Expr)
                and _reads(query, this)
                and _is_null(query)
                else None
            )
        case _ if isinstance(condition, _COMPARISONS):
            return next(
                (
                    query
                    for query in _operands(condition)
                    if _reads(query, this) and _is_null(query)
                ),
                None,
            )
        case _:
            return None


def _operands(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that make a comparison NULL if they are NULL: as one of its sides, or
    in arithmetic on a side."""
    left = [*condition.iter_expressions()]
    while left:
        part = left.pop()
        if isinstance(part, exp.Subquery):
            yield part
        elif isinstance(
            part, exp.Paren | exp.Cast | exp.Add | exp.Sub | exp.Mul | exp.Neg
        ):
            left += part.iter_expressions()


def _is_null(query: exp.Expr) -> bool:
    """Whether a query over an empty table gives no row or NULL, as its result is
    neither counted nor coalesced."""
    select = query.unnest()
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return False
    given = select.expressions[0].unalias().unnest()
    if select.args.get("group") or given.find(exp.AggFunc) is None:
        return select.args.get("joins") is None
    return given.find(*_GIVING) is None


def _reads(part: object, this: tuple[str, ...]) -> bool:
    """Whether a FROM, or the FROM of a query, reads this table alone."""
    if not isinstance(part, exp.Expr):
        return False
    inner = part.unnest() if isinstance(part, exp.Subquery) else part
    from_ = inner.args.get("from_") if isinstance(inner, exp.Select) else inner
    if not isinstance(from_, exp.From):
        return False
    table = from_.this
    return (
        isinstance(table, exp.Table)
        and tuple(name.name.lower() for name in table.parts) == this
    )
