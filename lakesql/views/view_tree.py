"""The tree of a SELECT over tables as values: its blocks, what each reads, and the
tokens of each part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

Span: TypeAlias = tuple[int, int]
"""The tokens of a part of the text: the first, and one past the last."""

World: TypeAlias = Literal["old", "new"]
"""The state of all inputs that a query reads: as of the last refresh, or as they are
now."""

OLD, NEW = "_lakesql_old_", "_lakesql_new_"
"""Prefixes of the views of all rows of an input, as of the last refresh and now; the
input's number follows. An input without changes has only the second view."""

GONE, COME = "_lakesql_gone_", "_lakesql_come_"
"""Prefixes of the views of the rows that have left an input, and of those that have
come to it, since the last refresh; the input's number follows."""

JoinKind: TypeAlias = Literal["first", "inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class ViewInput:
    """A table that a SELECT reads: its name by parts, as written, and its columns
    (None: not known) with their types ('' or none: not known)."""

    table: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a query, with the expression that makes it. In a set operation the
    name is that of the first query."""

    name: str
    expression: exp.Expr


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """The columns of a query. `is_open`: it has others whose names are not known, by a
    star. `open_stars` are those of these stars that stand for the columns of entries of
    FROM, each as the names that it does not pass on unchanged, in lower case."""

    columns: tuple[OutputColumn, ...]
    is_open: bool = False
    open_stars: tuple[frozenset[str], ...] = ()

    def passes(self, name: str) -> bool:
        """Whether a column of this name, if the FROM has one, is passed on by a star
        whose columns are not known."""
        return any(name.lower() not in changed for changed in self.open_stars)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in order; None where they are not all known."""
        return None if self.is_open else tuple(column.name for column in self.columns)

    def find(self, name: str) -> OutputColumn | None:
        """The column with this name, case-insensitive; None if there is none."""
        return next(
            (column for column in self.columns if column.name.lower() == name.lower()),
            None,
        )


@dataclass(eq=False, slots=True)
class ViewItem:
    """One entry of a FROM: an input by its number, a query (a derived table, or a
    common table expression by its name), a group of joins in brackets, or else
    something that does not change, such as VALUES.

    `core` are the tokens that another text may replace: the name, or the brackets with
    their contents. `path` are the catalog, the namespace and the name of an input
    without an alias, in lower case, which may qualify its columns. `renames` are the
    column names that WITH gives to a common table expression; `columns` are those of
    the entry's own alias. `names` are the names of its columns, None where they are not
    known.
    """

    span: Span
    core: Span
    alias: str
    adds_alias: bool = False
    path: tuple[str, ...] = ()
    input: int | None = None
    query: ViewQuery | None = None
    group: tuple[ViewJoin, ...] = ()
    by_name: bool = False
    renames: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def reads(self) -> frozenset[int]:
        """The numbers of the inputs that it reads."""
        if self.input is not None:
            return frozenset({self.input})
        if self.query is not None:
            return self.query.reads
        return frozenset[int]().union(*(join.item.reads for join in self.group))


@dataclass(eq=False, slots=True)
class ViewJoin:
    """An entry of a FROM and how it is joined to those before it. `condition` are the
    tokens of its ON or USING."""

    item: ViewItem
    kind: JoinKind
    is_natural: bool = False
    condition: Span | None = None
    is_by_name: bool = False


@dataclass(eq=False, slots=True)
class InnerQuery:
    """A query inside an expression of a block.

    `place` is the clause of the block that it is in. `is_positive`: only ANDs and ORs
    of the WHERE are around it. `is_correlated`: it certainly reads a column of the
    block around it. `left` are the tokens before IN.
    """

    form: Literal["exists", "in", "scalar"]
    query: ViewQuery
    span: Span
    place: str
    is_positive: bool
    is_correlated: bool
    left: Span | None = None

    @property
    def offset_token(self) -> int:
        """The first of its tokens."""
        return self.span[0]


@dataclass(eq=False, slots=True)
class ViewBlock:
    """One SELECT: what it reads, the tokens of its clauses, and whether it groups,
    removes duplicates or has windows."""

    select: exp.Select
    mark: int
    head: Span
    joins: tuple[ViewJoin, ...]
    tail: Span | None
    where: Span | None
    conditions: tuple[Span, ...]
    group: Span | None
    windows: Span | None
    inner: list[InnerQuery]
    outputs: OutputColumns
    is_grouped: bool
    is_distinct: bool
    has_windows: bool
    span: Span = (0, 0)
    reads: frozenset[int] = field(default_factory=frozenset)

    @property
    def items(self) -> Iterator[ViewItem]:
        """The entries of its FROM; a group of joins in brackets as its single
        entries."""
        yield from items_of(self.joins)


@dataclass(eq=False, slots=True)
class ViewSet:
    """Queries that UNION or another set operation combines. `is_all`: by UNION ALL, so
    that each row comes from one of them."""

    branches: tuple[ViewQuery, ...]
    is_all: bool
    outputs: OutputColumns
    span: Span = (0, 0)

    @property
    def reads(self) -> frozenset[int]:
        """The numbers of the inputs that it reads."""
        return frozenset[int]().union(*(branch.reads for branch in self.branches))


ViewQuery: TypeAlias = ViewBlock | ViewSet


def items_of(joins: tuple[ViewJoin, ...]) -> Iterator[ViewItem]:
    """The entries of a FROM; a group of joins in brackets as its single entries."""
    for join in joins:
        if join.item.group:
            yield from items_of(join.item.group)
        else:
            yield join.item


class CannotKeepError(Exception):
    """A SELECT cannot be kept by what has changed: the reason, and the token that shows
    it."""

    def __init__(self, reason: str, token: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token
