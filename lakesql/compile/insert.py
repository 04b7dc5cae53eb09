"""The INSERT of an appending batch."""

from __future__ import annotations

from lakesql.compile.quote import identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.names import ROWS_VIEW

_INSERT = """\
INSERT INTO {table} ({columns})
SELECT {columns}
FROM {rows}"""

_INSERT_ALL = """\
INSERT INTO {table} BY NAME
SELECT *
FROM {rows}"""


def insert_statement(table: TableName, columns: tuple[str, ...] | None) -> str:
    """Insert the rows of the view `_lakesql_rows`. `columns` land; None where only Spark's analyzer knows them."""
    if columns is None:
        return _INSERT_ALL.format(table=table_name(table), rows=ROWS_VIEW)
    return _INSERT.format(table=table_name(table), columns=identifiers(columns), rows=ROWS_VIEW)
