"""Our own frozen values as JSON and back: what a cache keeps. Nothing but the classes
that a reader names is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import datetime
from functools import cache
from typing import Any, cast


def encode(value: Any) -> Any:
    """`value` as JSON: a scalar as it is, everything else as a list whose head says
    what it is.

    Values are scalars, times, tuples, lists, frozen sets of texts, mappings from texts,
    and dataclasses of these. Of a dataclass, the last fields are left out as long as
    they have their defaults.
    """
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple:
        return _encoded("()", value)
    if kind is list:
        return _encoded("[]", value)
    if kind is frozenset:
        return ["{}", *sorted(value)]
    if kind is datetime:
        return ["@", value.isoformat()]
    if isinstance(value, Mapping):
        return [":", {key: encode(item) for key, item in value.items()}]
    values = [getattr(value, name) for name in _names(kind)]
    defaults = _defaults(kind)
    while values and values[-1] == defaults[len(values) - 1]:
        values.pop()
    return _encoded(kind.__name__, values)


def _encoded(head: str, values: Iterable[Any]) -> list[Any]:
    """A list whose head is `head`. Most values are scalars: these are not asked for
    what they are by a call each."""
    return [
        head,
        *[each if type(each) in _SCALARS else encode(each) for each in values],
    ]


_SCALARS = frozenset({str, int, float, bool, type(None)})


def decoder(
    kinds: Iterable[type[Any]], others: Callable[[], Iterable[type[Any]]] | None = None
) -> Callable[[Any], Any]:
    """What turns the JSON of `encode` back into values, made of the classes `kinds`
    only, and of `others`, which are asked for when a value has one that is none of
    these.

    It raises ValueError, KeyError, TypeError or IndexError for what is not such JSON. A
    class is known by its name alone, so no two may have the same.
    """
    makers: dict[str, Callable[..., Any]] = {}
    later = [others] if others is not None else []

    def add(more: Iterable[type[Any]]) -> None:
        found = set(more)
        makers.update(
            {
                kind.__name__: _maker(kind)
                for kind in found
                if kind.__name__ not in makers
            }
        )
        named = {kind.__name__ for kind in found}
        assert len(named) == len(found), "two of these classes have one name"

    add(kinds)

    def decode(found: Any) -> Any:
        if type(found) is not list:
            return found
        head = found[0]
        make = makers.get(head)
        if make is not None:
            return make(
                *[decode(item) if type(item) is list else item for item in found[1:]]
            )
        if head == "()":
            return tuple(
                [decode(item) if type(item) is list else item for item in found[1:]]
            )
        if head == ":":
            return {
                key: decode(item) if type(item) is list else item
                for key, item in found[1].items()
            }
        if head == "[]":
            return [decode(item) for item in found[1:]]
        if head == "{}":
            return frozenset(found[1:])
        if head == "@":
            return datetime.fromisoformat(found[1])
        if later:
            add(later.pop()())
            return decode(found)
        raise ValueError(f"no value of kind {head!r} is known")

    return decode


def _maker(kind: Any) -> Callable[..., Any]:
    """What makes a `kind` out of its first fields in order, also where it takes them by
    name only."""
    names = [field.name for field in _fields(kind)]
    if any(field.kw_only for field in _fields(kind)):
        return lambda *values: kind(**dict(zip(names, values, strict=False)))
    return cast("Callable[..., Any]", kind)


@cache
def _fields(kind: Any) -> tuple[Field[Any], ...]:
    """The fields that values of a class are made with; others are the same in all of
    them."""
    return tuple(field for field in fields(kind) if field.init)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(kind))


@cache
def _defaults(kind: Any) -> tuple[Any, ...]:
    return tuple(
        field.default if field.default_factory is MISSING else field.default_factory()
        for field in _fields(kind)
    )
