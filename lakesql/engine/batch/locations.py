"""Where the tables that a query reads have their files: looked up once per query."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import load_table
from lakesql.model.table_name import TableName


@dataclass(slots=True)
class Locations:
    """The known locations of tables."""

    known: dict[TableName, str] = field(default_factory=dict)

    def find(self, session: SparkSession, table: TableName) -> str:
        """The location of a table, looked up if it is not known."""
        if table not in self.known:
            self.known[table] = str(load_table(session, table).location())
        return self.known[table]
