"""How a model's table is created or altered to take the rows that its SELECT makes."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import list_namespaces, load_table_state
from lakesql.compile.select import Select
from lakesql.compile.statements import declared_columns, memory_spec
from lakesql.compile.table import TableColumn, TableSpec, build_table_spec
from lakesql.engine.batch.analyze import landing_columns
from lakesql.engine.ledger.swap import drop_table
from lakesql.engine.spark.catalog_views import refuse_view
from lakesql.events import Emit, Noted, StepApplied
from lakesql.model.config import SchemaChange
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import DELETED_AT, MEMORY_SUFFIXES
from lakesql.plan.steps import check_mergeable, plan_table


class TableSync:
    """Creates or alters the table to take rows of a schema, whenever that schema has
    changed."""

    def __init__(
        self, session: SparkSession, catalog: OpenCatalog, select: Select, emit: Emit
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._select = select
        self._emit = emit
        self._schema: StructType | None = None
        self._columns: tuple[str, ...] = ()

    def columns(self, schema: StructType) -> tuple[str, ...]:
        """The columns of `schema` that are written to the table, which can take them
        after this call. Raises what planning raises.

        The schema changes while a query runs if a table that the SELECT joins changes.
        """
        if schema != self._schema:
            self._columns, self._schema = self._sync(schema), schema
        return self._columns

    def make(self) -> None:
        """Create the table of a SELECT that reads its own table, before it is analysed,
        if the table does not exist.

        Raises what `declared_columns` raises.
        """
        model = self._select.model
        if (
            "this" in model.facts.reads
            and load_table_state(self._catalog, model.table) is None
        ):
            self._plan(declared_columns(self._select))

    def make_moves(self) -> None:
        """Create the table in which key changes are remembered, or add the columns that
        the feed has by now."""
        self._apply(memory_spec(self._select, "moves"))

    def _sync(self, schema: StructType) -> tuple[str, ...]:
        return self._plan(landing_columns(schema, self._select.model.properties))

    def _plan(self, columns: tuple[TableColumn, ...]) -> tuple[str, ...]:
        model = self._select.model
        spec = build_table_spec(
            model.table, columns, model.config, model.properties.description
        )
        policy = model.config.on_schema_change
        if (
            batches_of(self._select).identity
            and (state := load_table_state(self._catalog, model.table)) is not None
        ):
            check_mergeable(model.name, state)
        self._apply(spec)
        if "tombstones" in self._select.writing.memories:
            self._apply(memory_spec(self._select, "tombstones", columns))
        if (
            policy != "ignore"
            or (state := load_table_state(self._catalog, model.table)) is None
        ):
            return tuple(column.name for column in columns)
        stored = {column.name.lower() for column in state.columns}
        return tuple(column.name for column in columns if column.name.lower() in stored)

    def _apply(self, spec: TableSpec) -> None:
        """Make or alter the model's table, or one of what its batches remember: that
        one takes every column that comes."""
        model, name = self._select.model, self._select.model.name
        state = load_table_state(self._catalog, spec.name)
        policy: SchemaChange = "sync_all_columns"
        compared: Mapping[str, tuple[str, ...]] = {}
        if spec.name == model.table:
            policy, compared = model.config.on_schema_change, self._select.compared
            if state is None:
                refuse_view(self._session, model)
                self._drop_memories()
        namespaces = list_namespaces(self._catalog)
        for step in plan_table(name, spec, policy, state, namespaces, compared):
            for statement in step.statements:
                self._session.sql(statement)
            noted = Noted(step.text, name) if step.is_takeover else None
            self._emit(noted or StepApplied(name, step.text))

    def _drop_memories(self) -> None:
        """Drop what was remembered of a table that no longer exists, before the new one
        is created, as it would hide rows of that.

        A table with such a name that lakesql has not created stays.
        """
        name, table = self._select.model.name, self._select.model.table
        for memory in map(table.memory, MEMORY_SUFFIXES):
            state = load_table_state(self._catalog, memory)
            if state is not None and DELETED_AT in (
                column.name for column in state.columns
            ):
                drop_table(self._session, memory)
                self._emit(
                    StepApplied(name, f"drop table {memory}, of a table that is gone")
                )
