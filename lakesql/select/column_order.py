"""Where a SELECT depends on the order of the columns that it reads: a `*` among
arguments or in a UNION, lists of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lakesql.select.left_out import without_excepted
from lakesql.select.ordinals import has_ordinals
from lakesql.select.relation import (
    Sources,
    columns_of_one,
    columns_side_by_side,
    offset_of,
)
from lakesql.select.selects_read import SelectRead, SelectsRead


@dataclass(frozen=True, slots=True)
class OrderedColumns:
    """Columns whose order matters in one place of a SELECT, at `offset`; `names` is
    None if they are not known.

    `takes_all`: all of them become a part of one value, so that an additional column
    matters too, and the case of names.
    """

    names: tuple[str, ...] | None
    takes_all: bool
    offset: int

    def differs(self, former: OrderedColumns) -> bool:
        """Whether there are other columns here than in the former version, or the same
        ones in other positions."""
        if self.names is None or former.names is None:
            return self.names is not former.names
        if self.takes_all:
            return self.names != former.names
        return is_moved(former.names, self.names)


def find_ordered_columns(read: SelectsRead) -> tuple[OrderedColumns, ...]:
    """The places of a text where the order of columns matters, in the order of the
    text."""
    found: list[OrderedColumns] = []
    for select in read.selects:
        found += _stars(select, read)
        found += _renamed(select, read)
    return tuple(found)


def is_moved(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a column that both have is in another position. Names are
    case-insensitive."""
    places = {name.lower(): place for place, name in enumerate(before)}
    return any(
        places.get(name.lower(), place) != place for place, name in enumerate(after)
    )


def _stars(select: SelectRead, read: SelectsRead) -> Iterator[OrderedColumns]:
    """The stars of a SELECT for which the order of columns matters."""
    is_placed = _is_placed(select.select)
    for node in select.parts(exp.Star):
        star = node.parent if isinstance(node.parent, exp.Column) else node
        if isinstance(star.parent, exp.Count) and star is node:
            continue
        takes_all = star.parent is not select.select
        if takes_all or is_placed:
            offset = read.text.tokens[select.mark].start
            yield OrderedColumns(
                _names_of(star, select.sources),
                takes_all,
                offset_of(star, offset),
            )


def _is_placed(select: exp.Select) -> bool:
    """Whether the position of a SELECT's columns matters: in a UNION that is not BY
    NAME, behind IN, under a list of column names, or with ordinals."""
    if has_ordinals(select):
        return True
    query: exp.Expr = select
    while isinstance(query.parent, exp.Subquery | exp.SetOperation):
        query = query.parent
        is_paired = isinstance(query, exp.SetOperation) and not query.args.get(
            "by_name"
        )
        if is_paired or has_ordinals(query) or _has_names(query):
            return True
    return isinstance(query.parent, exp.In) or _has_names(query.parent)


def _has_names(query: exp.Expr | None) -> bool:
    """Whether an alias with a list of names renames the columns of a relation: `t(a,
    b)`."""
    alias = query.args.get("alias") if query is not None else None
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)


def _renamed(select: SelectRead, read: SelectsRead) -> Iterator[OrderedColumns]:
    """The tables of a FROM whose columns a list of names renames."""
    for table in select.parts(exp.Table):
        if (
            not isinstance(table, exp.Table)
            or not _has_names(table)
            or isinstance(table.this, exp.Func)
        ):
            continue
        parts = tuple(part.name.lower() for part in table.parts)
        names = read.tables.get(parts)
        yield OrderedColumns(
            names, False, offset_of(table, read.text.tokens[select.mark].start)
        )


def _names_of(star: exp.Expr, sources: Sources) -> tuple[str, ...] | None:
    """The names of the columns that a star stands for; None where they are not
    known."""
    known = [(name, replace(source, columns=source.named)) for name, source in sources]
    relations = [source for _, source in known]
    columns = columns_side_by_side(relations)
    if isinstance(star, exp.Column):
        of = star.table.lower()
        one = next((source for name, source in known if name.lower() == of), None)
        columns = columns_of_one(relations, one) if one is not None else None
    if columns is None:
        return None
    return tuple(
        column.name or "" for column, _ in without_excepted(columns, star, known)
    )
