"""What a changed value of a model's option means for a table that has rows: the types
that modes use, and the options that all modes have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compared = Literal["values", "words", "expressions", "columns in order", "columns"]
"""How two values of an option are compared: as they are, as words in any order, as SQL
expressions, or as names of columns, in order or not."""


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """What a changed value means: something for readers only (`docs`), a change from
    the next batch on, or that stored rows do not fit it (`rebuild`). `condition` names
    the change in a plan; `compared` is how values are compared.
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
"""The effects of options that every mode has. Those of options not listed here follow
from the table, the checkpoint or the trigger."""

OF_SEQUENCE = OptionEffect("rebuild", "sequence-changed", "columns in order")
"""The effect of a changed `sequence_by`: stored rows were ordered by the former
columns."""

OF_COLUMNS = OptionEffect("next-batch", compared="columns")
OF_CONDITION = OptionEffect("next-batch", compared="expressions")
