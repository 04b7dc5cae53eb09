"""The folder of a connection of files, and how a position of Spark's source of files looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesql.decode import Node, read_filled
from lakesql.errors import ProfileError, ProjectError
from lakesql.location import local_folder
from lakesql.source.source import has_mark

if TYPE_CHECKING:
    from lakesql.source.stream_state import Position

BATCHES = "logOffset"
"""In a position of Spark's source of files: the number of its own last batch. The files of each are in its lists."""


def read_folder(node: Node) -> str:
    """The path of a connection, in which `*` would be read as a character of a name."""
    path = read_filled(node)
    if "*" not in path:
        return path
    folder = path[: path.index("*")].rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    what = f"The path '{path}' of a connection is no pattern: a '*' in it would stand for itself."
    fix = f"Write `path: {folder}` here, and the rest in the `path` of each stream, where `*` is a pattern."
    raise ProjectError.of("wrong-value", what, fix=fix, place=node.place)


def check_folder(path: str) -> str:
    """The folder, in words. Raises `ProfileError` (`connection-unreachable`) where it is not on this machine, and
    should be."""
    if (folder := local_folder(path)) is None:
        return f"{path}, which the first run will try"
    if not folder.is_dir():
        fix = "Create it, or correct the connection's `path` in profiles.yml."
        raise ProfileError.of("connection-unreachable", f"There is no folder {path}.", fix=fix)
    return path


def is_position_of_files(position: Position) -> bool:
    """Whether a source of files may stand so."""
    return not isinstance(position, dict) or has_mark(position, BATCHES)
