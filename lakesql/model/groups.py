"""Which columns of a SELECT tell the groups of its aggregate apart: an upsert's keys must, or two rows have one key."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from lakesql.model.sqltext import Text, projections

_WINDOWS = frozenset({"window", "session_window"})


@dataclass(frozen=True, slots=True)
class Group:
    """A key of GROUP BY, or a column of DISTINCT. `told_by` are the columns that depend on it, in small letters."""

    text: str
    told_by: frozenset[str]


def groups_of(select: exp.Select, mark: int, names: tuple[str, ...] | None, text: Text) -> tuple[Group, ...] | None:
    """The groups of an aggregating SELECT whose columns have these names; None where they cannot be told."""
    group, spans = select.args.get("group"), projections(text, mark)
    if group is None:
        return ()
    sets = any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "totals"))
    if sets or names is None or not len(names) == len(spans) == len(select.expressions):
        return None
    aggregates = text.aggregates.get(mark, ())
    plain = {
        name: expression
        for name, expression, (first, last) in zip(names, select.expressions, spans, strict=True)
        if not any(first <= at < last for at in aggregates)
    }
    if group.args.get("all"):
        return distinct_groups(tuple(plain))
    groups: list[Group] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal):
            groups += distinct_groups(names[int(key.name) - 1 : int(key.name)]) if key.name.isdigit() else ()
        elif ways := _ways_to_say(key):
            said = {name.lower(): _mentioned(expression) | {name.lower()} for name, expression in plain.items()}
            told_by = frozenset(name for name, mentioned in said.items() if any(way <= mentioned for way in ways))
            is_column = isinstance(key, exp.Column)
            groups.append(Group(key.name if is_column else key.sql("spark", normalize_functions=False), told_by))
    return tuple(groups)


def distinct_groups(names: tuple[str, ...]) -> tuple[Group, ...]:
    """The groups of SELECT DISTINCT: each column is one."""
    return tuple(Group(name, frozenset({name.lower()})) for name in names)


def groups_through(
    select: exp.Select, names: tuple[str, ...] | None, groups: tuple[Group, ...] | None
) -> tuple[Group, ...] | None:
    """The groups of what the SELECT reads, as its own columns tell them."""
    if names is None or groups is None:
        return None
    found = []
    for group in groups:
        told_by = {name.lower() for name in names} & group.told_by if any(map(_is_star, select.expressions)) else set()
        told_by |= {
            expression.alias_or_name.lower()
            for expression in select.expressions
            if not _is_star(expression) and _mentioned(expression) & group.told_by
        }
        found.append(Group(group.text, frozenset(told_by)))
    return tuple(found)


def _ways_to_say(key: exp.Expr) -> list[frozenset[str]]:
    """The sets of names of which an expression mentions one whole, if it depends on the key."""
    ways = [frozenset(column.name.lower() for column in key.find_all(exp.Column))]
    if isinstance(key, exp.Anonymous) and key.name.lower() in _WINDOWS:
        ways.append(frozenset({key.name.lower()}))
    return [way for way in ways if way]


def _mentioned(expression: exp.Expr) -> frozenset[str]:
    return frozenset(part.name.lower() for column in expression.find_all(exp.Column) for part in column.parts)


def _is_star(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Star | exp.Column) and expression.is_star
