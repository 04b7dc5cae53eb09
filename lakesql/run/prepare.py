"""From a checked model to a query that can start: where it continues, and a table that can take its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

from lakesql.catalog.connect import OpenCatalog
from lakesql.catalog.tables import load_table_state
from lakesql.clock import now_ms
from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_columns
from lakesql.compile.table import build_table_spec
from lakesql.engine.batch.analyze import analyze_select
from lakesql.engine.batch.new_schemas import follow_kept
from lakesql.engine.batch.sink import Sink, Step
from lakesql.engine.batch.sync_table import TableSync
from lakesql.engine.ledger.snapshots import load_table
from lakesql.engine.maintenance.call import ModelMaintenance
from lakesql.engine.maintenance.keeper import Keeper, MaintenanceStep
from lakesql.engine.maintenance.protect import TableReader
from lakesql.engine.progress.changed import explain_changes
from lakesql.engine.progress.checkpoint import CheckpointFiles
from lakesql.engine.progress.inspect import read_sources, read_state
from lakesql.engine.progress.moved import follow_files
from lakesql.engine.progress.open import check_starts, open_progress, restart
from lakesql.engine.progress.paths import forget_unmeant, keep_paths
from lakesql.engine.refresh.refresh_table import RefreshStep
from lakesql.engine.sources.broker import Brokers
from lakesql.errors import Problem, RunError
from lakesql.events import Emit, FilesLeftOut, Noted
from lakesql.graph.manifest import Manifest, read_table, reads_model, stored_refs
from lakesql.model.maintenance_tasks import is_maintained, maintenance_tasks, said_at
from lakesql.model.model import Model
from lakesql.progress.decide import check_rebuilt, decide_all
from lakesql.progress.remarks import remark_on
from lakesql.progress.state import StartFrom
from lakesql.project.procedures import spec_of
from lakesql.project.profiles import checkpoint_of
from lakesql.run.analysis import keep_analysis
from lakesql.run.bind import BoundSelect
from lakesql.run.columns import with_fields, with_followed
from lakesql.run.identities import hash_of, query_identities
from lakesql.run.nothing_new import empty_streams, left_out_files
from lakesql.run.seed_statuses import outdated_seeds
from lakesql.stream.registry_columns import schema_path
from lakesql.stream.stream import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesql.model.table_name import TableName
    from lakesql.template.reader import Reference


RebuildStep = Literal["hand-over", "swap", "finish-rebuild", "drop-replacement", "move-checkpoint"]
"""The steps of a rebuild that come after its batches."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all models of a run share: the project, Spark, the catalog, where events go, and the brokers they read.

    `accept_data_loss`: records that are gone from their topic are passed over. `check_lease` raises where this runner
    may not write the model of this name any more. `reached` is told of each step that is taken then: a place to stand
    for tests. `schema_fields` are those of the open streams that have changed during the run, by their names.
    """

    manifest: Manifest
    session: SparkSession
    catalog: OpenCatalog
    emit: Emit
    accept_data_loss: bool = False
    brokers: Brokers = field(default_factory=Brokers)
    check_lease: Callable[[str], None] = lambda model: None
    reached: Callable[[str, Step | RebuildStep | MaintenanceStep | RefreshStep], None] = lambda model, step: None
    schema_fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def follow(self, stream: str, schema_fields: tuple[str, ...]) -> None:
        """Take it that an open stream has these schema fields too from now on."""
        known = self.schema_fields.get(stream, ())
        self.schema_fields[stream] = tuple(dict.fromkeys([*known, *schema_fields]))

    def current(
        self, bound: BoundSelect, build: Callable[[Manifest], BoundSelect], *, asks: bool = False
    ) -> BoundSelect:
        """The SELECT over the columns that its streams have by now: as it is, or built of the project anew.

        Registries are asked for what is new if `asks`. Raises what `follow_kept` raises.
        """
        streams = bound.select.streams
        found = {name: each for name, each in self.schema_fields.items() if name in streams}
        followed = self._follow_registries(bound, asks)
        is_same = all(streams[name].schema_fields == each for name, each in found.items())
        if is_same and all(streams[name].columns == columns for name, columns in followed.items()):
            return bound
        return build(with_followed(with_fields(self.manifest, found), followed))

    def _follow_registries(self, bound: BoundSelect, asks: bool) -> dict[str, tuple[Column, ...]]:
        """The columns of the streams whose pulled contracts are followed, by their names. What is behind is said."""
        model, found = bound.select.model, {}
        if model.config.on_schema_change == "ignore":
            return {}
        for binding in bound.bindings:
            if binding.stream.pulled is None:
                continue
            stream = self.manifest.streams[binding.stream.name]
            followed = follow_kept(self.session, replace(binding, stream=stream), asks=asks)
            found[stream.name] = followed.columns
            if followed.differences:
                path = schema_path(stream, self.manifest.settings.paths.streams)
                behind = f"stream {stream.name}: {path} is behind what arrives: {'; '.join(followed.differences)}"
                text = f"{behind}. To have it in the project: lakesql schema pull {stream.name}"
                self.emit(Noted(text, now_ms(), model.name))
        return found


def prepare_model(context: RunContext, session: SparkSession, bound: BoundSelect, folder: str, known: str = "") -> Sink:
    """Find where the model's query continues, create or alter its table, and say where its batches go.

    `session` is the model's own, `folder` that of its checkpoint. `known` is the checkpoint from which this process has
    run the model before, if it has. Raises what `decide`, `check_starts`, planning and analysis raise; a step that was
    applied stays applied.
    """
    select, bindings = bound.select, bound.bindings

    def say(text: str) -> None:
        context.emit(Noted(text, now_ms(), select.model.name))

    check_tables(context.manifest, context.catalog, select)
    for text in outdated_seeds(
        context.manifest, context.catalog, (found.name for found in stored_refs(context.manifest, select.model))
    ):
        context.emit(Noted(text, now_ms(), select.model.name))
    sources = read_sources(session, context.brokers, bindings)
    for empty in empty_streams(select.model.name, sources):
        context.emit(empty)
    for left_out in left_out_files(select.model.name, sources):
        context.emit(left_out)
    if not known:  # a retry has nothing else to say
        for text in chain.from_iterable(map(remark_on, sources)):
            say(text)
    identities = query_identities(select, folder)
    moved = [follow_files(session, identity.folder, bindings, say) for identity in identities]
    for identity in identities:
        forget_unmeant(session, identity.folder, bindings)
    for stream, why in explain_changes(session, identities[0].folder, bindings):
        context.emit(FilesLeftOut(select.model.name, stream, why, now_ms()))
    states = [
        read_state(session, identity, sources, context.accept_data_loss, found)
        for identity, found in zip(identities, moved, strict=True)
    ]
    query_hash = hash_of(select)
    check_rebuilt(states[0], known, query_hash)
    decisions = decide_all(states)
    for found, decision in zip(states, decisions, strict=True):
        check_starts(found, decision, bindings, now_ms())
    table = TableSync(context.session, context.catalog, select, context.emit)
    table.make()
    schema = analyze_select(session, select, bindings)
    table.columns(schema)
    check_specs(session, select.model)
    for decision in decisions:
        if isinstance(decision, StartFrom):
            say(decision.because)
    progress, *companion = [
        open_progress(session, context.brokers, identity, found, decision, bindings, query_hash)
        for identity, found, decision in zip(identities, states, decisions, strict=True)
    ]
    for identity in identities:
        keep_paths(session, identity.folder, bindings)
    keep_analysis(context.manifest, context.catalog, bound, CheckpointFiles(session, folder))
    name = select.model.name

    def reach(step: Step) -> None:
        context.check_lease(name)
        context.reached(name, step)

    return Sink(
        select=select,
        bindings=restart(bindings, progress),
        progress=progress,
        table=table,
        emit=context.emit,
        companion=next(iter(companion), None),
        keeper=open_keeper(context, select),
        follow=context.follow,
        reached=reach,
    )


def check_progress(context: RunContext, bound: BoundSelect, folder: str) -> None:
    """Raise what `decide` raises of the model as it stands now."""
    sources = read_sources(context.session, context.brokers, bound.bindings)
    decide_all([read_state(context.session, each, sources) for each in query_identities(bound.select, folder)])


def open_keeper(context: RunContext, select: Select) -> Keeper | None:
    """What maintains the tables of a model; None where somebody else does."""
    maintenance, name = find_maintenance(context.manifest, select), select.model.name

    def reach(step: MaintenanceStep) -> None:
        context.check_lease(name)
        context.reached(name, step)

    return Keeper(maintenance, context.emit, reach) if maintenance.tasks else None


def find_maintenance(manifest: Manifest, select: Select) -> ModelMaintenance:
    """How the tables of a model are maintained, and who streams them."""
    model = select.model
    readers = [
        TableReader(other.name, other.table)
        for other in manifest.models.values()
        if model.name in other.config.compared_inputs(found.name for found in stored_refs(manifest, other))
    ]
    readers += [
        TableReader(other.name, other.table, checkpoint_of(manifest.target, other.name))
        for other in manifest.models.values()
        if any(found.name == model.name and reads_model(manifest, found.name) for found in other.facts.streams)
    ]
    order = build_table_spec(model.table, compiled_columns(select), model.config, "").order_by
    said = model.config.maintenance
    left = f"{model.table} is left alone: by the model's properties somebody else maintains it"
    if not said.procedures:
        left = f"{model.table} is left alone: `maintenance` is false"
    elif is_maintained(model):
        left = ""
    return ModelMaintenance(
        model.name,
        model.table,
        maintenance_tasks(model),
        order,
        tuple(readers),
        said.max_time_ratio,
        said.max_time.length_ms,
        left,
        manifest.target.checkpoints,
    )


def check_specs(session: SparkSession, model: Model) -> None:
    """Raise `RunError` (`unknown-partition-spec`) for tasks that name a partition spec which the table does not have.

    The ids of the specs stand in the table's metadata alone, where no compiler sees them.
    """
    asked = [(task, spec) for task in maintenance_tasks(model) if (spec := spec_of(task.options)) is not None]
    if not asked:
        return
    known = sorted(map(int, load_table(session, model.table).specs().keySet()))
    problems = [
        Problem(
            "unknown-partition-spec",
            f"Task '{task.name}' asks for the partition spec {spec}, which table {task.table} does not have.",
            f"It has {', '.join(map(str, known))}.",
            place=said_at(model, task),
        )
        for task, spec in asked
        if spec not in known
    ]
    if problems:
        raise RunError(problems)


def check_tables(manifest: Manifest, catalog: OpenCatalog, select: Select) -> None:
    """Raise `RunError` (`table-missing`) for models that this one reads and that have never run, and for seeds."""
    missing = [
        Problem(
            "table-missing",
            f"{'Seed' if reference.name in manifest.seeds else 'Model'} '{reference.name}' has no table yet.",
            "",
            f"Fill it: lakesql seed --select {reference.name}"
            if reference.name in manifest.seeds
            else f"Run it first, or with this model: lakesql run --select +{select.model.name}",
            reference.place,
        )
        for reference, table in tables_read(manifest, select)
        if load_table_state(catalog, table) is None
    ]
    if missing:
        raise RunError(missing)


def tables_read(manifest: Manifest, select: Select) -> list[tuple[Reference, TableName]]:
    """The tables of other models and of seeds that a model reads, each with where it names them."""
    read = [(found, read_table(manifest, found.name)) for found in stored_refs(manifest, select.model)]
    models = [(found, reads_model(manifest, found.name)) for found in select.model.facts.streams]
    return [*read, *((found, model.table) for found, model in models if model is not None)]
