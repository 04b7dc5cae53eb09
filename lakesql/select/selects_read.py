"""The SELECTs of a text with their trees, sources and types, for the rules that judge
how a SELECT is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakesql.select.derive import derive_type
from lakesql.select.lookup import NameMeaning, find_columns
from lakesql.select.query import parse_query
from lakesql.select.relation import QueryColumn, Scope, Sources, StreamShape
from lakesql.select.sqltext import Text, findings_by_offset, read_text
from lakesql.select.tree import read_relation
from lakesql.stream.types import SparkType


@dataclass(frozen=True, slots=True)
class SelectRead:
    """One SELECT of a text. `mark` is the number of its token; `sources` are the
    relations of its FROM, with their names."""

    select: exp.Select
    mark: int
    sources: Sources

    def parts(self, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
        """The nodes of these kinds in the SELECT itself, without those in queries
        inside it."""
        for node in self.select.walk(
            prune=lambda each: isinstance(each, exp.Query) and each is not self.select
        ):
            if isinstance(node, kinds):
                yield node

    def meaning(self, column: exp.Column) -> NameMeaning:
        """What the name of a column may mean in this SELECT."""
        names = [
            part.name.lower() for part in column.parts if not isinstance(part, exp.Star)
        ]
        return (
            find_columns(names, Scope(tuple(self.sources)))
            if names
            else NameMeaning(())
        )

    def column(self, column: exp.Column) -> QueryColumn | None:
        """The one column that a name means; None where it is not known, or where the
        name means a field of it."""
        found = self.meaning(column)
        is_whole = found.used == len(column.parts)
        return found.columns[0] if len(found.columns) == 1 and is_whole else None

    def source_of(self, column: exp.Column) -> str | None:
        """The name, in lower case, of the source of a column; None where it is not
        known."""
        if column.table:
            return column.table.lower()
        if len(self.sources) == 1:
            return self.sources[0][0].lower()
        name = column.name.lower()
        having = [
            called for called, source in self.sources if name in (source.index or {})
        ]
        is_known = all(source.index is not None for _, source in self.sources)
        return having[0].lower() if len(having) == 1 and is_known else None

    def type_of(self, expression: exp.Expr) -> SparkType | None:
        """The type of an expression; None where it is not known without Spark."""
        return derive_type(expression, self.sources)


@dataclass(frozen=True, slots=True)
class SelectsRead:
    """A text with its tree. `selects` are all SELECTs in it, in the order of the text.
    `tables` are the column names of the known tables, by the parts of the table's name
    in lower case."""

    text: Text
    tree: exp.Query
    selects: tuple[SelectRead, ...]
    tables: Mapping[tuple[str, ...], tuple[str, ...]]


def read_selects(
    sql: str,
    streams: Mapping[str, StreamShape],
    tables: Mapping[tuple[str, ...], tuple[QueryColumn, ...]],
) -> SelectsRead:
    """The SELECTs of a text that `read_query` has read without a problem, with the same
    streams and tables."""
    findings = findings_by_offset()
    text = read_text(sql, findings)
    tree = parse_query(text, sql, findings)
    _, walk = read_relation(tree, text, streams, tables, findings)
    selects = (
        SelectRead(select, mark, sources)
        for mark, (select, sources) in sorted(walk.sources.items())
    )
    names = {
        parts: tuple(column.name or "" for column in columns)
        for parts, columns in tables.items()
    }
    return SelectsRead(text, tree, tuple(selects), names)
