"""The text of a compiled file: everything that a model runs, for a reviewer to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from lakesql.compile.batch import (
    NEW_COMMIT,
    CheckDeletes,
    CheckRows,
    FillUnsent,
    KeepRows,
    MakeView,
    ReadBounds,
    Remember,
    RememberMoves,
    TakeTombstones,
    Write,
)
from lakesql.compile.header import render_header
from lakesql.compile.maintenance import call_text, when_due
from lakesql.compile.select import Select, output_columns
from lakesql.compile.table import (
    DEFAULT_PROPERTIES,
    TableColumn,
    TableSpec,
    build_table_spec,
    create_table,
)
from lakesql.errors import RunError
from lakesql.model.config import PartitionField
from lakesql.model.maintenance_tasks import MaintenanceTask, maintenance_tasks
from lakesql.modes.batches.all_batches import batches_of, view_of
from lakesql.names import DELETED_AT, Memory


def compiled_text(select: Select) -> str:
    """The statements of a model in the order in which they run, each ended by `;` and
    under a comment line that tells when it runs.

    They are the statements that Spark gets, except the CREATE TABLE, which is shown
    without the default properties.
    """
    model = select.model
    if not model.config.is_stored:
        when = "when the SELECT has changed, or the columns of what it reads: the view"
        return (
            "\n\n".join(
                (render_header(select), _section(when, view_of(select).statement()))
            )
            + "\n"
        )
    table = build_table_spec(
        model.table, _shown_columns(select), model.config, model.properties.description
    )
    parts = [render_header(select), _table_section(table)]
    for kind in select.writing.memories:
        parts.append(
            _table_section(
                memory_spec(select, kind, compiled_columns(select)), _MADE[kind]
            )
        )
    mode = batches_of(select)
    views = mode.feed_views
    for step in (*(views.views() if views else ()), *mode.steps(select.columns)):
        match step:
            case MakeView():
                parts.append(_section(step.when, step.text))
            case Write():
                parts.append(_section(step.when, step.text()))
                parts += [_section(NEW_COMMIT, step.new.text())] if step.new else []
                if views and step.truncating:
                    emptied = views.changed(has_truncate=True)
                    parts.append(_section(emptied.when, emptied.text))
                    parts.append(
                        _section(
                            "each batch with a truncate: the commit",
                            step.truncating_text(),
                        )
                    )
            case KeepRows() | FillUnsent() | CheckRows():
                parts.append(_section(step.when, step.text))
            case TakeTombstones():
                parts += [
                    _section(step.when, step.text),
                    _section(step.newest.when, step.newest.text),
                ]
            case Remember() | RememberMoves():
                parts.append(_section(step.when, step.text))
                parts.append(
                    _section(
                        "once a day: what has been remembered for long enough is forgotten",
                        step.forget,
                    )
                )
            case ReadBounds() | CheckDeletes():
                # no statement: the placeholder in the one that follows represents it
                pass
    if select.late_text:
        when = (
            "each batch that has late records: the rows among which they are looked for"
        )
        parts.append(_section(when, select.late_text))
    tasks = maintenance_tasks(model)
    own = [task for task in tasks if not task.is_beside]
    parts += [_task_section(task, table) for task in own]
    when = (
        "the same"
        if own and not any(task.written for task in own)
        else "by the model's own thresholds"
    )
    for owner in dict.fromkeys(task.owner for task in tasks if task.is_beside):
        calls = (call_text(task) for task in tasks if task.owner == owner)
        parts.append(_section(f"{owner}: {when}, if the table is there", *calls))
    return "\n\n".join(parts) + "\n"


def task_texts(select: Select, names: Collection[str]) -> str:
    """The statements of the model's maintenance tasks in `names`, each under a comment
    line that tells when it is due."""
    table = build_table_spec(
        select.model.table, compiled_columns(select), select.model.config, ""
    )
    tasks = (task for task in maintenance_tasks(select.model) if task.name in names)
    return "\n\n".join(_task_section(task, table) for task in tasks) + "\n"


def _task_section(task: MaintenanceTask, table: TableSpec) -> str:
    order = () if task.is_beside else table.order_by
    return _section(
        f"{task.name}: {when_due(task.options, task.is_by_time)}",
        call_text(task, order),
    )


def compiled_columns(select: Select) -> tuple[TableColumn, ...]:
    """The columns of a model's table; a type is None if the SELECT does not tell it."""
    return tuple(
        TableColumn(
            column.name,
            column.type or None,
            select.model.properties.description_of(column.name),
        )
        for column in output_columns(select)
    )


def declared_columns(select: Select) -> tuple[TableColumn, ...]:
    """The columns of a SELECT that gives the type of each. Raises `RunError`
    (`this-missing`) if it does not."""
    model, columns = select.model, compiled_columns(select)
    untyped = [column.name for column in columns if column.type is None]
    if untyped or not columns:
        raise RunError.of(
            "this-missing",
            f"Model '{model.name}' reads its own table, {model.table}, which does not exist yet.",
            why="It can be made first if the SELECT says the type of each column"
            f"{', and it does not of ' + ', '.join(untyped) if untyped else ''}.",
            fix="Cast them: CAST(… AS bigint) AS n.",
            place=model.place,
        )
    return columns


def _shown_columns(select: Select) -> tuple[TableColumn, ...]:
    """The columns of a model's table for the compiled file; for a model over tables
    including those of a `*`, as far as the models that it reads tell them."""
    offered = select.query.offered
    if offered is None or select.columns is not None:
        return compiled_columns(select)
    if select.model.config.reads == "streams":
        return compiled_columns(select)
    columns = ((column.name or "", column.type) for column in offered)
    describe = select.model.properties.description_of
    return tuple(
        TableColumn(name, kind.text if kind else None, describe(name))
        for name, kind in columns
    )


_MADE: Mapping[Memory, str] = {
    "tombstones": "when",
    "moves": "when the first batch has changes of keys to remember, and",
}
"""When the table of a memory is created, in words."""


def memory_spec(
    select: Select, kind: Memory, columns: tuple[TableColumn, ...] = ()
) -> TableSpec:
    """The table in which a model's batches remember deleted keys (`tombstones`) or key
    changes (`moves`); `columns` are those of the model's own table."""
    match kind:
        case "tombstones":
            what, remembered = batches_of(select).remembered(columns)
            comment = f"{what} {select.model.table}."
        case "moves":
            views = batches_of(select).feed_views
            moves = views.key_changes if views else None
            assert moves is not None, "no other mode remembers changes of keys"
            remembered = moves.columns()
            comment = f"Changes of keys that batches of {select.model.table} have cut."
        case _:
            assert_never(kind)
    return TableSpec(
        name=select.model.table.memory(kind),
        columns=(
            *remembered,
            TableColumn(
                DELETED_AT, "timestamp", "When the batch was written that brought it."
            ),
        ),
        partition_by=(PartitionField("days", DELETED_AT),),
        properties=DEFAULT_PROPERTIES,
        comment=comment,
    )


def _table_section(table: TableSpec, when: str = "when") -> str:
    shown = {
        key: value
        for key, value in table.properties.items()
        if DEFAULT_PROPERTIES.get(key) != value
    }
    absent = [key for key in DEFAULT_PROPERTIES if key not in table.properties]
    but = f", except {', '.join(absent)}" if absent else ""
    when = f"{when} the table does not exist; lakesql's default properties are set too{but} (docs/models.md)"
    return _section(when, *create_table(replace(table, properties=shown)))


def _section(when: str, *statements: str) -> str:
    return f"-- {when}\n" + "\n".join(f"{statement};" for statement in statements)
