"""Whether the rows of a table can be continued by a model, by the modes that have
written them and that it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakesql.errors import quoted
from lakesql.model.config import READ_WORDS, ReadsFrom
from lakesql.model.writing import Deletes
from lakesql.modes.all_modes import may_exchange


@dataclass(frozen=True, slots=True)
class WrittenAs:
    """How rows of a table are written: the word of the mode, the columns by which
    batches find rows that they change, what becomes of deleted rows, and what the
    SELECT reads. The word is empty where dead letters are written."""

    mode: str = ""
    keys: tuple[str, ...] = ()
    deletes: Deletes = ""
    reads: ReadsFrom = "streams"


@dataclass(frozen=True, slots=True)
class Break:
    """Why a model cannot continue a table: what the model says, how the table was
    written, why the two do not go together, and what puts it back."""

    condition: Literal["mode-changed", "keys-changed"]
    model_says: str
    table_was: str
    why: str
    fix: str


def find_break(was: WrittenAs, now: WrittenAs, table: str, by: str) -> Break | None:
    """What keeps a model that writes as `now` from continuing rows that were written as
    `was`; None if nothing does.

    `by` says of the rows of `table` which model has written them, where it is another
    one. Rows that are made of tables as these are need not be continued: all of them
    are exchanged.
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
