"""The filters, tests and methods that a template may use: Jinja's and Python's own
functions, as far as they are listed here.

Each name has a rule, which runs before the function: it charges the budget for what the
function reads, and bounds the size of the result.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import filters, tests

from lakesql.template.values import (
    Budget,
    MissingEntry,
    TemplateError,
    bounded,
    check_conversions,
    check_numbers,
    failed,
    forbidden,
    item_of,
    key_of,
    kind_of,
    text_of,
)

TAKE_MISSING = frozenset({"d", "default", "defined", "undefined"})
Rule = Callable[..., None]
Arguments = Sequence[Any]
Named = Mapping[str, Any]


class Library(Budget):
    """A budget, and the functions that are charged to it. Jinja's functions get it as
    their environment and context, so that they can reach nothing else."""

    __slots__ = ()
    is_async = autoescape = False

    @property
    def environment(self) -> Library:
        """This object, for Jinja's functions that take a context."""
        return self

    def getitem(self, value: Any, key: Any) -> Any:
        """The value of one part of `attribute='a.b'`: an entry of a mapping, or an item
        of a list."""
        self.charge(1)
        return item_of(value, key)

    def undefined(self, hint: str) -> MissingEntry:
        """The value that a Jinja function returns if it finds nothing."""
        return MissingEntry(hint)

    def call_filter(
        self,
        name: str,
        value: Any,
        arguments: Arguments,
        named: Named,
        context: object = None,
    ) -> Any:
        """The value of `value | name(…)`. Raises `TemplateError` if there is no such
        filter."""
        if name not in FILTERS:
            raise forbidden(f"Templates have no filter '{name}'.")
        return self._call(FILTERS[name], filters.FILTERS[name], value, arguments, named)

    def call_test(
        self,
        name: str,
        value: Any,
        arguments: Arguments,
        named: Named,
        context: object = None,
    ) -> Any:
        """The value of `value is name(…)`. Raises `TemplateError` if there is no such
        test."""
        if name not in TESTS:
            raise forbidden(f"Templates have no test '{name}'.")
        return self._call(TESTS[name], tests.TESTS[name], value, arguments, named)

    def call_method(
        self, value: Any, name: str, arguments: Arguments, named: Named
    ) -> Any:
        """The value of `value.name(…)`, for the methods of strings and mappings that a
        template may call. Raises `TemplateError` for any other."""
        kind, rules = (
            (str, TEXT_METHODS) if isinstance(value, str) else (dict, MAPPING_METHODS)
        )
        if not isinstance(value, kind) or name not in rules:
            raise forbidden(
                f"{kind_of(value).capitalize()} has no method '{name}' in a template."
            )
        if name == "join":
            (items,) = arguments
            return self.call_filter("join", items, (value,), {})
        function = _Formatter(self).format if name == "format" else getattr(kind, name)
        return self._call(rules[name], function, value, arguments, named)

    def _call(
        self, rule: Rule, function: Any, value: Any, arguments: Arguments, named: Named
    ) -> Any:
        self.charge(1)
        rule(self, value, *arguments, **named)
        environment = (self,) if hasattr(function, "jinja_pass_arg") else ()
        found = function(*environment, value, *arguments, **named)
        if (
            found is value
            or found is None
            or isinstance(found, bool | float | list | tuple | dict | MissingEntry)
        ):
            return found
        if isinstance(found, str | int):
            return bounded(found)
        items = list(found)
        for item in items:
            if type(item) is MissingEntry:
                raise TemplateError("undefined-variable", item._undefined_message)
        return items


class _Formatter(string.Formatter):
    """`str.format`, without attributes and items of its arguments, and with a bounded
    result."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def get_field(self, field_name: str, args: Arguments, kwargs: Named) -> Any:
        if "." in field_name or "[" in field_name:
            raise forbidden(
                f"'{{{field_name}}}' reads inside of a value.",
                "Pass the entry itself to format().",
            )
        return super().get_field(field_name, args, kwargs)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self.budget.weigh(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.endswith("c"):
            raise failed("A number is not formatted as a character here.")
        for digits in re.findall(r"\d+", format_spec):
            self.budget.width(digits)
        self.budget.text(len(text_of(self.budget, value)))
        return str(super().format_field(value, format_spec))


# Rules.


def _free(budget: Library, value: Any, *arguments: Any, **named: Any) -> None:
    """For functions whose cost does not depend on the size of the value."""


def _items(budget: Library, value: Any, *arguments: Any, **named: Any) -> None:
    """For functions that iterate over the items of the value once."""
    if not isinstance(value, str | list | tuple | dict):
        raise failed(f"{kind_of(value).capitalize()} has no items.")
    budget.charge(len(value))


def _whole(budget: Library, value: Any, *arguments: Any, **named: Any) -> None:
    """For functions that read all of the value and of the arguments, and return nothing
    larger."""
    for read in (value, *arguments, *named.values()):
        budget.weigh(read)


def _characters(budget: Library, value: Any, *arguments: Any) -> None:
    """For functions that look at each character, and compare it with those of an
    argument."""
    _whole(budget, value, *arguments)
    length = len(text_of(budget, value))
    budget.charge(
        length // 4
        + sum(length * len(argument) // 4096 for argument in arguments if argument)
    )


def _within(budget: Library, value: Any, sequence: Any) -> None:
    _whole(budget, value, sequence)
    budget.charge(len(sequence) // 4 if isinstance(sequence, str) else 0)


def _numbers(budget: Library, value: Any, *arguments: Any) -> None:
    check_numbers("%", value, *arguments)


def _key(budget: Library, value: Any, key: Any, default: Any = None) -> None:
    key_of(key)


def _format(budget: Library, value: Any, /, *arguments: Any, **named: Any) -> None:
    check_conversions(budget, text_of(budget, value), named or arguments)


def _pieces(budget: Library, value: Any, /, *arguments: Any, **named: Any) -> None:
    _whole(budget, value, *arguments)
    budget.charge(len(value) // 4)


def _indent(
    budget: Library,
    value: Any,
    width: Any = 4,
    first: bool = False,
    blank: bool = False,
) -> None:
    if not isinstance(value, str):
        raise failed(f"'indent' takes a text, not {kind_of(value)}.")
    budget.charge(1 + len(value) // 4)
    step = len(width) if isinstance(width, str) else width
    budget.text(len(value) + step * (len(value.splitlines()) + 1))


def _picked(budget: Library, value: Any, attribute: Any) -> list[Any]:
    _items(budget, value)
    return (
        list(value)
        if attribute is None
        else budget.call_filter("map", value, (), {"attribute": attribute})
    )


def _join(budget: Library, value: Any, d: Any = "", attribute: Any = None) -> None:
    lengths = [len(text_of(budget, item)) for item in _picked(budget, value, attribute)]
    budget.text(sum(lengths) + len(text_of(budget, d)) * max(0, len(lengths) - 1))


def _replace(
    budget: Library, value: Any, old: Any, new: Any, count: int | None = None
) -> None:
    text, old, new = (text_of(budget, item) for item in (value, old, new))
    budget.charge(1 + len(text) // 4)
    found = text.count(old)
    times = found if count is None or count < 0 else min(found, count)
    budget.text(max(0, len(text) + times * (len(new) - len(old))))


def _round(
    budget: Library, value: Any, precision: int = 0, method: str = "common"
) -> None:
    check_numbers("round", value)
    if not -15 <= precision <= 15:
        raise failed("'round' takes up to 15 digits.")


def _group(
    budget: Library,
    value: Any,
    attribute: Any,
    default: Any = None,
    case_sensitive: bool = False,
) -> None:
    _whole(budget, value, default)
    if default is None:
        _picked(budget, value, attribute)  # which says what has no such entry


def _sum(budget: Library, value: Any, attribute: Any = None, start: Any = 0) -> None:
    check_numbers("sum", start, *_picked(budget, value, attribute))


FILTERS: dict[str, Rule] = {
    **dict.fromkeys(("abs", "count", "d", "default", "first", "last", "length"), _free),
    **dict.fromkeys(
        (
            "items",
            "list",
            "map",
            "reject",
            "rejectattr",
            "reverse",
            "select",
            "selectattr",
        ),
        _items,
    ),
    **dict.fromkeys(("capitalize", "float", "int", "lower", "string", "upper"), _whole),
    **dict.fromkeys(("dictsort", "max", "min", "sort", "unique"), _whole),
    **dict.fromkeys(("title", "trim"), _characters),
    "format": _format,
    "groupby": _group,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "sum": _sum,
}

TESTS: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "boolean",
            "defined",
            "false",
            "float",
            "integer",
            "iterable",
            "mapping",
            "none",
        ),
        _free,
    ),
    **dict.fromkeys(("number", "sequence", "string", "true", "undefined"), _free),
    **dict.fromkeys(
        ("==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", ">=", "ge"),
        _whole,
    ),
    **dict.fromkeys(("<", "lt", "lessthan", "<=", "le", "lower", "upper"), _whole),
    **dict.fromkeys(("divisibleby", "even", "odd"), _numbers),
    "in": _within,
}

TEXT_METHODS: dict[str, Rule] = {
    **dict.fromkeys(("capitalize", "endswith", "lower", "startswith", "upper"), _whole),
    **dict.fromkeys(("lstrip", "rstrip", "strip", "title"), _characters),
    "format": _pieces,
    "join": _join,
    "replace": _replace,
    "split": _pieces,
}

MAPPING_METHODS: dict[str, Rule] = {
    "get": _key,
    "items": _items,
    "keys": _items,
    "values": _items,
}

METHODS = frozenset(TEXT_METHODS) | frozenset(MAPPING_METHODS)
