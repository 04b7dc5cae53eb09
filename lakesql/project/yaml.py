"""How YAML is read: as a tree of `Node`, in which every value has its place."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.reader import Reader

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError

MAX_NODES = 100_000
"""The most values of a document, with its aliases expanded; no sensible file has as
many."""
MAX_DEPTH = 60
_TAG = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "value", "merge")
_BOOLS = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_FORBIDDEN = Reader.NON_PRINTABLE
"""Matches characters that YAML does not allow, which its parsers in C and Python report
differently."""
_INDENT = re.compile(r"\A([ \t]*)")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(path: str, text: str) -> Node:
    """The document in `text` as a tree; an empty document is an empty mapping.

    Raises `ProjectError`: `yaml-syntax`, `yaml-duplicate-key`, `yaml-tag` (only plain
    scalars, lists and mappings are data), `yaml-too-large` (values that nest without
    end, or aliases that expand without end).
    """
    if bad := _FORBIDDEN.search(text):
        line = text.count("\n", 0, bad.start())
        place = Place(path, line + 1, bad.start() - text.rfind("\n", 0, bad.start()))
        raise ProjectError.of(
            "yaml-syntax",
            f"The character U+{ord(bad[0]):04X} cannot stand in YAML.",
            place=place,
        )
    try:
        return _EventReader(path, _Loader(text)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else Place(path)
        # The parser reads ahead of MAX_DEPTH, up to a limit of its own.
        if "nesting depth" in (error.problem or ""):
            raise _too_large(place) from None
        if mark and any(
            "\t" in _INDENT.split(line)[1]
            for line in text.splitlines()[mark.line : mark.line + 1]
        ):
            what, fix = (
                "YAML is indented by blanks, not by tabs.",
                "Put blanks in place of each tab.",
            )
            raise ProjectError.of("yaml-syntax", what, fix=fix, place=place) from None
        raise ProjectError.of(
            "yaml-syntax",
            f"This is not YAML: {error.problem or error.context}.",
            place=place,
        ) from None


def render_yaml(value: Any) -> str:
    """Plain mappings, lists and scalars as YAML, in their order. A mapping or list
    without others in it is written on one line."""
    text: str = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, width=116, default_flow_style=None
    )
    return text


def _too_large(place: Place) -> ProjectError:
    what = f"This document has more values than {MAX_NODES}, or nests deeper than {MAX_DEPTH} levels."
    return ProjectError.of("yaml-too-large", what, place=place)


class _EventReader:
    """A reader that turns the parser's events of one document into nodes, and limits
    their number and depth.

    PyYAML's own trees are not used: it builds them by recursion without a limit, so a
    deeply nested document could overflow the stack.
    """

    def __init__(self, path: str, events: Any) -> None:
        self.path = path
        self.events = events
        self.anchors: dict[str, Node] = {}
        self.seen = 0

    def document(self) -> Node:
        empty = Node({}, Place(self.path, 1, 1))
        self.events.get_event()
        if self.events.check_event(yaml.StreamEndEvent):
            return empty
        self.events.get_event()
        root = self.node(0)
        self.events.get_event()
        if not self.events.check_event(yaml.StreamEndEvent):
            second = self.place(self.events.peek_event())
            raise ProjectError.of(
                "yaml-syntax", "A file holds one document.", place=second
            )
        return empty if root.value is None else root

    def node(self, depth: int) -> Node:
        event = self.events.get_event()
        place = self.place(event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                what = f"No value before '*{event.anchor}' has this name."
                raise ProjectError.of("yaml-syntax", what, place=place)
            self.count(self.anchors[event.anchor], place, depth)
            return self.anchors[event.anchor]
        self.count(None, place, depth)
        match event:
            case yaml.ScalarEvent():
                node = self.scalar(event, place)
            case yaml.SequenceStartEvent():
                self.check_tag(event, "seq")
                items = []
                while not self.events.check_event(yaml.SequenceEndEvent):
                    items.append(self.node(depth + 1))
                self.events.get_event()
                node = Node(tuple(items), place)
            case _:
                self.check_tag(event, "map")
                node = self.mapping(place, depth + 1)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, place: Place, depth: int) -> Node:
        merged: dict[str, Node] = {}
        entries: dict[str, Node] = {}
        merged_keys: dict[str, Place] = {}
        keys: dict[str, Place] = {}
        merge: Place | None = None
        while not self.events.check_event(yaml.MappingEndEvent):
            event = self.events.get_event()
            key_place = self.place(event)
            if not isinstance(event, yaml.ScalarEvent):
                fix = (
                    "Put a text that starts with {{ in quotes."
                    if isinstance(event, yaml.MappingStartEvent)
                    else ""
                )
                raise ProjectError.of(
                    "yaml-syntax",
                    "A key of a mapping is a text.",
                    fix=fix,
                    place=key_place,
                )
            is_merge = self.tag(event) == "merge"
            first = merge if is_merge else keys.get(event.value)
            if first:
                what = f"'{event.value}' stands twice, first at line {first.line}."
                raise ProjectError.of("yaml-duplicate-key", what, place=key_place)
            value = self.node(depth)
            if is_merge:
                merge = key_place
                for base in reversed(
                    value.items() if isinstance(value.value, tuple) else (value,)
                ):
                    merged.update(base.entries())
                    merged_keys.update(base.keys)
            else:
                entries[event.value] = value
                keys[event.value] = key_place
        self.events.get_event()
        return Node({**merged, **entries}, place, {**merged_keys, **keys})

    def scalar(self, event: yaml.ScalarEvent, place: Place) -> Node:
        text: str = event.value
        match self.tag(event):
            case "null":
                return Node(None, place)
            case "bool":
                return Node(_BOOLS.get(text.lower(), text), place, written=text)
            case "int":
                return Node(
                    _number(text, lambda digits: int(digits, 0)), place, written=text
                )
            case "float":
                return Node(_number(text, _float), place, written=text)
            case _:
                return Node(text, place)

    def tag(self, event: yaml.ScalarEvent) -> str:
        """The kind of a scalar, such as `int`: its tag without YAML's prefix. Raises
        `ProjectError` (`yaml-tag`) for one that is no plain data."""
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.events.resolve(yaml.ScalarNode, event.value, event.implicit)
        kind: str = tag.removeprefix(_TAG)
        if kind not in (*_TEXTS, "null", "bool", "int", "float"):
            raise self.bad_tag(event)
        return kind

    def check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, "!", _TAG + kind):
            raise self.bad_tag(event)

    def count(self, node: Node | None, place: Place, depth: int) -> None:
        """Count a value, and, for an alias, all values within the `node` that it stands
        for. Raises `ProjectError` (`yaml-too-large`)."""
        self.seen += 1
        if self.seen > MAX_NODES or depth > MAX_DEPTH:
            raise _too_large(place)
        if node is not None and not isinstance(node.value, str | int | float | None):
            for child in (
                node.value if isinstance(node.value, tuple) else node.value.values()
            ):
                self.count(child, place, depth + 1)

    def bad_tag(self, event: Any) -> ProjectError:
        return ProjectError.of(
            "yaml-tag", f"The tag '{event.tag}' is not read.", place=self.place(event)
        )

    def place(self, event: Any) -> Place:
        return Place(self.path, event.start_mark.line + 1, event.start_mark.column + 1)


def _float(digits: str) -> float:
    return float(digits.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _number(text: str, read: Any) -> Any:
    """The number in `text`, or the text if `read` cannot read it: YAML 1.1 takes 12:30
    for a number in base 60, and 010 for one in base 8."""
    try:
        return read(text.replace("_", ""))
    except ValueError:
        return text
