"""LK052: a comparison of a string with a number or a time, without a cast."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp

from lakesql.lint.finding import RuleMatch, TextEdit
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead
from lakesql.stream.types import WHOLE_TYPES


class ImplicitCast:
    """Finds comparisons of values of different kinds, of which Spark casts one."""

    code: ClassVar[str] = "LK052"
    name: ClassVar[str] = "implicit-cast"
    finds: ClassVar[str] = (
        "A text is compared with a number or a time, which Spark makes of it first."
    )
    why: ClassVar[str] = (
        "Spark casts the text. One that is no number ends the query, and `'7'` and `'007'` become equal. Where the "
        "text is a column, no file is skipped by its statistics: each value is cast before it is compared."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/cart_seven.sql": """{{ config(mode='append') }}
SELECT cart_id, status
FROM {{ stream('carts') }}
WHERE cart_id = '7'
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/cart_seven.sql": """{{ config(mode='append') }}
SELECT cart_id, status
FROM {{ stream('carts') }}
WHERE cart_id = 7
"""
    }
    fix: ClassVar[str] = (
        "A whole number in quotes that is compared with whole numbers loses them."
    )

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such comparison, at the side that is cast."""
        for read in model.selects:
            for comparison in read.parts(
                exp.EQ,
                exp.NEQ,
                exp.NullSafeEQ,
                exp.LT,
                exp.LTE,
                exp.GT,
                exp.GTE,
                exp.In,
            ):
                others = (
                    comparison.expressions
                    if isinstance(comparison, exp.In)
                    else [comparison.args["expression"]]
                )
                for other in others:
                    yield from _compare(model, read, comparison.this, other)


def _compare(
    model: LintedModel, read: SelectRead, left: exp.Expr, right: exp.Expr
) -> Iterator[RuleMatch]:
    kinds = _kind(read, left), _kind(read, right)
    if set(kinds) == {"text", "number"}:
        text, number = (left, right) if kinds[0] == "text" else (right, left)
    elif set(kinds) == {"text", "time"}:
        text, number = (left, right) if kinds[0] == "text" else (right, left)
        if isinstance(text, exp.Literal):
            return  # a date in quotes is how one writes a date
    else:
        return
    kind = read.type_of(number)
    what = f"{text.sql('spark')} is a text, and {number.sql('spark')} a {kind.text if kind else 'number'}."
    edits: tuple[TextEdit | None, ...] = ()
    if (
        isinstance(text, exp.Literal)
        and kind is not None
        and kind.name in WHOLE_TYPES
        and _WHOLE.match(text.name)
    ):
        edits = (model.edit(*model.range_of(text), text.name),)
    fix = (
        "Write the number without quotes."
        if isinstance(text, exp.Literal)
        else "Say which side is cast, by CAST."
    )
    yield model.found_at(text, what, fix, edits)


def _kind(read: SelectRead, value: exp.Expr) -> str:
    if isinstance(value, exp.Literal) and not value.is_string:
        return "number"
    kind = read.type_of(value)
    if kind is None:
        return ""
    if kind.name in _NUMBERS:
        return "number"
    return {
        "string": "text",
        "date": "time",
        "timestamp": "time",
        "timestamp_ntz": "time",
    }.get(kind.name, "")


_NUMBERS = frozenset({*WHOLE_TYPES, "float", "double", "decimal"})
_WHOLE = re.compile(r"(?:0|[1-9]\d{0,17})\Z")


RULE = ImplicitCast()
