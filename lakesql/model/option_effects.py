"""What another value of an option of a model means for a table that has rows: mode by
mode, and for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compared = Literal["values", "words", "expressions", "columns in order", "columns"]
"""When two values of an option are the same: as they are, as words in any order, as
SQL, or as names of columns."""


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """What another value means: nothing but for readers, something from the next batch
    on, or that the rows that are there were written by the former one. `condition`
    names the change; `compared` says when two values are the same.
    """

    verdict: Literal["docs", "next-batch", "rebuild"]
    condition: Literal["option-changed", "sequence-changed", "history-changed"] = (
        "option-changed"
    )
    compared: Compared = "values"


NEXT_BATCH = OptionEffect("next-batch")

OF_ALL_MODES: Mapping[str, OptionEffect] = {
    "tags": OptionEffect("docs", compared="words"),
    "meta": OptionEffect("docs"),
    **dict.fromkeys(
        ("on_schema_change", "max_dead_letter_ratio", "late", "maintenance"), NEXT_BATCH
    ),
}
"""The options that every mode has. Of the others the table, the checkpoint or the
trigger says what they do."""

OF_SEQUENCE = OptionEffect("rebuild", "sequence-changed", "columns in order")
"""The effect of another `sequence_by`: stored rows were ordered by the former
columns."""

OF_COLUMNS = OptionEffect("next-batch", compared="columns")
OF_CONDITION = OptionEffect("next-batch", compared="expressions")
