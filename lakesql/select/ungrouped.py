"""The SELECT of the rows that an aggregate groups, before it groups them: Spark does
not say which of them came too late."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.names import EVENT_TIME, POSITION
from lakesql.select.carry import CARRY
from lakesql.select.columns import key_columns
from lakesql.select.groups import is_sets
from lakesql.select.relation import QueryColumn, Sources, Walk, mark_of, unaliased
from lakesql.select.sqltext import clause, projections, split_list


def find_event_time(
    select: exp.Select,
    mark: int,
    sources: Sources,
    columns: tuple[QueryColumn, ...] | None,
    walk: Walk,
) -> str:
    """The expression of the GROUP BY key or DISTINCT column that is an event time; ''
    where none is."""
    text, group, outputs = walk.text, select.args.get("group"), columns or ()
    spans = projections(text, mark)
    is_known = len(spans) == len(select.expressions) == len(outputs)
    made = (
        [unaliased(*each, text) for each in zip(select.expressions, spans, strict=True)]
        if is_known
        else []
    )
    if group is None or group.args.get("all"):
        times = [
            span
            for column, span in zip(outputs, made, strict=False)
            if column.event_time
        ]
        return _written(times[0], walk) if times else ""
    keys = clause(text, mark, frozenset({TokenType.GROUP_BY}))
    if keys is None or is_sets(group):
        return ""
    for key, span in zip(
        group.expressions, split_list(text, keys[0] + 1, keys[1]), strict=False
    ):
        for column in key_columns(key, sources, outputs):
            if column.event_time:
                named = next(
                    (
                        at
                        for at, output in zip(made, outputs, strict=False)
                        if output is column
                    ),
                    None,
                )
                return _written(named or span, walk)
    return ""


def ungrouped_text(tree: exp.Query, walk: Walk) -> str:
    """A SELECT of the event time and the position of each row that the model's
    aggregate or DISTINCT is given.

    '' where it cannot be made: the aggregate is not in the outermost SELECT, there is
    other state, or the key is a session window.
    """
    mark = mark_of(tree) if isinstance(tree, exp.Select) else None
    time = walk.event_times.get(mark, "") if mark is not None else ""
    if (
        mark is None
        or not time
        or walk.shapes.keys() != {mark}
        or time.lower().startswith("session_window")
    ):
        return ""
    text = walk.text
    source = clause(text, mark, frozenset({TokenType.FROM}))
    if source is None:
        return ""
    _, last = clause(text, mark, frozenset({TokenType.WHERE})) or source
    first, end = text.tokens[source[0]].start, text.tokens[last - 1].end + 1
    pieces, start = [], 0
    for other in sorted({*walk.inserts, mark}):
        at = text.inserts[other]
        pieces.append(text.sql[start:at])
        pieces.append(
            f" {time} AS {EVENT_TIME}, {POSITION}\n" if other == mark else CARRY
        )
        start = first if other == mark else at
    return "".join((*pieces, text.sql[start:end])).strip()


def _written(span: tuple[int, int], walk: Walk) -> str:
    tokens, (first, last) = walk.text.tokens, span
    first += tokens[first].token_type is TokenType.DISTINCT
    return walk.text.sql[tokens[first].start : tokens[last - 1].end + 1]
