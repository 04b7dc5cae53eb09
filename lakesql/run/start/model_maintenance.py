"""Decides who maintains the tables of a model, and with which tasks."""

from __future__ import annotations

from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_columns
from lakesql.compile.table import build_table_spec
from lakesql.engine.maintenance.call import ModelMaintenance
from lakesql.engine.maintenance.keeper import Keeper, MaintenanceStep
from lakesql.engine.maintenance.protect import TableReader
from lakesql.graph.manifest import Manifest, reads_model, stored_refs
from lakesql.model.maintenance_tasks import is_maintained, maintenance_tasks
from lakesql.run.start.context import RunContext


def open_keeper(context: RunContext, select: Select) -> Keeper | None:
    """The keeper that maintains the tables of a model; None if lakesql does not
    maintain them."""
    maintenance, name = find_maintenance(context.manifest, select), select.model.name

    def reach(step: MaintenanceStep) -> None:
        context.check_lease(name)
        context.reached(name, step)

    return Keeper(maintenance, context.emit, reach) if maintenance.tasks else None


def find_maintenance(manifest: Manifest, select: Select) -> ModelMaintenance:
    """The maintenance of a model's tables: tasks, sort order, time limits, and the
    models that read them as streams or views."""
    model = select.model
    readers = [
        TableReader(other.name, other.table)
        for other in manifest.models.values()
        if model.name
        in other.config.compared_inputs(
            found.name for found in stored_refs(manifest, other)
        )
    ]
    readers += [
        TableReader(other.name, other.table, manifest.target.checkpoint_of(other.name))
        for other in manifest.models.values()
        if any(
            found.name == model.name and reads_model(manifest, found.name)
            for found in other.facts.streams
        )
    ]
    order = build_table_spec(
        model.table, compiled_columns(select), model.config, ""
    ).order_by
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
