"""How TOML is read: as a tree of `Node`, with the places of its keys and values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError


def parse_toml(path: str, text: str) -> Node:
    """The document in `text` as a tree; dates and times become texts. Raises
    `ProjectError` (`toml-syntax`).

    Values in an array or an inline table have the place of that.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        place = Place(path, int(found[1]), int(found[2])) if found else Place(path)
        what = str(error).removesuffix(found[0] if found else "")
        raise ProjectError.of(
            "toml-syntax", f"This is not TOML: {what}.", place=place
        ) from None
    except RecursionError:
        raise ProjectError.of(
            "toml-syntax", "This TOML nests too deep to be read.", place=Place(path)
        ) from None
    keys, values = _find_places(path, text)

    def build(value: Any, at: tuple[str, ...], place: Place) -> Node:
        place = values.get(at, place)
        match value:
            case Mapping():
                own = {key: keys.get((*at, key), place) for key in value}
                return Node(
                    {
                        key: build(item, (*at, key), own[key])
                        for key, item in value.items()
                    },
                    place,
                    own,
                )
            case list():
                return Node(tuple(build(item, at, place) for item in value), place)
            case str() | int() | float():
                return Node(value, place)
            case _:
                return Node(str(value), place)

    return build(document, (), Place(path, 1, 1))


_PART = re.compile(r"""[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_KEY = rf"(?:{_PART.pattern})(?:[ \t]*\.[ \t]*(?:{_PART.pattern}))*"
_ENTRY = re.compile(
    rf"^[ \t]*(?:\[\[?[ \t]*(?P<table>{_KEY})[ \t]*\]|(?P<key>{_KEY})[ \t]*=[ \t]*)|"
    # Texts and comments are matched too, so that what looks like a key in them is
    # skipped.
    r'"""(?:\\.|[^\\])*?"""|'
    + r"'''.*?'''|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'|\#[^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Matches a table's header or a key at the start of a line, or a text or comment."""

_Places = dict[tuple[str, ...], Place]


def _find_places(path: str, text: str) -> tuple[_Places, _Places]:
    """The places where each key is named first, and where its value begins, which
    `tomllib` does not return."""
    keys: _Places = {}
    values: _Places = {}
    table: tuple[str, ...] = ()

    def place_of(at: int) -> Place:
        return Place(path, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))

    for found in _ENTRY.finditer(text):
        if found.lastgroup is None:
            continue
        names = table if found["key"] else ()
        for part in _PART.finditer(text, *found.span(found.lastgroup)):
            names = (*names, next(iter(tomllib.loads(f"{part[0]} = 0"))))
            keys.setdefault(names, place_of(part.start()))
        if found["table"]:
            table = names
        values.setdefault(
            names, place_of(found.end() if found["key"] else found.start())
        )
    return keys, values
