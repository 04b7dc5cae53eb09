"""The options that `config(…)` of a file accepts, their descriptions, and the values of
those that are enumerations."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Literal

from lakesql.decode import Field, fields_of
from lakesql.model.group import Tables
from lakesql.modes.all_modes import MODES, all_modes, find_mode, mode_words
from lakesql.project.duration import Duration
from lakesql.project.procedures import PROCEDURES
from lakesql.project.size import Size

COLUMN_OPTIONS = (
    "keys",
    "sequence_by",
    "partition_by",
    "order_by",
    "update_columns",
    "exclude_columns",
    "cluster_by",
)
"""Options whose values are columns of the SELECT."""


def mode_of(text: str) -> str:
    """The mode in a file's `config(…)`, as far as it is typed; '' if there is none."""
    found = re.search(r"\bconfig\s*\([^{}%]*?\bmode\s*=\s*['\"](\w*)", text, re.DOTALL)
    return found[1] if found else ""


def options_of(text: str) -> tuple[Field, ...]:
    """The options of the file's mode; those of all modes if it has none yet."""
    reads: Literal["streams", "tables"] = (
        "streams" if re.search(r"\bstream\s*\(", text) else "tables"
    )
    kind = find_mode(mode_of(text), reads)
    if kind is not None:
        return fields_of(kind)
    return tuple(
        {
            field.name: field for each in all_modes() for field in fields_of(each)
        }.values()
    )


def find_option(text: str, name: str) -> Field | None:
    """The option with this name, as the file's mode has it, or else any other mode;
    None if none has it."""
    for options in (options_of(text), *(fields_of(kind) for kind in all_modes())):
        found = next((field for field in options if field.name == name), None)
        if found is not None:
            return found
    return None


def option_text(field: Field) -> str:
    """The description of an option: what it means, its values, and its default."""
    default = default_of(field)
    values = ", ".join(f"`{value}`" for value in values_of(field))
    parts = [
        field.doc,
        f"One of {values}." if values else "",
        f"Default: `{default}`." if default else "",
    ]
    if field.required:
        parts.append("Required.")
    return " ".join(part for part in parts if part)


def values_of(field: Field) -> Sequence[str]:
    """The fixed values that an option may have, as they are written; empty if it has
    none."""
    return [*_values(field.kind)]


def _values(kind: object) -> Iterator[str]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is bool:
        yield from ("true", "false")
    elif origin is Literal:
        yield from (str(value) for value in arguments)
    elif origin in (typing.Union, types.UnionType):
        for each in arguments:
            yield from _values(each)


def default_of(field: Field) -> str:
    """The default of an option as it is written; '' if there is none to show."""
    match field.default:
        case Duration() | Size() as value:
            return value.text
        case bool() as flag:
            return str(flag).lower()
        case float() as number:
            return f"{number:g}"
        case int() | str() as value:
            return str(value)
        case _:
            return ""


def mode_texts() -> Iterator[tuple[str, str]]:
    """The modes, each with its description."""
    for word in mode_words():
        kinds = [kind for (each, _), kind in MODES.items() if each == word]
        said = " ".join(" ".join((kind.__doc__ or "").split()) for kind in kinds)
        yield (
            word,
            said
            or "CALL statements of Iceberg's procedures, for the table of another model.",
        )


def keys_within(option: str) -> Iterator[tuple[str, str]]:
    """The keys of an option that is a mapping, each with its description."""
    if option == "maintenance":
        for name, kind in PROCEDURES.items():
            yield name, " ".join((kind.__doc__ or "").split())
    elif option == "tables":
        for field in fields_of(Tables):
            yield field.name, option_text(field)
