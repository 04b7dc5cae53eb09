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
    "missing-option": Condition(
        "An option that must be given is not there.",
        "Add the option; the docs page of the thing it belongs to lists its values.",
    ),
    "unknown-option": Condition(
        "A key is not an option of the thing it stands in: a mode, a stream, a connection, a target.",
        "Correct the spelling, or remove the key. Top-level keys that start with `x-` are passed over.",
    ),
    "wrong-type": Condition(
        "A value has another type than the option takes.",
        "Write the value as the docs show it.",
    ),
    "wrong-value": Condition(
        "A value is not one of those that the option takes.",
        "Use one of the values that the message lists.",
    ),
}
