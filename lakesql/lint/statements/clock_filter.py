"""LK062: a filter that reads the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from sqlglot.tokenizer_core import TokenType

from lakesql.lint.finding import RuleMatch
from lakesql.lint.linted_model import LintedModel
from lakesql.select.selects_read import SelectRead
from lakesql.select.sqltext import clause
from lakesql.views.steadiness import timed_tokens


class ClockFilter:
    """Finds a WHERE or HAVING that compares with the time at which it runs."""

    code: ClassVar[str] = "LK062"
    name: ClassVar[str] = "clock-filter"
    finds: ClassVar[str] = "A filter compares with the time at which it runs."
    why: ClassVar[str] = (
        "Over a stream, a record passes or not by when its batch runs: a backlog or a rebuild gives other rows than "
        "those that were there. Over tables, a row that has become too old stays until the table is made again."
    )
    example: ClassVar[Mapping[str, str]] = {
        "models/fresh_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE changed_at > current_timestamp() - INTERVAL 1 DAY
"""
    }
    instead: ClassVar[Mapping[str, str]] = {
        "models/fresh_carts.sql": """{{ config(mode='append') }}
SELECT cart_id, changed_at
FROM {{ stream('carts') }}
WHERE changed_at > _record.timestamp - INTERVAL 1 DAY
"""
    }
    fix: ClassVar[str] = ""

    def find(self, model: LintedModel) -> Iterator[RuleMatch]:
        """A match for each expression in a filter that reads the clock. Views are left
        out, as they are computed when they are read."""
        config = model.model.config
        if not config.is_stored:
            return
        moments = [model.tokens[at].start for at in timed_tokens(model.read.text)]
        for read in model.selects:
            for start, end in _filters(model, read):
                for at in moments:
                    if start <= at < end:
                        yield model.found(at, _end(model, at), *_SAID[config.reads])


def _filters(model: LintedModel, read: SelectRead) -> Iterator[tuple[int, int]]:
    """The offsets of the start and the end of each WHERE and HAVING of a SELECT."""
    for kind in (TokenType.WHERE, TokenType.HAVING):
        span = clause(model.read.text, read.mark, frozenset({kind}))
        if span is not None:
            yield model.tokens[span[0]].start, model.tokens[span[1] - 1].end + 1


def _end(model: LintedModel, start: int) -> int:
    return next(token.end + 1 for token in model.tokens if token.start == start)


_SAID = {
    "streams": (
        "Whether a record passes depends on when its batch runs: a backlog or a rebuild gives other rows.",
        "Compare with a time of the record, such as `_record.timestamp`; filter by the clock where the table is read.",
    ),
    "tables": (
        "A row that this filter would leave out by now stays until the table is made again.",
        "Filter by the clock where the table is read: in a model in mode view.",
    ),
}


RULE = ClockFilter()
