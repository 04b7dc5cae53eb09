"""How names are written in Spark SQL: in backticks if they need them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        all alter and array as between create cross describe distinct drop else except false fetch for from glob grant
        having identifier ilike inner insert intersect into join lateral like minus not notnull null on or outer over
        partitioned_by qualify regexp returning revoke rlike rollback select serdeproperties stream tablesample then
        true uncache union using values when where with xor
        """,
    )
)
"""Words that need backticks: Spark 4.1 or Iceberg does not take them for a name in one
of lakesql's statements, or sqlglot does not after FROM."""


@lru_cache(4096)
def identifier(name: str) -> str:
    """A name of a column or view, or a part of a table's name, in backticks if it needs
    them."""
    if _PLAIN.match(name) and name.lower() not in _WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def identifiers(names: Iterable[str]) -> str:
    """Names, comma-separated."""
    return ", ".join(identifier(name) for name in names)
