"""Which SELECT's tree is kept in memory: that of the SELECT that was read last, until
its lineage has been read from it.

Nothing that reads a SELECT changes its tree. Only one is kept, as those of a thousand
models take 100 MB.
"""

from __future__ import annotations

from sqlglot import exp

_kept: dict[str, exp.Query] = {}


def keep_tree(sql: str, tree: exp.Query) -> None:
    """Keeps the tree of a SELECT instead of the one before."""
    _kept.clear()
    _kept[sql] = tree


def take_tree(sql: str) -> exp.Query | None:
    """The tree of this SELECT if it was read last, else None. It is no longer kept
    then."""
    return _kept.pop(sql, None)
