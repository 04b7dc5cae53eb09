"""Properties files: descriptions, column docs and tests that stand beside the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakesql.decode import Node, decode, option, read_each
from lakesql.errors import Place
from lakesql.names import check_name


@dataclass(frozen=True, slots=True)
class ColumnProperties:
    """What is said of one column."""

    name: str = option("The column's name.")
    description: str = option("What the column holds.", default="")
    tests: tuple[Any, ...] = option(
        "Tests of the column.", default=(), read=lambda node: tuple(item.plain() for item in node.items())
    )


def _read_columns(node: Node) -> tuple[ColumnProperties, ...]:
    items = node.value if isinstance(node.value, tuple) else (node,)
    return read_each(items, lambda item: decode(item, ColumnProperties, what="a column", words="column"))


@dataclass(frozen=True, slots=True)
class ModelProperties:
    """What is said of one model."""

    place: Place = option("Where the file names the model.")
    name: str = option("The model's name.", read=check_name)
    description: str = option("What a row of the table is.", default="")
    columns: tuple[ColumnProperties, ...] = option("Docs of the columns.", default=(), read=_read_columns)

    def description_of(self, column: str) -> str:
        """The docs of a column, or the empty text."""
        return next((item.description for item in self.columns if item.name.lower() == column.lower()), "")


@dataclass(frozen=True, slots=True)
class _File:
    models: Node | None = option("Models.", default=None, read=lambda node: node)
    streams: Node | None = option("Streams.", default=None, read=lambda node: node)


def read_sections(root: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The entries under `models:` and under `streams:` of a properties file."""
    file = decode(root, _File, what="a properties file", words="file")
    return _items(file.models), _items(file.streams)


def read_model_properties(node: Node) -> ModelProperties:
    """One entry of a file's `models:`. Raises `ProjectError` with everything that is wrong with it."""
    place = node.keys.get("name", node.place)
    return decode(node, ModelProperties, what="a model's properties", words="model", given={"place": place})


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.items() if node is not None and node.value is not None else ()
