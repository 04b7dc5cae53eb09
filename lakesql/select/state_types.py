"""Which types and columns Spark keeps in its state store for a SELECT: it refuses, or
misreads, state of other ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from sqlglot import exp

from lakesql.select.columns import starred
from lakesql.select.derive import derive_type, sum_type
from lakesql.select.groups import named_keys
from lakesql.select.left_out import excepted, is_left_out
from lakesql.select.relation import Relation, Sources, Walk, mark_of
from lakesql.select.same_state import UNKNOWN_TYPES

_COUNTS = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_DOUBLES = (
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
    exp.Corr,
)


def state_types(walk: Walk, tree: exp.Query) -> str:
    """Short hashes of the types of each part of the state, in the order of the SELECTs:
    of each key and each aggregate, of the columns of DISTINCT, and of the columns of
    each side of a join of streams."""
    parts: list[str] = []
    for mark in sorted(walk.flowing.keys() & walk.shapes.keys()):
        select, sources = walk.flowing[mark]
        is_grouped = select.args.get("group") is not None
        if is_grouped or mark in walk.text.aggregates:
            parts += [_typed([key], sources) for key in named_keys(select, sources)]
            parts += [_buffer(call, sources) for call in _own(select, exp.AggFunc)]
        if select.args.get("distinct"):
            parts.append(_typed(select.expressions, sources))
        flowing = [(name, source) for name, source in sources if source.streams]
        if len(flowing) > 1:
            is_whole = mark == mark_of(tree) or any(
                each.is_star for each in tree.selects
            )
            parts += [
                _side(select, name, source, sources, is_whole)
                for name, source in flowing
            ]
    return ",".join(parts)


def _hash(types: str) -> str:
    return hashlib.sha256(types.encode()).hexdigest()[:8]


def _typed(expressions: Iterable[exp.Expr], sources: Sources) -> str:
    """A hash of the types of expressions over `sources`, or `UNKNOWN_TYPES`. A star has
    the types of all columns that it stands for."""
    types: list[str] = []
    for expression in expressions:
        if expression.is_star:
            columns = _starred(expression, sources)
            if columns is None:
                return UNKNOWN_TYPES
            types += columns
            continue
        kind = derive_type(expression.unalias(), sources)
        if kind is None:
            return UNKNOWN_TYPES
        types.append(kind.text)
    return _hash(",".join(types))


def _starred(star: exp.Expr, sources: Sources) -> list[str] | None:
    """The types of the columns that a star stands for, without those that its EXCEPT
    leaves out; None where one is not known."""
    over = starred(star, sources)
    if not over:
        kind = derive_type(star, sources)  # of the struct whose fields it stands for
        return None if kind is None else [kind.text]
    types: list[str] = []
    for source in over:
        if source.columns is None:
            return None
        left_out = excepted(star, sources, source)
        for column in source.columns:
            if column.folded in left_out.columns:
                continue
            if column.type is None:
                return None
            types.append(column.type.text)
    return types


def _own(select: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of this kind in the SELECT itself, without those in queries inside
    it."""
    return (part for part in select.find_all(kind) if part.parent_select is select)


def _buffer(call: exp.Expr, sources: Sources) -> str:
    """A hash of the type that Spark keeps for an aggregate, or `UNKNOWN_TYPES`."""
    inner = call.this
    if isinstance(call, _COUNTS):
        return _hash("bigint")
    if isinstance(call, _DOUBLES):
        return _hash("double")
    if isinstance(call, exp.Sum | exp.Avg) and isinstance(inner, exp.Expr):
        kind = derive_type(inner, sources)
        kept = sum_type(kind)
        if kind is None or kept is None:
            return UNKNOWN_TYPES
        # Spark sums short decimals as unscaled integers, so the scale decides what the
        # state means.
        return _hash(
            "double"
            if isinstance(call, exp.Avg) and kept.name == "bigint"
            else kept.text
        )
    arguments = [inner, call.args.get("expression")]
    return _typed([each for each in arguments if isinstance(each, exp.Expr)], sources)


def _side(
    select: exp.Select, name: str, source: Relation, sources: Sources, is_whole: bool
) -> str:
    """A hash of the columns that a join of streams keeps for one side: those that the
    SELECT names, or that its star stands for."""
    if source.columns is None:
        return UNKNOWN_TYPES
    given = {
        column.folded
        for star in select.expressions
        if is_whole and star.is_star and _gives(star, name)
        for column in source.columns
        if column.folded not in excepted(star, sources, source).columns
    }
    named = {
        column.name.lower()
        for column in _kept_columns(select)
        if not column.table or _is_of(column, name)
    }
    for join in select.args.get("joins") or ():
        named |= {
            identifier.name.lower() for identifier in join.args.get("using") or ()
        }
    kept = [column for column in source.columns if column.folded in given | named]
    if any(column.type is None for column in kept):
        return UNKNOWN_TYPES
    return _hash(
        ",".join(f"{it.folded} {it.type.text}" for it in kept if it.type is not None)
    )


def _kept_columns(select: exp.Select) -> Iterator[exp.Column]:
    """The columns that a SELECT names, without those in a condition of WHERE on one
    side alone, which Spark applies before the join."""
    where = select.args.get("where")
    left_out: set[int] = set()
    for condition in (
        where.this.flatten()
        if where is not None and isinstance(where.this, exp.And)
        else [where]
    ):
        columns = [*condition.find_all(exp.Column)] if condition is not None else []
        if len({column.table.lower() for column in columns}) == 1 and columns[0].table:
            left_out |= {id(column) for column in columns}
    for column in _own(select, exp.Column):
        is_kept = id(column) not in left_out and not is_left_out(column)
        if isinstance(column, exp.Column) and is_kept:
            yield column


def _gives(star: exp.Expr, name: str) -> bool:
    return not isinstance(star, exp.Column) or not star.table or _is_of(star, name)


def _is_of(column: exp.Column, name: str) -> bool:
    return column.table.lower() == name.lower()
