"""Where a SELECT's rows depend on `_record.offset`, which is NULL in streams whose
records have no offset.

A column that is `_record.offset` itself is then NULL, which is plain to see. A WHERE, a
join, a window or an aggregate by it silently gives other rows than the author means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from lakesql.errors import ProjectError
from lakesql.names import RECORD
from lakesql.select.query import Query, parse_query
from lakesql.select.relation import offset_of
from lakesql.select.sqltext import findings_by_offset, read_text

_OFFSET = "offset"


def find_offset_use(
    query: Query, without: Collection[str], compared: Collection[str]
) -> int | None:
    """The place in a SELECT where offsets of the streams `without` them are first used
    otherwise than as a column; None where they are not. `compared` are the columns by
    which rows are found or ordered."""
    if _OFFSET not in query.record_fields or not without:
        return None
    findings = findings_by_offset()
    try:
        tree = parse_query(read_text(query.sql, findings), query.sql, findings)
    except (ProjectError, RecursionError):
        return None
    with_offsets = {*query.streams_read} - {*without}
    others = {
        table.alias_or_name.lower()
        for table in tree.find_all(exp.Table)
        if table.name in with_offsets
    }
    names = {name.lower() for name in compared}
    given = {
        id(column) for name, column in _given_columns(tree) if name.lower() not in names
    }
    uses = [
        column
        for column in tree.find_all(exp.Column, exp.Bracket)
        if _is_offset(column, others)
    ]
    return min(
        (offset_of(each) for each in uses if id(each) not in given), default=None
    )


def _given_columns(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The columns of the outermost SELECT, with names and expressions; none of a
    DISTINCT, which compares them."""
    if isinstance(tree, exp.Union):
        if not tree.args.get("distinct"):
            yield from _given_columns(tree.left)
            yield from _given_columns(tree.right)
        return
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        return
    for column in tree.expressions:
        yield column.alias_or_name, column.unalias()


def _is_offset(column: exp.Expr, others: Collection[str]) -> bool:
    """Whether an expression is `_record.offset`, except that of the relations
    `others`."""
    if isinstance(column, exp.Bracket):
        of = column.this
        is_named = any(
            isinstance(each, exp.Literal) and each.name.lower() == _OFFSET
            for each in column.expressions
        )
        return is_named and isinstance(of, exp.Column) and of.name.lower() == RECORD
    assert isinstance(column, exp.Column)
    parts = [part.name.lower() for part in column.parts]
    return parts[-2:] == [RECORD, _OFFSET] and not {*parts[:-2]} & {*others}
