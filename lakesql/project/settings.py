"""`[tool.lakesql]` of pyproject.toml: the project's name, profile, folders, variables, and defaults for its models."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakesql.decode import Node, decode, option
from lakesql.errors import Place, ProjectError
from lakesql.names import check_name

SETTINGS_FILE = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Paths:
    """The project's folders, each relative to its directory."""

    models: str = option("Folder of the models and their properties files.", default="models")
    streams: str = option("Folder of the streams' .yml files.", default="streams")
    macros: str = option("Folder of the Jinja macros.", default="macros")


@dataclass(frozen=True, slots=True)
class Settings:
    """What `[tool.lakesql]` says."""

    name: str = option("The project's name: the first part of every fully qualified name.", read=check_name)
    profile: str = option("The profile in profiles.yml; the project's name if left out.", default="")
    paths: Paths = option("The project's folders.", factory=Paths)
    vars: Node = option(
        "Variables for `var('x')`, overridden by --vars.",
        default=Node({}, Place(SETTINGS_FILE)),
        read=lambda node: node,
    )
    models: Node = option(
        "Defaults of models: options by folder or model, as in dbt.",
        default=Node({}, Place(SETTINGS_FILE)),
        read=lambda node: node,
    )


def parse_settings(path: str, text: str) -> Settings:
    """The settings in the text of a pyproject.toml.

    Raises `ProjectError`: `toml-syntax`, `no-settings` (no `[tool.lakesql]`), and what `decode` raises.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, column = _error_position(str(error))
        raise ProjectError.of("toml-syntax", f"This is not TOML: {error}.", place=Place(path, line, column)) from None
    table = document.get("tool", {}).get("lakesql")
    if not isinstance(table, dict):
        raise ProjectError.of(
            "no-settings",
            f"{path} has no [tool.lakesql].",
            fix='Add it, with at least `name = "…"`, or start a project with `lakesql init`.',
            place=Place(path),
        )
    settings = decode(_located(table, path, text, "tool.lakesql"), Settings, what="[tool.lakesql]")
    return replace(settings, profile=settings.profile or settings.name)


def _located(table: Mapping[str, Any], path: str, text: str, header: str) -> Node:
    """A TOML table as a tree. `tomllib` gives no positions, so each key's line is looked up under its header."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.strip() == f"[{header}]"), 0)
    keys: dict[str, Place] = {}
    entries: dict[str, Node] = {}
    for key, value in table.items():
        pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[.=]""")
        own = next((n for n, line in enumerate(lines[start:], start) if line.strip() == f"[{header}.{key}]"), None)
        number = (
            own
            if own is not None
            else next((n for n, line in enumerate(lines[start + 1 :], start + 1) if pattern.match(line)), start)
        )
        keys[key] = Place(path, number + 1, 1)
        if isinstance(value, Mapping):
            entries[key] = _located(value, path, text, f"{header}.{key}")
        elif isinstance(value, list):
            entries[key] = Node(tuple(Node(item, keys[key]) for item in value), keys[key])
        else:
            entries[key] = Node(value if isinstance(value, str | int | float) else str(value), keys[key])
    return Node(entries, Place(path, start + 1, 1), keys)


def _error_position(message: str) -> tuple[int | None, int | None]:
    found = re.search(r"line (\d+), column (\d+)", message)
    return (int(found[1]), int(found[2])) if found else (None, None)
