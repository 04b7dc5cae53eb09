"""Tables of unit tests, whose rows change at random."""

from __future__ import annotations

import random
from typing import Any

Row = dict[str, Any]


def row(key: int, status: str | None, n: int | None = 1) -> Row:
    """A row of an order."""
    return {"id": key, "status": status, "n": n}


def create(*rows: Row) -> list[Row]:
    """The changes that make these rows."""
    return [{"op": "c", "after": each} for each in rows]


def changed(
    chance: random.Random, state: list[Row], has_key: bool
) -> tuple[list[Row], list[Row]]:
    """Some changes of the rows, as a unit test gives them, and the rows after them.
    With `has_key`, `id` is the key."""
    state, changes = [*state], []
    for _ in range(chance.randrange(5)):
        keys = {each["id"] for each in state}
        new = row(
            chance.randrange(6),
            chance.choice(["a", "b", None]),
            chance.choice([None, 1, 2, 30]),
        )
        old = chance.choice(state) if state else None
        op = chance.choice("cud")
        if op == "c" and not (has_key and new["id"] in keys):
            changes.append({"op": "c", "after": new})
            state.append(new)
        elif op == "d" and old is not None:
            changes.append({"op": "d", "before": {"id": old["id"]} if has_key else old})
            state.remove(old)
        elif op == "u" and old is not None:
            new = {**new, "id": old["id"]}
            before = {} if has_key and chance.random() < 0.5 else {"before": old}
            changes.append({"op": "u", **before, "after": new})
            state[state.index(old)] = new
    return changes, state
