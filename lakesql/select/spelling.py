"""The tokens of a SELECT in a normal form, in which two texts are equal if Spark reads
the same SELECT.

Such texts differ only in whitespace, comments, case where Spark ignores it, quotes and
redundant brackets. Where it is not certain that Spark reads the same, the normal forms
differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.names import CHANGE, RECORD
from lakesql.select.brackets import begins_expression, needless_brackets
from lakesql.select.sqltext import Text


def read_words(text: Text, tree: exp.Expr) -> tuple[str | None, ...]:
    """The normal form of each token; None for a token that can be left out without a
    change."""
    tokens = text.tokens
    needless = needless_brackets(tokens)
    exact = _names_with_capitals(tokens, tree)
    words: list[str | None] = []
    for at in range(len(tokens)):
        if at in needless or _is_needless_as(tokens, at):
            words.append(None)
        else:
            words.append(_word(tokens, at, text.sql, is_exact=at in exact))
    return tuple(words)


def _word(tokens: Sequence[Token], at: int, sql: str, is_exact: bool) -> str:
    """The normal form of a token. That of a string begins with a quote and that of a
    name with a backtick, and no other does."""
    token = tokens[at]
    kind = token.token_type
    if kind in _COMPARISONS:
        return _COMPARISONS[kind]
    if kind in _TEXTS:
        return _text_word(sql[token.start : token.end + 1])
    if _is_name(tokens, at):
        return f"`{token.text}" if is_exact else f"`{token.text.lower()}"
    return token.text if is_exact else token.text.lower()


def _text_word(written: str) -> str:
    """The normal form of a string: `"x"` becomes `'x'`. A string with a quote inside,
    or with a prefix, stays as it is written."""
    content = written[1:-1]
    is_plain = written[0] in "'\"" and "'" not in content and '"' not in content
    return f"'{content}'" if is_plain else f"'{written}"


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is a name to Spark, with or without backticks; False for a word
    that may be something else."""
    token = tokens[at]
    if token.token_type is TokenType.IDENTIFIER:
        return True
    if not _WORD.fullmatch(token.text):
        return False
    if at and tokens[at - 1].token_type is TokenType.DOT:
        return True
    if token.token_type is TokenType.VAR:
        return token.text.lower() not in _CALLED_WITHOUT_BRACKETS
    follows = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    return token.token_type in _TYPES_TOO and follows not in _AFTER_TYPES


def _is_needless_as(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is an AS before a name that can only be an alias."""
    if tokens[at].token_type is not TokenType.ALIAS or at + 1 == len(tokens):
        return False
    return tokens[at + 1].token_type in (TokenType.VAR, TokenType.IDENTIFIER)


def _names_with_capitals(tokens: Sequence[Token], tree: exp.Expr) -> frozenset[int]:
    """The numbers of the names whose case may show in a value: in JSON, as a key, as a
    text."""
    if _makes_texts_of_names(tokens):
        return frozenset(range(len(tokens)))
    keys = _keys(tokens, _relations(tree))
    return frozenset(
        (
            *_fields_of_structs(tokens),
            *keys,
            *_fields_of_types(tokens),
            *_catalogs(tokens, tree),
        )
    )


def _makes_texts_of_names(tokens: Sequence[Token]) -> bool:
    """Whether any name may become a value, by PIVOT, UNPIVOT, or `struct(t.*)`."""
    called: list[str] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text.lower() if at else ""
        if token.text.lower() in ("pivot", "unpivot"):
            return True
        if token.token_type is TokenType.L_PAREN:
            called.append(before)
        elif token.token_type is TokenType.R_PAREN and called:
            called.pop()
        elif (
            token.token_type is TokenType.STAR
            and called
            and called[-1] in _NAMES_FIELDS
            and before in ("(", ",", ".")
        ):
            return True
    return False


@dataclass(slots=True)
class _Arguments:
    """The items between two brackets: whether they make a struct, whether they do if
    there is a comma (a row), and the tokens that end an item and may name its field."""

    is_struct: bool
    may_be_row: bool
    ends: list[int] = field(default_factory=list)


def _fields_of_structs(tokens: Sequence[Token]) -> Iterator[int]:
    """The names that end an item of `struct(…)` or of a row `(a, b)`. Each is an alias
    or a column, and so the name of a field."""
    opened: list[_Arguments] = []
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            is_struct = at > 0 and tokens[at - 1].text.lower() in _NAMES_FIELDS
            opened.append(_Arguments(is_struct, _may_be_row(tokens, at)))
        elif opened and token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            if _may_name_field(tokens, at - 1):
                opened[-1].ends.append(at - 1)
            if token.token_type is TokenType.COMMA:
                opened[-1].is_struct |= opened[-1].may_be_row
            elif (closed := opened.pop()).is_struct:
                yield from closed.ends


def _may_be_row(tokens: Sequence[Token], start: int) -> bool:
    """Whether a bracket with a comma in it is a row: an expression begins with it, and
    it is no query."""
    begins = (
        begins_expression(tokens, start)
        or tokens[start - 1].token_type is TokenType.DISTINCT
    )
    is_query = start + 1 < len(tokens) and tokens[start + 1].token_type in (
        TokenType.SELECT,
        TokenType.WITH,
    )
    return begins and not is_query


def _may_name_field(tokens: Sequence[Token], at: int) -> bool:
    """Whether the last token of an argument is the name of its field."""
    is_name = tokens[at].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    return is_name or (at > 0 and tokens[at - 1].token_type in _BEFORE_NAMES)


def _keys(tokens: Sequence[Token], relations: frozenset[str]) -> Iterator[int]:
    """The names behind a dot or a colon that may be the key of a map or a variant, as
    no relation qualifies them."""
    for at in range(2, len(tokens)):
        sign = tokens[at - 1].token_type
        is_column = _is_of(tokens, at, relations) or _is_field(tokens, at)
        if sign is TokenType.COLON or (sign is TokenType.DOT and not is_column):
            yield at


def _is_of(tokens: Sequence[Token], at: int, relations: frozenset[str]) -> bool:
    """Whether the name behind a dot is a column of a relation."""
    is_first = at < 3 or tokens[at - 3].token_type not in (
        TokenType.DOT,
        TokenType.COLON,
    )
    return is_first and tokens[at - 2].text.lower() in relations


def _is_field(tokens: Sequence[Token], at: int) -> bool:
    """Whether the name behind a dot is a field of a struct that lakesql or Spark makes,
    as in `_change.before.id`."""
    names = 0
    while at >= 2 and tokens[at - 1].token_type is TokenType.DOT:
        at, names = at - 2, names + 1
    return names <= _STRUCTS.get(tokens[at].text.lower(), 0)


def _relations(tree: exp.Expr) -> frozenset[str]:
    """The names, in lower case, that may qualify columns: tables, streams, and the
    aliases of subqueries and CTEs."""
    tables = frozenset(table.name.lower() for table in tree.find_all(exp.Table))
    return tables | frozenset(
        alias.name.lower() for alias in tree.find_all(exp.TableAlias)
    )


def _catalogs(tokens: Sequence[Token], tree: exp.Expr) -> Iterator[int]:
    """The names of catalogs and namespaces, which are case-sensitive in most
    catalogs."""
    names = {
        part.name for table in tree.find_all(exp.Table) for part in table.parts[:-1]
    }
    for at in range(len(tokens) - 1):
        if tokens[at].text in names and tokens[at + 1].token_type is TokenType.DOT:
            yield at


def _fields_of_types(tokens: Sequence[Token]) -> Iterator[int]:
    """The tokens inside `struct<…>`."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.LT and (
            depth or tokens[at - 1].text.lower() == "struct"
        ):
            depth += 1
        elif token.token_type is TokenType.GT and depth:
            depth -= 1
        elif depth:
            yield at


_WORD = re.compile(r"[A-Za-z_]\w*")
_TEXTS = frozenset(
    {
        TokenType.STRING,
        TokenType.RAW_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
        TokenType.BYTE_STRING,
    }
    | {TokenType.NATIONAL_STRING, TokenType.UNICODE_STRING, TokenType.HEREDOC_STRING}
)
_COMPARISONS = {TokenType.EQ: "=", TokenType.NEQ: "<>"}
"""The normal form of operators that Spark has two spellings of, such as `=` and
`==`."""

_CALLED_WITHOUT_BRACKETS = frozenset(
    {"user", "current_date", "current_timestamp", "current_time", "localtimestamp"}
)
"""Words that are a name in backticks, and a function otherwise."""

_TYPES_TOO = frozenset(
    {
        TokenType.DATE,
        TokenType.TIME,
        TokenType.TIMESTAMP,
        TokenType.TIMESTAMPTZ,
        TokenType.INT,
        TokenType.TEXT,
    }
    | {
        TokenType.BINARY,
        TokenType.MAP,
        TokenType.ARRAY,
        TokenType.STRUCT,
        TokenType.WINDOW,
        TokenType.FIRST,
    }
)
"""Keywords that are names of columns too, unless a literal or a bracket follows."""

_AFTER_TYPES = _TEXTS | {TokenType.L_PAREN, TokenType.LT, TokenType.NUMBER}
_NAMES_FIELDS = frozenset({"struct", "arrays_zip"})
"""Functions that make structs whose fields have the names of the arguments."""

_BEFORE_NAMES = frozenset(
    {TokenType.ALIAS, TokenType.DOT, TokenType.L_PAREN, TokenType.COMMA}
)
_STRUCTS = {RECORD: 1, CHANGE: 2, "window": 1, "session_window": 1}
"""Structs that lakesql or Spark makes, whose fields are case-insensitive, with the
number of levels that they nest."""
