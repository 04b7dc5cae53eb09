"""LK080: a stream that no model reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch, word_span


class UnusedStream:
    """Finds streams that are declared and never read."""

    code: ClassVar[str] = "LK080"
    name: ClassVar[str] = "unused-stream"
    finds: ClassVar[str] = "No model reads a stream."
    why: ClassVar[str] = (
        "Its contract is kept up to date for nobody, and who looks for where a topic goes believes that it is used."
    )
    example: ClassVar[Mapping[str, str]] = {
        "streams/returns.yml": """streams:
  - name: returns
    connection: shop
    topic: shop.returns
    columns: {order_id: bigint, returned_at: timestamp}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/all_returns.sql": """{{ config(mode='append') }}
SELECT order_id, returned_at
FROM {{ stream('returns') }}
"""
    }
    fix: ClassVar[str] = ""

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """A match for each of them, at its declaration."""
        read = {
            reference.name
            for model in manifest.models.values()
            for reference in model.facts.streams
        }
        read |= {group.stream for group in manifest.groups.values()}
        for name, stream in manifest.streams.items():
            if name not in read:
                span = word_span(
                    manifest.texts.get(stream.place.path, ""), stream.place
                )
                yield RuleMatch(
                    span, f"No model reads stream '{name}'.", "Read it, or remove it."
                )


RULE = UnusedStream()
