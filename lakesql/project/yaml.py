"""YAML text to a tree of `Node`, every value with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from lakesql.decode import Node
from lakesql.errors import Place, ProjectError

if TYPE_CHECKING:
    from lakesql.decode import Scalar

MAX_NODES = 100_000
"""More values than any project file has: what a document may grow to when its aliases are expanded."""
MAX_DEPTH = 60
_TAG = "tag:yaml.org,2002:"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(path: str, text: str) -> Node:
    """The document in `text` as a tree; an empty document is an empty mapping.

    Raises `ProjectError`: `yaml-syntax`, `yaml-duplicate-key`, `yaml-tag` (only plain scalars, lists and mappings are
    data), `yaml-too-large` (aliases that expand without end).
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(path, mark.line + 1, mark.column + 1) if mark else Place(path)
        raise ProjectError.of(
            "yaml-syntax", f"This is not YAML: {error.problem or error.context}.", place=place
        ) from None
    except yaml.YAMLError as error:
        raise ProjectError.of("yaml-syntax", f"This is not YAML: {error}.", place=Place(path)) from None
    if root is None:
        return Node({}, Place(path, 1, 1))
    return _Reader(path).node(root, depth=0)


class _Reader:
    """Walks one composed document and counts what it has seen."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen = 0

    def node(self, node: yaml.Node, depth: int) -> Node:
        place = self.place(node)
        self.seen += 1
        if self.seen > MAX_NODES or depth > MAX_DEPTH:
            raise ProjectError.of("yaml-too-large", "This document has more values than lakesql reads.", place=place)
        match node:
            case yaml.ScalarNode():
                return Node(self.scalar(node), place)
            case yaml.SequenceNode() if node.tag == f"{_TAG}seq":
                return Node(tuple(self.node(item, depth + 1) for item in node.value), place)
            case yaml.MappingNode() if node.tag == f"{_TAG}map":
                return self.mapping(node, depth)
            case _:
                raise self.bad_tag(node)

    def mapping(self, node: yaml.MappingNode, depth: int) -> Node:
        merged: dict[str, Node] = {}
        entries: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node)
            if key_node.tag == f"{_TAG}merge":
                bases = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for base in reversed(bases):
                    merged.update(self.node(base, depth + 1).entries())
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ProjectError.of("yaml-syntax", "A key of a mapping is a text.", place=place)
            key = key_node.value
            if key in entries:
                raise ProjectError.of(
                    "yaml-duplicate-key", f"'{key}' stands twice, first at line {keys[key].line}.", place=place
                )
            entries[key] = self.node(value_node, depth + 1)
            keys[key] = place
        return Node({**merged, **entries}, self.place(node), keys)

    def scalar(self, node: yaml.ScalarNode) -> Scalar:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() in ("true", "yes", "on")
            case "int":
                return _number(text, lambda digits: int(digits, 0))
            case "float":
                return _number(text.replace(".inf", "inf").replace(".nan", "nan"), float)
            case "str" | "timestamp":
                return text
            case _:
                raise self.bad_tag(node)

    def bad_tag(self, node: yaml.Node) -> ProjectError:
        return ProjectError.of("yaml-tag", f"The tag '{node.tag}' is not read.", place=self.place(node))

    def place(self, node: yaml.Node) -> Place:
        return Place(self.path, node.start_mark.line + 1, node.start_mark.column + 1)


def _number(text: str, read: type[float] | object) -> Scalar:
    try:
        return read(text.replace("_", ""))  # type: ignore[operator]
    except ValueError:  # 12:30 is a number to the base of 60 in YAML 1.1, 010 one to the base of 8; here both are texts
        return text
