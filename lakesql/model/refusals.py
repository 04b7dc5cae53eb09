"""What must not be done to the rows of a stream, each with its reason and what to do instead."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.model.relation import Relation, Walk, last_mark, offset_of
from lakesql.model.sqltext import clause, refuse_reserved
from lakesql.names import CHANGE, RECORD

_LIMITS = frozenset({TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET})
_ORDERS = frozenset({TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY})
_EACH_BATCH = "A stream has no end: this would hold for the rows of one batch only."


def refuse_in_stream(select: exp.Select, mark: int, walk: Walk) -> None:
    """Notes what a SELECT must not do to the rows of a stream."""
    findings, tokens = walk.findings, walk.text.tokens
    refuse_order(select, select, walk)
    for index in walk.text.windows.get(mark, ())[:1]:
        findings.add(
            "window-over-stream",
            tokens[index].start,
            "A window function over a stream would see the rows of one batch only.",
            fix="Keep the newest row of a key with mode='upsert' and sequence_by, or group by window(time, '…').",
        )
    if select.args.get("sample"):
        _refuse_sample(offset_of(select.args["from_"].this), walk)
    if into := select.args.get("into"):
        findings.add("not-a-select", offset_of(into), "SELECT INTO writes a table.", fix="Leave INTO out.")
    for expression in select.expressions:
        inner = expression.this if isinstance(expression, exp.Alias) else expression
        if isinstance(inner, exp.Func) and not isinstance(inner, exp.Count):
            for star in inner.find_all(exp.Star):
                if not isinstance(star.parent, exp.Count):
                    findings.add(
                        "star-in-function",
                        offset_of(inner, tokens[mark].start),
                        "* inside a function takes in the columns that lakesql adds to a stream.",
                        fix="Name the columns.",
                    )


def refuse_order(query: exp.Expr, last: exp.Expr, walk: Walk) -> None:
    """Notes ORDER BY, SORT BY, LIMIT and OFFSET; `last` is the last SELECT before them."""
    for keys, kinds, what in (
        (("limit", "offset", "fetch"), _LIMITS, "LIMIT and OFFSET count"),
        (("order", "sort", "cluster"), _ORDERS, "ORDER BY and SORT BY order"),
    ):
        if any(query.args.get(key) for key in keys):
            mark = last_mark(last)
            found = clause(walk.text, mark, kinds)
            walk.findings.add(
                "order-over-stream",
                walk.text.tokens[found[0] if found else mark].start,
                f"{what} all rows, and a stream is never all there.",
                _EACH_BATCH,
                "Leave it out; the table's own order is `order_by` of config(…).",
            )


def refuse_on_stream(table: exp.Expr, walk: Walk) -> None:
    """Notes what must not follow a stream's name in FROM."""
    for pivot in table.args.get("pivots") or ():
        if not pivot.args.get("unpivot"):
            walk.findings.add(
                "pivot-over-stream", offset_of(table), "PIVOT groups all rows.", fix="Use sum(…) FILTER (WHERE …)."
            )
    if table.args.get("sample"):
        _refuse_sample(offset_of(table), walk)


def _refuse_sample(offset: int, walk: Walk) -> None:
    walk.findings.add(
        "sample-over-stream",
        offset,
        "TABLESAMPLE takes other rows when a batch is run again.",
        fix="Filter by a hash of the key: WHERE hash(id) % 10 = 0.",
    )


def refuse_inside(offset: int, relation: Relation, walk: Walk) -> None:
    """Notes that a query inside an expression reads a stream."""
    walk.findings.add(
        "stream-in-expression",
        offset,
        f"The stream '{relation.streams[0]}' is read inside an expression, which would see one batch of it only.",
        fix="Join the stream in FROM, or ref() the table that a model makes of it.",
    )


def refuse_alias(identifier: exp.Expr | None, walk: Walk) -> None:
    """Notes an alias that takes the name of a stream's own column."""
    if identifier is not None and identifier.name.lower() in (RECORD, CHANGE):
        refuse_reserved(identifier.name, offset_of(identifier), walk.findings)
