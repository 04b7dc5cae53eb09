"""What a template can do with values: operators, methods, filters and tests, all of them pure and bounded.

Values are texts, numbers, booleans, None, lists, tuples and dicts, nothing else. Whatever makes or walks a value
charges a `Budget`, so that a template ends, always after the same step, whatever it says.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_STEPS = 200_000
MAX_TEXT = 1 << 20
MAX_INTEGER_BITS = 63
CHARACTERS_A_STEP = 64


class TemplateError(Exception):
    """Why a template cannot go on: a condition, and where it stands once somebody knows.

    `at` is an offset in the file that runs; `inside` says where in which macros, innermost first. `blocks` counts the
    `call` blocks that it is still inside of: their text is not the text of the macro that asked for it.
    """

    def __init__(self, condition: str, what: str, fix: str = "", at: int | None = None) -> None:
        super().__init__(what)
        self.condition, self.what, self.fix, self.at = condition, what, fix, at
        self.inside: list[str] = []
        self.blocks = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """The value of an entry that is not there. It may be asked for `is defined` and `default`, nothing else."""

    what: str


@dataclass(slots=True)
class Budget:
    """How many steps a rendering has left. A step is a node that is run, or 64 characters that are made or read."""

    left: int = MAX_STEPS

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


def too_large(what: str) -> TemplateError:
    """The TemplateError of a template that goes beyond its bounds."""
    return TemplateError(
        "template-too-large", f"The template {what}.", "Templates write a query; large data belongs in a table."
    )


def failed(what: str) -> TemplateError:
    """The TemplateError of an operation that its values do not allow."""
    return TemplateError("template-failed", what)


def forbidden(what: str, fix: str = "") -> TemplateError:
    """The TemplateError of something that no template may do."""
    return TemplateError("template-forbidden", what, fix)


def kind_of(value: Any) -> str:
    """What a value is called in a message."""
    names = {str: "a text", bool: "a boolean", int: "a number", float: "a number", list: "a list", tuple: "a tuple"}
    return "none" if value is None else names.get(type(value), "a mapping")


def value_of(value: object) -> Any:
    """An object from outside (a var) as a value of templates: mappings as dicts, a date or the like as its text."""
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
    """What `{{ value }}` writes: a text as it is, everything else as Python shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | dict):
        budget.weigh(value)
    return str(value)


# Operators.


def add(budget: Budget, left: Any, right: Any) -> Any:
    """`left + right`: numbers, two texts, two lists, two tuples."""
    if isinstance(left, str) and isinstance(right, str):
        budget.text(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.charge(len(left) + len(right))
    else:
        _numbers("+", left, right)
    return _bounded(left + right)


def multiply(budget: Budget, left: Any, right: Any) -> Any:
    """`left * right`: numbers, or a text or list that many times."""
    if isinstance(right, str | list | tuple):
        left, right = right, left
    if isinstance(left, str | list | tuple) and isinstance(right, int):
        length = len(left) * max(right, 0)
        if isinstance(left, str):
            budget.text(length)
        else:
            budget.charge(length)
        return left * right
    _numbers("*", left, right)
    return _bounded(left * right)


def power(budget: Budget, left: Any, right: Any) -> Any:
    """`left ** right` of numbers."""
    _numbers("**", left, right)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > 4 * MAX_INTEGER_BITS:
        raise too_large("makes a number of more than 64 bits")
    result = left**right
    if isinstance(result, complex):
        raise failed("A root of a negative number is not a number.")
    return _bounded(result)


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Budget, Any, Any], Any]:
    def apply(budget: Budget, left: Any, right: Any) -> Any:
        _numbers(symbol, left, right)
        return _bounded(function(left, right))

    return apply


OPERATORS: dict[str, Callable[[Budget, Any, Any], Any]] = {
    "+": add,
    "-": _arithmetic("-", operator.sub),
    "*": multiply,
    "/": _arithmetic("/", operator.truediv),
    "//": _arithmetic("//", operator.floordiv),
    "%": _arithmetic("%", operator.mod),
    "**": power,
}

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}


def compare(budget: Budget, symbol: str, left: Any, right: Any) -> bool:
    """`left symbol right`, both charged for their whole size."""
    budget.weigh(left)
    budget.weigh(right)
    if symbol in ("in", "notin") and isinstance(right, str):
        budget.charge(len(right) // 4)
    return bool(COMPARISONS[symbol](left, right))


def numbers(budget: Budget, *arguments: Any) -> list[int]:
    """`range(stop)`, `range(start, stop)`, `range(start, stop, step)`, as a list."""
    made = range(*arguments)
    budget.charge(len(made))
    return list(made)


def _numbers(symbol: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, int | float):
            raise failed(f"'{symbol}' does not take {kind_of(value)} here. Texts are joined with '~'.")


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise too_large("makes a number of more than 64 bits")
    return value


# Entries and methods.


def key_of(key: Any) -> Any:
    """The key of an entry. A sequence is none: to hash one that holds another twice takes its time each time."""
    if isinstance(key, list | tuple | dict):
        raise failed(f"{kind_of(key).capitalize()} cannot be a key.")
    return key


def item_of(target: Any, key: Any) -> Any:
    """`target[key]`: `Missing` where a dict, list or text has no such entry, a TemplateError for anything else."""
    match target:
        case dict():
            return target.get(key_of(key), Missing(f"There is no entry '{key}'."))
        case str() | list() | tuple() if isinstance(key, int):
            return target[key] if -len(target) <= key < len(target) else Missing(f"There is no item {key}.")
        case _:
            raise forbidden(f"'{key}' of {kind_of(target)} cannot be read in a template.", "Read entries of mappings.")


def _replace(budget: Budget, text: str, old: str, new: str, count: int = -1) -> str:
    budget.charge(len(text) // 4)
    times = text.count(old) if count < 0 else min(text.count(old), count)
    budget.text(max(0, len(text) + times * (len(new) - len(old))))
    return text.replace(old, new, count)


def _join(budget: Budget, separator: str, items: Iterable[Any]) -> str:
    texts = [text_of(budget, item) for item in items]
    budget.charge(len(texts))
    budget.text(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1))
    return separator.join(texts)


def _split(budget: Budget, text: str, separator: str | None = None, limit: int = -1) -> list[str]:
    budget.charge(len(text) // 4)
    return text.split(separator, limit)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of texts whose cost is the text's length, times that of a set of characters to strip."""

    def apply(budget: Budget, text: str, *arguments: Any) -> Any:
        budget.charge(1 + len(text) // 16)
        for argument in arguments:
            budget.weigh(argument)
            budget.charge(len(text) * len(argument) // 4096 if argument else 0)
        return function(text, *arguments)

    return apply


_TEXT_METHODS: dict[str, Callable[..., Any]] = {
    "capitalize": _plain(str.capitalize),
    "endswith": _plain(str.endswith),
    "join": _join,
    "lower": _plain(str.lower),
    "lstrip": _plain(str.lstrip),
    "replace": _replace,
    "rstrip": _plain(str.rstrip),
    "split": _split,
    "startswith": _plain(str.startswith),
    "strip": _plain(str.strip),
    "title": _plain(str.title),
    "upper": _plain(str.upper),
}


def _items(budget: Budget, entries: dict[Any, Any]) -> list[Any]:
    budget.charge(len(entries))
    return list(entries.items())


def _keys(budget: Budget, entries: dict[Any, Any]) -> list[Any]:
    budget.charge(len(entries))
    return list(entries)


def _values(budget: Budget, entries: dict[Any, Any]) -> list[Any]:
    budget.charge(len(entries))
    return list(entries.values())


def _get(budget: Budget, entries: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return entries.get(key_of(key), default)


_DICT_METHODS: dict[str, Callable[..., Any]] = {"get": _get, "items": _items, "keys": _keys, "values": _values}

METHODS = frozenset(_TEXT_METHODS) | frozenset(_DICT_METHODS)


def call_method(budget: Budget, target: Any, name: str, arguments: list[Any]) -> Any:
    """`target.name(…)` for the methods of texts and dicts that a template may call."""
    methods = _TEXT_METHODS if isinstance(target, str) else _DICT_METHODS if isinstance(target, dict) else {}
    if name not in methods:
        raise forbidden(f"{kind_of(target).capitalize()} has no method '{name}' in a template.")
    return methods[name](budget, target, *arguments)


# Filters.


def _default(budget: Budget, value: Any, default: Any = "", boolean: bool = False) -> Any:
    return default if isinstance(value, Missing) or (boolean and not value) else value


def _items_of(budget: Budget, value: Any) -> list[Any]:
    if not isinstance(value, str | list | tuple | dict):
        raise failed(f"{kind_of(value).capitalize()} has no items.")
    budget.charge(len(value))
    return list(value)


def _path(value: Any, attribute: Any) -> Any:
    for part in str(attribute).split("."):
        value = item_of(value, int(part) if part.isdecimal() else part)
        if isinstance(value, Missing):
            raise TemplateError("undefined-variable", value.what)
    return value


def _picked(budget: Budget, value: Any, attribute: Any) -> list[Any]:
    items = _items_of(budget, value)
    return items if attribute is None else [_path(item, attribute) for item in items]


def _join_items(budget: Budget, value: Any, d: str = "", attribute: Any = None) -> str:
    return _join(budget, d, _picked(budget, value, attribute))


def _map(budget: Budget, value: Any, name: str | None = None, *arguments: Any, attribute: Any = None) -> list[Any]:
    if name is None:
        return _picked(budget, value, attribute)
    return [apply_filter(budget, item, name, arguments, {}) for item in _items_of(budget, value)]


def _chosen(wanted: bool, by_attribute: bool) -> Callable[..., list[Any]]:
    def choose(budget: Budget, value: Any, *arguments: Any) -> list[Any]:
        attribute, rest = (arguments[0], arguments[1:]) if by_attribute else (None, arguments)

        def passes(item: Any) -> bool:
            if by_attribute:
                item = _path(item, attribute)
            return apply_test(budget, item, rest[0], rest[1:]) if rest else bool(item)

        return [item for item in _items_of(budget, value) if passes(item) is wanted]

    return choose


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _sort(
    budget: Budget, value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Any = None
) -> list[Any]:
    budget.weigh(value)

    def key(item: Any) -> list[Any]:
        parts = [item] if attribute is None else [_path(item, part) for part in str(attribute).split(",")]
        return parts if case_sensitive else [_folded(part) for part in parts]

    return sorted(_items_of(budget, value), key=key, reverse=reverse)


def _dictsort(budget: Budget, value: Any) -> list[Any]:
    budget.weigh(value)
    return sorted(_items(budget, value), key=lambda entry: _folded(entry[0]))


def _unique(budget: Budget, value: Any) -> list[Any]:
    seen: dict[tuple[str, str], Any] = {}
    for item in _items_of(budget, value):
        seen.setdefault((type(item).__name__, _folded(text_of(budget, item))), item)
    return list(seen.values())


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def apply(budget: Budget, value: Any) -> Any:
        budget.weigh(value)
        items = _items_of(budget, value)
        return choose(items, key=_folded) if items else Missing("A list without items has no smallest or largest.")

    return apply


def _sum(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    for item in _picked(budget, value, attribute):
        _numbers("sum", item)
        start = _bounded(start + item)
    return start


def _end(index: int) -> Callable[..., Any]:
    def apply(budget: Budget, value: Any) -> Any:
        items = _items_of(budget, value)
        return items[index] if items else Missing("A list without items has no first or last.")

    return apply


def _int(budget: Budget, value: Any, default: int = 0, base: int = 10) -> Any:
    try:
        if isinstance(value, str):
            try:
                return _bounded(int(value, base))
            except ValueError:
                return _bounded(int(float(value)))
        return _bounded(int(value))
    except (TypeError, ValueError, OverflowError):
        return default


def _float(budget: Budget, value: Any, default: float = 0.0) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _round(budget: Budget, value: Any, precision: int = 0, method: str = "common") -> float:
    _numbers("round", value)
    if not 0 <= precision <= 15 or method not in ("common", "ceil", "floor"):
        raise failed("'round' takes 0 to 15 digits, and 'common', 'ceil' or 'floor'.")
    if method == "common":
        return float(round(value, precision))
    whole = math.ceil if method == "ceil" else math.floor
    return float(whole(value * 10**precision) / 10**precision)


def _indent(budget: Budget, value: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
    text = text_of(budget, value)
    if not isinstance(width, int) or not 0 <= width <= 100:
        raise failed("'indent' takes a width from 0 to 100.")
    budget.text(len(text) + width * (text.count("\n") + 1))
    lines = text.split("\n")
    gap = " " * width
    rest = [gap + line if line or blank else line for line in lines[1:]]
    return "\n".join([gap + lines[0] if first else lines[0], *rest])


def _reverse(budget: Budget, value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else _items_of(budget, value)[::-1]


def _on_text(name: str) -> Callable[..., Any]:
    method = _TEXT_METHODS[name]
    return lambda budget, value, *arguments: method(budget, text_of(budget, value), *arguments)


_WORD_STARTS = re.compile(r"([-\s({\[<]+)")


def _title(budget: Budget, value: Any) -> str:
    budget.charge(len(text_of(budget, value)))
    words = _WORD_STARTS.split(text_of(budget, value))
    return "".join(word[:1].upper() + word[1:].lower() for word in words)


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": lambda budget, value: abs(value),
    "capitalize": _on_text("capitalize"),
    "count": lambda budget, value: len(value),
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "first": _end(0),
    "float": _float,
    "indent": _indent,
    "int": _int,
    "items": _items,
    "join": _join_items,
    "last": _end(-1),
    "length": lambda budget, value: len(value),
    "list": _items_of,
    "lower": _on_text("lower"),
    "map": _map,
    "max": _extreme(max),
    "min": _extreme(min),
    "reject": _chosen(False, False),
    "rejectattr": _chosen(False, True),
    "replace": _on_text("replace"),
    "reverse": _reverse,
    "round": _round,
    "select": _chosen(True, False),
    "selectattr": _chosen(True, True),
    "sort": _sort,
    "string": text_of,
    "sum": _sum,
    "title": _title,
    "trim": _on_text("strip"),
    "unique": _unique,
    "upper": _on_text("upper"),
}

TAKE_MISSING = frozenset({"d", "default", "defined", "undefined"})


def apply_filter(budget: Budget, value: Any, name: str, arguments: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """`value | name(…)`; a TemplateError when there is no such filter."""
    budget.charge(1)
    if name not in FILTERS:
        raise forbidden(f"Templates have no filter '{name}'.")
    return FILTERS[name](budget, value, *arguments, **named)


# Tests.


def _compared(symbol: str) -> Callable[..., bool]:
    return lambda budget, value, other: compare(budget, symbol, value, other)


def _is(*kinds: type) -> Callable[..., bool]:
    return lambda budget, value: isinstance(value, kinds)


TESTS: dict[str, Callable[..., bool]] = {
    "boolean": _is(bool),
    "defined": lambda budget, value: not isinstance(value, Missing),
    "divisibleby": lambda budget, value, number: OPERATORS["%"](budget, value, number) == 0,
    "eq": _compared("eq"),
    "equalto": _compared("eq"),
    "even": lambda budget, value: OPERATORS["%"](budget, value, 2) == 0,
    "false": lambda budget, value: value is False,
    "float": _is(float),
    "ge": _compared("gteq"),
    "gt": _compared("gt"),
    "in": _compared("in"),
    "integer": lambda budget, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": _is(str, list, tuple, dict),
    "le": _compared("lteq"),
    "lower": lambda budget, value: text_of(budget, value).islower(),
    "lt": _compared("lt"),
    "mapping": _is(dict),
    "ne": _compared("ne"),
    "none": lambda budget, value: value is None,
    "number": _is(int, float),
    "odd": lambda budget, value: OPERATORS["%"](budget, value, 2) == 1,
    "sequence": _is(str, list, tuple, dict),
    "string": _is(str),
    "true": lambda budget, value: value is True,
    "undefined": lambda budget, value: isinstance(value, Missing),
    "upper": lambda budget, value: text_of(budget, value).isupper(),
}


def apply_test(budget: Budget, value: Any, name: str, arguments: Iterable[Any]) -> bool:
    """`value is name(…)`; a TemplateError when there is no such test."""
    budget.charge(1)
    if name not in TESTS:
        raise forbidden(f"Templates have no test '{name}'.")
    return TESTS[name](budget, value, *arguments)
