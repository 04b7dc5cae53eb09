"""Whether each function that a SELECT calls is one of Spark's, and has a number of
arguments that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakesql.errors import ProjectError
from lakesql.select.functions import FORBIDDEN_FUNCTIONS, TABLE_FUNCTIONS
from lakesql.select.registry import COUNTS
from lakesql.select.sqltext import Findings, Text
from lakesql.words import suggest


def check_calls(tree: exp.Query, text: Text, findings: Findings) -> None:
    """Adds a finding for each call of a function that Spark lacks, or with a number of
    arguments that it does not take.

    Names and arguments are read from the tokens, as sqlglot's tree has names and
    arguments of its own. The tree decides which of the words before brackets are calls.
    """
    suspects = {
        text.tokens[call.index].start: call
        for call in _calls(text)
        if not _is_right(call, text)
    }
    if not suspects:
        return
    for function in tree.find_all(exp.Func):
        call = (
            suspects.pop(function.meta.get("start", -1), None)
            if function._meta
            else None
        )
        is_elsewhere = (
            isinstance(function.parent, exp.Dot) and function.arg_key == "expression"
        ) or (
            isinstance(function.parent, exp.Table)
            and function.name.lower() not in TABLE_FUNCTIONS
        )
        if call is not None and (not is_elsewhere or call.name in TABLE_FUNCTIONS):
            _note(call, text.tokens[call.index].start, findings)
    for offset, call in suspects.items():
        if call.name in _WITHOUT_PLACE and _starts_expression(text.tokens, call):
            _note(call, offset, findings)


def _starts_expression(tokens: list[Token], call: _WordBeforeBracket) -> bool:
    """Whether the word before a bracket begins an expression, and is neither an alias
    of a table nor a type."""
    before = tokens[call.index - 1] if call.index else None
    if before is None or before.token_type in _BEFORE_EXPRESSION:
        return True
    return before.text in _OPERATORS


def stop_at_wrong_counts(text: Text, findings: Findings) -> None:
    """Raises `ProjectError` if calls in a text that sqlglot cannot parse have wrong
    numbers of arguments, with a finding for each. Else does nothing."""
    wrong = [
        call
        for call in _calls(text)
        if call.name in COUNTS_OF and not _is_right(call, text)
    ]
    for call in wrong:
        _note(call, text.tokens[call.index].start, findings)
    if wrong:
        raise ProjectError(findings.problems)


@dataclass(frozen=True, slots=True)
class _WordBeforeBracket:
    """A word before a bracket. `count` is the number of arguments in the brackets, None
    where the commas do not show it."""

    index: int
    name: str
    count: int | None


_ODD = frozenset(
    {
        TokenType.FROM,
        TokenType.IN,
        TokenType.FOR,
        TokenType.ALIAS,
        TokenType.DCOLON,
        TokenType.FARROW,
    }
    | {TokenType.SELECT, TokenType.WITH, TokenType.VALUES}
)
"""Tokens in brackets whose commas may not separate arguments: FROM in trim, the name of
a type, a query."""

_WITHOUT_PLACE = frozenset(
    {
        "approx_percentile",
        "array_agg",
        "ceil",
        "chr",
        "decode",
        "element_at",
        "exists",
        "floor",
        "from_utc_timestamp",
    }
    | {
        "if",
        "initcap",
        "listagg",
        "max_by",
        "min_by",
        "mod",
        "named_struct",
        "overlay",
        "percentile",
    }
    | {
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "position",
        "shiftleft",
        "shiftright",
        "string_agg",
    }
    | {
        "first",
        "first_value",
        "last",
        "last_value",
        "substr",
        "substring",
        "to_utc_timestamp",
        "transform",
        "try_element_at",
        "max",
        "min",
        "any_value",
    }
)
"""Functions for whose calls sqlglot does not keep the place in the text."""

_BEFORE_EXPRESSION = frozenset(
    {
        TokenType.SELECT,
        TokenType.DISTINCT,
        TokenType.L_PAREN,
        TokenType.L_BRACKET,
        TokenType.COMMA,
        TokenType.FARROW,
    }
    | {
        TokenType.WHERE,
        TokenType.HAVING,
        TokenType.ON,
        TokenType.AND,
        TokenType.OR,
        TokenType.NOT,
    }
    | {
        TokenType.WHEN,
        TokenType.THEN,
        TokenType.ELSE,
        TokenType.CASE,
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
    }
    | {
        TokenType.ARROW,
        TokenType.PARTITION_BY,
        TokenType.BETWEEN,
        TokenType.LIKE,
        TokenType.IN,
    }
)
_OPERATORS = frozenset(
    {
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "=",
        "==",
        "<",
        "<=",
        ">",
        ">=",
        "<>",
        "!=",
        "<=>",
        "|",
        "&",
        "^",
    }
)

_STARTS_ARGUMENT = frozenset(
    {TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.DISTINCT}
)


def _calls(text: Text) -> Iterator[_WordBeforeBracket]:
    tokens = text.tokens
    # for each open bracket: its token, its commas, and 1 if these separate no arguments
    opened: list[list[int]] = []
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN or kind is TokenType.L_BRACKET:
            opened.append([index, 0, 0])
        elif not opened:
            pass
        elif kind is TokenType.COMMA:
            opened[-1][1] += 1
        elif kind is TokenType.R_PAREN or kind is TokenType.R_BRACKET:
            start, commas, is_odd = opened.pop()
            if start and tokens[start].token_type is TokenType.L_PAREN:
                is_empty = index == start + 1
                is_script = index + 1 < len(tokens) and tokens[
                    index + 1
                ].text.upper() in ("USING", "ROW")
                count = None if is_odd or is_script else 0 if is_empty else commas + 1
                yield _WordBeforeBracket(
                    start - 1, tokens[start - 1].text.lower(), count
                )
        elif kind in _ODD or (
            kind is TokenType.STAR and tokens[index - 1].token_type in _STARTS_ARGUMENT
        ):
            opened[-1][2] = 1


def _is_right(call: _WordBeforeBracket, text: Text) -> bool:
    """Whether a word before a bracket is a correct call, or surely no call. What is
    left is looked up in the tree."""
    before = text.tokens[call.index - 1].token_type if call.index else None
    if (
        before is TokenType.ALIAS
        or before is TokenType.DCOLON
        or before is TokenType.DOT
        or call.name in _NO_CALLS
    ):
        return True
    if call.name not in COUNTS_OF:
        return False
    if call.count is None or (
        call.name == "exists" and _kind_behind(call, text) is TokenType.L_PAREN
    ):
        return True
    if call.count == 3 and call.name in _WITH_UNITS:
        return _kind_behind(call, text) is not TokenType.NULL and _names_unit(
            call, text
        )
    return COUNTS_OF[call.name].has(call.count)


def _kind_behind(call: _WordBeforeBracket, text: Text) -> TokenType | None:
    """The type of the first token in the brackets of a call."""
    index = call.index + 2
    return text.tokens[index].token_type if index < len(text.tokens) else None


def _names_unit(call: _WordBeforeBracket, text: Text) -> bool:
    """Whether the first argument of a call is a single word, as the unit DAY is."""
    return text.tokens[call.index + 3].token_type is TokenType.COMMA


def _note(call: _WordBeforeBracket, offset: int, findings: Findings) -> None:
    counts = COUNTS_OF.get(call.name)
    if counts is None:
        what = f"Spark has no function {call.name}()."
        findings.add(
            "unknown-function",
            offset,
            what,
            fix=suggest("function", call.name, COUNTS_OF),
        )
    else:
        what = f"{call.name}() is given {call.count or 'no'} argument{'' if call.count == 1 else 's'}."
        findings.add("wrong-argument-count", offset, what, f"It takes {counts.text}.")


@dataclass(frozen=True, slots=True)
class ArgumentCounts:
    """The numbers of arguments that a function takes: those in `some`, and the
    multiples of `step` from `least` on."""

    some: frozenset[int]
    least: int | None = None
    step: int = 1

    def has(self, count: int) -> bool:
        """Whether the function takes this number of arguments."""
        return count in self.some or (
            self.least is not None and count >= self.least and count % self.step == 0
        )

    @property
    def text(self) -> str:
        """The numbers in words, for a message."""
        if self.least is not None:
            return (
                f"{self.least} or more" if self.step == 1 else "an even number of them"
            )
        *some, last = map(str, sorted(self.some))
        return (
            f"{', '.join(some)} or {last}"
            if some
            else {"0": "none", "1": "one"}.get(last, last)
        )


def read_counts(text: str) -> ArgumentCounts:
    """The argument counts that a key of the registry, such as `1-2`, stands for."""
    if text == "0,2-":
        return ArgumentCounts(frozenset(), 0, 2)
    low, dash, high = text.partition("-")
    if dash and not high:
        return ArgumentCounts(frozenset(), int(low))
    return ArgumentCounts(
        frozenset(range(int(low), int(high) + 1) if dash else map(int, text.split(",")))
    )


def _with(counts: ArgumentCounts, *more: int) -> ArgumentCounts:
    return ArgumentCounts(counts.some | {*more}, counts.least, counts.step)


_PLAIN = {
    name: counts
    for text, names in COUNTS.items()
    for counts in [read_counts(text)]
    for name in names.split()
}

_WITH_UNITS = frozenset({"date_add", "date_diff", "dateadd", "datediff"})

COUNTS_OF = {
    **_PLAIN,
    **{
        name: _with(_PLAIN.get(name, ArgumentCounts(frozenset())), 3)
        for name in _WITH_UNITS
    },
    **{
        name: ArgumentCounts(frozenset({3}))
        for name in ("timestampadd", "timestampdiff", "timediff")
    },
}
"""The argument counts of every function, including the forms whose first argument is a
unit, as in `datediff(DAY, a, b)`."""

_NO_CALLS = frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "like",
        "ilike",
        "rlike",
        "regexp",
        "between",
        "div",
        "when",
        "any",
        "some",
        "all",
    }
    | {
        "cast",
        "try_cast",
        "extract",
        "case",
        "interval",
        "identifier",
        "over",
        "values",
        "using",
        "on",
        "as",
        "union",
    }
    # functions of Iceberg's catalogs
    | {"bucket", "truncate", "years", "months", "days", "hours", "iceberg_version"}
) | frozenset(FORBIDDEN_FUNCTIONS)
"""Words before a bracket that call no function, or one that is checked elsewhere."""
