"""LK055: the name of a column in double quotes, which is a string."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel


class QuotedName:
    """Finds names of columns in double quotes, which Spark reads as strings."""

    code: ClassVar[str] = "LK055"
    name: ClassVar[str] = "quoted-name"
    finds: ClassVar[str] = (
        "The name of a column stands in double quotes, and is a text."
    )
    why: ClassVar[str] = (
        'In most databases `"amount"` is the column; in Spark it is the text amount. `WHERE "status" = \'paid\'` '
        "compares two texts, and is true of no row."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/paid_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE "status" = 'paid'
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/paid_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE `status` = 'paid'
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each of them."""
        sources = [source for read in model.selects for _, source in read.sources]
        columns = {column.folded for source in sources for column in source.named or ()}
        for token in model.tokens:
            is_text = (
                token.token_type is TokenType.STRING
                and model.read.text.sql[token.start] == '"'
            )
            if is_text and token.text.lower() in columns:
                what = f'"{token.text}" is a text, and not the column {token.text}.'
                fix = (
                    f"Write `{token.text}` for the column, '{token.text}' for the text."
                )
                yield model.found(token.start, token.end + 1, what, fix)


RULE = QuotedName()
