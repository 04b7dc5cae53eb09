"""The names of all conditions, what each means and what to do: the source of `docs/errors.md`.

Kept apart from `errors.py` because it is a table, and grows; sorted by name.
"""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """What a condition means, and what the person who meets it does."""

    meaning: str
    do: str


CONDITIONS: dict[str, Condition] = {
    "internal": Condition(
        "lakesql met a state that its authors thought impossible.",
        "Report it with the command's output under `--debug`.",
    ),
}
