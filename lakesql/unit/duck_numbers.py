"""Translation rules for arithmetic and casts that mean the same in Spark under ANSI
rules and in DuckDB, or raise an error in both."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from lakesql.stream.types import parse_type
from lakesql.unit.duck_rules import rule
from lakesql.unit.duck_scope import DuckScope, Rule, Typed, describe, refuse_others
from lakesql.unit.duck_times import shift_time
from lakesql.unit.duck_types import (
    MAX_DIGITS,
    VOID,
    WHOLE_DIGITS,
    NeedsSparkError,
    can_widen,
    common_type,
    decimal_digits,
    duck_type,
    guarded,
)
from lakesql.unit.duck_values import time_literal


def _arithmetic(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expression")
        sides = (node.args["this"], node.args["expression"])
        left = scope.translate(sides[0])
        if isinstance(sides[1], exp.Interval) and word in "+-":
            return shift_time(left, word, sides[1])
        right = scope.translate(sides[1])
        if any(decimal_digits(value.type) for value in (left, right)):
            digits = [
                _operand_digits(value, part)
                for value, part in zip((left, right), sides, strict=True)
            ]
            return _decimal(left, right, word, digits, node)
        kind = common_type((left.type, right.type), describe(node))
        if kind not in (*WHOLE_DIGITS, "double"):
            raise NeedsSparkError(
                f"{describe(node)} computes with {left.type} and {right.type}"
            )
        return Typed(
            f"CAST({left.cast(kind)} {word} {right.cast(kind)} AS {duck_type(kind)})",
            kind,
        )

    return make


def _operand_digits(value: Typed, node: exp.Expr) -> tuple[int, int] | None:
    """Precision and scale of the decimal that Spark converts an operand to; for a
    literal, as many digits as it has. None if it converts to no decimal."""
    if isinstance(node, exp.Literal) and value.type in WHOLE_DIGITS:
        return (len(str(int(node.name))), 0)
    return decimal_digits(value.type) or WHOLE_DIGITS.get(value.type)


def _decimal(
    left: Typed,
    right: Typed,
    word: str,
    digits: Sequence[tuple[int, int] | None],
    node: exp.Expr,
) -> Typed:
    """The sum, difference or product of two decimals, with the precision and scale that
    Spark gives it."""
    first, second = digits
    if first is None or second is None:
        raise NeedsSparkError(
            f"{describe(node)} computes with {left.type} and {right.type}"
        )
    if word == "*":
        precision, scale = first[0] + second[0] + 1, first[1] + second[1]
        operands = (first, second)
    else:
        scale = max(first[1], second[1])
        precision = max(first[0] - first[1], second[0] - second[1]) + scale + 1
        operands = ((precision, scale), (precision, scale))
    if precision > MAX_DIGITS:
        raise NeedsSparkError(f"{describe(node)} has more than {MAX_DIGITS} digits")
    texts = [
        f"CAST({value.text} AS DECIMAL({whole},{part}))"
        for value, (whole, part) in zip((left, right), operands, strict=True)
    ]
    kind = f"decimal({precision},{scale})"
    return Typed(f"CAST({texts[0]} {word} {texts[1]} AS {kind.upper()})", kind)


def _not_zero(text: str, node: exp.Expr) -> str:
    return guarded(f"{text} = 0", f"{describe(node)} by zero", text)


def _divide(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "expression", "typed", "safe")
    left, right = (
        scope.translate(node.args["this"]),
        scope.translate(node.args["expression"]),
    )
    if {left.type, right.type} - {"int", "bigint", "double"}:
        raise NeedsSparkError(
            f"{describe(node)}: a division of other than whole numbers and doubles"
        )
    return Typed(
        f"(CAST({left.text} AS DOUBLE) / CAST({_not_zero(right.text, node)} AS DOUBLE))",
        "double",
    )


def _whole(word: str, kind: str) -> Rule:
    """The rule for the quotient or the remainder of whole numbers. Both engines round
    the quotient towards zero."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expression")
        left, right = (
            scope.translate(node.args["this"]),
            scope.translate(node.args["expression"]),
        )
        found = common_type((left.type, right.type), describe(node))
        if found not in WHOLE_DIGITS:
            raise NeedsSparkError(
                f"{describe(node)}: a division of other than whole numbers"
            )
        gives = kind or found
        text = f"({left.cast(found)} {word} {_not_zero(right.cast(found), node)})"
        return Typed(f"CAST({text} AS {duck_type(gives)})", gives)

    return make


def _bits(word: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this", "expression")
        left, right = (
            scope.translate(node.args["this"]),
            scope.translate(node.args["expression"]),
        )
        kind = common_type((left.type, right.type), describe(node))
        if kind not in WHOLE_DIGITS:
            raise NeedsSparkError(f"{describe(node)} of a {kind}")
        return Typed(word.format(left.cast(kind), right.cast(kind)), kind)

    return make


def _negative(node: exp.Expr, scope: DuckScope) -> Typed:
    value = scope.translate(node.this)
    if value.type not in (*WHOLE_DIGITS, "double") and not decimal_digits(value.type):
        raise NeedsSparkError(describe(node))
    return Typed(f"(- {value.text})", value.type)


def _abs(node: exp.Expr, scope: DuckScope) -> Typed:
    value = scope.translate(node.this)
    if value.type not in (*WHOLE_DIGITS, "double") and not decimal_digits(value.type):
        raise NeedsSparkError(describe(node))
    return Typed(f"CAST(abs({value.text}) AS {duck_type(value.type)})", value.type)


def _to_whole(word: str) -> Rule:
    """The rule for `floor` and `ceil` of a whole number, or of a double below 2^53."""

    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        refuse_others(node, "this")
        value = scope.translate(node.this)
        if value.type in WHOLE_DIGITS:
            return Typed(f"CAST({value.text} AS BIGINT)", "bigint")
        if value.type != "double":
            raise NeedsSparkError(f"{describe(node)} of a {value.type}")
        held = guarded(
            f"NOT (abs({value.text}) < {2**53})",
            f"{describe(node)} of such a double",
            value.text,
        )
        return Typed(f"CAST({word}({held}) AS BIGINT)", "bigint")

    return make


# --- casts

_PLAIN_TEXTS = {
    "int": r"-?[0-9]{1,9}",
    "bigint": r"-?[0-9]{1,18}",
    "double": r"-?[0-9]{1,15}(\.[0-9]{1,6})?",
    "date": r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[12][0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?",
    "boolean": r"true|false",
}
"""By type, the strings that both engines cast alike: to the same value, or with an
error in both."""

_CASTS = {
    ("int", "string"),
    ("bigint", "string"),
    ("boolean", "string"),
    ("date", "string"),
    ("bigint", "int"),
    ("int", "boolean"),
    ("bigint", "boolean"),
    ("boolean", "int"),
    ("boolean", "bigint"),
    ("timestamp", "date"),
}
"""Casts, besides those to a wider type, that both engines do alike: with the same
result, or with an error in both."""


def _cast(node: exp.Expr, scope: DuckScope) -> Typed:
    refuse_others(node, "this", "to")
    parsed = parse_type(node.args["to"].sql(dialect="spark"))
    if parsed is None:
        raise NeedsSparkError(describe(node))
    return cast_value(
        node.this, "decimal(10,0)" if parsed.text == "decimal" else parsed.text, scope
    )


def cast_value(of: exp.Expr, kind: str, scope: DuckScope) -> Typed:
    """A cast to a type. Raises `NeedsSparkError` where the engines might differ."""
    value = scope.translate(of)
    if isinstance(of, exp.Literal) and of.is_string and kind != "string":
        return _cast_literal(value, kind)
    if (
        (value.type, kind) in _CASTS
        or value.type in (VOID, kind)
        or can_widen(value.type, kind)
    ):
        return Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)
    if value.type == "string" and kind in _PLAIN_TEXTS:
        is_plain = f"regexp_full_match({value.text}, {_quoted(_PLAIN_TEXTS[kind])})"
        held = guarded(
            f"NOT {is_plain}", f"a cast of such a text to {kind}", value.text
        )
        return Typed(f"CAST({held} AS {duck_type(kind)})", kind)
    before, after = (
        decimal_digits(value.type) or WHOLE_DIGITS.get(value.type),
        decimal_digits(kind),
    )
    # both round half away from zero, and raise an error for a value that does not fit
    if before and after:
        return Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)
    # up to 15 digits are exact in a double, and so is the power of ten of the scale
    if before and kind == "double" and before[0] <= 15:
        return Typed(f"CAST({value.text} AS DOUBLE)", kind)
    # with a larger scale Spark may write an exponent
    if before and kind == "string" and before[1] <= 6:
        return Typed(f"CAST({value.text} AS VARCHAR)", kind)
    raise _no_cast(value, kind)


def _cast_literal(value: Typed, kind: str) -> Typed:
    """A string literal cast to a date, a timestamp or a decimal."""
    found = time_literal(value.text, kind)
    if found is not None:
        return found
    digits = decimal_digits(kind)
    if digits is None or not re.fullmatch(r"'-?\d+(\.\d+)?'", value.text):
        raise _no_cast(value, kind)
    whole, _, fraction = value.text.strip("'-").partition(".")
    if len(fraction) > digits[1] or len(whole.lstrip("0")) > digits[0] - digits[1]:
        raise _no_cast(value, kind)
    return Typed(f"CAST({value.text} AS {duck_type(kind)})", kind)


def _quoted(pattern: str) -> str:
    return "'" + pattern + "'"


def _no_cast(value: Typed, kind: str) -> NeedsSparkError:
    return NeedsSparkError(f"a cast of {value.type} to {kind}")


def _named_cast(kind: str) -> Rule:
    def make(node: exp.Expr, scope: DuckScope) -> Typed:
        if len(node.expressions) != 1:
            raise NeedsSparkError(describe(node))
        return cast_value(node.expressions[0], kind, scope)

    return make


NAMED: dict[str, Rule] = {
    "bigint": _named_cast("bigint"),
    "decimal": _named_cast("decimal(10,0)"),
}
"""Rules for functions that sqlglot has no class for, by name."""

RULES: dict[type[exp.Expr], Rule] = {
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _divide,
    exp.IntDiv: _whole("//", "bigint"),
    exp.Mod: _whole("%", ""),
    exp.Neg: _negative,
    exp.Abs: _abs,
    exp.Floor: _to_whole("floor"),
    exp.Ceil: _to_whole("ceil"),
    exp.Sqrt: rule("this", "double", "double", "sqrt({0})"),
    exp.IsNan: rule("this", "double", "boolean", "coalesce(isnan({0}), false)"),
    exp.BitwiseAnd: _bits("({0} & {1})"),
    exp.BitwiseOr: _bits("({0} | {1})"),
    exp.BitwiseXor: _bits("xor({0}, {1})"),
    exp.BitwiseNot: rule("this", "int|bigint", "=", "(~ {0})"),
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
