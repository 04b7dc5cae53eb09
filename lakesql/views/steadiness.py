"""Which functions of a SELECT may give another value when it runs again over the same
rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.sqltext import Text

TIMED = frozenset(
    {
        "now",
        "current_date",
        "curdate",
        "current_timestamp",
        "localtimestamp",
        "current_time",
        "unix_timestamp",
    }
)
"""Functions whose value is the time at which the SELECT runs. `unix_timestamp` is one
only without an argument."""

RANDOM = frozenset(
    {
        "rand",
        "random",
        "randn",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
    }
    | {"reflect", "try_reflect", "java_method"}
    | {
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
    }
)
"""Functions that give another value each time, or one that depends on where a row is
stored; and those that call Java, which may do either."""

ORDERED = frozenset(
    {
        "first",
        "first_value",
        "last",
        "last_value",
        "any_value",
        "collect_list",
        "collect_set",
        "array_agg",
    }
    | {
        "percentile_approx",
        "approx_percentile",
        "histogram_numeric",
        "approx_top_k",
        "mode",
    }
)
"""Aggregates whose value depends on the order in which the rows come."""

LISTED = frozenset({"listagg", "string_agg"})
"""Aggregates whose value depends on the order of the rows, unless WITHIN GROUP defines
one."""

_SORTS = frozenset({"sort_array", "array_sort", "size", "array_size", "cardinality"})
"""Functions whose result does not depend on the order of a collected list."""

_WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_timestamp", "localtimestamp", "current_time"}
)

_DATED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
"""The words before a string that make it a date or a time."""

_CLOCK_WORD = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""The beginning of a string that Spark reads by the clock, as in `DATE 'today'` and
`TIMESTAMP 'now UTC'`."""


def timed_tokens(text: Text) -> Iterator[int]:
    """The tokens whose value is the time at which the SELECT runs: functions, and the
    string in `DATE 'today'`."""
    yield from _timed_calls(text)
    for at in range(1, len(text.tokens)):
        is_dated = (
            text.tokens[at - 1].text.upper() in _DATED
            and _kind_at(text, at) is TokenType.STRING
        )
        if is_dated and _CLOCK_WORD.match(text.tokens[at].text):
            yield at


def _timed_calls(text: Text) -> Iterator[int]:
    for at, name in _named_calls(text):
        if name not in TIMED:
            continue
        has_argument = (
            _kind_at(text, at + 1) is TokenType.L_PAREN
            and _kind_at(text, at + 2) is not TokenType.R_PAREN
        )
        if name != "unix_timestamp" or not has_argument:
            yield at


def random_calls(text: Text) -> Iterator[int]:
    """The tokens of functions that give another value each time."""
    yield from (at for at, name in _named_calls(text) if name in RANDOM)


def is_random(expression: exp.Expr) -> bool:
    """Whether an expression gives another value each time."""
    return any(name in RANDOM for name in _called(expression))


def is_timed(expression: exp.Expr) -> bool:
    """Whether an expression depends on the time at which the SELECT runs."""
    return any(name in TIMED - {"unix_timestamp"} for name in _called(expression))


def _called(expression: exp.Expr) -> Iterator[str]:
    """The names of the functions that an expression calls, in lower case."""
    for call in expression.find_all(exp.Func):
        yield (
            call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        ).lower()


def ordered_aggregates(text: Text) -> Iterator[int]:
    """The tokens of aggregates whose value depends on the order of the rows, and that
    nothing sorts."""
    for at in sorted(at for calls in text.aggregates.values() for at in calls):
        name = text.tokens[at].text.lower()
        if (name in LISTED and not _says_order(text, at)) or (
            name in ORDERED and not _is_sorted(text, at)
        ):
            yield at


def _says_order(text: Text, at: int) -> bool:
    depth = text.depths[at]
    close = next(
        index
        for index in range(at + 2, len(text.tokens))
        if text.depths[index] == depth
        and text.tokens[index].token_type is TokenType.R_PAREN
    )
    return "WITHIN" in (
        text.tokens[close + 1].text.upper().split()
        if close + 1 < len(text.tokens)
        else []
    )


def _is_sorted(text: Text, at: int) -> bool:
    return at > 1 and text.tokens[at - 2].text.lower() in _SORTS


def _named_calls(text: Text) -> Iterator[tuple[int, str]]:
    """The words that call a function, each with the number of its token."""
    kinds = [token.token_type for token in text.tokens]
    for at, (kind, after) in enumerate(pairwise([*kinds, None])):
        name = text.tokens[at].text.lower()
        is_called = after is TokenType.L_PAREN
        if kind in (TokenType.STRING, TokenType.RAW_STRING) or (
            kind is TokenType.IDENTIFIER and not is_called
        ):
            continue
        is_a_name = (
            _kind_at(text, at - 1) in (TokenType.DOT, TokenType.ALIAS)
            or after is TokenType.DOT
        )
        if is_called or (name in _WITHOUT_BRACKETS and not is_a_name):
            yield at, name


def _kind_at(text: Text, index: int) -> TokenType | None:
    return text.tokens[index].token_type if 0 <= index < len(text.tokens) else None
