"""LK003: a key or sequence whose value differs each time the same record is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.views.steadiness import is_random, is_timed


class UnsteadyKey:
    """Finds columns of `keys` and `sequence_by` that are computed from the clock or
    from random numbers."""

    code: ClassVar[str] = "LK003"
    name: ClassVar[str] = "unsteady-key"
    finds: ClassVar[str] = (
        "A key, or what orders the rows of a key, is made of the clock or by chance."
    )
    why: ClassVar[str] = (
        "A batch that is retried, or a topic that is read again, makes another value of the same record: with "
        "`current_timestamp()` in a key each reading adds a row, and what should find a row finds none. As "
        "`sequence_by` it says when a record was read, so that after a rebuild another row may be the newest."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/cart_log.sql": """{{ config(mode='append', keys=['cart_id', 'read_at']) }}
SELECT cart_id, status, current_timestamp() AS read_at
FROM {{ stream('carts') }}
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/cart_log.sql": """{{ config(mode='append', keys=['cart_id', 'changed_at']) }}
SELECT cart_id, status, changed_at
FROM {{ stream('carts') }}
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for the expression of each such column."""
        writing = model.select.writing
        options = {name.lower(): "sequence_by" for name in writing.sequence_by}
        options |= {name.lower(): "keys" for name in writing.keys}
        for name, expression, _ in model.columns_made():
            if name in options and (is_timed(expression) or is_random(expression)):
                what = f"'{name}' in {options[name]} has another value each time the same record is read."
                fix = "Take a column of the record, or when it was written: `_record.timestamp`."
                yield model.found_at(expression, what, fix)


RULE = UnsteadyKey()
