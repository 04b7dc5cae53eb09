"""LK082: a variable of the settings that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch, word_span
from lakesql.lint.templates_read import templates_read


class UnusedVar:
    """Finds entries of `[tool.lakesql.vars]` that no model and no test reads."""

    code: ClassVar[str] = "LK082"
    name: ClassVar[str] = "unused-var"
    finds: ClassVar[str] = "Nothing reads a variable of `[tool.lakesql.vars]`."
    why: ClassVar[str] = "Whoever changes it believes that something follows."
    example: ClassVar[Mapping[str, str]] = {
        "pyproject.toml": """[tool.lakesql]
name = "sample"

[tool.lakesql.vars]
smallest_amount = 10
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/large_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, amount
FROM {{ stream('carts') }}
WHERE amount >= {{ var('smallest_amount') }}
"""
    }
    fix: ClassVar[str] = ""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """A match for each of them, at its entry."""
        read = {name for said in templates_read(manifest) for name in said.vars}
        settings = manifest.settings.vars
        for name in settings.entries():
            if name not in read:
                place = settings.key_place(name)
                span = word_span(manifest.texts.get(place.path, ""), place)
                yield RuleMatch(
                    span,
                    f"Nothing reads variable '{name}'.",
                    "Read it with var(), or remove it.",
                )


RULE = UnusedVar()
