"""Which DDL a model's table needs before a run may write to it: a list of steps, each
with its SQL and a sentence for people.

`plan_table` compares the configured table with the existing one. A step never removes
what the owner did not ask to remove: what the configuration does not mention (another
property, a sort order, partitions) stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lakesql.compile import table as sql
from lakesql.compile.quote import identifier
from lakesql.compile.storable import find_misused, find_unstorable, say_unstorable
from lakesql.compile.table import TableColumn, TableSpec
from lakesql.errors import Problem, RunError, quoted
from lakesql.model.config import PartitionField, SchemaChange, SortField
from lakesql.model.table_name import TableName
from lakesql.model.writing import Versions
from lakesql.stream.types import (
    Growth,
    find_field,
    find_growth,
    find_lost,
    parse_type,
    stored_type,
    type_at,
)
from lakesql.table.table_state import StateColumn, TableState

F = TypeVar("F", PartitionField, SortField)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a table: a line of text for people, and its SQL statements in
    order.

    `is_takeover`: the step takes over a table that somebody else made or writes.
    """

    text: str
    statements: tuple[str, ...]
    is_takeover: bool = False


def plan_table(
    model: str,
    spec: TableSpec,
    policy: SchemaChange,
    state: TableState | None,
    namespaces: frozenset[str],
    read: Mapping[str, tuple[str, ...]],
) -> tuple[Step, ...]:
    """The steps that turn the existing table (`state`, None if there is none) into the
    one that `spec` describes; empty if it fits as it is.

    Every column of `spec` has its type. Column names are compared case-insensitively; a
    table column whose type holds every value of the SELECT's type fits. A table of
    lakesql's in which no row was ever written is replaced if its columns or partitions
    differ. Under `ignore` and `fail` columns and partitions stay as they are; sort
    order and properties follow the configuration under every policy. `read` has the
    table's columns that each batch reads, by the option that names them.

    Raises `RunError` with every problem found:

    - `schema-change`: under `fail`, columns or partitions differ; under `ignore`, the
      table lacks a column of `read`, of the sort order or of the mode; under
      `sync_all_columns`, a table that somebody else made would lose columns; or a
      history would lack a column that says when a version is valid, or would
      distinguish its versions by fewer columns than before.
    - `type-change`: Iceberg cannot widen one type to the other, or under `ignore` it
      would have to.
    - `column-required`: the SELECT lacks a column that is NOT NULL in the table or that
      partitions it.
    - `unstorable-type`: Iceberg has no column of the type.
    - `order-type`, `key-type`: rows cannot be ordered or compared by a column of the
      type.
    """
    types = {column.name.lower(): column.type or "" for column in spec.columns}
    if problems := list(find_misused(model, types, spec.order_by, read)):
        raise RunError(problems)
    if state is None or _is_made_anew(spec, state, types):
        if problems := list(
            _unstorable(model, spec.columns, sql.format_version(spec.properties))
        ):
            raise RunError(problems)
        if state is not None:
            return (replace_table(spec),)
        missing = spec.name.namespace not in namespaces
        return (
            *((create_namespace(spec.name),) if missing else ()),
            create_table(spec),
        )
    changes = _compare(spec, state)
    needed = (
        read
        if spec.versions
        else {**read, **{option: (name,) for option, name in spec.added.items()}}
    )
    problems = list(_problems(model, changes, policy, state, needed))
    if spec.versions and policy != "fail" and not state.is_unwritten:
        problems += _unversioned(model, spec, changes, state)
    if (
        spec.versions
        and _is_merging(spec.versions)
        and policy in ("append_new_columns", "ignore")
    ):
        problems += _merging(model, changes, state)
    if problems:
        raise RunError(problems)
    return tuple(_evolve(model, changes, policy, state))


def is_of_shape(spec: TableSpec, state: TableState) -> bool:
    """Whether the table has the columns and partitions of `spec`."""
    return not _compare(spec, state).is_shaping


def _is_made_anew(spec: TableSpec, state: TableState, types: Mapping[str, str]) -> bool:
    """Whether the table is to be replaced, not altered: it is lakesql's, no row was
    ever written to it, and its columns or partitions differ from `spec`."""
    # Only the keys count: the model's edit may have changed the values.
    is_ours = state.properties.keys() >= sql.MARKS
    there: dict[str, str | None] = {
        column.name.lower(): column.type for column in state.columns
    }
    # Replacing must not drop a partitioning column: Iceberg cannot merge into a table
    # that has lost one.
    sources = {field.column.lower() for field in state.partition_by}
    sources |= {name.lower() for name in state.was_partitioned_by}
    is_partitioned_alike = all(
        stored_type(type_at(types, name)) == type_at(there, name) for name in sources
    )
    return (
        state.is_unwritten
        and is_ours
        and is_partitioned_alike
        and _compare(spec, state).is_shaping
    )


def check_mergeable(model: str, state: TableState) -> None:
    """Raise `RunError` (`partition-lost`) if the table has lost a column that once
    partitioned it: Iceberg cannot merge into it any more."""
    if not state.lost_partitions:
        return
    raise RunError.of(
        "partition-lost",
        f"Table {state.name} was once partitioned by {quoted(state.lost_partitions)}, and the column of that is gone.",
        why="Iceberg cannot merge into a table that has lost such a column, whatever its partitions are now, and one "
        "of that name that is added is another one.",
        fix=f"Fill a new table from what the streams have: lakesql drop {model}, then lakesql run --select {model}. "
        "Copy the table first, if they do not hold their start any more.",
    )


def create_namespace(table: TableName) -> Step:
    """The step that creates the namespace of a table."""
    name = f"{identifier(table.catalog)}.{identifier(table.namespace)}"
    text = f"create namespace {table.catalog}.{table.namespace}"
    return Step(text, (f"CREATE NAMESPACE IF NOT EXISTS {name}",))


def create_table(spec: TableSpec) -> Step:
    """The step that creates a table."""
    shape = [_count(len(spec.columns), "column")]
    shape += (
        [f"partitioned by {_partitions(spec.partition_by)}"]
        if spec.partition_by
        else []
    )
    shape += [f"ordered by {_order(spec.order_by)}"] if spec.order_by else []
    return Step(
        f"create table {spec.name} ({', '.join(shape)})", sql.create_table(spec)
    )


def replace_table(spec: TableSpec) -> Step:
    """The step that replaces a table in which no row was ever written."""
    return Step(
        f"make table {spec.name} anew: no row has ever stood in it",
        sql.create_table(spec, "OR REPLACE"),
    )


def adopt_table(state: TableState, properties: Mapping[str, str]) -> Step:
    """The step that takes over a table which somebody else made, and sets the
    properties that a table of lakesql's needs."""
    sets = f" (sets {_assignments(properties)})" if properties else ""
    done = set_properties(state.name, properties).statements if properties else ()
    return Step(
        f"take over table {state.name}, {_by_whom(state)}{sets}", done, is_takeover=True
    )


def add_columns(table: TableName, columns: tuple[TableColumn, ...]) -> Step:
    """The step that adds columns at the end; existing rows have NULL in them."""
    added = ", ".join(f"{column.name} {column.type}" for column in columns)
    text = f"add {_count(len(columns), 'column')} to {table}, NULL in the rows that are there: {added}"
    return _alter(
        text, table, f"ADD COLUMNS ({', '.join(map(sql.column_text, columns))})"
    )


def drop_column(table: TableName, column: str) -> Step:
    """The step that drops a column which the SELECT no longer has."""
    return _alter(
        f"drop column {column} of {table}", table, f"DROP COLUMN {identifier(column)}"
    )


def keep_column(table: TableName, column: str, because: str) -> Step:
    """The step, without SQL, that says that a column stays which the SELECT no longer
    has. `because` completes "the table …"."""
    return Step(
        f"keep column {column} of {table}, NULL in new rows: the table {because}", ()
    )


def widen_column(table: TableName, column: str, old: str, new: str) -> Step:
    """The step that widens a column's type from `old` to `new`."""
    text = f"widen column {column} of {table} from {old} to {new}"
    return _alter(text, table, f"ALTER COLUMN {identifier(column)} TYPE {new}")


def grow_column(table: TableName, growth: Growth) -> Step:
    """The step that adds a field nested in a column, or widens one."""
    path, kind = ".".join(growth.path), growth.type.text
    written = ".".join(map(identifier, growth.path))
    if growth.is_added:
        return _alter(
            f"add field {path} {kind} to {table}",
            table,
            f"ADD COLUMNS ({written} {kind})",
        )
    return _alter(
        f"widen field {path} of {table} to {kind}",
        table,
        f"ALTER COLUMN {written} TYPE {kind}",
    )


def change_partitions(
    table: TableName,
    dropped: tuple[PartitionField, ...],
    added: tuple[PartitionField, ...],
) -> Step:
    """The step that changes the partition spec; existing files stay as they are."""
    drops = (f"DROP PARTITION FIELD {sql.partition_text(field)}" for field in dropped)
    adds = (f"ADD PARTITION FIELD {sql.partition_text(field)}" for field in added)
    return _alter(
        f"partition {table} from now on {_partition_change(dropped, added)}",
        table,
        *drops,
        *adds,
    )


def set_order(table: TableName, order_by: tuple[SortField, ...]) -> Step:
    """The step that changes the sort order; existing files stay as they are."""
    return _alter(
        f"order {table} from now on by {_order(order_by)}",
        table,
        sql.order_text(order_by),
    )


def set_properties(table: TableName, properties: Mapping[str, str]) -> Step:
    """The step that sets table properties."""
    return _alter(
        f"set {_assignments(properties)} on {table}",
        table,
        f"SET {sql.properties_text(properties)}",
    )


def _alter(text: str, table: TableName, *changes: str) -> Step:
    return Step(text, tuple(sql.alter_table(table, change) for change in changes))


@dataclass(frozen=True, slots=True)
class _RetypedStep:
    column: StateColumn
    new: str

    @property
    def growth(self) -> tuple[Growth, ...]:
        """The widenings and added fields by which the column holds the new type's
        values; empty if Iceberg cannot change it so."""
        return _growth(self.column.name, self.column.type, self.new) or ()


@dataclass(frozen=True, slots=True)
class _Changes:
    """The differences between spec and table.

    `added` columns are in the spec alone, `lost` ones in the table alone. `widened`
    columns can be altered to the spec's type, `clashing` ones cannot. `unpartitioned`
    and `partitioned` are the partition fields to drop and to add. An empty `order_by`
    means that the sort order stays.
    """

    added: tuple[TableColumn, ...]
    lost: tuple[StateColumn, ...]
    widened: tuple[_RetypedStep, ...]
    clashing: tuple[_RetypedStep, ...]
    unpartitioned: tuple[PartitionField, ...]
    partitioned: tuple[PartitionField, ...]
    order_by: tuple[SortField, ...]
    properties: Mapping[str, str]

    def partitioning(self, state: TableState) -> set[str]:
        """The columns by which the table is partitioned afterwards, in lower case."""
        return {
            _root(field.column)
            for field in state.partition_by
            if _folded(field) not in self.unpartitioned
        }

    @property
    def is_shaping(self) -> bool:
        """Whether columns or partitions differ."""
        columns = self.added or self.lost or self.widened or self.clashing
        return bool(columns or self.unpartitioned or self.partitioned)


def _compare(spec: TableSpec, state: TableState) -> _Changes:
    there = {column.name.lower(): column for column in state.columns}
    wanted = {column.name.lower(): column for column in spec.columns}
    retyped = [
        _RetypedStep(there[key], new)
        for key, column in wanted.items()
        if key in there
        and not _holds(there[key].type, new := stored_type(column.type or ""))
    ]
    old_fields = {_folded(field): field for field in state.partition_by}
    here, made = (_row_type(columns) for columns in (state.columns, spec.columns))
    new_fields = {
        _folded(field): replace(field, column=_spelled(field.column, here, made))
        for field in spec.partition_by
    }
    is_ordered = [*map(_folded, spec.order_by)] == [*map(_folded, state.order_by)]
    return _Changes(
        added=tuple(column for key, column in wanted.items() if key not in there),
        lost=tuple(column for key, column in there.items() if key not in wanted),
        widened=tuple(change for change in retyped if change.growth),
        clashing=tuple(change for change in retyped if not change.growth),
        unpartitioned=tuple(
            field
            for key, field in old_fields.items()
            if new_fields and key not in new_fields
        ),
        partitioned=tuple(
            field for key, field in new_fields.items() if key not in old_fields
        ),
        order_by=() if is_ordered else spec.order_by,
        properties={
            key: value
            for key, value in spec.properties.items()
            if not _is_set(key, value, state.properties)
        },
    )


def _holds(wide: str, narrow: str) -> bool:
    """Whether a column of type `wide` takes every value of type `narrow`."""
    return (
        wide.lower() == narrow.lower()
        or narrow == "void"
        or _growth("", wide, narrow) == ()
    )


def _growth(column: str, old: str, new: str) -> tuple[Growth, ...] | None:
    """The changes that make a column of type `old` hold values of type `new`, empty if
    it does already; None if Iceberg cannot change it so."""
    before, after = parse_type(old), parse_type(new)
    return find_growth(before, after, (column,)) if before and after else None


def _lost_fields(change: _RetypedStep) -> tuple[str, ...]:
    """The dotted paths of the fields that the table's column has and the model's
    lacks."""
    old, new = parse_type(change.column.type), parse_type(change.new)
    lost = find_lost(old, new, (change.column.name,)) if old and new else ()
    return tuple(map(".".join, lost))


def _is_set(key: str, value: str, properties: Mapping[str, str]) -> bool:
    if key == "format-version":
        # A table's format version only ever goes up.
        return int(properties.get(key, "1")) >= int(value)
    return properties.get(key) == value


def _root(path: str) -> str:
    """The name of the top-level column of a field's path, in lower case."""
    return path.lower().split(".")[0]


def _row_type(columns: Sequence[TableColumn] | Sequence[StateColumn]) -> str:
    fields = (
        f"{identifier(column.name)}: {column.type or 'void'}" for column in columns
    )
    return f"struct<{', '.join(fields)}>"


def _spelled(path: str, table: str, wanted: str) -> str:
    """The path to a field in the table's spelling, as ALTER TABLE finds nested fields
    case-sensitively.

    `table` and `wanted` are the row types, as structs, of the table and of the spec; a
    field that the table does not have yet is spelled as in the spec.
    """
    kinds, spelled = [parse_type(table), parse_type(wanted)], []
    for name in path.split("."):
        found = [find_field(kind, name) for kind in kinds]
        spelled.append(next((field.name for field in found if field), name))
        kinds = [field.type if field else None for field in found]
    return ".".join(spelled)


def _folded(field: F) -> F:
    return replace(field, column=field.column.lower())


def _problems(
    model: str,
    changes: _Changes,
    policy: SchemaChange,
    state: TableState,
    read: Mapping[str, tuple[str, ...]],
) -> Iterator[Problem]:
    if policy == "fail":
        if differences := _differences(changes):
            yield Problem(
                "schema-change",
                f"The columns of model '{model}' and of table {state.name} differ: {'; '.join(differences)}.",
                "The model says on_schema_change='fail'.",
            )
        return
    for change in changes.clashing:
        name, old = change.column.name, change.column.type
        what = f"Column '{name}' of model '{model}' is {change.new}, and in table {state.name} it is {old}"
        if lost := _lost_fields(change):
            yield Problem(
                "type-change",
                f"{what}: the model's lacks {quoted(lost)}.",
                "A struct in a table loses no field, and Spark writes no struct without one of them.",
                f"Keep the field in the SELECT, NULL where there is no value, or give column '{name}' another name.",
            )
            continue
        yield Problem(
            "type-change",
            f"{what}.",
            "Iceberg turns int into bigint, float into double and a decimal into one of more digits, nothing else.",
            f"Cast it in the SELECT (CAST({name} AS {old})), or give the new one another name.",
        )
    for change in changes.widened if policy == "ignore" else ():
        name, old = change.column.name, change.column.type
        new_fields = [
            ".".join(growth.path) for growth in change.growth if growth.is_added
        ]
        yield Problem(
            "type-change",
            f"Column '{name}' of model '{model}' is {change.new}, and in table {state.name} it is {old}, which holds "
            "less.",
            "The model says on_schema_change='ignore', so the column stays as it is: values would lose digits in it, "
            "or fail.",
            f"{f'Leave {quoted(new_fields)} out' if new_fields else f'Cast it (CAST({name} AS {old}))'} in the SELECT, "
            "or take on_schema_change='append_new_columns'.",
        )
    partitioning = changes.partitioning(state)
    for column in changes.lost:
        is_partitioning = (
            policy == "sync_all_columns" and column.name.lower() in partitioning
        )
        if column.required or is_partitioning:
            reason = (
                "it takes no NULL" if column.required else "it is partitioned by it"
            )
            yield Problem(
                "column-required",
                f"Model '{model}' has no column '{column.name}', and table {state.name} cannot do without: {reason}.",
            )
    if (
        policy == "sync_all_columns"
        and changes.lost
        and _is_foreign(model, changes, state)
    ):
        yield Problem(
            "schema-change",
            f"Table {state.name}, {_by_whom(state)}, would lose what model '{model}' does not select: "
            f"{', '.join(column.name for column in changes.lost)}.",
            "on_schema_change='sync_all_columns' drops no column of a table that is taken over.",
            "If it is the right table, drop them by hand, or take on_schema_change='append_new_columns'.",
        )
    if policy == "ignore":
        yield from _lacking(model, changes, state.name, read)
    else:
        version = sql.format_version({**state.properties, **changes.properties})
        yield from _unstorable(model, changes.added, version)


def _is_merging(versions: Versions) -> bool:
    """Whether a history merges versions that differ only in a column that is dropped:
    it tracks all columns, and a batch computes all versions of its keys anew."""
    return not versions.tracked and not versions.are_final


def _merging(model: str, changes: _Changes, state: TableState) -> Iterator[Problem]:
    """A problem for each column that the SELECT no longer has, in a history that tracks
    all columns (see `_is_merging`)."""
    for column in changes.lost:
        yield Problem(
            "schema-change",
            f"Model '{model}' tracks all columns, and has no column '{column.name}', as table {state.name} has.",
            "Versions that differ in it alone would become one, as the rows of their keys change. If it has another "
            "name now, those that are there have NULL under that.",
            "Put it back, say by track_columns what makes a version, or fill the table again: "
            f"`lakesql rebuild {model}`.",
        )


def _unversioned(
    model: str, spec: TableSpec, changes: _Changes, state: TableState
) -> Iterator[Problem]:
    """A problem for each added column, such as `valid_from`, that the table of a
    history lacks: its existing versions would have NULL in it."""
    lacking = {column.name for column in changes.added}
    for option, name in spec.added.items():
        if name in lacking:
            yield Problem(
                "schema-change",
                f"Table {state.name} has no column '{name}', which {option} of model '{model}' names.",
                "Versions that are in the table would have NULL in it: none of them would be current, and none be "
                "ended by the next one of its key.",
                f"If it has another name there, put that back by {option}, or {fill_again(model, spec.versions)}.",
            )


def fill_again(model: str, versions: Versions | None) -> str:
    """The advice, as part of a sentence, by which a table gets a new column filled in
    all of its rows."""
    if versions is not None and versions.are_final:
        return f"begin the history anew: `lakesql drop {model}`, then `lakesql run --select {model}`"
    return f"fill the table again: `lakesql rebuild {model}`"


def _differences(changes: _Changes) -> list[str]:
    fields = changes.unpartitioned or changes.partitioned
    return [
        *(f"{column.name} {column.type} is new" for column in changes.added),
        *(
            f"{column.name} {column.type} is in the table alone"
            for column in changes.lost
        ),
        *(
            f"{change.column.name} is {change.new}, in the table {change.column.type}"
            for change in (*changes.widened, *changes.clashing)
        ),
        *(
            [
                f"partitions: {_partition_change(changes.unpartitioned, changes.partitioned)}"
            ]
            if fields
            else []
        ),
    ]


def _lacking(
    model: str, changes: _Changes, table: TableName, read: Mapping[str, tuple[str, ...]]
) -> Iterator[Problem]:
    """A problem for each column that an option needs and that `ignore` does not add.
    Each column is reported once, though several options may name it."""
    added = {column.name.lower(): column.name for column in changes.added}
    for option, columns in {
        **read,
        "order_by": tuple(field.column for field in changes.order_by),
    }.items():
        for name in filter(
            None, (added.pop(column.lower(), None) for column in columns)
        ):
            yield Problem(
                "schema-change",
                f"Table {table} has no column '{name}', which {option} of model '{model}' needs.",
                "The model says on_schema_change='ignore', so the column is not added.",
                "Add it to the table by hand, or take on_schema_change='append_new_columns'.",
            )


def _unstorable(
    model: str, columns: tuple[TableColumn, ...], version: int
) -> Iterator[Problem]:
    for column in columns:
        if part := find_unstorable(column.type or "", version):
            what = f"Column '{column.name}' of model '{model}' is of a type that no table can hold."
            yield Problem(
                "unstorable-type", what, *say_unstorable(column.type or "", part)
            )


def _evolve(
    model: str, changes: _Changes, policy: SchemaChange, state: TableState
) -> Iterator[Step]:
    table = state.name
    if _is_foreign(model, changes, state):
        yield adopt_table(state, changes.properties)
    elif changes.properties:
        yield set_properties(table, changes.properties)
    if policy in ("append_new_columns", "sync_all_columns"):
        if changes.added:
            yield add_columns(table, changes.added)
        for change in changes.widened:
            for growth in change.growth:
                if len(growth.path) == 1:
                    yield widen_column(
                        table, change.column.name, change.column.type, change.new
                    )
                else:
                    yield grow_column(table, growth)
        if changes.unpartitioned or changes.partitioned:
            yield change_partitions(table, changes.unpartitioned, changes.partitioned)
    if changes.order_by:
        yield set_order(table, changes.order_by)
    if policy == "sync_all_columns":
        # Last: the sort order no longer uses a column by which it was ordered before.
        was_partitioned_by = {_root(name) for name in state.was_partitioned_by}
        was_partitioned_by |= {_root(field.column) for field in changes.unpartitioned}
        ordering = {
            field.column.lower() for field in changes.order_by or state.order_by
        }
        for column in changes.lost:
            if column.name.lower() in was_partitioned_by:
                yield keep_column(
                    table,
                    column.name,
                    "was partitioned by it, and Iceberg cannot merge without it",
                )
            elif column.name.lower() in ordering:
                yield keep_column(table, column.name, "is ordered by it")
            else:
                yield drop_column(table, column.name)


def _is_foreign(model: str, changes: _Changes, state: TableState) -> bool:
    """Whether another tool or another model made or wrote the table.

    A table without batches, or a dead-letter table, has no ledger entry: it is
    recognized by the properties that lakesql sets on every table that it creates or
    takes over.
    """
    if model in state.ledger_models:
        return False
    return bool(state.ledger_models) or any(
        key in sql.MARKS for key in changes.properties
    )


def _by_whom(state: TableState) -> str:
    writers = ", ".join(sorted(state.ledger_models))
    return f"written by {writers} until now" if writers else "made by somebody else"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _partitions(fields: tuple[PartitionField, ...]) -> str:
    return ", ".join(sql.partition_text(field).replace("`", "") for field in fields)


def _partition_change(
    dropped: tuple[PartitionField, ...], added: tuple[PartitionField, ...]
) -> str:
    parts = [f"by {_partitions(added)}"] if added else []
    parts += [f"no longer by {_partitions(dropped)}"] if dropped else []
    return ", ".join(parts)


def _order(order_by: tuple[SortField, ...]) -> str:
    return ", ".join(sql.sort_text(field).replace("`", "") for field in order_by)


def _assignments(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in properties.items())
