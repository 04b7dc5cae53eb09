"""Which aggregates of a SELECT can be kept by difference: those that are made of
counts, sums, and smallest or largest values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from lakesql.select.sqltext import split_list, words
from lakesql.views.number_types import Columns, NumberType, number_type
from lakesql.views.read_view import ViewText
from lakesql.views.view_tree import CannotKeepError, Span, ViewBlock

Kind = Literal["count", "sum", "avg", "min", "max", "or", "and"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("count", "count_if"), "count"),
    **dict.fromkeys(("avg", "mean"), "avg"),
    **dict.fromkeys(("bool_or", "any", "some"), "or"),
    **dict.fromkeys(("bool_and", "every"), "and"),
    "sum": "sum",
    "min": "min",
    "max": "max",
}


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of an aggregate. `span` are its tokens, `arguments` those of its
    arguments (empty: `*`), `condition` those of its FILTER's condition. `is_condition`:
    the argument itself is a condition on rows, as in `count_if`. `number` is the type
    of the values of a sum or an average."""

    kind: Kind
    span: Span
    arguments: tuple[Span, ...]
    condition: Span | None
    is_condition: bool
    number: NumberType | None = None

    def spelled(self, view: ViewText) -> str:
        """The call as a text that does not depend on spaces and case."""
        return words(view.text, *self.span)


def read_calls(
    view: ViewText, block: ViewBlock, columns: Columns
) -> Iterator[AggregateCall]:
    """The aggregates among the outputs of a SELECT. Raises `CannotKeepError` for one
    whose value does not follow from its previous value and the changes."""
    for at in view.text.aggregates.get(block.mark, ()):
        if at < block.head[1]:
            yield _call(view, at, columns)


def _call(view: ViewText, at: int, columns: Columns) -> AggregateCall:
    tokens = view.text.tokens
    name = tokens[at].text.lower()
    close = view.closes[at + 1]
    kind = _KINDS.get(name)
    if kind is None:
        raise CannotKeepError(f"{name}() does not follow from its value before", at)
    if tokens[at + 2].token_type in (TokenType.DISTINCT, TokenType.ALL):
        raise CannotKeepError(
            f"{name}(DISTINCT …) does not follow from its value before", at
        )
    is_star = tokens[at + 2].token_type is TokenType.STAR and close == at + 3
    arguments = (
        ()
        if is_star or close == at + 2
        else tuple(split_list(view.text, at + 2, close))
    )
    if (not arguments and name != "count") or (len(arguments) > 1 and name != "count"):
        raise CannotKeepError(f"{name}() with these arguments", at)
    condition, end = _filter(view, close + 1)
    number = None
    if kind in ("sum", "avg"):
        number = _number(view, at, arguments[0], kind, columns)
    return AggregateCall(
        kind, (at, end), arguments, condition, name == "count_if", number
    )


def _filter(view: ViewText, at: int) -> tuple[Span | None, int]:
    """The tokens of the condition in `FILTER (WHERE …)` (None: no FILTER), and one past
    the last token of the call."""
    tokens = view.text.tokens
    word = tokens[at].text.upper() if at < len(tokens) else ""
    if word.startswith(("WITHIN", "IGNORE", "RESPECT")):
        raise CannotKeepError(f"an aggregate with {word}", at)
    is_filter = (
        word == "FILTER"
        and at + 1 < len(tokens)
        and tokens[at + 1].token_type is TokenType.L_PAREN
    )
    if not is_filter:
        return None, at
    close = view.closes[at + 1]
    return (at + 3, close), close + 1


def _number(
    view: ViewText, at: int, span: Span, kind: str, columns: Columns
) -> NumberType:
    """The type of the values of a sum or an average. Raises `CannotKeepError` if it is
    not known, or cannot be summed exactly."""
    text = view.text.sql[
        view.text.tokens[span[0]].start : view.text.tokens[span[1] - 1].end + 1
    ]
    try:
        tree = Spark().parser().parse(Spark().tokenize(text), text)[0]
    except SqlglotError:
        tree = None
    number = number_type(tree, columns) if isinstance(tree, exp.Expr) else None
    name = view.text.tokens[at].text.lower()
    if number is None:
        raise CannotKeepError(
            f"{name}() of what is not known to be a whole number or a decimal", at
        )
    if not number.is_whole and number.scale > 6 and number.digits > 26:
        raise CannotKeepError(f"{name}() of decimals with so many digits", at)
    if kind == "avg" and not number.is_whole and number.digits > 16:
        raise CannotKeepError(f"{name}() of decimals with more than 16 digits", at)
    return number
