"""The values of a template and its operators, all of them pure and within a `Budget`.

Values are texts, numbers, booleans, None, lists, tuples and dicts, nothing else.
Whatever makes or walks a value charges the budget, so that a template ends, always
after the same step, whatever it says.
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
    """Why a template cannot go on: a condition, and where it stands once somebody
    knows.

    `at` is an offset in the file that runs; `inside` says where in which macros,
    innermost first. `blocks` counts the `call` blocks that it is still inside of: their
    text is not the text of the macro that asked for it.
    """

    def __init__(
        self, condition: str, what: str, fix: str = "", at: int | None = None
    ) -> None:
        super().__init__(what)
        self.condition, self.what, self.fix, self.at = condition, what, fix, at
        self.inside: list[str] = []
        self.blocks = 0


def too_large(what: str) -> TemplateError:
    """The TemplateError of a template that goes beyond its bounds."""
    return TemplateError("template-too-large", f"The template {what}.")


failed = partial(TemplateError, "template-failed")
"""The TemplateError of an operation that its values do not allow."""

forbidden = partial(TemplateError, "template-forbidden")
"""The TemplateError of something that no template may do."""


class Budget:
    """How many steps a rendering has left. A step is a node that is run, or 64
    characters that are made or read."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def charge(self, steps: int) -> None:
        """Takes `steps` away; a TemplateError when there are none left."""
        self.left -= steps
        if self.left < 0:
            raise too_large("takes too many steps")

    def text(self, length: int) -> None:
        """Charges for a text of `length` that is about to be made."""
        if length > MAX_TEXT:
            raise too_large(f"makes a text of more than {MAX_TEXT} characters")
        self.charge(1 + length // CHARACTERS_A_STEP)

    def width(self, digits: str) -> None:
        """Charges for a width or a precision that a format asks for."""
        self.text(int(digits or 0) if len(digits) < 8 else MAX_TEXT + 1)

    def weigh(self, value: Any) -> None:
        """Charges for reading all of a value, however deep."""
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
    """What is in the place of an entry that is not there: it may be asked for `is
    defined` and `default`, nothing else.

    It is the value of an expression only, never of a variable or an item.
    """

    __slots__ = ()


class Namespace(dict[str, Any]):
    """What `namespace()` gives: a dict whose entries can be set."""


def kind_of(value: Any) -> str:
    """What a value is called in a message."""
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
    """An object from outside (a var) as a value of templates: mappings as dicts, a date
    or the like as its text."""
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
    """A value as a text: a text as it is, everything else as Python shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | dict):
        budget.weigh(value)
    return str(value)


def output_of(budget: Budget, value: Any, at: int) -> str:
    """What `{{ value }}` and `~` write; a TemplateError for a list or mapping, as
    Python's `[1, 2]` is not SQL's."""
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
    """The key of an entry. A sequence is none: to hash one that holds another twice
    takes its time each time."""
    if isinstance(key, list | tuple | dict):
        raise failed(f"{kind_of(key).capitalize()} cannot be a key.")
    return key


def item_of(target: Any, key: Any) -> Any:
    """`target[key]`: `MissingEntry` where a dict, list or text has no such entry, a
    TemplateError for anything else.

    The groups of `groupby` are tuples whose items have names too, as in Jinja.
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
    """A value that was made, if a template may hold it."""
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
    """`left symbol right`: numbers; `+` of two texts, lists or tuples; `*` of one and a
    number; `%` of a text."""
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
    """A TemplateError when one of the values is no number."""
    for value in values:
        if not isinstance(value, int | float):
            raise failed(
                f"'{symbol}' does not take {kind_of(value)} here. Texts are joined with '~'."
            )


_CONVERSION = re.compile(
    r"%(?:%|(?:\(([^()]*)\))?[#0 +-]*([1-9][0-9]*)?(?:\.([0-9]*))?[diouxXeEfFgGrsa])"
)


def check_conversions(budget: Budget, text: str, values: Any) -> None:
    """Charges for `text % values`, before it is made. Widths are numbers: `*` would
    read them from the values."""

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
