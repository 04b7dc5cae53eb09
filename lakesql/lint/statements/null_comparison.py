"""LK051: a comparison with NULL, which is never true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class NullComparison:
    """Finds `= NULL` and `<> NULL`."""

    code: ClassVar[str] = "LK051"
    name: ClassVar[str] = "null-comparison"
    finds: ClassVar[str] = "A value is compared with NULL by `=` or `<>`."
    why: ClassVar[str] = (
        "Whether something equals NULL is not known: such a comparison is true of no row, whatever is in it."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/nameless_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE customer_id = NULL
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/nameless_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE customer_id IS NULL
"""
    }
    fix: ClassVar[str] = "`IS NULL` or `IS NOT NULL` takes its place."

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each such comparison."""
        for sign, null, after in zip_longest(
            model.tokens, model.tokens[1:], model.tokens[2:]
        ):
            words = _WORDS.get(sign.token_type)
            if (
                words is not None
                and null is not None
                and null.token_type is TokenType.NULL
            ):
                is_whole = after is None or after.token_type in _ENDS
                edits = (
                    (model.edit(sign.start, null.end + 1, words),) if is_whole else ()
                )
                what = "A comparison with NULL is true of no row."
                yield model.found(
                    sign.start, null.end + 1, what, f"Write {words}.", edits
                )


_WORDS = {TokenType.EQ: "IS NULL", TokenType.NEQ: "IS NOT NULL"}

_ENDS = frozenset(
    {
        TokenType.AND,
        TokenType.OR,
        TokenType.R_PAREN,
        TokenType.COMMA,
        TokenType.THEN,
        TokenType.ELSE,
        TokenType.END,
    }
    | {
        TokenType.ALIAS,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
    }
    | {
        TokenType.UNION,
        TokenType.LIMIT,
        TokenType.JOIN,
        TokenType.LEFT,
        TokenType.INNER,
    }
)
"""Tokens that may follow a comparison which ends with NULL. Before any other token NULL
is part of a longer expression, and no edit is made."""


RULE = NullComparison()
