"""Which number type an expression has by Spark's rules, and which type a sum of it is
stored in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakesql.stream.types import WHOLE_TYPES, SparkType, parse_type

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""The number of decimal digits that Spark gives to a whole number in an operation with
a decimal."""

MAX_DIGITS = 38


@dataclass(frozen=True, slots=True)
class NumberType:
    """A whole number's type by its name, or a decimal's by its digits and its scale."""

    word: str
    digits: int
    scale: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is a type of whole numbers, and not a decimal."""
        return self.word != "decimal"

    @property
    def sum_type(self) -> str:
        """The type of a sum of such numbers."""
        return (
            "BIGINT"
            if self.is_whole
            else f"DECIMAL({min(self.digits + 10, MAX_DIGITS)}, {self.scale})"
        )

    @property
    def average_type(self) -> str:
        """The type of an average of such numbers."""
        if self.is_whole:
            return "DOUBLE"
        scale = min(self.scale + 4, MAX_DIGITS)
        return f"DECIMAL({min(self.digits + 4, MAX_DIGITS)}, {scale})"


Columns = Mapping[tuple[str, str], str]
"""The types of the columns of a FROM, by the entry's alias and the column's name in
lower case; '' for a type that is not known."""


def number_type(node: exp.Expr | None, columns: Columns) -> NumberType | None:
    """The type of an expression if it certainly is a whole number or a decimal; else
    None."""
    match node:
        case exp.Paren() | exp.Neg() | exp.Abs():
            return number_type(node.this, columns)
        case exp.Column():
            return _column_type(node, columns)
        case exp.Literal() if not node.is_string:
            return _literal_type(node.name)
        case exp.Cast():
            return as_number(parse_type(node.to.sql("spark")))
        case exp.Add() | exp.Sub() | exp.Mul():
            return _calculated(node, columns)
        case exp.Case():
            branches = [branch.args["true"] for branch in node.args["ifs"]]
            return _common([*branches, node.args.get("default")], columns)
        case exp.If():
            return _common([node.args["true"], node.args.get("false")], columns)
        case exp.Count() | exp.CountIf():
            return NumberType("bigint", _DIGITS["bigint"])
        case exp.Min() | exp.Max():
            return number_type(node.this, columns)
        case exp.Sum():
            added = number_type(node.this, columns)
            return as_number(parse_type(added.sum_type)) if added is not None else None
        case exp.Coalesce():
            return _common([node.this, *node.expressions], columns)
        case _:
            return None


def as_number(kind: SparkType | None) -> NumberType | None:
    """The type as a number type; None for other types. Doubles are others too, as their
    sums depend on the order of the rows."""
    if kind is None:
        return None
    if kind.name in WHOLE_TYPES:
        return NumberType(kind.name, _DIGITS[kind.name])
    if kind.name == "decimal":
        digits, scale = map(int, kind.parameters or ("10", "0"))
        return NumberType("decimal", digits, scale)
    return None


def _column_type(node: exp.Column, columns: Columns) -> NumberType | None:
    name = node.name.lower()
    if node.args.get("db"):
        return None
    found = [
        kind
        for (alias, column), kind in columns.items()
        if column == name and node.table.lower() in ("", alias)
    ]
    return as_number(parse_type(found[0])) if len(found) == 1 and found[0] else None


def _literal_type(text: str) -> NumberType | None:
    if text.isdigit():
        if int(text) >= 2**63:
            return None
        return NumberType(
            "int" if int(text) < 2**31 else "bigint", len(text.lstrip("0")) or 1
        )
    whole, _, fraction = text.partition(".")
    if not (whole + fraction).isdigit():
        return None
    digits = len((whole + fraction).lstrip("0")) or 1
    return NumberType("decimal", max(digits, len(fraction)), len(fraction))


def _calculated(node: exp.Binary, columns: Columns) -> NumberType | None:
    """The type of a sum, a difference or a product; None if an operand's is not
    known."""
    left, right = number_type(node.left, columns), number_type(node.right, columns)
    if left is None or right is None:
        return None
    if left.is_whole and right.is_whole:
        words = (left.word, right.word)
        word = max(words, key=WHOLE_TYPES.index)
        return NumberType(word, _DIGITS[word])
    left, right = _in_decimals(node.left, left), _in_decimals(node.right, right)
    if isinstance(node, exp.Mul):
        return _bounded(left.digits + right.digits + 1, left.scale + right.scale)
    scale = max(left.scale, right.scale)
    whole = max(left.digits - left.scale, right.digits - right.scale)
    return _bounded(whole + scale + 1, scale)


def _in_decimals(node: exp.Expr, kind: NumberType) -> NumberType:
    """The decimal type that a whole number has in an operation with a decimal. A
    literal has only the digits that are written."""
    inner = node.unnest()
    if kind.is_whole and not isinstance(inner, exp.Literal):
        return NumberType("decimal", _DIGITS[kind.word])
    return kind


def _bounded(digits: int, scale: int) -> NumberType:
    """A decimal type of at most 38 digits. Spark removes excess digits from the scale,
    but leaves at least six of it."""
    if digits <= MAX_DIGITS:
        return NumberType("decimal", digits, scale)
    whole = digits - scale
    return NumberType("decimal", MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, 6)))


def _common(nodes: list[exp.Expr | None], columns: Columns) -> NumberType | None:
    """The type that several expressions have in common; None if one of them is no known
    number."""
    given = [
        node for node in nodes if node is not None and not isinstance(node, exp.Null)
    ]
    kinds = [number_type(node, columns) for node in given]
    known = [kind for kind in kinds if kind is not None]
    if not known or len(known) < len(kinds):
        return None
    if all(kind.is_whole for kind in known):
        word = max((kind.word for kind in known), key=WHOLE_TYPES.index)
        return NumberType(word, _DIGITS[word])
    decimals = [
        NumberType("decimal", _DIGITS[kind.word]) if kind.is_whole else kind
        for kind in known
    ]
    scale = max(kind.scale for kind in decimals)
    digits = max(kind.digits - kind.scale for kind in decimals) + scale
    return NumberType("decimal", digits, scale) if digits <= MAX_DIGITS else None
