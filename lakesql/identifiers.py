"""Names as Spark SQL text: in backticks where they need them."""

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
"""Words that are no plain name for Spark 4.1 or Iceberg in one of our statements, or
for sqlglot after FROM."""


@lru_cache(4096)
def identifier(name: str) -> str:
    """The name of a column, a view or a part of a table's name, in backticks where it
    needs them."""
    if _PLAIN.match(name) and name.lower() not in _WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def identifiers(names: Iterable[str]) -> str:
    """Names, comma-separated."""
    return ", ".join(identifier(name) for name in names)
