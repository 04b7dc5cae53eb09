"""Whose a model, a seed or a stream is, as its `meta` says it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping


def owner_of(config: Mapping[str, object]) -> str:
    """The owner that `meta` in the configuration of a node names, for people to read;
    '' where it names none.

    dbt takes anything for one: a text, several, or the `name` and `email` of one, which
    are read as such.
    """
    meta = config.get("meta")
    return _shown(meta.get("owner")) if isinstance(meta, Mapping) else ""


def _shown(owner: object) -> str:
    match owner:
        case None:
            return ""
        case str():
            return owner
        case list():
            return ", ".join(_shown(each) for each in owner)
        case {"name": str(name), "email": str(email)}:
            return f"{name} ({email})"
        case {"name": str(name)}:
            return name
        case {"email": str(email)}:
            return email
        case _:
            return json.dumps(owner, ensure_ascii=False)
