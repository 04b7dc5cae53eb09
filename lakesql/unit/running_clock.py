"""Finds expressions that read the clock in a way that a unit test cannot override."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType


def find_running_clock(texts: Iterable[str]) -> str:
    """The first expression that reads the clock although the test sets the time; '' if
    there is none.

    A test replaces functions by ones of its own. It cannot do so for a name without
    parentheses, which Spark takes for a function only if no column has that name.
    `unix_timestamp()` reads the clock only without arguments.
    """
    for text in texts:
        tokens = [None, *Spark().tokenize(text), None]
        for before, token, after, then in zip(
            tokens, tokens[1:], tokens[2:], [*tokens[3:], None], strict=False
        ):
            if token is None or token.token_type in _QUOTED:
                continue
            word = token.text.lower()
            is_called = _is(after, TokenType.L_PAREN)
            if (
                word in _BARE
                and not is_called
                and not _is(before, TokenType.DOT)
                and not _is(before, TokenType.ALIAS)
            ):
                return f"{token.text} without brackets"
            if word in _ALONE and is_called and _is(then, TokenType.R_PAREN):
                return f"{token.text}()"
    return ""


_BARE = frozenset({"current_timestamp", "current_date", "localtimestamp"})
_ALONE = frozenset({"unix_timestamp", "to_unix_timestamp", "current_time"})
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


def _is(token: Token | None, kind: TokenType) -> bool:
    return token is not None and token.token_type == kind
