"""The settings of a project, `[tool.lakesql]` of pyproject.toml: its name, profile,
folders, variables, and defaults for its models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from lakesql.decode import Node, decode, option
from lakesql.errors import Place, ProjectError
from lakesql.names import check_name
from lakesql.project.size import Size, parse_size
from lakesql.project.toml import parse_toml

SETTINGS_FILE = "pyproject.toml"


def _read_folder(node: Node) -> str:
    if not isinstance(node.value, str):
        raise ProjectError.of(
            "wrong-type",
            f"{node.shown} is not a folder of the project.",
            place=node.place,
        )
    folder = PurePosixPath(node.value)
    if folder.is_absolute() or ".." in folder.parts:
        raise ProjectError.of(
            "outside-project",
            f"{node.shown} lies outside the project.",
            place=node.place,
        )
    return str(folder)


@dataclass(frozen=True, slots=True)
class Paths:
    """The project's folders, each relative to its directory."""

    models: str = option(
        "Folder of the models and their properties files.",
        default="models",
        read=_read_folder,
    )
    streams: str = option(
        "Folder of the .yml files of streams.", default="streams", read=_read_folder
    )
    macros: str = option(
        "Folder of the Jinja macros.", default="macros", read=_read_folder
    )
    tests: str = option(
        "Folder of the SELECTs that are data tests of tables.",
        default="tests",
        read=_read_folder,
    )
    seeds: str = option(
        "Folder of the .csv and .yml files of seeds.",
        default="seeds",
        read=_read_folder,
    )


@dataclass(frozen=True, slots=True)
class SeedSettings:
    """The settings of all seeds of the project."""

    max_size: Size = option(
        "Maximum size of a seed's file; a larger one is refused and belongs in a folder that a stream reads.",
        default=Size("50 MB", 50 * 1024**2),
        read=parse_size,
    )


def _read_table(node: Node) -> Node:
    node.entries()
    return node


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in `[tool.lakesql]`."""

    name: str = option(
        "The project's name: the first part of every fully qualified name.",
        read=check_name,
    )
    profile: str = option(
        "The profile in profiles.yml; the project's name if left out.", default=""
    )
    paths: Paths = option("The project's folders.", factory=Paths)
    vars: Node = option(
        "Values of variables for `var('x')`, which --vars overrides.",
        default=Node({}, Place(SETTINGS_FILE)),
        read=_read_table,
    )
    models: Node = option(
        "Default options of models, by folder or model, as in dbt.",
        default=Node({}, Place(SETTINGS_FILE)),
        read=_read_table,
    )
    seeds: SeedSettings = option("Settings of all seeds.", factory=SeedSettings)
    lint: Node = option(
        "Rules that `lakesql lint` checks ([lint.md](lint.md#settings)).",
        default=Node({}, Place(SETTINGS_FILE)),
        read=_read_table,
    )


def parse_settings(path: str, text: str) -> Settings:
    """The settings in the text of a pyproject.toml.

    Raises `ProjectError`: `toml-syntax`, `no-settings` (no `[tool.lakesql]`), and what
    `decode` raises.
    """
    tool = parse_toml(path, text).get("tool")
    table = tool.get("lakesql") if tool else None
    if table is None:
        raise ProjectError.of(
            "no-settings", f"{path} has no [tool.lakesql].", place=Place(path)
        )
    settings = decode(table, Settings, what="[tool.lakesql]", words="settings")
    return replace(settings, profile=settings.profile or settings.name)
