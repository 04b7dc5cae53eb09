"""Which output columns determine each key of a SELECT's GROUP BY or DISTINCT: an
upsert's keys must determine all of them, or two rows would have the same key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from lakesql.select.derive import derive_type
from lakesql.select.left_out import excepted
from lakesql.select.relation import Group, Relation, Sources, Walk
from lakesql.select.sqltext import projections
from lakesql.select.windows import rounded_to, window_steps
from lakesql.stream.types import SparkType, parse_type, widens

_WINDOWS = frozenset({"window", "session_window"})
_WINDOW_ENDS = frozenset({"start", "end"})
_HASHES = frozenset({"hash", "xxhash64"})
_KEEPING = (
    *(
        exp.Alias,
        exp.Array,
        exp.Concat,
        exp.ConcatWs,
        exp.DPipe,
        exp.Hex,
        exp.JSONFormat,
        exp.MD5,
    ),
    *(exp.Paren, exp.PropertyEQ, exp.SHA, exp.SHA2, exp.Struct, exp.ToBase64),
)
"""Expressions of which surrogate keys are made: the result differs where an argument
does, except for collisions of hashes."""
_KEEPING_TYPES = frozenset({exp.DType.TEXT, exp.DType.BINARY})
"""Types to which a cast keeps different values different, unless they are several texts
(`_joins_texts`)."""

_Made: TypeAlias = Mapping[str, tuple[exp.Expr, Sources]]
"""The expressions of the columns that SELECTs below make, by name, each with what its
SELECT reads."""


def groups_of(
    select: exp.Select,
    mark: int,
    names: tuple[str, ...] | None,
    sources: Sources,
    read: Relation,
    walk: Walk,
) -> tuple[Group, ...] | None:
    """The groups of an aggregating SELECT whose columns have these names: its keys,
    each with the columns that determine it. None where they cannot be known.

    `read` is what the SELECT reads; a key may be computed from other columns in the
    SELECTs that make it. With ROLLUP, CUBE or GROUPING SETS all of their keys count.
    """
    group = select.args.get("group")
    if group is None:
        return ()
    outputs = _outputs(select, mark, names, walk)
    if outputs is None:
        return None
    aggregates = walk.text.aggregates.get(mark, ())
    plain = {
        name: expression
        for name, (expression, (first, last)) in outputs.items()
        if not any(first <= at < last for at in aggregates)
    }
    keys: list[tuple[str, exp.Expr]] = []
    for key in keys_in(group):
        if isinstance(key, exp.Literal):
            keys += [
                (name, expression)
                for name, (expression, _) in list(outputs.items())[ordinal(key)]
            ]
        else:
            text_of = (
                key.name
                if isinstance(key, exp.Column)
                else key.sql("spark", normalize_functions=False)
            )
            keys.append((text_of, key))
    made = made_below(read, walk)
    below = [(name, expression) for name, (expression, _) in made.items()]
    steps = window_steps(
        [*(("window", key) for _, key in keys), *plain.items(), *below]
    )
    return _groups(
        [*plain.items()] if group.args.get("all") else keys, plain, sources, made, steps
    )


def made_below(read: Relation, walk: Walk) -> dict[str, tuple[exp.Expr, Sources]]:
    """What the columns are made of that the SELECTs below name, by name, each with what
    its SELECT reads."""
    return {
        expression.alias.lower(): (expression.this, sources)
        for select, sources in map(walk.flowing.__getitem__, read.selects)
        for expression in select.expressions
        if isinstance(expression, exp.Alias)
    }


def _outputs(
    select: exp.Select, mark: int, names: tuple[str, ...] | None, walk: Walk
) -> dict[str, tuple[exp.Expr, tuple[int, int]]] | None:
    """The columns of a SELECT by name, each with its expression and its tokens; None
    where they are not known. A star is expanded into the columns that it stands for."""
    spans, expressions = projections(walk.text, mark), select.expressions
    stars = sum(map(_is_star, expressions))
    if (
        names is None
        or len(spans) != len(expressions)
        or stars > 1
        or select.find(exp.Aliases)
    ):
        return None
    if not stars and len(names) != len(expressions):
        return None
    left, outputs = list(names), {}
    for expression, span in zip(expressions, spans, strict=True):
        count = 1 + len(names) - len(expressions) if _is_star(expression) else 1
        for name in left[:count]:
            outputs[name] = (
                exp.column(name) if _is_star(expression) else expression,
                span,
            )
        left = left[count:]
    return outputs


def keys_in(group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of a GROUP BY, including those in its ROLLUP, CUBE and GROUPING SETS."""
    left = [*group.expressions]
    for sets in _SETS:
        left += group.args.get(sets) or ()
    while left:
        key = left.pop(0)
        if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            left = [*(inner.unnest() for inner in key.expressions), *left]
        else:
            yield key


_SETS = ("rollup", "cube", "grouping_sets")


def is_sets(group: exp.Expr) -> bool:
    """Whether a GROUP BY has ROLLUP, CUBE or GROUPING SETS, where NULL in a key also
    means all of its values."""
    return any(group.args.get(key) for key in (*_SETS, "totals")) or any(
        isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets)
        for key in group.expressions
    )


def ordinal(key: exp.Expr) -> slice:
    """The slice of the SELECT's columns that a key of GROUP BY names by its number: one
    column, or none if the key is no number."""
    is_number = (
        isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit()
    )
    return slice(int(key.name) - 1, int(key.name)) if is_number else slice(0)


def named_keys(select: exp.Select, sources: Sources) -> Iterator[exp.Expr]:
    """The expressions of a SELECT's GROUP BY; a number or an alias is replaced by the
    column that it names."""
    group = select.args.get("group")
    if group is None:
        return
    aliased = {
        it.alias.lower(): it.this
        for it in select.expressions
        if isinstance(it, exp.Alias)
    }
    for key in group.expressions:
        if named := select.expressions[ordinal(key)]:
            yield named[0].unalias()
        elif isinstance(key, exp.Column) and not _is_read(key, sources):
            yield aliased.get(key.name.lower(), key)
        else:
            yield key


def _is_read(key: exp.Column, sources: Sources) -> bool:
    """Whether a key is certainly a column of what the SELECT reads, which precedes an
    alias of the same name."""
    if key.table:
        return True
    return any(key.name.lower() in (source.index or {}) for _, source in sources)


def distinct_groups(
    select: exp.Select, names: tuple[str, ...] | None, sources: Sources
) -> tuple[Group, ...] | None:
    """The groups of SELECT DISTINCT: one for each column. None where the columns are
    not known."""
    if names is None:
        return None
    if len(names) != len(select.expressions) or any(map(_is_star, select.expressions)):
        return tuple(Group(name, frozenset({name.lower()})) for name in names)
    outputs = dict(zip(names, select.expressions, strict=True))
    return _groups(list(outputs.items()), outputs, sources, {})


def groups_through(
    select: exp.Select, names: tuple[str, ...] | None, sources: Sources, walk: Walk
) -> tuple[Group, ...] | None:
    """The groups of the one relation of streams that a SELECT reads, each with the
    columns of the SELECT that determine it; None where they are not known."""
    flowing = next(source for _, source in sources if source.streams)
    if names is None or flowing.groups is None or flowing.named is None:
        return None
    stars = [each for each in select.expressions if _is_star(each)]
    beside = _beside(select, sources, flowing)
    below = [
        expression
        for mark in flowing.selects
        for expression in walk.flowing[mark][0].expressions
    ]
    steps = window_steps(
        (expression.alias, expression) for expression in below if expression.alias
    )
    kept = {
        name.lower(): _kept(beside.own_of(expression), sources, steps=steps)
        for name, expression in _single_columns(select, names)
    }
    found = []
    for group in flowing.groups:
        told_by = {name for name, parts in kept.items() if parts & group.told_by}
        passed = {
            name
            for star in stars
            for name in beside.passed(star, group.told_by)
            if name not in excepted(star, sources, flowing).columns
        } & {*map(str.lower, names)}
        found.append(Group(group.text, frozenset(told_by | passed)))
    return tuple(found)


def _single_columns(
    select: exp.Select, names: tuple[str, ...]
) -> Iterator[tuple[str, exp.Expr]]:
    """The expressions of a SELECT that are one column each, with its name: no stars,
    and no generators of several.

    `names` are those of all its columns; an expression without an alias has its name
    from there.
    """
    is_one_each = len(names) == len(select.expressions)
    for index, expression in enumerate(select.expressions):
        if _is_star(expression) or isinstance(expression, exp.Aliases):
            continue
        yield names[index] if is_one_each else expression.alias_or_name, expression


@dataclass(frozen=True, slots=True)
class _Beside:
    """The other relations that a SELECT reads beside the one that has the columns
    `own`. `names` are their names; `equal` has those of their columns, by qualifier and
    name, that a join makes equal to a column of the one."""

    names: frozenset[str]
    own: frozenset[str]
    equal: Mapping[tuple[str, str], str]

    def is_own(self, column: exp.Column) -> bool:
        """Whether this is a column of the one relation itself."""
        return (
            column.name.lower() in self.own
            if not column.table
            else column.table.lower() not in self.names
        )

    def own_of(self, expression: exp.Expr) -> exp.Expr:
        """The expression over columns of the one relation alone: columns of others
        become the column that they are equal to, or else NULL."""
        return expression.transform(
            lambda part: (
                self._own_column(part) if isinstance(part, exp.Column) else part
            )
        )

    def _own_column(self, column: exp.Column) -> exp.Expr:
        if self.is_own(column):
            return column
        equal = self.equal.get(_path(column))
        return exp.column(equal) if equal is not None else exp.Null()

    def passed(self, star: exp.Expr, columns: frozenset[str]) -> frozenset[str]:
        """The names under which a star gives these columns of the one relation."""
        qualifier = star.table.lower() if isinstance(star, exp.Column) else ""
        equal = {
            name
            for (of, name), own in self.equal.items()
            if own in columns and qualifier in ("", of)
        }
        return columns | equal if qualifier not in self.names else frozenset(equal)


def _beside(select: exp.Select, sources: Sources, flowing: Relation) -> _Beside:
    """The other relations in the FROM, and which of their columns a join makes equal to
    a column of `flowing`."""
    names = frozenset(
        name.lower() for name, source in sources if name and source is not flowing
    )
    own = frozenset(column.folded for column in flowing.named or ())
    beside, equal = _Beside(names, own, {}), {}
    for join in select.args.get("joins") or ():
        for shared in join.args.get("using") or ():
            equal.update(
                {(name, shared.name.lower()): shared.name.lower() for name in names}
            )
        on = (join.args.get("on") or exp.Null()).unnest()
        for condition in on.flatten() if isinstance(on, exp.And) else (on,):
            sides = (
                (condition.left, condition.right)
                if isinstance(condition, exp.EQ | exp.NullSafeEQ)
                else ()
            )
            columns = [side for side in sides if isinstance(side, exp.Column)]
            ours = [column for column in columns if beside.is_own(column)]
            theirs = [column for column in columns if not beside.is_own(column)]
            if ours and theirs:
                equal[_path(theirs[0])] = ours[0].name.lower()
    return _Beside(names, own, equal)


def _path(column: exp.Column) -> tuple[str, str]:
    return column.table.lower(), column.name.lower()


def _groups(
    keys: list[tuple[str, exp.Expr]],
    plain: Mapping[str, exp.Expr],
    sources: Sources,
    made: _Made,
    steps: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Group, ...]:
    """The keys as groups, each with the `plain` columns that determine it. Constants
    are left out.

    `made` are the expressions of columns of SELECTs below; `steps` the microseconds
    between windows, by the names of their columns.
    """
    kept = {}
    for name, expression in plain.items():
        # GROUP BY resolves a name to an alias only if no column below has that name
        is_alias = name.lower() not in _columns_in(expression)
        own = frozenset({name.lower()}) if is_alias else frozenset[str]()
        kept[name.lower()] = _kept(expression, sources, made, steps) | own
    groups = []
    for text, key in keys:
        if ways := _ways_to_tell(key, plain):
            told_by = frozenset(
                name
                for name, parts in kept.items()
                if any(way <= parts for way in ways)
            )
            groups.append(Group(text, told_by))
    return tuple(groups)


def _ways_to_tell(key: exp.Expr, plain: Mapping[str, exp.Expr]) -> list[frozenset[str]]:
    """The sets of expressions that determine a key: a column that keeps all of one set
    differs wherever the key does."""
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


def _kept(
    expression: exp.Expr,
    sources: Sources,
    made: _Made | None = None,
    steps: Mapping[str, int] = MappingProxyType({}),
) -> frozenset[str]:
    """The parts of an expression that it keeps: where the value of such a part differs,
    the value of the whole differs too.

    A column is represented by its name, any other part by its text. The start or the
    end of a window keeps the window.
    """
    kept: set[str] = set()
    left = [(expression, sources)]
    while left:
        part, of = left.pop()
        text = _text_of(part)
        if text in kept:
            continue
        kept.add(text)
        if isinstance(part, exp.Column):
            left += [made[text]] if made and text in made else []
        if (window := _window_of(part)) is not None:
            left.append((window, of))
        else:
            left += ((inner, of) for inner in _parts_kept(part, of, steps))
    return frozenset(kept)


def _parts_kept(
    part: exp.Expr, sources: Sources, steps: Mapping[str, int]
) -> list[exp.Expr]:
    """The direct parts of an expression that it keeps."""
    if (end := _rounded_end(part, steps)) is not None:
        return [end]
    match part:
        case exp.Cast():
            return [part.this] if _keeps(part, sources) else []
        case exp.Coalesce() if not any(map(_columns_in, part.expressions)):
            return [part.this]
        # Spark reads `a || b + c` as `(a || b) + c`
        case exp.DPipe(expression=exp.Add() | exp.Sub()):
            return []
        case _ if isinstance(part, _KEEPING) or (
            isinstance(part, exp.Anonymous) and part.name.lower() in _HASHES
        ):
            return [
                inner
                for inner in part.iter_expressions()
                if not isinstance(inner, exp.Identifier)
            ]
        case _:
            return []


def _rounded_end(part: exp.Expr, steps: Mapping[str, int]) -> exp.Expr | None:
    """The start or end of a window that an expression rounds, if the result still
    differs from window to window; else None."""
    found = rounded_to(part)
    if found is None:
        return None
    end, size = found[0].unnest(), found[1]
    window = _window_of(end)
    if window is None:
        return None
    if size == 1:
        return end
    step = steps.get(window.name.lower(), 0)
    return end if step and step % size == 0 else None


def _keeps(cast: exp.Cast, sources: Sources) -> bool:
    """Whether two different values are still different after this cast, as far as the
    type before it is known."""
    before, after = derive_type(cast.this, sources), parse_type(cast.to.sql("spark"))
    if cast.to.this in _KEEPING_TYPES:
        return before is None or not _joins_texts(before)
    return (
        before is not None
        and after is not None
        and (before == after or widens(before, after))
    )


def _joins_texts(kind: SparkType) -> bool:
    """Whether different values of a type may become the same text, as nested values
    with strings do: `{a, b}` may be a struct of one string or of two."""
    if kind.name not in ("array", "map", "struct"):
        return False
    return any(
        field.type.name in ("string", "char", "varchar") or _joins_texts(field.type)
        for field in kind.fields
    )


def _window_of(expression: exp.Expr) -> exp.Expr | None:
    """The window of which an expression is the start or the end; None for any other
    expression."""
    if (
        not isinstance(expression, exp.Column | exp.Dot)
        or expression.name.lower() not in _WINDOW_ENDS
    ):
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
