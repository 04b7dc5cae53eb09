"""The tree of the SELECT that was read last, kept until its lineage has been read from
the same tree.

Nothing that reads a SELECT changes its tree. One is kept, and no more: those of a
thousand models take 100 MB.
"""

from __future__ import annotations

from sqlglot import exp

_kept: dict[str, exp.Query] = {}


def keep_tree(sql: str, tree: exp.Query) -> None:
    """Keep the tree of a SELECT in the place of the one before."""
    _kept.clear()
    _kept[sql] = tree


def take_tree(sql: str) -> exp.Query | None:
    """The tree of this SELECT if it was read last. It is not kept any longer."""
    return _kept.pop(sql, None)
