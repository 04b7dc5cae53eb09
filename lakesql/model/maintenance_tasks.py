"""Which maintenance tasks a model has: procedures on its own table, on its dead-letter
table, and on the tables of what its batches remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from lakesql.errors import Place
from lakesql.model.model import Model, WrittenCall
from lakesql.model.table_name import TableName
from lakesql.names import (
    DEAD_LETTER_SUFFIX,
    MAINTAINED_PROPERTY,
    MEMORY_SUFFIXES,
)
from lakesql.project.iceberg_options import SORT_KEYS, ZORDER_KEYS
from lakesql.project.procedures import (
    DEFAULTS,
    RECENT,
    ExpireSnapshots,
    Procedure,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)


@dataclass(frozen=True, slots=True)
class UnknownFiles:
    """Files below a table's location that no snapshot references and that the table's
    own writers are not known to have written.

    `bytes` is the size of the first thousand. `listed` is the digest of the list of
    them that somebody has asked for; '' if nobody has.
    """

    count: int = 0
    bytes: int = 0
    example: str = ""
    listed: str = ""


def read_unknown(found: object) -> UnknownFiles:
    """The unknown files recorded in a table's property, of which `found` is the value;
    no files if it cannot be read."""
    match found:
        case [int(count), int(size), str(example), str(listed)]:
            return UnknownFiles(count, size, example, listed)
        case _:
            return UnknownFiles()


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """A procedure of Iceberg's that is run on a table of a model.

    `owner` is the name of the `model`, with a suffix such as `__dead_letter` for a
    table beside its own (`is_beside`), which may not exist yet. `written` is the
    statement of a maintenance model by which it is run; None if there is none.
    """

    model: str
    owner: str
    procedure: str
    table: TableName
    options: Procedure
    is_beside: bool = False
    written: WrittenCall | None = None

    @property
    def name(self) -> str:
        """The task's name, such as `orders.rewrite_data_files`, or for a statement of
        the maintenance model `orders_sorted`, `orders_sorted.rewrite_data_files`."""
        return self.written.name if self.written else f"{self.owner}.{self.procedure}"

    @property
    def is_by_time(self) -> bool:
        """Whether it is due by its trigger alone."""
        return self.written is not None and self.written.is_by_time


def is_maintained(model: Model) -> bool:
    """Whether lakesql maintains the model's own table, by the model's table
    properties."""
    return not is_left(model.config.properties)


def is_left(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a table say that another engine maintains it."""
    return properties.get(MAINTAINED_PROPERTY, "").lower() == "false"


def rewrite_of(model: Model) -> RewriteDataFiles:
    """The options by which a rewrite of the model's data files is due: of a written
    CALL, of its configuration, or the defaults. Also if another engine does it."""
    written = [
        call.options
        for call in model.calls
        if isinstance(call.options, RewriteDataFiles)
    ]
    if written:
        return written[-1]
    usual = model.config.usual_maintenance
    rewrite = model.config.maintenance.rewrite_data_files or usual.rewrite_data_files
    assert rewrite is not None, "by default it is due some time"
    return rewrite


def maintenance_tasks(model: Model) -> tuple[MaintenanceTask, ...]:
    """The tasks of all tables of a model: its own, the dead-letter table, and those of
    what its batches may remember. None for a model without a table."""
    if not model.config.is_stored:
        return ()
    has_records = model.config.reads == "streams"
    tables = (
        {model.name + DEAD_LETTER_SUFFIX: model.table.dead_letter}
        if has_records
        else {}
    )
    tables |= {
        model.name + MEMORY_SUFFIXES[kind]: model.table.memory(kind)
        for kind in model.config.memories
    }
    beside = {
        name: _beside(name, options)
        for name, options in model.config.maintenance.procedures.items()
    }
    return (
        *own_tasks(model),
        *(
            MaintenanceTask(model.name, owner, name, table, options, is_beside=True)
            for owner, table in tables.items()
            for name, options in beside.items()
        ),
    )


def own_tasks(model: Model) -> tuple[MaintenanceTask, ...]:
    """The tasks of a model's own table; none if another engine maintains it."""
    if not is_maintained(model) or not model.config.is_stored:
        return ()
    tasks: list[MaintenanceTask] = []
    for name, options in model.config.maintenance.procedures.items():
        written = _written(model, name)
        tasks += written or (
            MaintenanceTask(model.name, model.name, name, model.table, options),
        )
    return tuple(tasks)


def said_at(model: Model, task: MaintenanceTask) -> Place:
    """The place where a task of the model is configured: its CALL, or the option
    `maintenance`."""
    return task.written.place if task.written else model.option_place("maintenance")


def _written(model: Model, procedure: str) -> tuple[MaintenanceTask, ...]:
    """The tasks of the CALL statements that run a procedure on the model's table."""
    return tuple(
        MaintenanceTask(
            model.name, model.name, procedure, model.table, call.options, written=call
        )
        for call in model.calls
        if call.procedure == procedure
    )


def _beside(name: str, options: Procedure) -> Procedure:
    """The options of a procedure for a table beside the model's own, without those that
    depend on the columns and partitions of that."""
    if options == DEFAULTS[name]:
        return options
    match options:
        case RewriteDataFiles():
            plain = RewriteDataFiles()
            of_order = {*SORT_KEYS, *ZORDER_KEYS}
            return replace(
                options,
                strategy=plain.strategy,
                sort_order=plain.sort_order,
                where=RECENT if options.where == RECENT else "",
                output_spec_id=None,
                options={
                    key: value
                    for key, value in options.options.items()
                    if key not in of_order
                },
            )
        case RewritePositionDeleteFiles():
            return replace(options, where="")
        case RewriteManifests():
            return replace(options, spec_id=None, sort_by=())
        case ExpireSnapshots() | RemoveOrphanFiles():
            return options
        case _:
            assert_never(options)
