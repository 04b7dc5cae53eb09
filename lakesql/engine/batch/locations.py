"""Where the tables that a query reads have their files: asked once for as long as it
runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lakesql.engine.ledger.snapshots import load_table
from lakesql.model.table_name import TableName


@dataclass(slots=True)
class Locations:
    """The places of the tables that were asked for."""

    known: dict[TableName, str] = field(default_factory=dict)

    def find(self, session: SparkSession, table: TableName) -> str:
        """Where the files of a table are."""
        if table not in self.known:
            self.known[table] = str(load_table(session, table).location())
        return self.known[table]
