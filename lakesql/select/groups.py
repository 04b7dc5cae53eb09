"""Which columns of a SELECT tell the groups of its aggregate apart: an upsert's keys must, or two rows have one key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakesql.select.sqltext import Text, projections

_WINDOWS = frozenset({"window", "session_window"})
_WINDOW_ENDS = frozenset({"start", "end"})
_HASHES = frozenset({"hash", "xxhash64"})
_KEEPING = (
    *(exp.Alias, exp.Array, exp.Coalesce, exp.Concat, exp.ConcatWs, exp.DPipe, exp.Hex, exp.JSONFormat, exp.MD5),
    *(exp.Paren, exp.PropertyEQ, exp.SHA, exp.SHA2, exp.Struct, exp.ToBase64),
)
"""What surrogate keys are made with: the result differs where an argument does, collisions left out of account."""
_KEEPING_TYPES = frozenset({exp.DType.TEXT, exp.DType.BINARY, exp.DType.BIGINT})
"""What may be cast to in the same way."""


@dataclass(frozen=True, slots=True)
class Group:
    """A key of GROUP BY, or a column of DISTINCT. `told_by` are the columns, in small letters, of which each differs
    where the key does."""

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
    if is_sets(group) or names is None or not len(names) == len(spans) == len(select.expressions):
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
        expression.alias.lower(): expression.this
        for select_below in below
        for expression in select_below.expressions
        if isinstance(expression, exp.Alias)
    }
    return _groups([*plain.items()] if group.args.get("all") else keys, plain, made)


def is_sets(group: exp.Expr) -> bool:
    """Whether a GROUP BY has ROLLUP, CUBE or GROUPING SETS, in whose rows a NULL stands for all values of a key."""
    return any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "totals")) or any(
        isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) for key in group.expressions
    )


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
            if _kept(expression) & group.told_by
        }
        found.append(Group(group.text, (passed & group.told_by) | told_by))
    return tuple(found)


def _groups(
    keys: list[tuple[str, exp.Expr]], plain: Mapping[str, exp.Expr], made: Mapping[str, exp.Expr]
) -> tuple[Group, ...]:
    """The keys as groups, each with those of the `plain` columns that tell it apart. Constants are no groups.

    `made` is what columns below are made of.
    """
    kept = {}
    for name, expression in plain.items():
        # GROUP BY takes a name for the alias of a column only where no column below has it.
        is_alias = name.lower() not in _columns_in(expression)
        kept[name.lower()] = _kept(expression, made) | (frozenset({name.lower()}) if is_alias else frozenset())
    groups = []
    for text, key in keys:
        if ways := _ways_to_tell(key, plain):
            told_by = frozenset(name for name, parts in kept.items() if any(way <= parts for way in ways))
            groups.append(Group(text, told_by))
    return tuple(groups)


def _ways_to_tell(key: exp.Expr, plain: Mapping[str, exp.Expr]) -> list[frozenset[str]]:
    """The sets of parts of which an expression must keep one whole, to differ where the key does."""
    inner = key.unalias()
    columns = _columns_in(inner)
    ways = [columns, frozenset({_text_of(inner)})] if columns else []
    if (window := _window_of(inner)) is not None:
        ways.append(frozenset({_text_of(window)}))
    if isinstance(inner, exp.Anonymous) and inner.name.lower() in _WINDOWS:
        ways.append(frozenset({inner.name.lower()}))
    if isinstance(key, exp.Column):  # it may be the alias of a column of the SELECT
        for name, expression in plain.items():
            if isinstance(expression, exp.Alias) and name.lower() == key.name.lower():
                made_of = _columns_in(expression)
                ways = [*ways, made_of] if made_of else []
    return ways


def _kept(expression: exp.Expr, made: Mapping[str, exp.Expr] | None = None) -> frozenset[str]:
    """The parts of an expression that it differs with: whatever other value one takes, the whole takes another too.

    A column is its name, anything else its text. A start or an end of a window keeps the window.
    """
    kept: set[str] = set()
    left = [expression]
    while left:
        part = left.pop()
        text = _text_of(part)
        if text in kept:
            continue
        kept.add(text)
        if isinstance(part, exp.Column):
            left += [made[text]] if made and text in made else []
        if (window := _window_of(part)) is not None:
            left.append(window)
        elif isinstance(part, exp.Cast):
            if part.to.this in _KEEPING_TYPES or _window_of(part.this.unnest()) is not None:
                left.append(part.this)
        elif isinstance(part, _KEEPING) or (isinstance(part, exp.Anonymous) and part.name.lower() in _HASHES):
            left += (inner for inner in part.iter_expressions() if not isinstance(inner, exp.Identifier))
    return frozenset(kept)


def _window_of(expression: exp.Expr) -> exp.Expr | None:
    """The window of which an expression is the start or the end."""
    if not isinstance(expression, exp.Column | exp.Dot) or expression.name.lower() not in _WINDOW_ENDS:
        return None
    if isinstance(expression, exp.Dot):
        return expression.left
    return exp.column(expression.parts[-2].copy()) if expression.table else None


def _text_of(expression: exp.Expr) -> str:
    if isinstance(expression, exp.Column):
        return expression.name.lower()
    return expression.sql("spark", normalize_functions=False).lower()


def _columns_in(expression: exp.Expr) -> frozenset[str]:
    return frozenset(column.name.lower() for column in expression.find_all(exp.Column))


def _is_star(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Star | exp.Column) and expression.is_star
