"""What is known of a query or a table in a SELECT by the query that reads it: its
columns, its streams, and where the source position is."""

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
    """What is known of a declared stream: its columns (None: not declared), the column
    of its watermark, and the types of the columns.

    `event_time` is the field of a struct or the expression that the watermark is on, if
    it is no column, and `event_type` its type, '' where only Spark knows it. `of` is
    the stream whose view this is, if the view has another name.
    """

    columns: tuple[str, ...] | None
    watermark: str | None
    types: tuple[str, ...] = ()
    event_time: str | None = None
    event_type: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of a relation.

    `name` is None where Spark generates one. `is_made_up`: Spark generates the name, so
    a table cannot have it. If `name` is None too, the generated name may be a plain
    word.
    `stream` and `column` are set if it is an unchanged column of a stream, `change` if
    it is an unchanged field of `_change`.
    `event_time`: it carries the stream's watermark.
    `type` is None where only Spark's analyzer knows it. `shape` is the type with what
    is known of its parts: the fields of a struct, the elements of an array.
    `made` is the same object in columns that are passed on unchanged: two columns of
    one name with the same `made` are not ambiguous.
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
        """What is known of its type; None if nothing is."""
        return self.shape or self.type

    @property
    def folded(self) -> str:
        """Its name in lower case; '' where Spark generates one."""
        return (self.name or "").lower()


def typed_columns(columns: Iterable[tuple[str, str | None]]) -> tuple[QueryColumn, ...]:
    """The columns of a table, by their names and the texts of their types; None or ''
    for a type that is not known."""
    return tuple(
        QueryColumn(name, 0, type=parse_type(kind or "")) for name, kind in columns
    )


@dataclass(frozen=True, slots=True)
class Carried:
    """Where a relation has `_lakesql_position`: the number of columns to the left of
    it, and whether a star or an insertion put it there."""

    by: str
    index: int


@dataclass(frozen=True, slots=True)
class Group:
    """A key of GROUP BY, or a column of DISTINCT. `told_by` are the columns, in lower
    case, that each determine it: such a column differs wherever the key does."""

    text: str
    told_by: frozenset[str]


@dataclass(frozen=True, slots=True)
class Relation:
    """What a query, a table or a stream is to the query that reads it.

    `columns` is None where only the catalog knows them; `offered` are then the columns
    that names may mean: those of a model's SELECT, whose table may have more.
    `nested`: it aggregates the rows of an aggregate. `joined`: it joins streams with
    each other.
    `source` is the one stream that any column name means, if its columns are not known
    and nothing else is read.
    `groups` are the keys of which a batch has one row for each combination of values;
    None where they are not known.
    `selects` are the SELECTs over streams that it consists of, by their marks.
    `using` are the columns by which it is joined to the relations to its left: `*` has
    them once, and first.
    `added` are the columns of lakesql's that its `*` includes, `_record` and `_change`,
    as far as they are used.
    `path` is its catalog, namespace and name in lower case, if columns may be qualified
    by these.
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
        """The columns that names may mean, by name in lower case; None where they are
        not known."""
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
        """The last column of each name, by name in lower case; None where a column is
        not known or has a name that Spark generates."""
        index = self.index
        return (
            None
            if index is None or "" in index
            else {name: found[-1] for name, found in index.items()}
        )


def columns_side_by_side(
    relations: Iterable[Relation],
) -> tuple[QueryColumn, ...] | None:
    """The columns of `*` over the relations of a FROM; None where some are not
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
    """The columns of `t.*` for one relation of a FROM, beginning with those by which a
    later relation is joined to it; None where they are not known."""
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
"""The relations that a FROM reads, in order, each with the name that qualifies its
columns, or ''."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What names may mean in one place of a SELECT.

    `sources` are the relations that it reads, with the names that qualify their
    columns. `aliases` are the columns of the SELECT itself that may be named here, by
    name in lower case; several where two have one name. `variables` are those of the
    lambda functions around the place. `is_open`: names that are found nowhere may still
    exist.
    """

    sources: tuple[tuple[str, Relation], ...] = ()
    aliases: Mapping[str, tuple[QueryColumn, ...]] = field(default_factory=dict)
    variables: Mapping[str, SparkType | None] = field(default_factory=dict)
    is_open: bool = False


Names: TypeAlias = Mapping[str, Relation]
"""The common table expressions that a query may name, by name in lower case."""


@dataclass(slots=True)
class Walk:
    """One pass over the tree of a SELECT: what it may read, and what has been found so
    far. SELECTs are identified by their marks.

    `streams` and `tables` are what it may read: streams by name in lower case, the
    known columns of tables by the parts of the name in lower case.
    `inserts` are the SELECTs that `_lakesql_position` is inserted into. `shapes` is the
    text of the state that each SELECT keeps. `counted` are the SELECTs whose rows an
    aggregate counts, and these aggregates.
    `seen` are the SELECTs that were reached. `sources` is what each reads; `flowing`
    has those of them that read streams.
    `around` are the scopes of the SELECTs around the query that is being read.
    `noted` are the constructs that only some modes allow: the offset of the first one,
    by the condition that refuses it.
    `event_times` are the expressions by whose event time SELECTs group.
    `read` are the columns of the relations that were read so far, by their ids.
    `ctes` are the tokens that name common table expressions, each with the number of
    the expression.
    `unbounded` are the streams whose rows a join of streams keeps for ever.
    `reads_tables`: it reads more than streams. `filters`: it may leave out rows of
    streams.
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
    """The number of a SELECT's token, its mark, which `sqltext` gave to the parser as a
    comment; None for a query without one."""
    return int(select.comments[-1]) if select.comments else None


def last_mark(query: exp.Expr) -> int:
    """The mark of the last SELECT inside a query; 0 if it has none."""
    return max(_marks(query), default=0)


def start_of(query: exp.Expr, walk: Walk) -> int:
    """The offset of the first SELECT of a query."""
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
    """The tokens of a SELECT's expression without its alias: the first, and one past
    the last."""
    first, last = span
    if isinstance(expression, exp.Alias):
        last -= 2 if text.tokens[last - 2].token_type is TokenType.ALIAS else 1
    return first, last


def offset_of(node: exp.Expr, otherwise: int = 0) -> int:
    """The offset of the first word of a node, as far as sqlglot keeps it; else
    `otherwise`."""
    for inner in (node.parts[0] if isinstance(node, exp.Table) else node).walk(
        bfs=False
    ):
        start = inner.meta.get("start") if inner._meta else None
        if isinstance(start, int):
            return start
    return otherwise
