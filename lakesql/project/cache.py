"""A file of what was worked out before, each entry under a key of everything that it
depends on.

A cache is never needed and never wrong: one that cannot be read, that somebody has
changed, or that another lakesql has written, is empty; an entry whose key is not the
asked one is not there. Values are kept as JSON, and read back as the dataclasses that
they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from lakesql import __version__
from lakesql.project.files import write_atomically


class CacheFile:
    """The entries of one file in JSON, by name. What is put in lands in the file with
    `save`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = _writer()
        self.version = ""
        """Another one for any other entries that were loaded or saved."""
        self._entries = self._load()
        self._changed = False

    def get(self, name: str, key: str) -> Any | None:
        """The entry of `name` if it was put in under `key`."""
        entry = self._entries.get(name)
        return entry[1] if entry is not None and entry[0] == key else None

    def put(self, name: str, key: str, value: Any) -> None:
        """Keep `value`, anything that JSON has, in the place of the entry that `name`
        had."""
        self._entries[name] = [key, value]
        self._changed = True

    def save(self, names: Collection[str]) -> None:
        """Write the entries of `names`, and forget the others. A folder that takes no
        file loses the cache only."""
        gone = self._entries.keys() - set(names)
        if not self._changed and not gone:
            return
        for name in gone:
            del self._entries[name]
        entries = json.dumps(self._entries, separators=(",", ":"))
        self.version = _head(self._writer, entries)
        with contextlib.suppress(OSError):
            write_atomically(self._path, f"{self.version}\n{entries}")

    def _load(self) -> dict[str, list[Any]]:
        try:
            head, _, entries = self._path.read_bytes().decode().partition("\n")
        except (OSError, UnicodeDecodeError):
            return {}
        if head != _head(self._writer, entries):
            return {}
        self.version = head
        found: dict[str, list[Any]] = json.loads(entries)
        return found


def _head(writer: str, entries: str) -> str:
    return f"{writer} {digest(entries)}"


def digest(*parts: str) -> str:
    """A short name for `parts`, another one for any other parts."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(encoded))
        hashed.update(encoded)
    return hashed.hexdigest()


@cache
def _writer() -> str:
    """Which lakesql this is: its version, that of Python, and when its files and those
    of its parsers were changed.

    Asked once, as what was loaded is what runs until the process ends.
    """
    package = str(Path(__file__).parent.parent)
    python = f"{sys.implementation.name}-{sys.hexversion:x}"
    newest = max(_changed_at(package))
    parsers = (
        spec.origin
        for name in ("jinja2", "sqlglot")
        if (spec := find_spec(name)) is not None
    )
    changed = [str(Path(origin).stat().st_mtime_ns) for origin in parsers if origin]
    return " ".join([__version__, python, str(newest), *changed])


def _changed_at(folder: str) -> Iterator[int]:
    """When each Python file below a folder was last changed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns
            elif entry.is_dir(follow_symlinks=False):
                yield from _changed_at(entry.path)


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
