"""The INSERT of an appending batch."""

from __future__ import annotations

from lakesql.compile.quote import identifiers, indent
from lakesql.model.table import TableName

_INSERT = """\
INSERT INTO {table} ({columns})
SELECT {columns}
FROM (
{select}
)"""

_INSERT_ALL = """\
INSERT INTO {table} BY NAME
SELECT *
FROM (
{select}
)"""


def insert_statement(table: TableName, columns: tuple[str, ...] | None, select: str) -> str:
    """Insert the rows of `select`. `columns` are the columns that land; None where only Spark's analyzer knows them."""
    if columns is None:
        return _INSERT_ALL.format(table=table, select=indent(select))
    return _INSERT.format(table=table, columns=identifiers(columns), select=indent(select))
