"""Which columns of a SELECT tell the groups of its aggregate apart: an upsert's keys
must, or two rows have one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from lakesql.select.derive import derive_type
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
"""What surrogate keys are made with: the result differs where an argument does,
collisions left out of account."""
_KEEPING_TYPES = frozenset({exp.DType.TEXT, exp.DType.BINARY})
"""What may be cast to in the same way, whatever is cast."""

_Made: TypeAlias = Mapping[str, tuple[exp.Expr, Sources]]
"""What columns are made of, by name, each with what its SELECT reads."""


def groups_of(
    select: exp.Select,
    mark: int,
    names: tuple[str, ...] | None,
    sources: Sources,
    read: Relation,
    walk: Walk,
) -> tuple[Group, ...] | None:
    """The groups of an aggregating SELECT whose columns have these names; None where
    they cannot be told.

    A key may be made of others in the SELECTs that make what it has `read`. With
    ROLLUP, CUBE or GROUPING SETS all of their keys are.
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
    for key in _keys_of(group):
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
    made = {
        expression.alias.lower(): (expression.this, sources_below)
        for select_below, sources_below in map(walk.flowing.__getitem__, read.selects)
        for expression in select_below.expressions
        if isinstance(expression, exp.Alias)
    }
    below = [(name, expression) for name, (expression, _) in made.items()]
    steps = window_steps(
        [*(("window", key) for _, key in keys), *plain.items(), *below]
    )
    return _groups(
        [*plain.items()] if group.args.get("all") else keys, plain, sources, made, steps
    )


def _outputs(
    select: exp.Select, mark: int, names: tuple[str, ...] | None, walk: Walk
) -> dict[str, tuple[exp.Expr, tuple[int, int]]] | None:
    """The columns of a SELECT by name, each with its expression and the tokens of it;
    None where they cannot be told.

    A star is a column for each of those that it stands for.
    """
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


def _keys_of(group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of a GROUP BY, those in its ROLLUP, CUBE and GROUPING SETS too."""
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
    """Whether a GROUP BY has ROLLUP, CUBE or GROUPING SETS, in whose rows a NULL stands
    for all values of a key."""
    return any(group.args.get(key) for key in (*_SETS, "totals")) or any(
        isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets)
        for key in group.expressions
    )


def ordinal(key: exp.Expr) -> slice:
    """Which of the SELECT's columns a key of GROUP BY means by its number: one, or
    none."""
    is_number = (
        isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit()
    )
    return slice(int(key.name) - 1, int(key.name)) if is_number else slice(0)


def distinct_groups(
    select: exp.Select, names: tuple[str, ...] | None, sources: Sources
) -> tuple[Group, ...] | None:
    """The groups of SELECT DISTINCT: each column is one."""
    if names is None:
        return None
    if len(names) != len(select.expressions) or any(map(_is_star, select.expressions)):
        return tuple(Group(name, frozenset({name.lower()})) for name in names)
    outputs = dict(zip(names, select.expressions, strict=True))
    return _groups(list(outputs.items()), outputs, sources, {})


def groups_through(
    select: exp.Select, names: tuple[str, ...] | None, sources: Sources, walk: Walk
) -> tuple[Group, ...] | None:
    """The groups of the one relation of streams that the SELECT reads, as its own
    columns tell them."""
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
            name for star in stars for name in beside.passed(star, group.told_by)
        } & {*map(str.lower, names)}
        found.append(Group(group.text, frozenset(told_by | passed)))
    return tuple(found)


def _single_columns(
    select: exp.Select, names: tuple[str, ...]
) -> Iterator[tuple[str, exp.Expr]]:
    """The expressions of a SELECT that are one column each, by its name: no stars, and
    no generators of several.

    `names` are those of all its columns, from which an expression without a name of its
    own has one.
    """
    is_one_each = len(names) == len(select.expressions)
    for index, expression in enumerate(select.expressions):
        if _is_star(expression) or isinstance(expression, exp.Aliases):
            continue
        yield names[index] if is_one_each else expression.alias_or_name, expression


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a SELECT reads beside one relation, which has the columns `own`: the names
    of it, and which of its columns, each by what qualifies it and its name, are equal
    to a column of the relation."""

    names: frozenset[str]
    own: frozenset[str]
    equal: Mapping[tuple[str, str], str]

    def is_own(self, column: exp.Column) -> bool:
        """Whether this is a column of the relation itself."""
        return (
            column.name.lower() in self.own
            if not column.table
            else column.table.lower() not in self.names
        )

    def own_of(self, expression: exp.Expr) -> exp.Expr:
        """The expression with its own columns only: those that are equal to one are
        that, others are NULL."""
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
        """The names that a star gives these columns of the relation."""
        qualifier = star.table.lower() if isinstance(star, exp.Column) else ""
        equal = {
            name
            for (of, name), own in self.equal.items()
            if own in columns and qualifier in ("", of)
        }
        return columns | equal if qualifier not in self.names else frozenset(equal)


def _beside(select: exp.Select, sources: Sources, flowing: Relation) -> _Beside:
    """What stands beside the relation in FROM, and which of its columns the JOINs say
    to be equal to one of its own."""
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
    """The keys as groups, each with those of the `plain` columns that tell it apart.
    Constants are no groups.

    `made` is what columns below are made of, `steps` how far apart the windows are, by
    the names of their columns.
    """
    kept = {}
    for name, expression in plain.items():
        # GROUP BY takes a name for the alias of a column only where no column below has
        # it.
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
    """The sets of parts of which an expression must keep one whole, to differ where the
    key does."""
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
    """The parts of an expression that it differs with: whatever other value one takes,
    the whole takes another too.

    A column is its name, anything else its text. A start or an end of a window keeps
    the window.
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
    """The direct parts of an expression that it differs with."""
    if (end := _rounded_end(part, steps)) is not None:
        return [end]
    match part:
        case exp.Cast():
            return [part.this] if _keeps(part, sources) else []
        case exp.Coalesce() if not any(map(_columns_in, part.expressions)):
            return [part.this]
        # to Spark `a || b + c` is `(a || b) + c`
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
    """The start or end of a window that an expression rounds so that it still differs
    from window to window."""
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
    """Whether two values that differ do so after this cast, as far as the type of what
    is cast is known."""
    before, after = derive_type(cast.this, sources), parse_type(cast.to.sql("spark"))
    if cast.to.this in _KEEPING_TYPES:
        return before is None or not _joins_texts(before)
    return (
        before is not None
        and after is not None
        and (before == after or widens(before, after))
    )


def _joins_texts(kind: SparkType) -> bool:
    """Whether values of a type that hold several texts may be one text: {a, b} is a
    struct of two, or of one."""
    if kind.name not in ("array", "map", "struct"):
        return False
    return any(
        field.type.name in ("string", "char", "varchar") or _joins_texts(field.type)
        for field in kind.fields
    )


def _window_of(expression: exp.Expr) -> exp.Expr | None:
    """The window of which an expression is the start or the end."""
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
