"""Which columns, and which fields of columns, `* EXCEPT (…)` leaves out of a star."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from lakesql.select.relation import QueryColumn, Relation, Sources

Qualifier = tuple[str, ...]
"""The parts, in lower case, by which a column of a relation may be qualified."""

Named = tuple[str, tuple[str, ...]]
"""A relation's name in FROM, '' if it has none, and the parts of the name of its table,
in lower case; none of another relation."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What an EXCEPT leaves out of one relation, in lower case: `columns` as a whole,
    and `fields`, by the names on the way to them, of columns that stay."""

    columns: frozenset[str]
    fields: frozenset[tuple[str, ...]]

    @property
    def without_fields(self) -> frozenset[str]:
        """The columns that stay without one of their fields."""
        return frozenset(path[0] for path in self.fields)


def without_excepted(
    columns: Iterable[QueryColumn], star: exp.Expr, sources: Sources
) -> Iterator[tuple[QueryColumn, bool]]:
    """Those of the columns of a star that its EXCEPT does not leave out, each with
    whether all of its fields stay."""
    dropped: set[int] = set()
    partial: set[int] = set()
    for _, source in sources:
        left_out = excepted(star, sources, source)
        for column in source.columns or ():
            if column.folded in left_out.columns:
                dropped.add(id(column))
            elif column.folded in left_out.without_fields:
                partial.add(id(column))
    for column in columns:
        if id(column) not in dropped:
            yield column, id(column) not in partial


def excepted(star: exp.Expr, sources: Sources, one: Relation) -> LeftOut:
    """What the EXCEPT of a star over these sources leaves out of one of them."""
    own = [(name, source.path) for name, source in sources if source is one]
    return left_out_of(star, own, [(name, source.path) for name, source in sources])


def left_out_of(
    star: exp.Expr, own: Iterable[Named], named: Iterable[Named]
) -> LeftOut:
    """What the EXCEPT of a star leaves out of the relation with the names `own`;
    `named` are the names of all relations of its FROM. As in Spark, a name that may
    begin with a qualifier does so, and one without a qualifier is of any relation."""
    mine = {qualifier for each in own for qualifier in qualifiers_of(*each)}
    known = {qualifier for each in named for qualifier in qualifiers_of(*each)}
    columns: set[str] = set()
    fields: set[tuple[str, ...]] = set()
    for item in _items(star):
        qualifier, path = _split(_path(item), known)
        if qualifier and qualifier not in mine:
            continue
        if len(path) == 1:
            columns.add(path[0])
        else:
            fields.add(path)
    return LeftOut(frozenset(columns), frozenset(fields))


def qualifiers_of(name: str, path: tuple[str, ...]) -> Iterator[Qualifier]:
    """The qualifiers of the columns of a relation: its alias, or its name with
    namespace and catalog, the `path`."""
    if name:
        yield (name.lower(),)
    for start in range(len(path) - 1):
        yield path[start:]


def is_left_out(node: exp.Expr) -> bool:
    """Whether a column stands in the EXCEPT of a star, so that it is not read there."""
    return isinstance(node.find_ancestor(exp.Star, exp.Query), exp.Star)


def _items(star: exp.Expr) -> list[exp.Expr]:
    inner = star.this if isinstance(star, exp.Column) else star
    return inner.args.get("except_") or []


def _path(item: exp.Expr) -> tuple[str, ...]:
    parts = item.parts if isinstance(item, exp.Column | exp.Dot) else [item]
    return tuple(part.name.lower() for part in parts)


def _split(
    path: tuple[str, ...], qualifiers: Collection[Qualifier]
) -> tuple[Qualifier, tuple[str, ...]]:
    """The qualifier of a name, () if it has none, and the rest of it."""
    for depth in range(1, len(path)):
        if path[:depth] in qualifiers:
            return path[:depth], path[depth:]
    return (), path
