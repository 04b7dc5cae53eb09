"""What lakesql has in the place of clauses of Flink SQL, RisingWave and ksqlDB, for SQL
that cannot be parsed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from lakesql.words import answer

_NEAR = 8
"""The number of words before the place of the error in which a clause may begin."""


def answer_clause(tokens: Sequence[Token], offset: int) -> str:
    """The answer to the last clause of another tool at or before an offset; '' if there
    is none.

    A clause is two words, as in `EMIT CHANGES`; or a word before a bracket or a number,
    as in `HOP(` and `WITHIN 1`.
    """
    before = [index for index, token in enumerate(tokens) if token.start <= offset]
    for index in reversed(before[-_NEAR:]):
        said = _answer_at(tokens, index, offset)
        if said:
            return said
    return ""


def _answer_at(tokens: Sequence[Token], index: int, offset: int) -> str:
    word, following = (
        tokens[index],
        tokens[index + 1] if index + 1 < len(tokens) else None,
    )
    # PARTITION BY is valid in brackets behind OVER, so it counts only at the error
    if word.token_type is TokenType.PARTITION_BY:
        return answer("clause", word.text) if word.start == offset else ""
    if following is None:
        return ""
    if following.token_type is TokenType.L_PAREN:
        return answer("clause", word.text) or answer("function", word.text)
    if following.token_type is TokenType.NUMBER:
        return answer("clause", word.text)
    return answer("clause", f"{word.text} {following.text}")


def answer_statement(tokens: Sequence[Token]) -> str:
    """The answer to a statement that is no SELECT, by its first two words, else its
    first; '' if there is none."""
    words = [token.text for token in tokens[:2]]
    return answer("statement", " ".join(words)) or answer("statement", words[0])
