"""Whether each column of an aggregating SELECT is grouped by or aggregated.

A column counts as grouped by if its name occurs in any expression of a key: Spark
decides which expressions are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakesql.select.groups import keys_in, ordinal
from lakesql.select.relation import Sources, Walk, offset_of


def check_grouped(select: exp.Select, mark: int, sources: Sources, walk: Walk) -> None:
    """Adds a finding for each column of a SELECT with GROUP BY or an aggregate that is
    neither grouped by nor aggregated."""
    group = select.args.get("group")
    starts = {
        walk.text.tokens[index].start for index in walk.text.aggregates.get(mark, ())
    }
    having = select.args.get("having")
    if (group is None and not starts and having is None) or (
        group is not None and group.args.get("all")
    ):
        return
    found = {
        call.meta.get("start") for call in select.find_all(exp.Func) if call._meta
    } & starts
    if found != starts:
        return  # of some aggregate it is not known what is in it
    if (
        group is None
        and having is None
        and not any(_aggregates(item, starts) for item in select.expressions)
    ):
        return
    names = (
        _names_in_keys(group, select, sources)
        if group is not None
        else frozenset[str]()
    )
    given = {item.alias_or_name.lower() for item in select.expressions}
    for item in (*select.expressions, *((having,) if having is not None else ())):
        for column in _outside_of_aggregates(item, starts):
            parts = _names(column, sources)
            if item is having and parts[0] in given:
                continue
            if names.isdisjoint(parts) and _is_read(parts[0], sources):
                text = ".".join(part.name for part in column.parts)
                walk.findings.add(
                    "not-grouped",
                    offset_of(column.parts[0]),
                    f"'{text}' is neither grouped by nor aggregated.",
                    "The rows of a group may differ in it.",
                    f"Add {text} to GROUP BY, or take any_value({text}).",
                )


def _names_in_keys(
    group: exp.Expr, select: exp.Select, sources: Sources
) -> frozenset[str]:
    """The names in the keys of GROUP BY, and in the columns of the SELECT that a key
    names by number or alias."""
    keys = [group]
    for key in keys_in(group):
        keys += select.expressions[ordinal(key)]
    named = {
        name
        for column in group.find_all(exp.Column)
        for name in _names(column, sources)
    }
    keys += [item for item in select.expressions if item.alias.lower() in named]
    return frozenset(
        name
        for key in keys
        for column in key.find_all(exp.Column)
        for name in _names(column, sources)
    )


def _names(column: exp.Column, sources: Sources) -> list[str]:
    """The names of a column and its fields, without the alias that qualifies it."""
    parts = [part.name.lower() for part in column.parts]
    return (
        parts[1:]
        if len(parts) > 1 and parts[0] in {name.lower() for name, _ in sources}
        else parts
    )


def _aggregates(item: exp.Expr, starts: set[int]) -> bool:
    return any(
        call._meta and call.meta.get("start") in starts
        for call in item.find_all(exp.Func)
    )


def _outside_of_aggregates(item: exp.Expr, starts: set[int]) -> Iterator[exp.Column]:
    left = [item]
    while left:
        part = left.pop()
        if isinstance(part, exp.Column):
            if not part.is_star:
                yield part
        elif not (
            isinstance(
                part,
                exp.Query
                | exp.Window
                | exp.WithinGroup
                | exp.Filter
                | exp.AggFunc
                | exp.Star,
            )
            or (part._meta and part.meta.get("start") in starts)
        ):
            left += part.iter_expressions()


def _is_read(name: str, sources: Sources) -> bool:
    """Whether a name certainly is a column of what the SELECT reads."""
    return any(name in (source.by_name or ()) for _, source in sources)
