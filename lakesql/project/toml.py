"""TOML text to a tree of `Node`, every value with its place."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError

Path = tuple[str | int, ...]
"""Where a value stands in the document: keys of tables, indexes of arrays."""


def parse_toml(path: str, text: str) -> Node:
    """The document in `text` as a tree; dates and times become texts. Raises `ProjectError` (`toml-syntax`)."""
    try:
        document = tomllib.loads(text)
        places = _Scanner(text).scan()
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        place = Place(path, int(found[1]), int(found[2])) if found else Place(path)
        what = str(error).removesuffix(found[0] if found else "")
        raise ProjectError.of("toml-syntax", f"This is not TOML: {what}.", place=place) from None
    except RecursionError:
        raise ProjectError.of("toml-syntax", "This TOML nests too deep to be read.", place=Place(path)) from None
    lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def place_of(offset: int) -> Place:
        line = bisect_right(lines, offset)
        return Place(path, line, offset - lines[line - 1] + 1)

    def build(value: Any, at: Path) -> Node:
        place = place_of(places.values.get(at, places.keys.get(at, 0)))
        match value:
            case Mapping():
                keys = {key: place_of(places.keys[(*at, key)]) for key in value}
                return Node({key: build(item, (*at, key)) for key, item in value.items()}, place, keys)
            case list():
                return Node(tuple(build(item, (*at, index)) for index, item in enumerate(value)), place)
            case str() | int() | float():
                return Node(value, place)
            case _:
                return Node(str(value), place)

    return build(document, ())


@dataclass(frozen=True, slots=True)
class _Places:
    """Offsets of keys and of values, by where they stand in the document: `tomllib` tells of none.

    A key that stands in several headers has its first place.
    """

    keys: dict[Path, int] = field(default_factory=dict)
    values: dict[Path, int] = field(default_factory=dict)


_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|' + r"'''.*?'''(?:'{0,2})|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'|"
    r"\#[^\n]*|[ \t]+|\r?\n|[\[\]{}=,.]|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)


class _Scanner:
    """Walks the tokens of a document that `tomllib` has read, so that every rule it has checked can be relied on."""

    def __init__(self, text: str) -> None:
        found = ((match.start(), match[0]) for match in _TOKEN.finditer(text))
        self.tokens = [(start, token) for start, token in found if token[0] not in "# \t"]
        self.at = 0
        self.places = _Places()
        self.lengths: dict[Path, int] = {}

    def scan(self) -> _Places:
        table: Path = ()
        while self.at < len(self.tokens):
            if self.peek() == "[":
                table = self.header()
            elif self.is_newline():
                self.at += 1
            else:
                self.pair(table)
        return self.places

    def header(self) -> Path:
        start, _ = self.take()
        is_array = self.peek() == "["
        self.at += is_array
        path = self.key(())
        if is_array:
            self.lengths[path] = self.lengths.get(path, 0) + 1
            self.places.values.setdefault(path, start)
            path = (*path, self.lengths[path] - 1)
        self.places.values.setdefault(path, start)
        self.at += 1 + is_array
        return path

    def pair(self, table: Path) -> None:
        path = self.key(table)
        self.at += 1
        self.value(path)

    def key(self, path: Path) -> Path:
        """A dotted key, up to what follows it; a part that names an array of tables means its last table."""
        while True:
            start, token = self.take()
            path = (*path, _name(token))
            self.places.keys.setdefault(path, start)
            if self.peek() != ".":
                return path
            self.at += 1
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)

    def value(self, path: Path) -> None:
        start, token = self.take()
        self.places.values[path] = start
        if token == "[":
            index = 0
            while not self.closes("]"):
                self.value((*path, index))
                index += 1
        elif token == "{":
            while not self.closes("}"):
                self.pair(path)
        else:
            while self.at < len(self.tokens) and self.peek() not in ("]", "}", ",") and not self.is_newline():
                self.at += 1

    def closes(self, bracket: str) -> bool:
        """Whether `bracket` comes next, after the comma and the line ends that may stand before it."""
        while self.peek() == "," or self.is_newline():
            self.at += 1
        if self.peek() != bracket:
            return False
        self.at += 1
        return True

    def take(self) -> tuple[int, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def is_newline(self) -> bool:
        return self.peek().endswith("\n")


def _name(token: str) -> str:
    """The key that a token stands for."""
    if token[0] == "'":
        return token[1:-1]
    return str(next(iter(tomllib.loads(f"{token} = 0")))) if token[0] == '"' else token
