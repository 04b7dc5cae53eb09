"""A query as a list of named parts, each of which reads those before it."""

from __future__ import annotations

from collections.abc import Mapping


def with_query(parts: Mapping[str, str], last: str) -> str:
    """The query `last` over the named parts, as a WITH query; without parts, `last`
    alone."""
    if not parts:
        return last
    named = ",\n".join(
        f"{name} AS (\n{_indented(query)}\n)" for name, query in parts.items()
    )
    return f"WITH {named}\n{last}"


def _indented(query: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in query.splitlines())
