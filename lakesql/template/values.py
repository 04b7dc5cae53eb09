"""The values of a template and its operators, which are pure and run within a `Budget`.

Values are strings, numbers, booleans, None, lists, tuples and dicts, and nothing else.
Whatever makes or reads a value charges the budget. So every template ends, and one that
exceeds its budget always fails at the same step.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import StrictUndefined

MAX_STEPS = 200_000
MAX_TEXT = 1 << 20
MAX_INTEGER_BITS = 63
CHARACTERS_A_STEP = 64


class TemplateError(Exception):
    """The error of a template that cannot be rendered: a condition, and the place once
    it is known.

    `at` is an offset in the file that is running. `inside` has the places in macros,
    innermost first. `blocks` counts the `call` blocks that the error is still inside
    of: their text is not in the file of the macro that called them.
    """

    def __init__(
        self, condition: str, what: str, fix: str = "", at: int | None = None
    ) -> None:
        super().__init__(what)
        self.condition, self.what, self.fix, self.at = condition, what, fix, at
        self.inside: list[str] = []
        self.blocks = 0


def too_large(what: str) -> TemplateError:
    """The error of a template that exceeds a limit."""
    return TemplateError("template-too-large", f"The template {what}.")


failed = partial(TemplateError, "template-failed")
"""The error of an operation that is not possible with its values."""

forbidden = partial(TemplateError, "template-forbidden")
"""The error of something that templates may not do."""


class Budget:
    """The number of steps that a rendering has left. A step is a node that is run, or
    64 characters that are made or read."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def charge(self, steps: int) -> None:
        """Subtract `steps`. Raises `TemplateError` if too few are left."""
        self.left -= steps
        if self.left < 0:
            raise too_large("takes too many steps")

    def text(self, length: int) -> None:
        """Charge for a string of `length` characters that is about to be made."""
        if length > MAX_TEXT:
            raise too_large(f"makes a text of more than {MAX_TEXT} characters")
        self.charge(1 + length // CHARACTERS_A_STEP)

    def width(self, digits: str) -> None:
        """Charge for the width or precision in a format."""
        self.text(int(digits or 0) if len(digits) < 8 else MAX_TEXT + 1)

    def weigh(self, value: Any) -> None:
        """Charge for reading all of a value, including nested ones."""
        if isinstance(value, str):
            self.charge(1 + len(value) // CHARACTERS_A_STEP)
        elif isinstance(value, dict):
            self.charge(1 + len(value))
            for key, item in value.items():
                self.weigh(key)
                self.weigh(item)
        elif isinstance(value, list | tuple):
            self.charge(1 + len(value))
            for item in value:
                self.weigh(item)


class MissingEntry(StrictUndefined):
    """The value of an entry that does not exist. Only `is defined`, `is undefined` and
    `default` can be applied to it.

    An expression may have it as a value, but no variable and no item of a list.
    """

    __slots__ = ()


class Namespace(dict[str, Any]):
    """The value of `namespace()`: a dict whose entries a template can set."""


def kind_of(value: Any) -> str:
    """How messages call the kind of a value, with an article."""
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        tuple: "a tuple",
    }
    if value is None:
        return "none"
    if isinstance(value, str):
        return "a text"
    return names.get(type(value), "a mapping")


def value_of(value: object) -> Any:
    """An object from outside, such as a var, as a value of templates: mappings become
    dicts, and other objects, such as dates, strings."""
    match value:
        case str() | bool() | int() | float() | None:
            return value
        case Mapping():
            return {str(key): value_of(item) for key, item in value.items()}
        case list() | tuple():
            return [value_of(item) for item in value]
        case _:
            return str(value)


def text_of(budget: Budget, value: Any) -> str:
    """A value as a string: a string unchanged, anything else as Python's `str` gives
    it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | dict):
        budget.weigh(value)
    return str(value)


def output_of(budget: Budget, value: Any, at: int) -> str:
    """The text that `{{ value }}` and `~` write. Raises `TemplateError` for a list or a
    mapping, as Python's notation `[1, 2]` is not that of SQL."""
    match value:
        case list() | tuple():
            fix = "Write its items: ({{ value | join(', ') }})."
            if any(isinstance(item, str) for item in value):
                fix = """Write its items: ('{{ value | join("', '") }}')."""
        case dict():
            fix = "Write one of its entries: {{ value['key'] }}."
        case _:
            return text_of(budget, value)
    raise TemplateError(
        "template-failed",
        f"{kind_of(value).capitalize()} is not written as it is.",
        fix,
        at,
    )


def key_of(key: Any) -> Any:
    """The key of an entry, unchanged. Raises `TemplateError` for a sequence or mapping:
    hashing nested ones can take exponential time."""
    if isinstance(key, list | tuple | dict):
        raise failed(f"{kind_of(key).capitalize()} cannot be a key.")
    return key


def item_of(target: Any, key: Any) -> Any:
    """`target[key]`; `MissingEntry` if a dict, list or string has no such entry. Raises
    `TemplateError` for any other target or key.

    The groups of `groupby` are named tuples, whose items can be read by their names, as
    in Jinja.
    """
    if isinstance(target, dict):
        return (
            target[key]
            if key_of(key) in target
            else MissingEntry(f"There is no entry '{key}'.", target, key)
        )
    if isinstance(target, str | list | tuple) and isinstance(key, int):
        return (
            target[key]
            if -len(target) <= key < len(target)
            else MissingEntry(f"There is no item {key}.")
        )
    if key in (names := getattr(type(target), "_fields", ())):
        return target[names.index(key)]
    raise forbidden(
        f"'{key}' of {kind_of(target)} cannot be read in a template.",
        "Read entries of mappings.",
    )


def bounded(value: Any) -> Any:
    """A value that was computed, unchanged. Raises `TemplateError` if it is too large
    for a template."""
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise too_large("makes a number of more than 64 bits")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise too_large(f"makes a text of more than {MAX_TEXT} characters")
    if isinstance(value, complex):
        raise failed("A root of a negative number is not a number.")
    return value


# Operators.


_SYMBOLS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
}
OPERATORS = {symbol: getattr(operator, name) for symbol, name in _SYMBOLS.items()}


def compute(budget: Budget, symbol: str, left: Any, right: Any) -> Any:
    """The value of `left symbol right`: of numbers; `+` of two strings, lists or
    tuples; `*` of one of these and a number; `%` of a format string."""
    match symbol, left, right:
        case "+", str(), str():
            budget.text(len(left) + len(right))
        case ("+", list(), list()) | ("+", tuple(), tuple()):
            budget.charge(len(left) + len(right))
        case ("*", str() as text, int() as times) | (
            "*",
            int() as times,
            str() as text,
        ):
            budget.text(len(text) * max(times, 0))
        case ("*", list() | tuple() as items, int() as times) | (
            "*",
            int() as times,
            list() | tuple() as items,
        ):
            budget.charge(len(items) * max(times, 0))
        case "%", str(), _:
            check_conversions(budget, left, right)
        case _:
            check_numbers(symbol, left, right)
            large = symbol == "**" and isinstance(left, int) and isinstance(right, int)
            if large and left.bit_length() * right > 4 * MAX_INTEGER_BITS:
                raise too_large("makes a number of more than 64 bits")
    return bounded(OPERATORS[symbol](left, right))


def check_numbers(symbol: str, *values: Any) -> None:
    """Raise `TemplateError` if one of the values is not a number."""
    for value in values:
        if not isinstance(value, int | float):
            raise failed(
                f"'{symbol}' does not take {kind_of(value)} here. Texts are joined with '~'."
            )


_CONVERSION = re.compile(
    r"%(?:%|(?:\(([^()]*)\))?[#0 +-]*([1-9][0-9]*)?(?:\.([0-9]*))?[diouxXeEfFgGrsa])"
)


def check_conversions(budget: Budget, text: str, values: Any) -> None:
    """Charge for `text % values` before it is computed. Raises `TemplateError` for
    unknown conversions, and for `*`, which would read a width from the values."""

    def charge(found: re.Match[str]) -> str:
        budget.width(found[2] or "")
        budget.width(found[3] or "")
        if found[1] is not None and isinstance(values, dict):
            budget.text(len(text_of(budget, values.get(found[1]))))
        return ""

    budget.charge(1 + len(text) // 16)
    budget.weigh(values)
    if "%" in _CONVERSION.sub(charge, text):
        raise failed(
            "A '%' in a text that is formatted begins a conversion, such as %s, %(name)s or %.2f; '%%' is one."
        )
