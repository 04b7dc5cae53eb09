"""How places in a project's files are understood: as paths on this machine, or URLs."""

from __future__ import annotations

import re
from pathlib import Path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def is_url(place: str) -> bool:
    """Whether a place is given by a URL, not by a path."""
    return _URL.match(place) is not None


def local_folder(place: str) -> Path | None:
    """The folder on this machine that a path or a `file:` URL names; None for any other
    URL."""
    scheme, colon, rest = place.partition(":") if is_url(place) else ("file", "", place)
    if scheme.lower() != "file":
        return None
    return Path(f"/{rest.lstrip('/')}" if colon else rest)


def absolute(path: str, directory: Path) -> str:
    """A path made absolute by `directory`; a URL, and '', are returned unchanged."""
    return (
        path
        if not path or is_url(path)
        else str((directory / Path(path).expanduser()).resolve())
    )
