"""What must be done before a model's query may write: a list of small values, each with its SQL and its sentence.

`plan_table` compares what a model asks for with what is there. A table is never made to fit by losing anything that
its owner did not ask to lose: what the configuration does not mention (another property, a sort order, partitions)
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from lakesql.compile import table as sql
from lakesql.compile.storable import find_unstorable, say_unstorable
from lakesql.compile.table import TableColumn, TableSpec
from lakesql.errors import Problem, RunError
from lakesql.model.config import PartitionField, SchemaChange, SortField
from lakesql.model.table_name import TableName
from lakesql.plan.table_state import StateColumn, TableState
from lakesql.stream.types import stored_type


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Make a namespace."""

    catalog: str
    namespace: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Make a table."""

    spec: TableSpec


@dataclass(frozen=True, slots=True)
class AdoptTable:
    """Take over a table that somebody else made, and set the properties that a table of lakesql's needs.

    `writers` are the models that have written it until now, none where it was no model.
    """

    table: TableName
    writers: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Add columns, at the end; rows that are there have NULL in them."""

    table: TableName
    columns: tuple[TableColumn, ...]


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column that the SELECT has no longer."""

    table: TableName
    column: str


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Give a column a type that holds all that the old one held."""

    table: TableName
    column: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ChangePartitions:
    """Partition what is written from now on in another way; files that are there stay as they are."""

    table: TableName
    dropped: tuple[PartitionField, ...]
    added: tuple[PartitionField, ...]


@dataclass(frozen=True, slots=True)
class SetOrder:
    """Order what is written from now on in another way; files that are there stay as they are."""

    table: TableName
    order_by: tuple[SortField, ...]


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties."""

    table: TableName
    properties: Mapping[str, str]


Step = (
    CreateNamespace
    | CreateTable
    | AdoptTable
    | AddColumns
    | DropColumn
    | WidenColumn
    | ChangePartitions
    | SetOrder
    | SetProperties
)


def plan_table(
    model: str,
    spec: TableSpec,
    policy: SchemaChange,
    state: TableState | None,
    namespaces: frozenset[str],
    read: Mapping[str, tuple[str, ...]],
) -> tuple[Step, ...]:
    """The steps that make the table which `spec` asks for out of what is there, none if it fits as it is.

    Every column of `spec` has its type. Columns are compared without case; a table column that holds every value of
    the SELECT's type fits. Under `ignore` and `fail` columns and partitions stay as they are; sort order and properties
    follow the configuration under every policy. `read` are the table's columns that each batch reads, by the option
    that names them. Raises `RunError` with every problem found: `schema-change` (under `fail`, anything differs; under
    `ignore`, the table lacks a column of `read` or of the sort order; under `sync_all_columns`, a table that somebody
    else made would lose columns), `type-change` (no widening leads from one type to the other), `column-required` (the
    table cannot do without a column that the SELECT lacks), `unstorable-type` (Iceberg has no column of the type).
    """
    if state is None:
        if problems := _unstorable(model, spec.columns, sql.format_version(spec.properties)):
            raise RunError(problems)
        missing = spec.name.namespace not in namespaces
        namespace = (CreateNamespace(spec.name.catalog, spec.name.namespace),) if missing else ()
        return (*namespace, CreateTable(spec))
    changes = _compare(spec, state)
    problems = _problems(model, changes, policy, state)
    if policy == "ignore":
        problems += _lacking(model, changes, state.name, read)
    if policy in ("append_new_columns", "sync_all_columns"):
        problems += _unstorable(model, changes.added, sql.format_version({**state.properties, **changes.properties}))
    if problems:
        raise RunError(problems)
    return tuple(_evolve(model, changes, policy, state))


def statements(step: Step) -> tuple[str, ...]:
    """The SQL that does a step, in order."""
    match step:
        case CreateNamespace(catalog, namespace):
            return (sql.create_namespace(catalog, namespace),)
        case CreateTable(spec):
            return sql.create_table(spec)
        case AdoptTable(table=table, properties=properties) | SetProperties(table=table, properties=properties):
            return (sql.set_properties(table, properties),) if properties else ()
        case AddColumns(table, columns):
            return (sql.add_columns(table, columns),)
        case DropColumn(table, column):
            return (sql.drop_column(table, column),)
        case WidenColumn(table, column, _, new):
            return (sql.alter_type(table, column, new),)
        case ChangePartitions(table, dropped, added):
            return (
                *(sql.drop_partition(table, field) for field in dropped),
                *(sql.add_partition(table, field) for field in added),
            )
        case SetOrder(table, order_by):
            return (sql.set_order(table, order_by),)
        case _:
            assert_never(step)


def describe(step: Step) -> str:
    """A step in one line, for people."""
    match step:
        case CreateNamespace(catalog, namespace):
            return f"create namespace {catalog}.{namespace}"
        case CreateTable(spec):
            shape = [_count(len(spec.columns), "column")]
            if spec.partition_by:
                shape.append(f"partitioned by {_partitions(spec.partition_by)}")
            if spec.order_by:
                shape.append(f"ordered by {_order(spec.order_by)}")
            return f"create table {spec.name} ({', '.join(shape)})"
        case AdoptTable(table, writers, properties):
            sets = f" (sets {_assignments(properties)})" if properties else ""
            return f"take over table {table}, {_by_whom(writers)}{sets}"
        case AddColumns(table, columns):
            added = ", ".join(f"{column.name} {column.type}" for column in columns)
            return f"add {_count(len(columns), 'column')} to {table}: {added}"
        case DropColumn(table, column):
            return f"drop column {column} of {table}"
        case WidenColumn(table, column, old, new):
            return f"widen column {column} of {table} from {old} to {new}"
        case ChangePartitions(table, dropped, added):
            return f"partition {table} from now on {_partition_change(dropped, added)}"
        case SetOrder(table, order_by):
            return f"order {table} from now on by {_order(order_by)}"
        case SetProperties(table, properties):
            return f"set {_assignments(properties)} on {table}"
        case _:
            assert_never(step)


@dataclass(frozen=True, slots=True)
class _Retyped:
    column: StateColumn
    new: str


@dataclass(frozen=True, slots=True)
class _Changes:
    """Where the spec and the table differ. `lost` columns stand in the table alone; no `order_by` means no change."""

    added: tuple[TableColumn, ...]
    lost: tuple[StateColumn, ...]
    widened: tuple[_Retyped, ...]
    clashing: tuple[_Retyped, ...]
    unpartitioned: tuple[PartitionField, ...]
    partitioned: tuple[PartitionField, ...]
    order_by: tuple[SortField, ...]
    properties: Mapping[str, str]


def _compare(spec: TableSpec, state: TableState) -> _Changes:
    there = {column.name.lower(): column for column in state.columns}
    wanted = {column.name.lower(): column for column in spec.columns}
    retyped = [
        _Retyped(there[key], new)
        for key, column in wanted.items()
        if key in there and not _holds(there[key].type, new := stored_type(column.type or ""))
    ]
    old_fields = {_folded(field): field for field in state.partition_by}
    new_fields = {_folded(field): field for field in spec.partition_by}
    return _Changes(
        added=tuple(column for key, column in wanted.items() if key not in there),
        lost=tuple(column for key, column in there.items() if key not in wanted),
        widened=tuple(change for change in retyped if _widens(change.column.type, change.new)),
        clashing=tuple(change for change in retyped if not _widens(change.column.type, change.new)),
        unpartitioned=tuple(field for key, field in old_fields.items() if new_fields and key not in new_fields),
        partitioned=tuple(field for key, field in new_fields.items() if key not in old_fields),
        order_by=spec.order_by if _folded_order(spec.order_by) != _folded_order(state.order_by) else (),
        properties={key: value for key, value in spec.properties.items() if not _is_set(key, value, state.properties)},
    )


def _holds(wide: str, narrow: str) -> bool:
    """Whether a column of type `wide` takes every value of type `narrow`."""
    return wide.lower() == narrow.lower() or narrow == "void" or _widens(narrow, wide)


_WIDENINGS = {("int", "bigint"), ("float", "double")}


def _widens(old: str, new: str) -> bool:
    """Whether Iceberg can turn a column of type `old` into one of type `new` (its specification, schema evolution)."""
    if (old, new) in _WIDENINGS:
        return True
    old_digits, new_digits = _decimal(old), _decimal(new)
    if old_digits is None or new_digits is None:
        return False
    return new_digits[1] == old_digits[1] and new_digits[0] > old_digits[0]


def _decimal(kind: str) -> tuple[int, int] | None:
    if not kind.startswith("decimal("):
        return None
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def _is_set(key: str, value: str, properties: Mapping[str, str]) -> bool:
    if key == "format-version":
        # A table's format version only ever goes up.
        return int(properties.get(key, "1")) >= int(value)
    return properties.get(key) == value


def _folded(field: PartitionField) -> tuple[str, str, int | None]:
    return field.transform, field.column.lower(), field.width


def _folded_order(order_by: tuple[SortField, ...]) -> tuple[tuple[str, bool, bool], ...]:
    return tuple((field.column.lower(), field.descending, field.nulls_first) for field in order_by)


def _problems(model: str, changes: _Changes, policy: SchemaChange, state: TableState) -> list[Problem]:
    if policy == "fail":
        differences = _differences(changes)
        return [_schema_change(model, state.name, differences)] if differences else []
    problems = [_type_change(model, state.name, change) for change in changes.clashing]
    shaping = {field.column.lower() for field in state.partition_by}
    shaping |= {field.column.lower() for field in changes.order_by or state.order_by}
    for column in changes.lost:
        if column.required:
            problems.append(_column_required(model, state.name, column.name, "it takes no NULL"))
        elif policy == "sync_all_columns" and column.name.lower() in shaping:
            problems.append(_column_required(model, state.name, column.name, "it is partitioned or ordered by it"))
    if policy == "sync_all_columns" and changes.lost and _is_foreign(model, changes, state):
        problems.append(_foreign_loss(model, changes.lost, state))
    return problems


def _differences(changes: _Changes) -> list[str]:
    fields = changes.unpartitioned or changes.partitioned
    return [
        *(f"{column.name} {column.type} is new" for column in changes.added),
        *(f"{column.name} {column.type} is in the table alone" for column in changes.lost),
        *(
            f"{change.column.name} is {change.new}, in the table {change.column.type}"
            for change in (*changes.widened, *changes.clashing)
        ),
        *([f"partitions: {_partition_change(changes.unpartitioned, changes.partitioned)}"] if fields else []),
    ]


def _schema_change(model: str, table: TableName, differences: list[str]) -> Problem:
    return Problem(
        "schema-change",
        f"The columns of model '{model}' and of table {table} differ: {'; '.join(differences)}.",
        why="The model says on_schema_change='fail'.",
    )


def _foreign_loss(model: str, lost: tuple[StateColumn, ...], state: TableState) -> Problem:
    writers = tuple(sorted(state.ledger_models))
    return Problem(
        "schema-change",
        f"Table {state.name}, {_by_whom(writers)}, would lose what model '{model}' does not select: "
        f"{', '.join(column.name for column in lost)}.",
        why="on_schema_change='sync_all_columns' drops no column of a table that is taken over.",
        fix="If it is the right table, drop them by hand, or take on_schema_change='append_new_columns'.",
    )


def _lacking(model: str, changes: _Changes, table: TableName, read: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Columns that do not land, and that an option names; each is told once: keys are the default order too."""
    added = {column.name.lower(): column.name for column in changes.added}
    for option, columns in {**read, "order_by": tuple(field.column for field in changes.order_by)}.items():
        for name in filter(None, (added.pop(column.lower(), None) for column in columns)):
            yield Problem(
                "schema-change",
                f"Table {table} has no column '{name}', which {option} of model '{model}' names.",
                why="The model says on_schema_change='ignore', so the column is not added.",
                fix="Add it to the table by hand, or take on_schema_change='append_new_columns'.",
            )


def _type_change(model: str, table: TableName, change: _Retyped) -> Problem:
    name, old, new = change.column.name, change.column.type, change.new
    return Problem(
        "type-change",
        f"Column '{name}' of model '{model}' is {new}, and in table {table} it is {old}.",
        why="Iceberg turns int into bigint, float into double and a decimal into one of more digits, nothing else.",
        fix=f"Cast it in the SELECT (CAST({name} AS {old})), or give the new one another name.",
    )


def _column_required(model: str, table: TableName, column: str, reason: str) -> Problem:
    return Problem(
        "column-required", f"Model '{model}' has no column '{column}', and table {table} cannot do without: {reason}."
    )


def _unstorable(model: str, columns: tuple[TableColumn, ...], version: int) -> list[Problem]:
    return [
        Problem(
            "unstorable-type",
            f"Column '{column.name}' of model '{model}' is of a type that no table can hold.",
            *say_unstorable(column.type or "", part),
        )
        for column in columns
        if (part := find_unstorable(column.type or "", version))
    ]


def _evolve(model: str, changes: _Changes, policy: SchemaChange, state: TableState) -> Iterator[Step]:
    table = state.name
    if _is_foreign(model, changes, state):
        yield AdoptTable(table, tuple(sorted(state.ledger_models)), changes.properties)
    elif changes.properties:
        yield SetProperties(table, changes.properties)
    if policy in ("append_new_columns", "sync_all_columns"):
        if changes.added:
            yield AddColumns(table, changes.added)
        for change in changes.widened:
            yield WidenColumn(table, change.column.name, change.column.type, change.new)
        if changes.unpartitioned or changes.partitioned:
            yield ChangePartitions(table, changes.unpartitioned, changes.partitioned)
    if changes.order_by:
        yield SetOrder(table, changes.order_by)
    if policy == "sync_all_columns":
        # Last: a column by which the table was ordered until now can be dropped now.
        for column in changes.lost:
            yield DropColumn(table, column.name)


def _is_foreign(model: str, changes: _Changes, state: TableState) -> bool:
    """Whether somebody else made or wrote the table.

    A table that no batch has reached yet, or a dead-letter table, has no ledger entry: it is known by the properties
    that lakesql gives every table, which a table that was taken over has too from then on.
    """
    if model in state.ledger_models:
        return False
    return bool(state.ledger_models) or any(key in sql.DEFAULT_PROPERTIES for key in changes.properties)


def _by_whom(writers: tuple[str, ...]) -> str:
    return f"written by {', '.join(writers)} until now" if writers else "made by somebody else"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _partitions(fields: tuple[PartitionField, ...]) -> str:
    return ", ".join(sql.partition_text(field).replace("`", "") for field in fields)


def _partition_change(dropped: tuple[PartitionField, ...], added: tuple[PartitionField, ...]) -> str:
    parts = [f"by {_partitions(added)}"] if added else []
    parts += [f"no longer by {_partitions(dropped)}"] if dropped else []
    return ", ".join(parts)


def _order(order_by: tuple[SortField, ...]) -> str:
    return ", ".join(sql.sort_text(field).replace("`", "") for field in order_by)


def _assignments(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in properties.items())
