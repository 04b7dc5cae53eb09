"""What a query is to the one that reads it: its columns, its streams, and where the source position stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from lakesql.model.groups import Group
from lakesql.model.sqltext import Findings, Text


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What is known of a declared stream: its columns (None: nothing), and its watermark's column."""

    columns: tuple[str, ...] | None
    watermark: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation. `stream` and `column` say that it is plainly this column of this stream.

    `name` is None where Spark would make one up. `event_time` says that Spark finds the stream's watermark in it.
    """

    name: str | None
    offset: int
    stream: str | None = None
    column: str | None = None
    cast: str | None = None
    event_time: bool = False


@dataclass(frozen=True, slots=True)
class Carried:
    """Where a relation has `_lakesql_position`: so many columns from the left, put there or by a star."""

    by: str
    index: int


@dataclass(frozen=True, slots=True)
class Relation:
    """What a FROM can read. `columns` is None where they cannot be known without asking the catalog.

    `joined`: streams are joined with each other.
    `source` is the one stream that any column name means, when its columns are unknown and nothing else is read.
    `groups`: one row for each of them, in a batch. None where that is not known.
    `selects` are the SELECTs of streams that it is made of, each by its mark.
    """

    columns: tuple[Column, ...] | None = None
    streams: tuple[str, ...] = ()
    stateful: bool = False
    aggregated: bool = False
    joined: bool = False
    by_event_time: bool = False
    carried: Carried | None = None
    source: str | None = None
    groups: tuple[Group, ...] | None = None
    selects: frozenset[int] = frozenset()


Names: TypeAlias = Mapping[str, Relation]
"""The common table expressions in sight, by name in small letters."""


@dataclass(slots=True)
class Walk:
    """One pass over a tree: what it reads, and what it has found so far.

    `inserts` are the SELECTs that `_lakesql_position` is inserted into; `shapes` what state they keep, by SELECT.
    `seen` are the SELECTs that were reached, `flowing` those of them that read streams. `reads_tables`: it reads more
    than streams.
    """

    text: Text
    streams: Mapping[str, tuple[str, StreamShape]]
    findings: Findings
    inserts: set[int] = field(default_factory=set)
    shapes: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    flowing: dict[int, exp.Select] = field(default_factory=dict)
    reads_tables: bool = False


def mark_of(select: exp.Expr) -> int | None:
    """The number of a SELECT's token, which `sqltext` gave to the parser as a comment."""
    return int(select.comments[-1]) if select.comments else None


def last_mark(query: exp.Expr) -> int:
    """The number of the last SELECT token inside a query."""
    return max((mark for select in query.find_all(exp.Select) if (mark := mark_of(select)) is not None), default=0)


def start_of(query: exp.Expr, walk: Walk) -> int:
    """Where the first SELECT of a query stands in the SQL."""
    marks = (mark for select in query.find_all(exp.Select) if (mark := mark_of(select)) is not None)
    return walk.text.tokens[min(marks, default=0)].start


def offset_of(node: exp.Expr, otherwise: int = 0) -> int:
    """Where the first word of a node that has a place stands in the SQL."""
    for inner in (node.parts[0] if isinstance(node, exp.Table) else node).walk(bfs=False):
        start = inner.meta.get("start") if inner._meta else None
        if isinstance(start, int):
            return start
    return otherwise
