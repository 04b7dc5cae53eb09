"""Which columns of a SELECT tell the groups of its aggregate apart: an upsert's keys must, or two rows have one key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakesql.model.sqltext import Text, projections

_WINDOWS = frozenset({"window", "session_window"})


@dataclass(frozen=True, slots=True)
class Group:
    """A key of GROUP BY, or a column of DISTINCT. `told_by` are the columns that depend on it, in small letters."""

    text: str
    told_by: frozenset[str]


def groups_of(
    select: exp.Select, mark: int, names: tuple[str, ...] | None, text: Text, below: Iterable[exp.Select]
) -> tuple[Group, ...] | None:
    """The groups of an aggregating SELECT whose columns have these names; None where they cannot be told.

    `below` are the SELECTs that make what it reads: a key may be made of others there.
    """
    group, spans = select.args.get("group"), projections(text, mark)
    if group is None:
        return ()
    sets = any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "totals"))
    if sets or names is None or not len(names) == len(spans) == len(select.expressions):
        return None
    outputs = dict(zip(names, select.expressions, strict=True))
    aggregates = text.aggregates.get(mark, ())
    aggregated = {
        name for name, (first, last) in zip(names, spans, strict=True) if any(first <= at < last for at in aggregates)
    }
    plain = {name: expression for name, expression in outputs.items() if name not in aggregated}
    keys: list[tuple[str, exp.Expr]] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal):
            keys += list(outputs.items())[ordinal(key)]
        else:
            text_of = key.name if isinstance(key, exp.Column) else key.sql("spark", normalize_functions=False)
            keys.append((text_of, key))
    made = {
        expression.alias.lower(): _mentioned(expression.this)
        for select_below in below
        for expression in select_below.expressions
        if isinstance(expression, exp.Alias)
    }
    return _groups([*plain.items()] if group.args.get("all") else keys, plain, made)


def ordinal(key: exp.Expr) -> slice:
    """Which of the SELECT's columns a key of GROUP BY means by its number: one, or none."""
    is_number = isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit()
    return slice(int(key.name) - 1, int(key.name)) if is_number else slice(0)


def distinct_groups(select: exp.Select, names: tuple[str, ...] | None) -> tuple[Group, ...] | None:
    """The groups of SELECT DISTINCT: each column is one."""
    if names is None:
        return None
    if len(names) != len(select.expressions) or any(map(_is_star, select.expressions)):
        return tuple(Group(name, frozenset({name.lower()})) for name in names)
    outputs = dict(zip(names, select.expressions, strict=True))
    return _groups(list(outputs.items()), outputs, {})


def groups_through(
    select: exp.Select, names: tuple[str, ...] | None, groups: tuple[Group, ...] | None
) -> tuple[Group, ...] | None:
    """The groups of what the SELECT reads, as its own columns tell them."""
    if names is None or groups is None:
        return None
    has_star = any(map(_is_star, select.expressions))
    named = [expression.alias_or_name for expression in select.expressions] if has_star else names
    passed = frozenset(name.lower() for name in names) if has_star else frozenset[str]()
    found = []
    for group in groups:
        told_by = {
            name.lower()
            for name, expression in zip(named, select.expressions, strict=True)
            if _mentioned(expression) & group.told_by
        }
        found.append(Group(group.text, (passed & group.told_by) | told_by))
    return tuple(found)


def _groups(
    keys: list[tuple[str, exp.Expr]], plain: Mapping[str, exp.Expr], made: Mapping[str, frozenset[str]]
) -> tuple[Group, ...]:
    """The keys as groups, each with those of the `plain` columns that depend on it. Constants are no groups.

    `made` are the names that columns below are made of.
    """
    said = {}
    for name, expression in plain.items():
        found = _mentioned(expression)
        while more := frozenset().union(*(made.get(each, frozenset()) for each in found)) - found:
            found |= more
        said[name.lower()] = found | {name.lower()}
    groups = []
    for text, key in keys:
        if ways := _ways_to_say(key, plain):
            told_by = frozenset(name for name, mentioned in said.items() if any(way <= mentioned for way in ways))
            groups.append(Group(text, told_by))
    return tuple(groups)


def _ways_to_say(key: exp.Expr, plain: Mapping[str, exp.Expr]) -> list[frozenset[str]]:
    """The sets of names of which an expression mentions one whole, if it depends on the key."""
    ways = [_columns_in(key)]
    if isinstance(key, exp.Anonymous) and key.name.lower() in _WINDOWS:
        ways.append(frozenset({key.name.lower()}))
    if isinstance(key, exp.Column):  # it may be the alias of a column of the SELECT
        for name, expression in plain.items():
            if isinstance(expression, exp.Alias) and name.lower() == key.name.lower():
                made_of = _columns_in(expression)
                ways = [*ways, made_of] if made_of else []
    return [way for way in ways if way]


def _columns_in(expression: exp.Expr) -> frozenset[str]:
    return frozenset(column.name.lower() for column in expression.find_all(exp.Column))


def _mentioned(expression: exp.Expr) -> frozenset[str]:
    return frozenset(part.name.lower() for column in expression.find_all(exp.Column) for part in column.parts)


def _is_star(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Star | exp.Column) and expression.is_star
