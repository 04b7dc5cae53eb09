"""LK081: a macro that nothing calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.errors import Place
from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch, Span
from lakesql.lint.templates_read import templates_read
from lakesql.template.reader import Macro


class UnusedMacro:
    """Finds macros of the project that no model, test or other used macro calls."""

    code: ClassVar[str] = "LK081"
    name: ClassVar[str] = "unused-macro"
    finds: ClassVar[str] = "Nothing calls a macro."
    why: ClassVar[str] = (
        "It is read and changed for nothing, and nothing tells whether it still works."
    )
    example: ClassVar[Mapping[str, str]] = {
        "macros/cents.sql": """{% macro in_cents(amount) -%}
    CAST({{ amount }} * 100 AS bigint)
{%- endmacro %}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/cents.sql": """{{ config(mode='append') }}
SELECT cart_id, {{ in_cents('amount') }} AS cents
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = ""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """A match for each of them, at its definition."""
        called = {name for said in templates_read(manifest) for name in said.macros}
        for name, macro in manifest.macros.by_name.items():
            if name not in called:
                yield RuleMatch(
                    _named_at(name, macro),
                    f"Nothing calls macro '{name}'.",
                    "Call it, or remove it.",
                )


def _named_at(name: str, macro: Macro) -> Span:
    """The range of the macro's name in its own tag."""
    source = macro.source
    found = re.compile(rf"\bmacro\s+({re.escape(name)})\b").search(
        source.text, source.text.rfind("{%", 0, macro.node.lineno + 1)
    )
    start = found.start(1) if found is not None else macro.node.lineno
    place = source.place(start)
    return Span(place, Place(place.path, place.line, (place.column or 1) + len(name)))


RULE = UnusedMacro()
