"""The table that a rebuild fills beside the live one: its schema and properties, and
its creation, which is idempotent."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from lakesql.catalog.tables import load_table_state
from lakesql.compile.build_select import build_select
from lakesql.compile.select import Select
from lakesql.compile.statements import declared_columns
from lakesql.compile.table import (
    TableSpec,
    build_table_spec,
    create_table,
    dead_letter_spec,
    format_version,
)
from lakesql.engine.batch.analyze import analyze_select, landing_columns
from lakesql.engine.ledger.snapshots import (
    head_of,
    load_table,
    read_ledger,
    table_exists,
)
from lakesql.engine.ledger.swap import fit, lost_partitions
from lakesql.engine.progress.begin import id_of, new_origin, seed
from lakesql.engine.progress.checkpoint import CheckpointFiles, create_checkpoint
from lakesql.engine.progress.inspect import read_sources, read_state
from lakesql.engine.sources.binding import StreamBinding
from lakesql.engine.spark.session import new_session
from lakesql.errors import Place, RunError
from lakesql.events import StepApplied
from lakesql.ledger.entry import ledger_tag
from lakesql.model.model import Model
from lakesql.model.retention import GC_ENABLED
from lakesql.model.table_name import TableName
from lakesql.modes.batches.all_batches import batches_of
from lakesql.names import LEDGER_REBUILD, LEDGER_REBUILD_VERSION, REBUILD_PROPERTY
from lakesql.plan.steps import check_mergeable
from lakesql.progress.state import StartFrom, query_identities
from lakesql.run.replacement.rebuilt import rebuild_folder, set_property
from lakesql.run.start.context import RunContext
from lakesql.run.start.tables_read import check_tables
from lakesql.run.streams.bind import BoundSelect, bind_select
from lakesql.stream.stream import Stream
from lakesql.table.table_state import TableState

if TYPE_CHECKING:
    from lakesql.graph.manifest import Manifest


RebuildFrom = Literal["start", "earliest"] | int
"""Where a rebuild reads its streams from: their configured start, the earliest
available record, or a time in milliseconds since the epoch."""


def bind_rebuild(manifest: Manifest, name: str, start: RebuildFrom) -> BoundSelect:
    """The model bound to the table that its rebuild fills, with streams that begin at
    `start`. Raises what `build_select` raises."""
    model = manifest.models[name]
    models = {**manifest.models, name: replace(model, table=model.table.rebuild)}
    bound = bind_select(
        manifest,
        build_select(replace(manifest, models=models), name, is_full_refresh=True),
    )
    if start == "start":
        return bound
    at: Any = (
        start if start == "earliest" else datetime.fromtimestamp(start / 1000, UTC)
    )
    bindings = (
        replace(binding, stream=replace(binding.stream, start=at))
        for binding in bound.bindings
    )
    return replace(bound, bindings=tuple(bindings))


@dataclass(frozen=True, slots=True)
class ReplacementTable:
    """The table that a rebuild fills. `bound` is the model as it writes this table,
    `live` the table that gets the rows in the end, and `start_at` where the streams
    begin."""

    context: RunContext
    bound: BoundSelect
    live: TableName
    start_at: RebuildFrom

    @property
    def select(self) -> Select:
        """The SELECT that fills the table."""
        return self.bound.select

    def has_begun(self) -> bool:
        """Whether the table has a batch, so that the rebuild continues and does not
        begin."""
        session, table = self.context.session, self.select.model.table
        return (
            table_exists(session, table)
            and head_of(load_table(session, table)) is not None
        )

    def make(self) -> None:
        """Create the table that the rebuild fills, and its dead-letter table, with the
        schemas that the live ones will have. Does nothing to tables that already exist
        from the same rebuild.

        Raises `RunError`: `rebuild-outdated` if the existing table is of another
        version of the model or start, `rebuild-impossible` if the live table cannot
        have such rows.
        """
        session, model = self.context.session, self.select.model
        check_tables(self.context.manifest, self.context.catalog, self.select)
        version = self.version()
        state = load_table_state(self.context.catalog, model.table)
        if state is not None:
            _check_version(model, state, version)
        spec = self.spec()
        if batches_of(self.select).identity:
            check_mergeable(model.name, self._live_state())
            self._check_partitions(spec)
        if state is None:
            more = {**self._placed(self.live), REBUILD_PROPERTY: version}
            bare = replace(
                spec,
                partition_by=(),
                order_by=(),
                properties={**spec.properties, **more},
            )
            for statement in create_table(bare):
                session.sql(statement)
            self.context.emit(
                StepApplied(model.name, f"create table {model.table}, to be filled")
            )
        replacement = load_table(session, model.table)
        if head_of(replacement) is None:
            fit(load_table(session, self.live), replacement, spec)
            self.make_dead_letters()
            self._make_checkpoints()
        elif replacement.properties().get(GC_ENABLED) == "false":
            set_property(session, model.table, GC_ENABLED, "true")

    def _check_partitions(self, spec: TableSpec) -> None:
        """Raise `RunError` (`rebuild-impossible`) if the model lacks a column that the
        live table is or was partitioned by."""
        lost = lost_partitions(load_table(self.context.session, self.live), spec)
        if not lost:
            return
        name = self.select.model.name
        raise RunError.of(
            "rebuild-impossible",
            f"Table {self.live} is or was partitioned by {', '.join(lost)}, which model '{name}' leaves out or "
            "gives another type.",
            why="Iceberg cannot merge into a table that has lost such a column.",
            fix="Keep the column as it is, as a CAST of NULL if it has no values any more, and give a new one "
            f"another name. Or: lakesql drop {name}, then lakesql run --select {name}",
        )

    def make_dead_letters(self) -> None:
        """Create the rebuild's dead-letter table if the live table has one."""
        session, live = self.context.session, self.live.dead_letter
        if not table_exists(session, live):
            return
        spec = dead_letter_spec(self.live.rebuild)
        if not table_exists(session, spec.name):
            more = {**spec.properties, **self._placed(live)}
            for statement in create_table(
                replace(spec, partition_by=(), properties=more)
            ):
                session.sql(statement)
        fit(load_table(session, live), load_table(session, spec.name), spec)

    def _make_checkpoints(self) -> None:
        """Create the checkpoints of a rebuild that begins at a time. They list the
        plain files that are older, which the rebuild is not to read."""
        if not isinstance(self.start_at, int):
            return
        session, bindings = self.context.session, self.bound.bindings
        sources = read_sources(session, self.context.brokers, bindings)
        for identity in query_identities(
            self.select, rebuild_folder(self.context, self.select.model.name)
        ):
            files = CheckpointFiles(session, identity.folder)
            state = read_state(session, identity, sources)
            if state.checkpoint is None:
                start = StartFrom({}, None, "", self.start_at)
                now = new_origin(state, id_of(session, identity.table))
                create_checkpoint(
                    files, *seed(session, start, now, bindings, files, None)
                )

    def _placed(self, live: TableName) -> dict[str, str]:
        """The properties that place a table's data files where the live table has its
        own."""
        table = load_table(self.context.session, live)
        properties = table.properties()
        data = (
            properties.get("write.data.path")
            or f"{str(table.location()).rstrip('/')}/data"
        )
        return {"write.data.path": str(data)}

    def spec(self) -> TableSpec:
        """The table that the model asks for, in a format version no older than the live
        table's."""
        model = self.select.model
        spec = build_table_spec(
            model.table, self._columns(), model.config, model.properties.description
        )
        version = max(
            int(self._live_state().properties["format-version"]),
            format_version(spec.properties),
        )
        return replace(
            spec, properties={**spec.properties, "format-version": str(version)}
        )

    def _columns(self) -> Any:
        select = self.select
        if "this" in select.model.facts.reads and not table_exists(
            self.context.session, select.model.table
        ):
            return declared_columns(select)
        schema = analyze_select(
            new_session(self.context.session), select, self.bound.bindings
        )
        return landing_columns(schema, select.model.properties)

    def _live_state(self) -> TableState:
        live = load_table_state(self.context.catalog, self.live)
        assert live is not None
        return live

    def version(self) -> str:
        """The digest of everything that determines the rows. A rebuild that was begun
        with another version cannot be continued."""
        select = self.select
        live = load_table(self.context.session, self.live)
        checks = [
            (check.name, check.column, check.condition, check.on_fail)
            for check in select.checks
        ]
        streams = [_contract(binding) for binding in self.bound.bindings]
        made = repr(
            (
                select.text,
                select.model.config,
                checks,
                streams,
                self.start_at,
                str(live.uuid()),
            )
        )
        return hashlib.sha256(made.encode()).hexdigest()[:16]

    def is_version_of(self, checkpoint: str) -> bool:
        """Whether the finished rebuild with this checkpoint, whose rows the live table
        now has, was of the same version."""
        live = load_table(self.context.session, self.live)
        for snapshot in read_ledger(live, (ledger_tag(self.select.model.name),)):
            if snapshot.summary.get(LEDGER_REBUILD) == checkpoint:
                return snapshot.summary.get(LEDGER_REBUILD_VERSION) == self.version()
        return False


def _check_version(model: Model, state: TableState, version: str) -> None:
    """Raise `RunError` (`rebuild-outdated`) if the existing table was not made by a
    rebuild, or by one of another version."""
    found = state.properties.get(REBUILD_PROPERTY)
    if found is None:
        raise foreign_table(model.table)
    if found != version:
        raise RunError.of(
            "rebuild-outdated",
            f"A rebuild of model '{model.name}' has been begun for another version of it, or from another start.",
            fix=f"To begin again: lakesql rebuild {model.name} --abandon, then lakesql rebuild {model.name}",
        )


def foreign_table(table: TableName) -> RunError:
    """The error (`rebuild-outdated`) for a table that has the name of a rebuild's table
    but was not made by a rebuild."""
    return RunError.of(
        "rebuild-outdated",
        f"There is a table {table}, which no rebuild has made.",
        why="A rebuild fills a table of this name, beside the live one.",
        fix="Rename that table, or drop it.",
    )


def _contract(binding: StreamBinding) -> tuple[Stream, str]:
    """The parts of a stream's declaration that determine its rows. Columns that are
    found and not declared are left out."""
    stream = binding.stream
    is_declared = not stream.is_open and binding.table is None
    said = replace(
        stream,
        description="",
        key=stream.key if stream.names_key else (),
        columns=tuple(
            replace(column, description="", sensitive=None)
            for column in stream.columns
            if is_declared
        ),
        schema_fields=(),
        max_per_batch=None,
        after="leave",
        archive="",
        place=Place("", 1, 1),
    )
    return said, binding.schema
