"""What a query is to the one that reads it: its columns, its streams, and where the
source position stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakesql.select.sqltext import Findings, Text
from lakesql.stream.types import SparkType, parse_type


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What is known of a declared stream: its columns (None: nothing), its watermark's
    column, the columns' types.

    `event_time` is what the watermark is on where that is a field of a struct or an
    expression, and `event_type` its type, '' where only Spark knows it. `of` is the
    stream whose view it is, where that has another name.
    """

    columns: tuple[str, ...] | None
    watermark: str | None
    types: tuple[str, ...] = ()
    event_time: str | None = None
    event_type: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of a relation. `stream` and `column` say that it is plainly this column
    of this stream.

    `change` is the field of `_change` that it plainly is.
    `name` is None where Spark would make one up. `event_time` says that Spark finds the
    stream's watermark in it. `type` is None where only Spark's analyzer knows it.
    `shape` is the same with what is known of its parts: the fields of a struct, the
    elements of an array.
    `is_made_up`: Spark makes up the name, so it is none to land under; where it is None
    too, it may be a plain word. `made` is the same for columns that are passed on as
    they are: of two names for one such there is no doubt.
    """

    name: str | None
    offset: int
    stream: str | None = None
    column: str | None = None
    cast: str | None = None
    event_time: bool = False
    type: SparkType | None = None
    change: str | None = None
    shape: SparkType | None = None
    is_made_up: bool = False
    made: object = field(default_factory=object, compare=False)

    @property
    def known(self) -> SparkType | None:
        """What is known of its type."""
        return self.shape or self.type

    @property
    def folded(self) -> str:
        """Its name in small letters; empty where Spark would make one up."""
        return (self.name or "").lower()


def typed_columns(columns: Iterable[tuple[str, str | None]]) -> tuple[QueryColumn, ...]:
    """The columns of a table, by their names and the texts of their types, which may
    not be known."""
    return tuple(
        QueryColumn(name, 0, type=parse_type(kind or "")) for name, kind in columns
    )


@dataclass(frozen=True, slots=True)
class Carried:
    """Where a relation has `_lakesql_position`: so many columns from the left, put
    there or by a star."""

    by: str
    index: int


@dataclass(frozen=True, slots=True)
class Group:
    """A key of GROUP BY, or a column of DISTINCT. `told_by` are the columns, in small
    letters, of which each differs where the key does."""

    text: str
    told_by: frozenset[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """What a FROM can read. `columns` is None where they cannot be known without asking
    the catalog.

    `nested`: it aggregates the rows of an aggregate. `joined`: streams are joined with
    each other.
    `source` is the one stream that any column name means, when its columns are unknown
    and nothing else is read. `groups`: one row for each of them, in a batch. None where
    that is not known.
    `selects` are the SELECTs of streams that it is made of, each by its mark.
    `using` are the columns by which it is joined to what stands left of it: `*` has
    them once, and first. `offered` are the columns that names may mean where `columns`
    is None: a model's table has those of its SELECT, and perhaps more.
    `added` are the columns of lakesql's that `*` gives of it too: `_record` and
    `_change`, where they are used. `path` is what it is called by its catalog and
    namespace, in small letters, where it has no alias.
    """

    columns: tuple[QueryColumn, ...] | None = None
    streams: tuple[str, ...] = ()
    stateful: bool = False
    aggregated: bool = False
    nested: bool = False
    joined: bool = False
    by_event_time: bool = False
    carried: Carried | None = None
    source: str | None = None
    groups: tuple[Group, ...] | None = None
    selects: frozenset[int] = frozenset()
    using: tuple[str, ...] = ()
    offered: tuple[QueryColumn, ...] | None = None
    added: frozenset[str] = frozenset()
    path: tuple[str, ...] = ()
    _index: Mapping[str, tuple[QueryColumn, ...]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def named(self) -> tuple[QueryColumn, ...] | None:
        """The columns that names may mean; None where they cannot be known."""
        return self.offered if self.columns is None else self.columns

    @property
    def index(self) -> Mapping[str, tuple[QueryColumn, ...]] | None:
        """The columns that names may mean, by name in small letters; None where they
        cannot be known."""
        if self._index is None and self.named is not None:
            index: dict[str, tuple[QueryColumn, ...]] = {}
            for column in self.named:
                same = index.get(column.folded, ())
                if all(column.made is not other.made for other in same):
                    index[column.folded] = (*same, column)
            object.__setattr__(self, "_index", index)
        return self._index

    @property
    def by_name(self) -> Mapping[str, QueryColumn] | None:
        """The last column of each name, by the name in small letters; None where the
        columns, or the name that Spark gives to one, are not known."""
        index = self.index
        return (
            None
            if index is None or "" in index
            else {name: found[-1] for name, found in index.items()}
        )


def columns_side_by_side(
    relations: Iterable[Relation],
) -> tuple[QueryColumn, ...] | None:
    """The columns that `*` gives of the relations of a FROM; None where some are not
    known."""
    columns: list[QueryColumn] = []
    for relation in relations:
        if relation.columns is None:
            return None
        own = [
            column for column in relation.columns if column.folded not in relation.using
        ]
        columns = [*_with_first(columns, relation.using), *own]
    return tuple(columns)


def columns_of_one(
    relations: Iterable[Relation], one: Relation
) -> tuple[QueryColumn, ...] | None:
    """The columns that `t.*` gives of one relation of a FROM: by what it is joined
    comes first here too."""
    columns: list[QueryColumn] | None = None
    for relation in relations:
        if relation is one:
            columns = None if one.columns is None else list(one.columns)
        if columns is not None:
            columns = _with_first(columns, relation.using)
    return None if columns is None else tuple(columns)


def _with_first(
    columns: list[QueryColumn], names: tuple[str, ...]
) -> list[QueryColumn]:
    first = [column for name in names for column in columns if column.folded == name]
    return [*first, *(column for column in columns if column not in first)]


Sources: TypeAlias = list[tuple[str, Relation]]
"""What a FROM reads, in order: each relation with the name that columns are qualified
with, or ''."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What names may mean in one place of a SELECT.

    `sources` are what it reads, by the name that columns are qualified with. `aliases`
    are the columns of the SELECT itself that may be named here, in small letters; where
    two have one name there are several. `variables` are those of the lambda functions
    around. `is_open`: any name may mean something.
    """

    sources: tuple[tuple[str, Relation], ...] = ()
    aliases: Mapping[str, tuple[QueryColumn, ...]] = field(default_factory=dict)
    variables: Mapping[str, SparkType | None] = field(default_factory=dict)
    is_open: bool = False


Names: TypeAlias = Mapping[str, Relation]
"""The common table expressions in sight, by name in small letters."""


@dataclass(slots=True)
class Walk:
    """One pass over a tree: what it reads, and what it has found so far.

    `inserts` are the SELECTs that `_lakesql_position` is inserted into; `shapes` what
    state they keep, by SELECT. `seen` are the SELECTs that were reached, `flowing`
    those of them that read streams, each with what it reads. `reads_tables`: it reads
    more than streams. `filters`: it may leave out rows of streams. `tables` are the
    columns of the tables that are known, by the parts of the name in small letters.
    `around` are the scopes of the SELECTs around the query that is being read.
    `event_times` are the expressions by whose event time SELECTs group, by SELECT.
    `noted` is what some models alone must not do: by condition, where it is first done.
    `read` are the columns of the relations that were read so far, by their ids.
    `ctes` are the tokens that name common table expressions, each with the number of
    that.
    `unbounded` are the streams that joins of streams keep for ever. `sources` are what
    each SELECT reads, by SELECT.
    """

    text: Text
    streams: Mapping[str, tuple[str, StreamShape]]
    findings: Findings
    inserts: set[int] = field(default_factory=set)
    shapes: dict[int, str] = field(default_factory=dict)
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]] = field(
        default_factory=dict
    )
    around: list[Scope] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    flowing: dict[int, tuple[exp.Select, Sources]] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    event_times: dict[int, str] = field(default_factory=dict)
    counted: frozenset[int] = frozenset()
    read: dict[int, tuple[QueryColumn, ...] | None] = field(default_factory=dict)
    ctes: Mapping[int, int] = field(default_factory=dict)
    unbounded: dict[str, None] = field(default_factory=dict)
    sources: dict[int, tuple[exp.Select, Sources]] = field(default_factory=dict)
    reads_tables: bool = False
    filters: bool = False


def mark_of(select: exp.Expr) -> int | None:
    """The number of a SELECT's token, which `sqltext` gave to the parser as a
    comment."""
    return int(select.comments[-1]) if select.comments else None


def last_mark(query: exp.Expr) -> int:
    """The number of the last SELECT token inside a query."""
    return max(_marks(query), default=0)


def start_of(query: exp.Expr, walk: Walk) -> int:
    """Where the first SELECT of a query stands in the SQL."""
    return walk.text.tokens[min(_marks(query), default=0)].start


def _marks(query: exp.Expr) -> list[int]:
    return [
        mark
        for select in query.find_all(exp.Select)
        if (mark := mark_of(select)) is not None
    ]


def unaliased(
    expression: exp.Expr, span: tuple[int, int], text: Text
) -> tuple[int, int]:
    """The tokens of a SELECT's expression without the alias, if it has one: first, and
    one past the last."""
    first, last = span
    if isinstance(expression, exp.Alias):
        last -= 2 if text.tokens[last - 2].token_type is TokenType.ALIAS else 1
    return first, last


def offset_of(node: exp.Expr, otherwise: int = 0) -> int:
    """Where the first word of a node that has a place stands in the SQL."""
    for inner in (node.parts[0] if isinstance(node, exp.Table) else node).walk(
        bfs=False
    ):
        start = inner.meta.get("start") if inner._meta else None
        if isinstance(start, int):
            return start
    return otherwise
