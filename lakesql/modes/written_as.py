"""Whether a model can continue a table, by the mode and keys in which its rows were
written and those of the model now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesql.errors import quoted
from lakesql.model.config import READ_WORDS, ReadsFrom
from lakesql.model.writing import Deletes
from lakesql.modes.all_modes import may_exchange


@dataclass(frozen=True, slots=True)
class WrittenAs:
    """How rows of a table are written: the name of the mode, '' for a dead-letter
    table; the columns by which batches find the rows that they change; what happens to
    deleted rows; and what the SELECT reads."""

    mode: str = ""
    keys: tuple[str, ...] = ()
    deletes: Deletes = ""
    reads: ReadsFrom = "streams"


@dataclass(frozen=True, slots=True)
class Break:
    """The reason why a model cannot continue a table, as parts of a message: what the
    model has, how the table was written, why these conflict, and how to go back."""

    condition: Literal["mode-changed", "keys-changed"]
    model_says: str
    table_was: str
    why: str
    fix: str


def find_break(was: WrittenAs, now: WrittenAs, table: str, by: str) -> Break | None:
    """The reason why a model that writes as `now` cannot continue the rows of `table`,
    which were written as `was`; None if it can.

    `by` is a text on the model that wrote them, '' if it is the same. Modes that
    replace all rows at each refresh can always follow one another.
    """
    if was.reads == now.reads == "tables" and may_exchange((was.mode, now.mode)):
        return None
    if was.mode == now.mode and was.reads != now.reads:
        return Break(
            "mode-changed",
            f"reads {READ_WORDS[now.reads]}",
            f"the rows of table {table} were written{by} in mode '{was.mode}' of {READ_WORDS[was.reads]}",
            "What says when a row is valid is of another kind there.",
            f"Read {READ_WORDS[was.reads]} again.",
        )
    if was.mode != now.mode:
        return Break(
            "mode-changed",
            f"is in mode '{now.mode}'",
            f"the rows of table {table} were written{by} in mode '{was.mode}'",
            "A row that is in the table would not be told apart as the new mode needs it.",
            f"Put mode='{was.mode}' back.",
        )
    if was.deletes == "soft" and now.deletes != "soft":
        return Break(
            "mode-changed",
            "says apply_deletes='hard'",
            f"table {table} was written{by} with 'soft'",
            "The rows that are marked as deleted would stand among the others, and nothing would remove them.",
            "Put apply_deletes='soft' back.",
        )
    if {key.casefold() for key in was.keys} != {key.casefold() for key in now.keys}:
        return Break(
            "keys-changed",
            f"has the keys {quoted(now.keys)}",
            f"the rows of table {table} were written{by} with {quoted(was.keys)}",
            "Rows that were apart may have one key now, and those of one key may come to stand side by side.",
            "Put the keys back.",
        )
    return None
