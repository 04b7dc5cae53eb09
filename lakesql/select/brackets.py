"""Which brackets of a SELECT are redundant: Spark reads the same expression without
them.

The precedence of Spark's own grammar decides (`valueExpression` and `booleanExpression`
in SqlBaseParser.g4), not that of sqlglot: for Spark `n | 4 & 1` is `n | (4 & 1)`, and
`||` binds as `+` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from sqlglot.tokenizer_core import Token, TokenType


class Level(IntEnum):
    """How tightly an operator binds, from the loosest on."""

    BOUNDARY = 0
    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    COMPARISON = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    SHIFT = 9
    ADDITION = 10
    MULTIPLICATION = 11
    SIGN = 12
    OPERAND = 13


def needless_brackets(tokens: Sequence[Token]) -> frozenset[int]:
    """The numbers of the tokens `(` and `)` that can be left out.

    A bracket around something that may not be exactly one expression is kept.
    """
    frames = [_Frame(-1, None)]
    needless: set[int] = set()
    for at, token in enumerate(tokens):
        kind = token.token_type
        if kind in _CLOSING and not _is_name(tokens, at):
            frame = _close(frames, _CLOSING[kind])
            if frame is None:
                continue
            if kind is TokenType.R_PAREN and _is_needless(tokens, frame, at):
                needless |= {frame.start, at}
                frames[-1].add(frame.loosest)
        elif kind in _OPENING and not _is_name(tokens, at):
            frames.append(_Frame(at, kind))
        else:
            frames[-1].read(tokens, at)
    return frozenset(needless)


def begins_expression(tokens: Sequence[Token], start: int) -> bool:
    """Whether an expression, or an operand of one, begins with this bracket; False for
    the bracket of a call or a list."""
    return _level_before(tokens, start) is not None


@dataclass(slots=True)
class _Frame:
    """What is between two brackets, or CASE and END, without the contents of brackets
    inside that are kept.

    `loosest` is its loosest operator. `is_expression` is False if it may not be exactly
    one expression.
    """

    start: int
    opened_by: TokenType | None
    loosest: Level = Level.OPERAND
    is_expression: bool = True
    open_betweens: int = 0

    def add(self, level: Level) -> None:
        self.loosest = min(self.loosest, level)

    def read(self, tokens: Sequence[Token], at: int) -> None:
        """Takes one token into account."""
        kind = tokens[at].token_type
        if _is_name(tokens, at):
            return
        if kind is TokenType.BETWEEN:
            self.open_betweens += 1
        if kind is TokenType.AND and self.open_betweens:
            self.open_betweens -= 1
            return
        if kind is TokenType.NOT and _is_of_predicate(tokens, at):
            return
        if (level := _LEVELS.get(kind)) is not None:
            self.add(Level.SIGN if _is_sign(tokens, at) else level)
            return
        if not _is_operand(tokens, at):
            self.is_expression = False


def _close(frames: list[_Frame], opened_by: TokenType) -> _Frame | None:
    """Removes and returns the innermost frame; None if it was opened by another
    token."""
    if frames[-1].opened_by is not opened_by:
        frames[-1].is_expression = False
        return None
    return frames.pop()


def _is_needless(tokens: Sequence[Token], frame: _Frame, end: int) -> bool:
    if not frame.is_expression or end == frame.start + 1:
        return False
    left = _level_before(tokens, frame.start)
    right = _level_after(tokens, end)
    if left is None or right is None:
        return False
    if frame.loosest in (Level.NOT, Level.PREDICATE):  # these do not stand in a row
        return left < frame.loosest and right < frame.loosest
    # operators of one level are read from left to right
    return left < frame.loosest and right <= frame.loosest


def _level_before(tokens: Sequence[Token], start: int) -> Level | None:
    """How tightly the token before a bracket binds it; None if the bracket belongs to
    that token, as in a call."""
    at = start - 1
    if at < 0 or _is_name(tokens, at):
        return None
    kind = tokens[at].token_type
    if kind in _BEFORE:
        return Level.BOUNDARY
    if _is_sign(tokens, at):
        return None
    if _is_shift(tokens, at, at - 1):
        return Level.SHIFT
    return _LEVELS.get(kind) if kind in _TAKES_RIGHT else None


def _level_after(tokens: Sequence[Token], end: int) -> Level | None:
    """How tightly the token behind a bracket binds it; None if it may be a part of the
    same operand, as `.field` is."""
    at = end + 1
    if at == len(tokens):
        return Level.BOUNDARY
    kind = tokens[at].token_type
    if kind in _AFTER:
        return Level.BOUNDARY
    if kind is TokenType.NOT:
        return Level.PREDICATE
    return Level.SHIFT if _is_shift(tokens, at, at + 1) else _LEVELS.get(kind)


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word is a name or a type by its place alone: behind a dot, `AS` or
    `::`."""
    before = tokens[at - 1].token_type if at else None
    return before in _BEFORE_NAMES and tokens[at].text[:1].isalpha()


def _is_sign(tokens: Sequence[Token], at: int) -> bool:
    """Whether `+`, `-` or `~` is the sign of one operand, and not an operator between
    two."""
    if tokens[at].token_type is TokenType.TILDE:
        return True
    if tokens[at].token_type not in (TokenType.PLUS, TokenType.DASH):
        return False
    return at == 0 or not (
        tokens[at - 1].token_type in _ENDS_OPERAND or _is_operand(tokens, at - 1)
    )


def _is_shift(tokens: Sequence[Token], at: int, beside: int) -> bool:
    """Whether `<` or `>` belongs to a shift operator: the tokenizer reads `<<` as two
    tokens."""
    kind = tokens[at].token_type
    is_half = kind in (TokenType.LT, TokenType.GT)
    return is_half and 0 <= beside < len(tokens) and tokens[beside].token_type is kind


def _is_of_predicate(tokens: Sequence[Token], at: int) -> bool:
    """Whether NOT is a part of a predicate, as in `IS NOT NULL` and `NOT IN (…)`."""
    before = tokens[at - 1].token_type if at else None
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    return before is TokenType.IS or after in _PREDICATES


def _is_operand(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is an operand or a part of one: a name, a literal, a function
    that is called."""
    token = tokens[at]
    follows = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    if follows is TokenType.L_PAREN and token.token_type in _CALLED:
        return True
    if token.token_type not in _OPERANDS:
        return False
    before = tokens[at - 1].token_type if at else None
    return not (
        token.token_type in _NAMES
        and before in _OPERANDS
        and before is not TokenType.DOT
    )


_LEVELS: Mapping[TokenType, Level] = {
    TokenType.OR: Level.OR,
    TokenType.AND: Level.AND,
    TokenType.NOT: Level.NOT,
    TokenType.IS: Level.PREDICATE,
    TokenType.IN: Level.PREDICATE,
    TokenType.BETWEEN: Level.PREDICATE,
    TokenType.LIKE: Level.PREDICATE,
    TokenType.ILIKE: Level.PREDICATE,
    TokenType.RLIKE: Level.PREDICATE,
    TokenType.EQ: Level.COMPARISON,
    TokenType.NEQ: Level.COMPARISON,
    TokenType.NULLSAFE_EQ: Level.COMPARISON,
    TokenType.LT: Level.COMPARISON,
    TokenType.LTE: Level.COMPARISON,
    TokenType.GT: Level.COMPARISON,
    TokenType.GTE: Level.COMPARISON,
    TokenType.PIPE: Level.BIT_OR,
    TokenType.CARET: Level.BIT_XOR,
    TokenType.AMP: Level.BIT_AND,
    TokenType.PLUS: Level.ADDITION,
    TokenType.DASH: Level.ADDITION,
    TokenType.DPIPE: Level.ADDITION,
    TokenType.STAR: Level.MULTIPLICATION,
    TokenType.SLASH: Level.MULTIPLICATION,
    TokenType.MOD: Level.MULTIPLICATION,
    TokenType.DIV: Level.MULTIPLICATION,
    TokenType.TILDE: Level.SIGN,
}
_PREDICATES = frozenset(
    {TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE}
)
_TAKES_RIGHT = _LEVELS.keys() - {TokenType.IS, TokenType.IN}
"""Operators that are followed by an operand."""

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSING: Mapping[TokenType, TokenType] = {
    TokenType.R_PAREN: TokenType.L_PAREN,
    TokenType.R_BRACKET: TokenType.L_BRACKET,
    TokenType.END: TokenType.CASE,
}
_BEFORE = frozenset(
    {
        TokenType.L_PAREN,
        TokenType.L_BRACKET,
        TokenType.COMMA,
        TokenType.SELECT,
        TokenType.WHERE,
        TokenType.HAVING,
    }
    | {
        TokenType.QUALIFY,
        TokenType.ON,
        TokenType.CASE,
        TokenType.WHEN,
        TokenType.THEN,
        TokenType.ELSE,
    }
    | {
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.PARTITION_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
    }
    | {TokenType.DISTRIBUTE_BY, TokenType.ARROW}
)
"""Tokens behind which an expression begins, however loosely its operators bind."""

_AFTER = frozenset(
    {
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
        TokenType.COMMA,
        TokenType.ALIAS,
        TokenType.FROM,
        TokenType.WHERE,
    }
    | {
        TokenType.HAVING,
        TokenType.QUALIFY,
        TokenType.WHEN,
        TokenType.THEN,
        TokenType.ELSE,
        TokenType.END,
    }
    | {
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.SORT_BY,
        TokenType.CLUSTER_BY,
        TokenType.DISTRIBUTE_BY,
    }
    | {
        TokenType.ASC,
        TokenType.DESC,
        TokenType.UNION,
        TokenType.INTERSECT,
        TokenType.EXCEPT,
        TokenType.LIMIT,
    }
    | {
        TokenType.JOIN,
        TokenType.LEFT,
        TokenType.RIGHT,
        TokenType.FULL,
        TokenType.INNER,
        TokenType.CROSS,
    }
)
"""Tokens before which an expression ends."""

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_OPERANDS = _NAMES | frozenset(
    {
        TokenType.STRING,
        TokenType.RAW_STRING,
        TokenType.HEX_STRING,
        TokenType.NUMBER,
        TokenType.NULL,
        TokenType.TRUE,
    }
    | {
        TokenType.FALSE,
        TokenType.DOT,
        TokenType.DCOLON,
        TokenType.DATE,
        TokenType.TIMESTAMP,
        TokenType.TIMESTAMPTZ,
    }
    | {
        TokenType.TIMESTAMPLTZ,
        TokenType.TIMESTAMPNTZ,
        TokenType.CURRENT_DATE,
        TokenType.CURRENT_TIMESTAMP,
    }
)
_CALLED = _NAMES | frozenset(
    {
        TokenType.LEFT,
        TokenType.RIGHT,
        TokenType.FIRST,
        TokenType.STRUCT,
        TokenType.MAP,
        TokenType.ARRAY,
    }
    | {
        TokenType.REPLACE,
        TokenType.OVER,
        TokenType.FILTER,
        TokenType.DATE,
        TokenType.TIMESTAMP,
        TokenType.TIMESTAMPTZ,
    }
    | {TokenType.WINDOW}
)
"""Words that are a call, or a part of one, before a bracket: `left(…)`, `sum(x) OVER
(…)`."""

_BEFORE_NAMES = frozenset({TokenType.DOT, TokenType.ALIAS, TokenType.DCOLON})
_ENDS_OPERAND = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
