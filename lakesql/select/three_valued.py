"""Which of true, false and NULL a condition can be for a row, and which part of it
makes it have the same result for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import product
from typing import Literal

from sqlglot import exp

from lakesql.select.assumed_values import (
    COMPARISONS,
    Assumptions,
    Comparison,
    OperandValue,
    assumptions,
)

Use = Literal["test", "filter", "value"]
"""What an expression is used as. A `test` fails a row for which it is false, and passes
it if it is true or NULL. A `filter`, such as `where` or `delete_when`, chooses the rows
for which it is true. A `value` is no condition."""


class Truth(Enum):
    """What a condition is for a row. A value that is no boolean counts as TRUE or
    FALSE."""

    TRUE = "true"
    FALSE = "false"
    NULL = "NULL"


def find_undecided(condition: exp.Expr, use: Use) -> tuple[str, str] | None:
    """The message and the fix for a condition that has the same result for every row;
    None where none is found.

    Only the condition itself is considered, and any values of the columns. So every
    finding is certain, but some such conditions are not found.
    """
    found = _decided(possible_truths(condition), use)
    if not found:
        return None
    part = _part_to_blame(condition, use)
    if part is None:
        return (
            found,
            "Compare columns in it, so that it holds for some rows and not for others.",
        )
    reason, fix = _advice(part)
    return f"{found} {reason}", fix


def filters_of(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The conditions of all WHERE, HAVING and ON clauses of a query and of the queries
    in it, each with its word."""
    for clause in tree.find_all(exp.Where, exp.Having):
        yield clause.key.upper(), clause.this
    for join in tree.find_all(exp.Join):
        if (condition := join.args.get("on")) is not None:
            yield "ON", condition


def possible_truths(
    expression: exp.Expr, free: exp.Expr | None = None
) -> frozenset[Truth]:
    """What an expression may be for some row: a superset of what it can really be.
    `free` is a part of it that is assumed to be anything."""
    found: frozenset[Truth] = frozenset()
    for assumed in assumptions(expression):
        found |= _possible(expression, free, assumed)
        if found == _ANY:
            break
    return found


def _possible(
    expression: exp.Expr, free: exp.Expr | None, assumed: Assumptions
) -> frozenset[Truth]:
    """What an expression may be if its operands have the assumed values."""

    def of(part: exp.Expr) -> frozenset[Truth]:
        return _possible(part, free, assumed)

    def compare(left: exp.Expr, right: exp.Expr, sign: type[exp.Expr]) -> _Truths:
        return _of_comparison(left.unnest(), right.unnest(), sign, of, assumed)

    if expression is free:
        return _ANY
    value = assumed.value(expression)
    if value is not None:
        return _of_value(value)
    match expression:
        case exp.Null():
            return _NULL
        case exp.Boolean():
            return _TRUE if expression.this else _FALSE
        case exp.Literal():
            return _VALUE
        case exp.Paren():
            return of(expression.this)
        case exp.Not() if _is_quantified(expression.this):
            # `a NOT LIKE ANY (…)` has the same tree as `NOT (a LIKE ANY (…))`, but
            # another meaning
            return _strict(of(expression.this))
        case exp.Not():
            return frozenset(_negated(it) for it in of(expression.this))
        case exp.And():
            return _combined(_and, of(expression.left), of(expression.right))
        case exp.Or():
            return _combined(_or, of(expression.left), of(expression.right))
        case exp.Is():
            return _of_is(of(expression.this), expression.expression)
        case exp.NullSafeEQ() | exp.EqualNull():
            return _of_null_safe(expression, of, assumed)
        case exp.NullSafeNEQ():
            same = _of_null_safe(expression, of, assumed)
            return frozenset(_negated(it) for it in same)
        case exp.In() if not expression.expressions:
            return _strict(of(expression.this))
        case exp.In():
            found = _FALSE
            for item in expression.expressions:
                found = _combined(_or, found, compare(expression.this, item, exp.EQ))
            return found
        case exp.Between():
            low = compare(expression.this, expression.args["low"], exp.GTE)
            high = compare(expression.this, expression.args["high"], exp.LTE)
            if expression.args.get("symmetric"):
                return _NULL if low == high == _NULL else _ANY
            return _combined(_and, low, high)
        case exp.Escape():
            return of(expression.this)
        case exp.Like() | exp.ILike() if _is_quantified(expression):
            return _of_quantified(expression, of)
        case exp.Coalesce():
            return _first_value([expression.this, *expression.expressions], of)
        case exp.Case() | exp.If():
            return _of_case(expression, of, compare)
        case _ if isinstance(expression, COMPARISONS):
            return compare(expression.this, expression.expression, type(expression))
        case _ if isinstance(expression, _STRICT):
            return _strict(*(of(part) for part in _operands(expression)))
        case _:
            return _ANY


_ANY = frozenset(Truth)
_VALUE = frozenset({Truth.TRUE, Truth.FALSE})
_TRUE = frozenset({Truth.TRUE})
_FALSE = frozenset({Truth.FALSE})
_NULL = frozenset({Truth.NULL})

_STRICT = (
    *(exp.Like, exp.ILike, exp.RegexpLike, exp.Contains, exp.StartsWith, exp.EndsWith),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.Cast),
)
"""Expressions that are NULL if one of their operands is."""

_Truths = frozenset[Truth]

_COMPARED: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: int.__eq__,
    exp.NEQ: int.__ne__,
    exp.LT: int.__lt__,
    exp.LTE: int.__le__,
    exp.GT: int.__gt__,
    exp.GTE: int.__ge__,
}


def _operands(expression: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(expression, exp.Cast):
        yield expression.this
        return
    yield from expression.iter_expressions()


def _strict(*operands: frozenset[Truth]) -> frozenset[Truth]:
    return _NULL if _NULL in operands else _ANY


def _negated(it: Truth) -> Truth:
    if it is Truth.NULL:
        return it
    return Truth.FALSE if it is Truth.TRUE else Truth.TRUE


def _and(left: Truth, right: Truth) -> frozenset[Truth]:
    if Truth.FALSE in (left, right):
        return _FALSE
    return _NULL if Truth.NULL in (left, right) else _TRUE


def _or(left: Truth, right: Truth) -> frozenset[Truth]:
    if Truth.TRUE in (left, right):
        return _TRUE
    return _NULL if Truth.NULL in (left, right) else _FALSE


def _same(left: Truth, right: Truth) -> frozenset[Truth]:
    """What `<=>` may be. Whether two values that are not NULL are equal is not known
    here."""
    nulls = (left, right).count(Truth.NULL)
    if nulls == 0:
        return _VALUE
    return _TRUE if nulls == 2 else _FALSE


def _combined(
    rule: Callable[[Truth, Truth], frozenset[Truth]],
    left: frozenset[Truth],
    right: frozenset[Truth],
) -> frozenset[Truth]:
    return frozenset().union(*(rule(*pair) for pair in product(left, right)))


def _of_is(tested: frozenset[Truth], word: exp.Expr) -> frozenset[Truth]:
    """What `IS NULL`, `IS TRUE` or `IS FALSE` may be; never NULL."""
    match word:
        case exp.Null():
            asked = Truth.NULL
        case exp.Boolean():
            asked = Truth.TRUE if word.this else Truth.FALSE
        case _:
            return _ANY
    return frozenset(Truth.TRUE if it is asked else Truth.FALSE for it in tested)


def _is_quantified(expression: exp.Expr) -> bool:
    """Whether an expression is `LIKE ANY (…)` or `LIKE ALL (…)`."""
    if not isinstance(expression, exp.Like | exp.ILike):
        return False
    return isinstance(expression.expression, exp.Any | exp.All)


def _of_quantified(
    expression: exp.Like | exp.ILike, of: Callable[[exp.Expr], frozenset[Truth]]
) -> frozenset[Truth]:
    listed = _patterns(expression)
    tested = of(expression.this)
    rule = _or if isinstance(expression.expression, exp.Any) else _and
    found = _strict(tested, of(listed[0]))
    for pattern in listed[1:]:
        found = _combined(rule, found, _strict(tested, of(pattern)))
    return found


def _patterns(quantified: exp.Expr) -> list[exp.Expr]:
    patterns: exp.Expr = quantified.expression.this
    return patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]


def _first_value(
    parts: list[exp.Expr], of: Callable[[exp.Expr], frozenset[Truth]]
) -> frozenset[Truth]:
    """What `coalesce` may be. Arguments after one that is never NULL have no effect."""
    found: frozenset[Truth] = frozenset()
    for part in parts:
        possible = of(part)
        found |= possible - _NULL
        if Truth.NULL not in possible:
            return found
    return found | _NULL


def _of_case(
    expression: exp.Case | exp.If,
    of: Callable[[exp.Expr], _Truths],
    compare: Callable[[exp.Expr, exp.Expr, type[exp.Expr]], _Truths],
) -> frozenset[Truth]:
    """What `CASE` or `if` may be: the results of the branches that can be reached."""
    is_case = isinstance(expression, exp.Case)
    branches = expression.args["ifs"] if is_case else [expression]
    compared = expression.this if is_case else None
    found: frozenset[Truth] = frozenset()
    for branch in branches:
        if compared is None:
            asked = of(branch.this)
        else:
            asked = compare(compared, branch.this, exp.EQ)
        if Truth.TRUE in asked:
            found |= of(branch.args["true"])
        if asked == _TRUE:
            return found
    default = expression.args.get("default" if is_case else "false")
    return found | (_NULL if default is None else of(default))


def _of_null_safe(
    expression: exp.Expr, of: Callable[[exp.Expr], _Truths], assumed: Assumptions
) -> frozenset[Truth]:
    """What `<=>` may be."""
    left, right = expression.this, expression.expression
    truths = (of(left), of(right))
    if Truth.NULL not in truths[0] | truths[1]:
        order = assumed.compare(left, right)
        # of two incomparable operands, the cast of one is NULL and the other is not
        return (
            _FALSE
            if order is Comparison.INCOMPARABLE
            else _of_order(order, exp.EQ) - _NULL
        )
    return _combined(_same, *truths)


def _of_comparison(
    left: exp.Expr,
    right: exp.Expr,
    sign: type[exp.Expr],
    of: Callable[[exp.Expr], _Truths],
    assumed: Assumptions,
) -> frozenset[Truth]:
    truths = (of(left), of(right))
    if _NULL in truths:
        return _NULL
    found = _of_order(assumed.compare(left, right), sign)
    return found | _NULL if Truth.NULL in truths[0] | truths[1] else found


def _of_order(order: Comparison, sign: type[exp.Expr]) -> frozenset[Truth]:
    """What a comparison may be if its operands compare in this `order`."""
    match order:
        case Comparison.INCOMPARABLE:
            return _NULL
        case Comparison.UNEQUAL if sign is exp.EQ:
            return _FALSE
        case Comparison.UNEQUAL if sign is exp.NEQ:
            return _TRUE
        case Comparison.UNEQUAL | Comparison.UNKNOWN:
            return _ANY
        case _:
            return _TRUE if _COMPARED[sign](order.value, 0) else _FALSE


def _of_value(value: OperandValue) -> frozenset[Truth]:
    if value.is_null:
        return _NULL
    if value.truth is not None:
        return _TRUE if value.truth else _FALSE
    return _VALUE


def _decided(possible: frozenset[Truth], use: Use) -> str:
    """What a condition decides for every row, if it may only be one of `possible`; ''
    where rows can differ."""
    match use:
        case "value":
            return ""
        case "test" if Truth.FALSE not in possible:
            return "It is false for no row: no row can fail."
        case "test" if possible == _FALSE:
            return "It is false for every row."
        case "filter" if Truth.TRUE not in possible:
            return "It is true for no row."
        case "filter" if possible == _TRUE:
            return "It is true for every row."
        case _:
            return ""


def _part_to_blame(condition: exp.Expr, use: Use) -> exp.Expr | None:
    """The first part without which rows could differ; else the first part that is the
    same for every row by itself; else None."""
    parts = list(_parts(condition))
    for part in parts:
        if not _decided(possible_truths(condition, part), use):
            return part
    return next((part for part in parts if _decided(possible_truths(part), use)), None)


def _parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that are joined by AND, OR, NOT, CASE and the like, in
    the order of the text."""
    match condition:
        case exp.Not() if _is_quantified(condition.this):
            yield condition
        case (
            exp.And()
            | exp.Or()
            | exp.Not()
            | exp.Paren()
            | exp.Case()
            | exp.If()
            | exp.Coalesce()
        ):
            for part in condition.iter_expressions():
                yield from _parts(part)
        case exp.Is():
            yield from _parts(condition.this)
        case _:
            yield condition


def _advice(part: exp.Expr) -> tuple[str, str]:
    """Why a part is the same for every row, and what to do."""
    text = part.sql("spark")
    match part:
        case exp.In() | exp.Like() | exp.ILike() if _lists_null(part):
            return (
                f"NULL stands in the list of `{text}`, where a comparison with it is NULL.",
                "Leave NULL out of the list. A row without a value is found by `IS NULL`.",
            )
        case exp.Null():
            return _advice_on_constant(text)
        case _ if part.find(exp.Null, exp.Column) is None:
            return _advice_on_constant(text)
        case _ if part.find(exp.Null) is not None:
            return (
                f"`{text}` compares or calculates with NULL.",
                "Write `IS NULL` or `IS NOT NULL`: a comparison with NULL is NULL, whatever the value.",
            )
        case _ if possible_truths(part) == _ANY:
            return (
                f"`{text}` and what stands beside it decide so, whatever the values are.",
                "Correct what contradicts the rest of it, or repeats it turned round.",
            )
        case _:
            return (
                f"`{text}` decides so, whatever the values are.",
                "Correct it, or leave it out.",
            )


def _advice_on_constant(text: str) -> tuple[str, str]:
    return (
        f"`{text}` is the same for every row.",
        f"Leave `{text}` out, or write what is to hold in its place.",
    )


def _lists_null(part: exp.Expr) -> bool:
    """Whether the list of IN, LIKE ANY or LIKE ALL has a NULL."""
    if isinstance(part, exp.In):
        listed = part.expressions
    elif _is_quantified(part):
        listed = _patterns(part)
    else:
        return False
    return any(isinstance(item.unnest(), exp.Null) for item in listed)
