"""Which text stands for the state that Spark keeps for a SELECT, independent of
spelling: hashes of its parts, which `is_same_state` compares."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.relation import Walk, unaliased
from lakesql.select.same_state import STATE_PARTS
from lakesql.select.spelling import read_words
from lakesql.select.sqltext import Text, clause, projections, spelled, words
from lakesql.select.state_types import state_types


def state_shape(walk: Walk, tree: exp.Query) -> str:
    """The short hashes that stand for the state of a SELECT: of the keys, aggregates,
    joins and DISTINCT columns that Spark keeps, of the filters of the rows that
    aggregates count, of the types (`state_types`), and the first one again without the
    names of common table expressions.

    They do not depend on spelling. Former versions of lakesql wrote only the first one
    or two; `is_same_state` compares them.
    """
    shape = "\n".join(shape for _, shape in sorted(walk.shapes.items()))
    parts = (
        _hash(_as_named(shape)),
        _hash(_filters(walk, tree)),
        state_types(walk, tree),
        _hash(_unnamed(shape)),
    )
    return STATE_PARTS.join(parts)


_CTE = "\ue000"
"""What encloses the number of a common table expression, before its name."""
_CTES = re.compile(f"{_CTE}([0-9]+){_CTE}([^ \n]*)")


def _as_named(shape: str) -> str:
    """A shape with the names of common table expressions."""
    return _CTES.sub(r"\2", shape)


def _unnamed(shape: str) -> str:
    """A shape with the numbers of common table expressions in the place of their
    names."""
    return _CTES.sub(rf"{_CTE}\1", shape)


def _hash(shape: str) -> str:
    return hashlib.sha256(shape.encode()).hexdigest()[:16]


def _filters(walk: Walk, tree: exp.Query) -> str:
    """The WHERE of each SELECT whose rows an aggregate counts, in the normal form of
    `read_words` and without the aliases of relations."""
    if not walk.counted:
        return ""
    text, said = walk.text, read_words(walk.text, tree)
    lines: list[str] = []
    for mark in sorted(walk.counted):
        found = clause(text, mark, frozenset({TokenType.WHERE}))
        if found is None:
            continue
        aliases = {name.lower() for name, _ in walk.flowing[mark][1]}
        left_out = {
            part
            for at in range(*found)
            if text.tokens[at].token_type is TokenType.DOT
            and text.tokens[at - 1].text.lower() in aliases
            for part in (at - 1, at)
        }
        lines.append(
            " ".join(
                word
                for at in range(*found)
                if (word := said[at]) is not None and at not in left_out
            )
        )
        lines += shapes_below(words(text, *found), walk.counted - {mark}, walk)
    return "\n".join(lines)


def shape_of(
    select: exp.Select,
    mark: int,
    walk: Walk,
    *,
    aggregated: bool,
    distinct: bool,
    joined: bool,
) -> str:
    """The tokens that decide which state a SELECT keeps: keys and aggregates, the join,
    the DISTINCT columns."""
    text = walk.text
    spans = projections(text, mark)
    lines: list[str] = []
    if aggregated:
        group = select.args.get("group")
        found = (
            clause(text, mark, frozenset({TokenType.GROUP_BY}))
            if group is not None
            else None
        )
        lines.append(words(text, *found) if found else "one group")
        lines += [
            words(text, *_call_span(text, index))
            for index in text.aggregates.get(mark, ())
        ]
        lines += _named_keys(group, select, spans, text) if group is not None else []
    if distinct:
        lines += ["distinct", *(words(text, *span) for span in spans)]
    if joined:
        found = clause(text, mark, frozenset({TokenType.FROM}))
        first, last, owner = (
            (*found, mark) if found else (_from_before(mark, text), mark, None)
        )
        lines.append(_read_words(first, last, owner, walk))
        if any(
            not join.args.get("on") and not join.args.get("using")
            for join in select.args.get("joins") or ()
        ):
            # a WHERE is the condition of the join in `FROM a, b`
            found = clause(text, mark, frozenset({TokenType.WHERE}))
            lines += [_read_words(*found, None, walk)] if found else []
    return "\n".join(lines)


def _read_words(first: int, last: int, owner: int | None, walk: Walk) -> str:
    """The tokens of what a SELECT reads, as by `words`, with the number of each common
    table expression before its name."""
    text, said = walk.text, []
    for at in range(first, last):
        if owner is None or text.owners[at] == owner:
            number = f"{_CTE}{walk.ctes[at]}{_CTE}" if at in walk.ctes else ""
            said.append(f"{number}{spelled(text.tokens[at])}")
    return " ".join(said)


def _from_before(mark: int, text: Text) -> int:
    """The token of the FROM in `FROM … SELECT`; the SELECT itself if there is none."""
    kinds = (
        (at, text.tokens[at].token_type)
        for at in range(mark)
        if text.depths[at] == text.depths[mark]
    )
    return max((at for at, kind in kinds if kind is TokenType.FROM), default=mark)


def shapes_below(shape: str, below: Collection[int], walk: Walk) -> Iterator[str]:
    """The expressions of the columns that a shape names, where SELECTs below make them;
    a key of GROUP BY may be such a column."""
    columns = {
        (mark, number): column
        for mark in below
        for number, column in enumerate(_named_columns(mark, walk))
    }
    left = {
        place: (name, made) for place, (name, made) in columns.items() if made != name
    }
    named = _names(shape)
    while found := sorted(place for place, (name, _) in left.items() if name in named):
        for place in found:
            _, made = left.pop(place)
            named |= _names(made)
            yield made


def columns_of(selects: Collection[int], walk: Walk) -> list[str]:
    """The expressions of all columns of the SELECTs."""
    return [made for mark in sorted(selects) for _, made in _named_columns(mark, walk)]


def _named_columns(mark: int, walk: Walk) -> list[tuple[str, str]]:
    """The columns of a SELECT, each with its name in lower case and the tokens of its
    expression.

    The expression of a column that is passed on is its name, whatever qualifies it.
    """
    (select, _), spans = walk.flowing[mark], projections(walk.text, mark)
    if len(spans) != len(select.expressions):
        return [("", words(walk.text, *span)) for span in spans]
    columns = []
    for expression, (first, last) in zip(select.expressions, spans, strict=True):
        inner = expression.this if isinstance(expression, exp.Alias) else expression
        first, last = unaliased(expression, (first, last), walk.text)
        is_plain = isinstance(inner, exp.Column) and len(inner.parts) <= 2
        made = inner.name.lower() if is_plain else words(walk.text, first, last)
        columns.append((expression.alias_or_name.lower(), made))
    return columns


def _names(shape: str) -> frozenset[str]:
    return frozenset(_as_named(shape).replace("\n", " ").split(" "))


def _named_keys(
    group: exp.Expr, select: exp.Select, spans: list[tuple[int, int]], text: Text
) -> list[str]:
    """The expressions of the SELECT that the keys of GROUP BY name by number or
    alias."""
    if len(spans) != len(select.expressions):
        return []
    named = {
        key.name.lower()
        for key in group.expressions
        if isinstance(key, exp.Column | exp.Literal)
    }
    return [
        words(text, *span)
        for number, (expression, span) in enumerate(
            zip(select.expressions, spans, strict=True), 1
        )
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
