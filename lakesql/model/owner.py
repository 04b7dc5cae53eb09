"""The owner of a model, a seed or a stream, by its `meta`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping


def owner_of(config: Mapping[str, object]) -> str:
    """The owner in the `meta` of a node's configuration, as a text for people; '' if
    there is none.

    Like dbt, it takes anything: a text, a list of them, a mapping with `name` and
    `email`, or, shown as JSON, any other value.
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
