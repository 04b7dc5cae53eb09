"""TOML text to a tree of `Node`, every value with the line of its key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_LINE = re.compile(rf"^[ \t]*(?:\[{{1,2}}[ \t]*(?P<header>{_KEY})[ \t]*\]|(?P<key>{_KEY})[ \t]*=)", re.MULTILINE)

_LONG_TEXT = re.compile(r""""{3}(?:\\.|[^\\])*?"{3}|'{3}.*?'{3}""", re.DOTALL)


def parse_toml(path: str, text: str) -> Node:
    """The document in `text` as a tree; dates and times become texts. Raises `ProjectError` (`toml-syntax`)."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        place = Place(path, int(found[1]), int(found[2])) if found else Place(path)
        what = str(error).removesuffix(found[0] if found else "")
        raise ProjectError.of("toml-syntax", f"This is not TOML: {what}.", place=place) from None
    except RecursionError:
        raise ProjectError.of("toml-syntax", "This TOML nests too deep to be read.", place=Place(path)) from None
    lines = _find_lines(text)

    def build(value: Any, at: tuple[str, ...], line: int) -> Node:
        match value:
            case Mapping():
                found = {key: lines.get((*at, key), line) for key in value}
                items = {key: build(item, (*at, key), found[key]) for key, item in value.items()}
                return Node(items, Place(path, line), {key: Place(path, number) for key, number in found.items()})
            case list():
                return Node(tuple(build(item, at, line) for item in value), Place(path, line))
            case _:
                return Node(value if isinstance(value, str | int | float) else str(value), Place(path, line))

    return build(document, (), 1)


def _find_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which a key is first named."""
    text = _LONG_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text)
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for match in _LINE.finditer(text):
        names = _names(match["header"] or match["key"])
        path = names if match["header"] else (*table, *names)
        table = path if match["header"] else table
        line = text.count("\n", 0, match.start()) + 1
        for length in range(1, len(path) + 1):
            found.setdefault(path[:length], line)
    return found


def _names(key: str) -> tuple[str, ...]:
    """The parts of a dotted key."""
    found, names = tomllib.loads(f"[{key}]"), []
    while found:
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names)
