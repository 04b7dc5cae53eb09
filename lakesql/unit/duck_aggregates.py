"""Translation rules for aggregates and window functions whose results do not depend on
the order of rows, and mean the same in Spark and in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from lakesql.unit.duck_nested import is_plain_number
from lakesql.unit.duck_scope import DuckScope, Rule, Typed, describe, refuse_others
from lakesql.unit.duck_types import (
    MAX_DIGITS,
    NeedsSparkError,
    decimal_digits,
    duck_type,
    guarded,
    is_compared,
)
from lakesql.unit.duck_values import condition_text


def _count(node: exp.Expr, scope: DuckScope) -> Typed:
    """`count`. With several expressions it counts the rows in which none of them is
    NULL."""
    refuse_others(node, "this", "expressions", "big_int")
    of = node.this
    if isinstance(of, exp.Star):
        refuse_others(of)
        return Typed("count(*)", "bigint")
    is_distinct = isinstance(of, exp.Distinct)
    items = [
        scope.translate(it)
        for it in (of.expressions if is_distinct else [of, *node.expressions])
    ]
    if is_distinct and not all(is_compared(item.type) for item in items):
        raise NeedsSparkError(
            f"{describe(node)} of several values of type {items[0].type}"
        )
    texts = [item.text for item in items]
    missing = " OR ".join(f"{text} IS NULL" for text in texts)
    value = (
        texts[0]
        if len(texts) == 1
        else f"CASE WHEN {missing} THEN NULL ELSE ({', '.join(texts)}) END"
    )
    return Typed(f"count({'DISTINCT ' if is_distinct else ''}{value})", "bigint")


def _count_if(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this")
    condition = condition_text(scope.translate(node.this), node)
    return Typed(f"count(CASE WHEN {condition} THEN 1 END)", "bigint")


def _operand(node: exp.Expr, scope: DuckScope) -> tuple[str, Typed]:
    """The argument of an aggregate: 'DISTINCT ' or '', and the value."""
    of = node.this
    if not isinstance(of, exp.Distinct):
        return "", scope.translate(of)
    (only,) = of.expressions
    value = scope.translate(only)
    if not is_compared(value.type):
        raise NeedsSparkError(
            f"{describe(node)} of distinct values of type {value.type}"
        )
    return "DISTINCT ", value


def _sum(node: exp.Expr, scope: DuckScope) -> Typed:
    """`sum` of whole numbers and decimals. The sum of bigints needs Spark if the
    absolute values add up to more than a bigint holds: DuckDB adds in a wider type,
    while Spark may overflow on the way.

    Doubles are refused, as their sum depends on the order of the rows.
    """
    refuse_others(node, "this")
    distinct, value = _operand(node, scope)
    if value.type == "int":
        return Typed(f"CAST(sum({distinct}{value.text}) AS BIGINT)", "bigint")
    if value.type == "bigint":
        high = f"sum({distinct}abs(CAST({value.text} AS HUGEINT))) > {2**63 - 1}"
        return Typed(
            guarded(
                high,
                "a sum that may overflow",
                f"CAST(sum({distinct}{value.text}) AS BIGINT)",
            ),
            "bigint",
        )
    digits = decimal_digits(value.type)
    if digits is None or digits[0] + 10 > MAX_DIGITS:
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    kind = f"decimal({digits[0] + 10},{digits[1]})"
    return Typed(f"CAST(sum({distinct}{value.text}) AS {duck_type(kind)})", kind)


def _average(node: exp.Expr, scope: DuckScope) -> Typed:
    """`avg` of whole numbers. It needs Spark if their absolute values add up to more
    than 2^53: up to there their sum is exact in a double."""
    refuse_others(node, "this")
    distinct, value = _operand(node, scope)
    if value.type not in ("int", "bigint"):
        raise NeedsSparkError(f"{describe(node)} of a {value.type}")
    high = f"sum({distinct}abs(CAST({value.text} AS HUGEINT))) > {2**53}"
    mean = f"CAST(sum({distinct}{value.text}) AS DOUBLE) / CAST(count({distinct}{value.text}) AS DOUBLE)"
    held = f"CASE WHEN count({value.text}) = 0 THEN NULL ELSE {mean} END"
    return Typed(guarded(high, "an average of large numbers", f"({held})"), "double")


def _extreme(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this")
        distinct, value = _operand(node, scope)
        if not is_compared(value.type):
            raise NeedsSparkError(f"{describe(node)} of a {value.type}")
        return Typed(f"{word}({distinct}{value.text})", value.type)

    return make


def _logical(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        (of,) = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        return Typed(f"{word}({condition_text(scope.translate(of), node)})", "boolean")

    return make


def _filtered(node: exp.Expr, scope: DuckScope) -> Typed:
    """An aggregate with FILTER (WHERE …)."""
    refuse_others(node, "this", "expression")
    if not isinstance(node.this, exp.Count | exp.Min | exp.Max | exp.CountIf):
        raise NeedsSparkError(f"FILTER of {describe(node.this)}")
    value = scope.translate(node.this)
    condition = condition_text(scope.translate(node.args["expression"].this), node)
    return Typed(f"{value.text} FILTER (WHERE {condition})", value.type)


# --- windows

_BY_PLACE = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile, exp.FirstValue)


def _window(node: exp.Expr, scope: DuckScope) -> Typed:
    """A function over a window. If the result depends on the order of rows that the
    window's ORDER BY leaves equal, the statement raises an error, as only Spark knows
    its own order."""
    refuse_others(node, "this", "partition_by", "order", "spec", "over", "first")
    call = node.this
    partition = [
        _key(item, scope, node) for item in node.args.get("partition_by") or ()
    ]
    ordered = node.args["order"].expressions if node.args.get("order") else []
    order = [_ordered(item, scope, node) for item in ordered]
    parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    frame = _frame(node)
    over = " ".join([*parts, frame] if frame else parts)
    made, kind = _window_call(call, scope, over, node)
    by_place = isinstance(call, _BY_PLACE) or frame.startswith("ROWS")
    if not by_place:
        return Typed(made, kind)
    peers = (
        " ".join([*parts, "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"])
        if order
        else " ".join(parts)
    )
    return Typed(
        guarded(
            f"count(*) OVER ({peers}) > 1",
            "rows that the window's ORDER BY leaves equal",
            made,
        ),
        kind,
    )


def _window_call(
    call: exp.Expr, scope: DuckScope, over: str, node: exp.Expr
) -> tuple[str, str]:
    """The text of a function with its OVER clause, and its type."""
    match call:
        case exp.Count() | exp.Min() | exp.Max() if not isinstance(
            call.this, exp.Distinct
        ):
            value = scope.translate(call)
            return f"{value.text} OVER ({over})", value.type
        case exp.Sum() if not isinstance(call.this, exp.Distinct):
            return _window_sum(call, scope, over)
        case exp.Avg() if not isinstance(call.this, exp.Distinct):
            return _window_average(call, scope, over)
        case exp.Rank() | exp.DenseRank() | exp.RowNumber():
            word = {
                exp.Rank: "rank",
                exp.DenseRank: "dense_rank",
                exp.RowNumber: "row_number",
            }[type(call)]
            return f"CAST({word}() OVER ({over}) AS INTEGER)", "int"
        case exp.PercentRank():
            return f"percent_rank() OVER ({over})", "double"
        case exp.Ntile() if is_plain_number(call.this):
            return f"CAST(ntile({call.this.name}) OVER ({over}) AS INTEGER)", "int"
        case exp.Lag() | exp.Lead():
            return _window_neighbour(call, scope, over)
        case _:
            raise NeedsSparkError(f"{describe(call)} over a window")


def _window_sum(call: exp.Expr, scope: DuckScope, over: str) -> tuple[str, str]:
    value = scope.translate(call.this)
    digits = decimal_digits(value.type)
    if value.type == "int":
        return f"CAST(sum({value.text}) OVER ({over}) AS BIGINT)", "bigint"
    if value.type == "bigint":
        high = f"sum(abs(CAST({value.text} AS HUGEINT))) OVER ({over}) > {2**63 - 1}"
        made = f"CAST(sum({value.text}) OVER ({over}) AS BIGINT)"
        return guarded(high, "a sum that may overflow", made), "bigint"
    if digits is None or digits[0] + 10 > MAX_DIGITS:
        raise NeedsSparkError(f"{describe(call)} of a {value.type}")
    kind = f"decimal({digits[0] + 10},{digits[1]})"
    return f"CAST(sum({value.text}) OVER ({over}) AS {duck_type(kind)})", kind


def _window_average(call: exp.Expr, scope: DuckScope, over: str) -> tuple[str, str]:
    value = scope.translate(call.this)
    if value.type != "int":
        raise NeedsSparkError(f"{describe(call)} of a {value.type}")
    total, number = (
        f"CAST({word}({value.text}) OVER ({over}) AS DOUBLE)"
        for word in ("sum", "count")
    )
    high = f"count(*) OVER ({over}) > {2**21}"
    return guarded(
        high, "an average of many numbers", f"({total} / nullif({number}, 0))"
    ), "double"


def _window_neighbour(call: exp.Expr, scope: DuckScope, over: str) -> tuple[str, str]:
    """`lag` and `lead`, with an offset that is a literal number."""
    refuse_others(call, "this", "offset", "default")
    value, offset = scope.translate(call.this), call.args.get("offset")
    default = (
        scope.translate(call.args["default"]) if call.args.get("default") else None
    )
    if offset is not None and not is_plain_number(offset):
        raise NeedsSparkError(f"{describe(call)} by other than a literal number")
    texts = [value.text, offset.name if offset is not None else "1"]
    texts += [default.cast(value.type)] if default is not None else []
    word = "lag" if isinstance(call, exp.Lag) else "lead"
    return f"{word}({', '.join(texts)}) OVER ({over})", value.type


def _key(node: exp.Expr, scope: DuckScope, window: exp.Expr) -> str:
    value = scope.translate(node)
    if not is_compared(value.type):
        raise NeedsSparkError(f"{describe(window)} by values of type {value.type}")
    return value.text


def _ordered(node: exp.Expr, scope: DuckScope, window: exp.Expr) -> str:
    refuse_others(node, "this", "desc", "nulls_first")
    word = "DESC" if node.args.get("desc") else "ASC"
    nulls = "NULLS FIRST" if node.args.get("nulls_first") else "NULLS LAST"
    return f"{_key(node.this, scope, window)} {word} {nulls}"


def _frame(node: exp.Expr) -> str:
    spec = node.args.get("spec")
    if spec is None:
        return ""
    refuse_others(spec, "kind", "start", "start_side", "end", "end_side")
    ends = [
        f"{spec.args[end]} {spec.args.get(f'{end}_side') or ''}".strip()
        for end in ("start", "end")
    ]
    if any(
        end not in ("UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING")
        for end in ends
    ):
        raise NeedsSparkError(f"a window from {ends[0]} to {ends[1]}")
    return f"{spec.args['kind']} BETWEEN {ends[0]} AND {ends[1]}"


NAMED: dict[str, Rule] = {
    word: _logical("bool_and" if word == "every" else "bool_or")
    for word in ("every", "some")
}
"""Rules for functions that sqlglot has no class for, by name."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
    exp.LogicalAnd: _logical("bool_and"),
    exp.LogicalOr: _logical("bool_or"),
    exp.Filter: _filtered,
    exp.Window: _window,
}
