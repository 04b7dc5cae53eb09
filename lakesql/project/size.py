"""How sizes are read: `256 MB`, `1.5 GB`. A kilobyte has 1024 bytes, as in Spark and
Iceberg."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesql.decode import Node
from lakesql.errors import ProjectError

_UNITS = ("B", "KB", "MB", "GB", "TB")
_SIZE = re.compile(
    r"\s*([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([KMGT]?)I?B\s*\Z", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Size:
    """A size: its text, and the number of bytes."""

    text: str
    size_bytes: int


def shortest(size_bytes: int) -> str:
    """A number of bytes as a text, in the largest unit in which it is a whole number:
    1536 is `1536 B`, 2048 is `2 KB`."""
    unit = 0
    while size_bytes and size_bytes % 1024 == 0 and unit < len(_UNITS) - 1:
        size_bytes, unit = size_bytes // 1024, unit + 1
    return f"{size_bytes} {_UNITS[unit]}"


def parse_size(node: Node) -> Size:
    """The size in `node`, at least one byte. Raises `ProjectError` (`bad-size`)."""
    found = _SIZE.match(node.value) if isinstance(node.value, str) else None
    if found is not None:
        unit = f"{found[2].upper()}B"
        size_bytes = round(float(found[1]) * 1024 ** _UNITS.index(unit))
        if size_bytes:
            return Size(f"{found[1]} {unit}", size_bytes)
    raise ProjectError.of("bad-size", f"{node.shown} is not a size.", place=node.place)
