"""What decides the state that Spark keeps for a SELECT, in words that do not depend on spelling."""

from __future__ import annotations

import hashlib

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.model.relation import Walk
from lakesql.model.sqltext import Text, clause, projections, words


def state_shape(walk: Walk) -> str:
    """A short hash of everything that decides what Spark keeps in its state store. Stable across spelling."""
    shape = "\n".join(shape for _, shape in sorted(walk.shapes.items()))
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def shape_of(select: exp.Select, mark: int, walk: Walk, *, aggregated: bool, distinct: bool, joined: bool) -> str:
    """The words that decide what state this SELECT keeps: keys and aggregates, the join, the distinct columns."""
    text = walk.text
    spans = projections(text, mark)
    lines: list[str] = []
    if aggregated:
        group = select.args.get("group")
        found = clause(text, mark, frozenset({TokenType.GROUP_BY})) if group is not None else None
        lines.append(words(text, *found) if found else "one group")
        lines += [words(text, *_call_span(text, index)) for index in text.aggregates.get(mark, ())]
        lines += _named_keys(group, select, spans, text) if group is not None else []
    if distinct:
        lines += ["distinct", *(words(text, *span) for span in spans)]
    if joined:
        found = clause(text, mark, frozenset({TokenType.FROM}))
        lines.append(words(text, *found, owner=mark) if found else "join")
    return "\n".join(lines)


def _named_keys(group: exp.Expr, select: exp.Select, spans: list[tuple[int, int]], text: Text) -> list[str]:
    """The expressions that the keys of GROUP BY name by number or by alias."""
    if len(spans) != len(select.expressions):
        return []
    named = {key.name.lower() for key in group.expressions if isinstance(key, exp.Column | exp.Literal)}
    return [
        words(text, *span)
        for number, (expression, span) in enumerate(zip(select.expressions, spans, strict=True), 1)
        if group.args.get("all")
        or str(number) in named
        or (isinstance(expression, exp.Alias) and expression.alias.lower() in named)
    ]


def _call_span(text: Text, index: int) -> tuple[int, int]:
    depth = text.depths[index]
    end = index + 2
    while end < len(text.tokens) and text.depths[end] > depth:
        end += 1
    return index, end + 1
