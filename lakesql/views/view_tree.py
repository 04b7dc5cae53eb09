"""A SELECT over tables as a tree of values: its blocks, what each reads, and where that
stands among the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sqlglot import exp

Span: TypeAlias = tuple[int, int]
"""The tokens of a piece of the text: the first, and one past the last."""

World: TypeAlias = Literal["old", "new"]
"""All inputs as they were at the last refresh, or as they are now."""

OLD, NEW = "_lakesql_old_", "_lakesql_new_"
"""What the names of the views begin with, and the input's number ends, of all rows of
an input as it was and as it is; of one that has not changed there is the second
alone."""

GONE, COME = "_lakesql_gone_", "_lakesql_come_"
"""The same of the rows by which the two differ."""

JoinKind: TypeAlias = Literal["first", "inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class ViewInput:
    """A table that a SELECT reads: its name as it is written, by its parts, and its
    columns (None: not known) with their types ('' or none: not known)."""

    table: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that a query makes: the first query of a set operation names it, and
    each has an expression for it."""

    name: str
    expression: exp.Expr


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """The columns that a query makes. `is_open`: a star stands for others beside them,
    whose names are not known."""

    columns: tuple[OutputColumn, ...]
    is_open: bool = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in order; None where they are not all known."""
        return None if self.is_open else tuple(column.name for column in self.columns)

    def find(self, name: str) -> OutputColumn | None:
        """The column of a name, whatever its capitals."""
        return next(
            (column for column in self.columns if column.name.lower() == name.lower()),
            None,
        )


@dataclass(eq=False, slots=True)
class ViewItem:
    """One entry of a FROM: an input by its number, a query (a derived table, or a
    common table expression by its name), or what is joined inside brackets; else
    something that does not change, such as VALUES.

    `core` is what another text may take the place of: the name, or the brackets and
    what is in them. `renames` are the columns' names that a common table expression
    gives, `columns` those that the item's own alias gives.
    """

    span: Span
    core: Span
    alias: str
    adds_alias: bool = False
    input: int | None = None
    query: ViewQuery | None = None
    group: tuple[ViewJoin, ...] = ()
    by_name: bool = False
    renames: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def reads(self) -> frozenset[int]:
        """The inputs that it reads."""
        if self.input is not None:
            return frozenset({self.input})
        if self.query is not None:
            return self.query.reads
        return frozenset[int]().union(*(join.item.reads for join in self.group))


@dataclass(eq=False, slots=True)
class ViewJoin:
    """An entry of a FROM and how it is joined to those before it. `condition` is its ON
    or USING."""

    item: ViewItem
    kind: JoinKind
    is_natural: bool = False
    condition: Span | None = None
    is_by_name: bool = False


@dataclass(eq=False, slots=True)
class InnerQuery:
    """A query inside an expression of a block.

    `place` is the clause of the block that it stands in. `is_positive`: it is an
    operand of the WHERE's ANDs and ORs. `is_alone`: it is one of the conditions that
    the WHERE joins by AND. `left` is what stands before IN. `is_correlated`: it looks
    at the row of the block around it.
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
        """The token at which it begins."""
        return self.span[0]


@dataclass(eq=False, slots=True)
class ViewBlock:
    """One SELECT: what it reads, its clauses by their tokens, and what it does with the
    rows."""

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
        """The entries of its FROM, those in brackets one by one."""
        yield from items_of(self.joins)


@dataclass(eq=False, slots=True)
class ViewSet:
    """Queries put together by UNION and the like. `is_all`: by UNION ALL, so that each
    row comes from one of them."""

    branches: tuple[ViewQuery, ...]
    is_all: bool
    outputs: OutputColumns
    span: Span = (0, 0)

    @property
    def reads(self) -> frozenset[int]:
        """The inputs that it reads."""
        return frozenset[int]().union(*(branch.reads for branch in self.branches))


ViewQuery: TypeAlias = ViewBlock | ViewSet


def items_of(joins: tuple[ViewJoin, ...]) -> Iterator[ViewItem]:
    """The entries of a FROM, those in brackets one by one."""
    for join in joins:
        if join.item.group:
            yield from items_of(join.item.group)
        else:
            yield join.item


class CannotKeepError(Exception):
    """A SELECT cannot be kept by what has changed: why, and at which token."""

    def __init__(self, reason: str, token: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.token = token
