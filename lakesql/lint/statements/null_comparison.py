"""LK051: a comparison with NULL, which is never true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class NullComparison:
    """`= NULL` and `<> NULL`."""

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
        """Each such comparison."""
        for sign, null in pairwise(model.tokens):
            words = _WORDS.get(sign.token_type)
            if words is not None and null.token_type is TokenType.NULL:
                edit = model.edit(sign.start, null.end + 1, words)
                what = "A comparison with NULL is true of no row."
                yield model.found(sign.start, null.end + 1, what, f"Write {words}.", (edit,))


_WORDS = {TokenType.EQ: "IS NULL", TokenType.NEQ: "IS NOT NULL"}


RULE = NullComparison()
