"""Which values the operands of a condition are tried with, to find out what it can be.

`a > 5 OR a <= 5` has one operand in two places. Each comparison by itself can be false;
but with a value below, at or above 5, one of them is always true. So values are assumed
for the operands that occur more than once, in all combinations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from itertools import pairwise, product
from math import prod

from sqlglot import exp

MOST_COMBINATIONS = 600
"""The most combinations that are tried. Where there are more, the operand with the most
values is assumed to be anything."""

LONGEST_NUMBER = 15
"""The most characters of a number that is the same as a decimal and as a double."""

WORD = re.compile(r"[a-z]([a-z_ -]*[a-z])?")
"""A text, in lower case, that is no number, time or boolean. Two such texts are
different to any column that can be compared with them, whatever its type and
collation."""

NOT_WORDS = frozenset({"true", "t", "yes", "y", "false", "f", "no", "n"})
NOT_WORDS |= {"nan", "inf", "infinity"}
NOT_WORDS |= {"epoch", "now", "today", "tomorrow", "yesterday"}

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
NULL_SAFE = (exp.NullSafeEQ, exp.EqualNull, exp.NullSafeNEQ)

_FUNCTIONS = (exp.Length, exp.Lower, exp.Upper, exp.Abs)
"""Functions whose result is an operand too if their argument is one: they have the same
value wherever they occur."""


@dataclass(frozen=True, slots=True)
class OperandValue:
    """A value of an operand: a number, a text or a boolean; else NULL, or a value that
    equals no literal that it is compared with.

    `is_foreign`: it cannot be cast to the type of the literals. Spark makes such a
    comparison NULL, unless it fails.
    """

    is_null: bool = False
    is_foreign: bool = False
    number: Decimal | None = None
    text: str | None = None
    truth: bool | None = None


NULL = OperandValue(is_null=True)
FOREIGN = OperandValue(is_foreign=True)
OTHER = OperandValue()

Pair = tuple[str, str]


class Comparison(Enum):
    """How two operands compare that are not NULL. For INCOMPARABLE ones each comparison
    is NULL; of UNEQUAL ones it is not known which is greater."""

    BELOW = -1
    EQUAL = 0
    ABOVE = 1
    UNEQUAL = "unequal"
    INCOMPARABLE = "incomparable"
    UNKNOWN = "unknown"


_PAIRED = (
    Comparison.BELOW,
    Comparison.EQUAL,
    Comparison.ABOVE,
    Comparison.INCOMPARABLE,
)
_TURNED = {Comparison.BELOW: Comparison.ABOVE, Comparison.ABOVE: Comparison.BELOW}


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Assumed values of operands, and how two operands compare with each other, by the
    keys of the operands. `keys` are the keys of the condition's nodes, by their
    `id`."""

    keys: Mapping[int, str]
    values: Mapping[str, OperandValue]
    orders: Mapping[Pair, Comparison]

    def value(self, operand: exp.Expr) -> OperandValue | None:
        """The assumed value of an operand; None where it may be anything."""
        key = self.keys.get(id(operand.unnest()))
        return None if key is None else self.values.get(key)

    def compare(self, left: exp.Expr, right: exp.Expr) -> Comparison:
        """How two operands or literals compare."""
        numbers = (number_of(left), number_of(right))
        if numbers[0] is not None and numbers[1] is not None:
            return _order_of(numbers[0], numbers[1])
        if _is_literal(right):
            return _compare_to_literal(self.value(left), right)
        if _is_literal(left):
            return _turned(_compare_to_literal(self.value(right), left))
        keys = [self.keys.get(id(it.unnest()), "") for it in (left, right)]
        if keys[0] and keys[0] == keys[1]:
            return Comparison.EQUAL
        if (keys[0], keys[1]) in self.orders:
            return self.orders[keys[0], keys[1]]
        return _turned(self.orders.get((keys[1], keys[0]), Comparison.UNKNOWN))


def assumptions(condition: exp.Expr) -> Iterator[Assumptions]:
    """All combinations of values of a condition's operands that may decide what it is;
    one without values if no operand occurs twice."""
    operands = _find_operands(condition)
    values: dict[str, list[OperandValue]] = {}
    for key, count in operands.places.items():
        if count > 1:
            literals = operands.literals.get(key, [])
            values[key] = [*_values(literals, key in operands.truths)]
    paired = [pair for pair, count in operands.pairs.items() if count > 1]
    while _combinations(values, paired) > MOST_COMBINATIONS:
        if values:
            del values[max(values, key=lambda key: len(values[key]))]
        else:
            paired.pop()
    for chosen in product(*values.values()):
        of_operands = dict(zip(values, chosen, strict=True))
        for orders in product(_PAIRED, repeat=len(paired)):
            of_pairs = dict(zip(paired, orders, strict=True))
            yield Assumptions(operands.keys, of_operands, of_pairs)


@dataclass(frozen=True, slots=True)
class _Operands:
    """The operands of a condition by their keys: in how many places each occurs, the
    literals that it is compared with, and how often two operands are compared with each
    other.

    `keys` are the keys of the nodes, by their `id`. `truths` are the operands that are
    booleans.
    """

    keys: dict[int, str] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    literals: dict[str, list[exp.Expr]] = field(default_factory=dict)
    pairs: Counter[Pair] = field(default_factory=Counter)
    truths: set[str] = field(default_factory=set)


def _find_operands(condition: exp.Expr) -> _Operands:
    found = _Operands()
    for node in condition.walk(prune=lambda it: isinstance(it, exp.Query | exp.Lambda)):
        if key := _key(node):
            found.keys[id(node)] = key
            found.places[key] += 1
        compared = [*_compared(node)]
        if len(compared) > 1 and (key := _key(compared[0][0])):
            found.places[key] += len(compared)
        for left, right in compared:
            keys = (_key(left), _key(right))
            if keys[0] and _is_literal(right):
                found.literals.setdefault(keys[0], []).append(right)
            elif keys[1] and _is_literal(left):
                found.literals.setdefault(keys[1], []).append(left)
            elif all(keys) and keys[0] != keys[1]:
                found.pairs[min(keys), max(keys)] += 1
    found.truths.update(_key(node) for node in _asked_for_truth(condition))
    return found


def _combinations(values: Mapping[str, list[OperandValue]], paired: list[Pair]) -> int:
    of_pairs: int = len(_PAIRED) ** len(paired)
    return of_pairs * prod(len(each) for each in values.values())


def number_of(expression: exp.Expr) -> Decimal | None:
    """The value of a number literal; None for anything else, and for one too long to be
    exact."""
    expression = expression.unnest()
    if isinstance(expression, exp.Neg):
        number = number_of(expression.this)
        return None if number is None else -number
    if not isinstance(expression, exp.Literal) or expression.is_string:
        return None
    is_plain = re.fullmatch(r"\d+(\.\d*)?|\.\d+", expression.name)
    if not is_plain or len(expression.name) > LONGEST_NUMBER:
        return None
    return Decimal(expression.name)


def _key(node: exp.Expr) -> str:
    """The key of an operand, which is the same wherever it occurs; '' for a node that
    is none, or may have another value in each place."""
    node = node.unnest()
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return ".".join(part.name.lower() for part in node.parts)
    is_function = isinstance(node, _FUNCTIONS) and len([*node.iter_expressions()]) == 1
    if is_function and (inner := _key(node.this)):
        return f"{node.key}({inner})"
    return ""


def _compared(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The two operands of each comparison that a node makes."""
    if isinstance(node, COMPARISONS + NULL_SAFE):
        yield node.this.unnest(), node.expression.unnest()
    elif isinstance(node, exp.In):
        for item in node.expressions:
            yield node.this.unnest(), item.unnest()
    elif isinstance(node, exp.Between):
        for bound in ("low", "high"):
            yield node.this.unnest(), node.args[bound].unnest()
    elif isinstance(node, exp.Case) and node.this is not None:
        for branch in node.args["ifs"]:
            yield node.this.unnest(), branch.this.unnest()


def _asked_for_truth(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes that are used as conditions, or are compared with TRUE or FALSE."""
    yield condition
    for node in condition.find_all(exp.And, exp.Or, exp.Not):
        yield from node.iter_expressions()
    for node in condition.find_all(*COMPARISONS, *NULL_SAFE, exp.Is):
        if isinstance(node.expression.unnest(), exp.Boolean):
            yield node.this
    for node in condition.find_all(exp.In):
        if any(isinstance(item.unnest(), exp.Boolean) for item in node.expressions):
            yield node.this


def _is_literal(expression: exp.Expr) -> bool:
    expression = expression.unnest()
    return (
        isinstance(expression, exp.Literal | exp.Boolean)
        or number_of(expression) is not None
    )


def _values(literals: list[exp.Expr], is_truth: bool) -> Iterator[OperandValue]:
    """The values to try for an operand that is compared with these literals: NULL, each
    literal, and for numbers also one below, between and above them."""
    yield NULL
    if is_truth:
        yield OperandValue(truth=True)
        yield OperandValue(truth=False)
        return
    if literals:
        yield FOREIGN
    numbers = sorted({it for it in map(number_of, literals) if it is not None})
    texts = {it.name for it in literals if isinstance(it, exp.Literal) and it.is_string}
    yield from (OperandValue(text=text) for text in sorted(texts))
    if not numbers:
        yield OTHER
        return
    between = [(low + high) / 2 for low, high in pairwise(numbers)]
    for number in (numbers[0] - 1, *numbers, *between, numbers[-1] + 1):
        yield OperandValue(number=number)


def _compare_to_literal(value: OperandValue | None, literal: exp.Expr) -> Comparison:
    """How an operand with this value compares with a literal."""
    literal = literal.unnest()
    if value is None:
        return Comparison.UNKNOWN
    if value.is_foreign:
        return Comparison.INCOMPARABLE
    number = number_of(literal)
    if value.number is not None and number is not None:
        return _order_of(value.number, number)
    if value.truth is not None and isinstance(literal, exp.Boolean):
        return _order_of(value.truth, bool(literal.this))
    if isinstance(literal, exp.Literal) and literal.is_string:
        return _compare_to_text(value, literal.name)
    return Comparison.UNKNOWN


def _compare_to_text(value: OperandValue, text: str) -> Comparison:
    if value == OTHER:
        return Comparison.UNEQUAL
    if value.text is None:
        return Comparison.UNKNOWN
    if value.text == text:
        return Comparison.EQUAL
    words = {value.text.lower(), text.lower()}
    if len(words) == 2 and all(_is_word(word) for word in words):
        return Comparison.UNEQUAL
    return Comparison.UNKNOWN


def _is_word(text: str) -> bool:
    return WORD.fullmatch(text) is not None and text not in NOT_WORDS


def _order_of(left: Decimal | bool, right: Decimal | bool) -> Comparison:
    return Comparison((left > right) - (left < right))


def _turned(order: Comparison) -> Comparison:
    return _TURNED.get(order, order)
