"""Options of a connection's client in the wrong place: in a stream or a model."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.decode import Node
from lakesql.errors import Problem

_NAMES = frozenset({"options", "conf", "kafka", "bootstrap_servers", "connections"})
"""Names under which people put such options, besides the dotted names of the options
themselves."""


def find_client_options(node: Node, what: str) -> Mapping[str, Problem]:
    """The keys of `node` that are a client's options, each with its problem
    (`client-option`)."""
    return {
        key: Problem(
            "client-option",
            f"'{key}' is no option of {what}.",
            place=node.key_place(key),
        )
        for key in sorted(node.entries())
        if "." in key or key in _NAMES
    }
