"""LK054: a common table expression that is never read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch, TextEdit
from lakesql.lint.linted_model import LintedModel


class UnusedCte:
    """Finds common table expressions that no query reads."""

    code: ClassVar[str] = "LK054"
    name: ClassVar[str] = "unused-cte"
    finds: ClassVar[str] = "Nothing reads a common table expression."
    why: ClassVar[str] = (
        "Spark does not compute it, and its reader believes that it counts. A stream that it alone reads is taken for "
        "one of the model's."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/cart_states.sql": """{{ config(mode='append') }}
WITH paid AS (SELECT cart_id FROM {{ stream('carts') }} WHERE status = 'paid'),
named AS (SELECT cart_id, status FROM {{ stream('carts') }})
SELECT cart_id, status
FROM named
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/cart_states.sql": """{{ config(mode='append') }}
WITH named AS (SELECT cart_id, status FROM {{ stream('carts') }})
SELECT cart_id, status
FROM named
"""
    }
    fix: ClassVar[str] = "It is removed, if no comment stands in it."

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each of them, at its name."""
        read = [
            table.name.lower()
            for table in model.read.tree.find_all(exp.Table)
            if len(table.parts) == 1
        ]
        for with_ in model.read.tree.find_all(exp.With):
            for number, cte in enumerate(with_.expressions):
                name = cte.args["alias"].this
                if cte.alias.lower() not in read:
                    what = f"Nothing reads '{cte.alias}'."
                    yield model.found_at(
                        name, what, "Remove it.", _removal(model, with_, number)
                    )


def _removal(
    model: LintedModel, with_: exp.With, number: int
) -> tuple[TextEdit | None, ...]:
    """The edit that removes one expression of a WITH with its comma, or with the WITH
    if it is the only one; none if it has a comment."""
    tokens = model.tokens
    first, last = _span(model, with_.expressions[number])
    if last < 0:
        return ()
    if len(with_.expressions) == 1:
        start, end = tokens[first - 1].start, tokens[last + 1].start
    elif number + 1 < len(with_.expressions):
        start, end = tokens[first].start, tokens[last + 2].start
    else:
        start, end = tokens[first - 1].start, tokens[last].end + 1
    removed = model.written_between(start, end)
    has_comment = (
        any(sign in removed for sign in ("--", "/*", "{#"))
        if removed is not None
        else True
    )
    return () if has_comment else (model.edit_over(start, end, ""),)


def _span(model: LintedModel, cte: exp.CTE) -> tuple[int, int]:
    """The indexes of the first and the last token of a common table expression; the
    last is -1 if it is not found."""
    first = model.token_index(model.range_of(cte.args["alias"].this)[0])
    depths = model.read.text.depths
    is_open = False
    for at in range(first + 1, len(model.tokens)):
        kind = model.tokens[at].token_type
        if kind is TokenType.ALIAS and depths[at] == depths[first]:
            is_open = True
        elif is_open and kind is TokenType.R_PAREN and depths[at] <= depths[first] + 1:
            return first, at
    return first, -1


RULE = UnusedCte()
