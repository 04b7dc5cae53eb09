"""LK000: a noqa that suppresses nothing, or names a code that no rule has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.graph.manifest import Manifest
from lakesql.lint.finding import RuleMatch


class IdleNoqa:
    """Texts of the rule about noqa comments that suppress nothing, or name an unknown
    code. `lint` itself finds them, after all other rules have run."""

    code: ClassVar[str] = "LK000"
    name: ClassVar[str] = "idle-noqa"
    finds: ClassVar[str] = (
        "A noqa suppresses nothing, or names a code that no rule has."
    )
    why: ClassVar[str] = (
        "The finding that it was written for is gone, or it was misspelt. It would hide the next finding of its line, "
        "and its reader looks for something that is not there."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/carts.sql": """{{ config(mode='append') }}
SELECT cart_id, amount -- noqa: LK071
FROM {{ stream('carts') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/carts.sql": """{{ config(mode='append') }}
SELECT cart_id, amount
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = "The comment is removed, where it has nothing else to say."

    def find_all(self, manifest: Manifest) -> Iterator[RuleMatch]:
        """Nothing: `lint` returns these findings."""
        yield from ()


RULE = IdleNoqa()
