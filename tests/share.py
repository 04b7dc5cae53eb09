"""Which of many tests a run takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def choose_share(cases: Sequence[T], share: str, seed: int, *words: str) -> list[T]:
    """As many of the cases as a share like `1/2` says, and one at least."""
    part, whole = map(int, share.split("/"))
    return choose(seed, "share", *words).sample(cases, -(-len(cases) * part // whole))


def choose(seed: int, *words: str) -> random.Random:
    """Chance that is the same each time."""
    return random.Random(f"{seed} {' '.join(words)}")
