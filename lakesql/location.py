"""Places that a project names: a path on this machine, or a URL."""

from __future__ import annotations

import re
from pathlib import Path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def is_url(place: str) -> bool:
    """Whether a place is given by a URL, not by a path."""
    return _URL.match(place) is not None


def local_folder(place: str) -> Path | None:
    """The folder of this machine that a place is, given by its path or by a URL; None
    for a place elsewhere."""
    scheme, colon, rest = place.partition(":") if is_url(place) else ("file", "", place)
    if scheme.lower() != "file":
        return None
    return Path(f"/{rest.lstrip('/')}" if colon else rest)


def absolute(path: str, directory: Path) -> str:
    """A path on this machine as an absolute one; a URL, and nothing, as they are."""
    return (
        path
        if not path or is_url(path)
        else str((directory / Path(path).expanduser()).resolve())
    )
