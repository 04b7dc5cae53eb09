"""A file that caches results between commands, each under a key made of everything that
it depends on.

A cache is never needed and never wrong: a file that cannot be read, was edited, or was
written by another version of lakesql counts as empty, and an entry with another key as
missing. Values are stored as JSON, and read back as the dataclasses that they were.
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
    """A cache file in JSON, with entries by name. Changes are written by `save`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = _writer()
        self.version = ""
        """A hash of the entries as they were last loaded or saved; '' if neither."""
        self._entries = self._load()
        self._changed = False

    def get(self, name: str, key: str) -> Any | None:
        """The value of the entry `name` if it has this key; else None."""
        entry = self._entries.get(name)
        return entry[1] if entry is not None and entry[0] == key else None

    def put(self, name: str, key: str, value: Any) -> None:
        """Set the entry `name` to `value`, which must be JSON, under this key."""
        self._entries[name] = [key, value]
        self._changed = True

    def save(self, names: Collection[str]) -> None:
        """Write the entries of `names` to the file, and remove the others. A file that
        cannot be written is no error."""
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
    """A hash of the parts, in hexadecimal. Their boundaries count."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(encoded))
        hashed.update(encoded)
    return hashed.hexdigest()


@cache
def _writer() -> str:
    """A text that identifies this lakesql: its version, that of Python, and the times
    of the newest of its files and of those of its parsers.

    Computed once, as the code that runs does not change within a process.
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
    """The modification times in nanoseconds of all Python files below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns
            elif entry.is_dir(follow_symlinks=False):
                yield from _changed_at(entry.path)


def encode(value: Any) -> Any:
    """`value` as JSON: a scalar as it is, everything else as a list whose first item
    names its kind.

    Values are scalars, times, tuples, lists, frozen sets of texts, mappings with texts
    as keys, and dataclasses of these. The last fields of a dataclass are left out as
    long as they have their defaults.
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
    """A list of `head` and the encoded values. Scalars, which most values are, are
    added without a call of `encode`, as that is faster."""
    return [
        head,
        *[each if type(each) in _SCALARS else encode(each) for each in values],
    ]


_SCALARS = frozenset({str, int, float, bool, type(None)})


def decoder(
    kinds: Iterable[type[Any]], others: Callable[[], Iterable[type[Any]]] | None = None
) -> Callable[[Any], Any]:
    """A function that turns the JSON of `encode` back into values. It creates values of
    the classes `kinds`, and of those that `others` returns, which is called for the
    first class that is not among `kinds`.

    The function raises ValueError, KeyError, TypeError or IndexError for other JSON. A
    class is identified by its name, so no two may have the same.
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
    """A function that makes a `kind` of the values of its first fields, in their order,
    also if its fields are keyword-only."""
    names = [field.name for field in _fields(kind)]
    if any(field.kw_only for field in _fields(kind)):
        return lambda *values: kind(**dict(zip(names, values, strict=False)))
    return cast("Callable[..., Any]", kind)


@cache
def _fields(kind: Any) -> tuple[Field[Any], ...]:
    """The fields that the constructor of a class takes."""
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
