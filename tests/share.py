"""Which of many tests a run takes, and which of many cases."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def a_few(cases: Collection[Any], count: int) -> list[Any]:
    """The cases of one rule: so many, evenly spread over them, for a plain `pytest`,
    and the others for the tier `checks`. A case of several arguments is a tuple of
    them."""
    plain = {number * len(cases) // count for number in range(count)}
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if number in plain else pytest.mark.checks,
        )
        for number, case in enumerate(cases)
    ]


def may_mark(text: str, marker: str) -> bool:
    """Whether a test of the file with this text may have a marker: by its name, or as
    `a_few` and the seeds of logs give it."""
    words = [f"mark.{marker}"]
    if marker == "checks":
        words += ["a_few(", "log_seed"]
    return any(word in text for word in words)


def choose_share(cases: Sequence[T], share: str, seed: int, *words: str) -> list[T]:
    """As many of the cases as a share like `1/2` says, and one at least."""
    part, whole = map(int, share.split("/"))
    return choose(seed, "share", *words).sample(cases, -(-len(cases) * part // whole))


def choose(seed: int, *words: str) -> random.Random:
    """Chance that is the same each time."""
    return random.Random(f"{seed} {' '.join(words)}")
