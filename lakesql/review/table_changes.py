"""What a change does to the table that the old version has made: the steps that `run`
plans, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from lakesql.compile.select import Select
from lakesql.compile.statements import compiled_columns, memory_spec
from lakesql.compile.table import UNKNOWN_TYPE, TableColumn, TableSpec, build_table_spec
from lakesql.errors import Place, RunError
from lakesql.model.config import SchemaChange
from lakesql.modes.batches.all_batches import batches_of
from lakesql.plan.steps import Step, fill_again, plan_table
from lakesql.review.causes import ModelVersions, changed_option_place, column_place
from lakesql.review.verdicts import ColumnChanges, NamedColumn, Reason, RetypedColumn
from lakesql.select.differences import find_differences
from lakesql.stream.types import stored_type
from lakesql.table.table_state import StateColumn, TableState


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What happens to the table: the reasons, how its columns differ, and the steps,
    which are empty if `run` refuses."""

    reasons: tuple[Reason, ...]
    columns: ColumnChanges
    steps: tuple[Step, ...]


def find_table_changes(change: ModelVersions) -> TableChanges:
    """What `run` does to the table of the old version, or refuses to do."""
    before, after = table_specs(change)
    columns = _column_changes(change, before, after)
    if not change.is_same_table:
        return TableChanges((), columns, _steps(change, None, after))
    units = [
        *_column_units(change, before, after),
        *_shape_units(change, before, after),
    ]
    reasons = [reason for unit in units for reason in _judge(change, before, unit)]
    reasons += _untyped(change, columns)
    if any(reason.verdict == "refused" for reason in reasons):
        return TableChanges(tuple(reasons), columns, ())
    try:
        steps = _steps(change, before, after)
    except RunError as error:
        place = change.model.place
        found = (
            Reason("refused", it.condition, it.what, it.place or place, it.fix)
            for it in error.problems
        )
        return TableChanges((*reasons, *found), columns, ())
    return TableChanges(tuple(reasons), columns, steps)


def table_columns(select: Select) -> tuple[TableColumn, ...]:
    """The columns of the model's table. If `*` stands for the columns of another table,
    those that are known."""
    if select.query.outputs is not None or select.query.offered is None:
        return compiled_columns(select)
    return tuple(
        TableColumn(it.name or "", it.type.text if it.type else None)
        for it in select.query.offered
    )


@dataclass(frozen=True, slots=True)
class _Added:
    column: TableColumn
    spec: TableSpec


@dataclass(frozen=True, slots=True)
class _Dropped:
    column: TableColumn
    spec: TableSpec


@dataclass(frozen=True, slots=True)
class _RetypedField:
    before: TableColumn
    after: TableColumn
    spec: TableSpec


@dataclass(frozen=True, slots=True)
class _Shaped:
    """Changed partitions, sort order or properties: the condition of the reason, and
    the option that causes it."""

    condition: str
    option: str
    spec: TableSpec


_Unit = _Added | _Dropped | _RetypedField | _Shaped
"""One difference of the table. `spec` is the old table changed in this one respect
only."""


def table_specs(change: ModelVersions) -> tuple[TableSpec, TableSpec]:
    """The specifications of the old and the new version's tables. A type that only
    Spark's analyzer can determine is taken from the other version, if known there.

    If the mode differs, the new specification lacks the columns that the new mode adds:
    they are not needed before the table is filled again.
    """
    specs = [_spec(select) for select in (change.before, change.after)]
    types = [
        {column.name.lower(): column.type for column in spec.columns} for spec in specs
    ]
    before, after = (
        replace(spec, columns=tuple(_typed(column, others) for column in spec.columns))
        for spec, others in zip(specs, reversed(types), strict=True)
    )
    is_refilled = change.before.writing.mode != change.after.writing.mode
    return before, replace(after, added={}, versions=None) if is_refilled else after


def created_spec(
    select: Select, types: Mapping[str, str | None] = MappingProxyType({})
) -> TableSpec:
    """The specification of a model's table. Types that are not known are taken from
    `types`, by column names in lowercase."""
    spec = _spec(select)
    return replace(
        spec, columns=tuple(_typed(column, types) for column in spec.columns)
    )


def _spec(select: Select) -> TableSpec:
    model = select.model
    return build_table_spec(
        model.table, table_columns(select), model.config, model.properties.description
    )


def _typed(column: TableColumn, others: Mapping[str, str | None]) -> TableColumn:
    return replace(
        column, type=column.type or others.get(column.name.lower()) or UNKNOWN_TYPE
    )


def _column_changes(
    change: ModelVersions, before: TableSpec, after: TableSpec
) -> ColumnChanges:
    old = {column.name.lower(): column for column in before.columns}
    new = {column.name.lower(): column for column in after.columns}
    differences = find_differences(change.before.query.sql, change.after.query.sql)
    recomputed = {it.name for it in differences if it.kind == "column"}
    return ColumnChanges(
        added=tuple(
            NamedColumn(it.name, _shown(it.type))
            for key, it in new.items()
            if key not in old
        ),
        dropped=tuple(
            NamedColumn(it.name, _shown(it.type))
            for key, it in old.items()
            if key not in new
        ),
        retyped=tuple(
            RetypedColumn(it.name, _shown(old[key].type), _shown(it.type))
            for key, it in new.items()
            if key in old and _stored(old[key]) != _stored(it)
        ),
        recomputed=tuple(
            it.name for key, it in new.items() if key in recomputed and key in old
        ),
    )


def _shown(kind: str | None) -> str:
    return "" if kind in (None, UNKNOWN_TYPE) else kind or ""


def _stored(column: TableColumn) -> str:
    return stored_type(column.type or "")


def _column_units(
    change: ModelVersions, before: TableSpec, after: TableSpec
) -> Iterator[_Unit]:
    old = {column.name.lower(): column for column in before.columns}
    new = {column.name.lower(): column for column in after.columns}
    for key, column in new.items():
        if key not in old:
            grown = replace(before, columns=(*before.columns, column))
            yield _Added(
                column, replace(grown, added=after.added, versions=after.versions)
            )
        elif _stored(old[key]) != _stored(column):
            columns = tuple(column if it is old[key] else it for it in before.columns)
            yield _RetypedField(old[key], column, replace(before, columns=columns))
    for key, column in old.items():
        if key not in new:
            yield _Dropped(
                column,
                replace(
                    before,
                    columns=tuple(it for it in before.columns if it is not column),
                ),
            )


def _shape_units(
    change: ModelVersions, before: TableSpec, after: TableSpec
) -> Iterator[_Shaped]:
    if before.partition_by != after.partition_by:
        yield _Shaped(
            "partitions-changed",
            "partition_by",
            replace(before, partition_by=after.partition_by),
        )
    was, now = change.before.model.config, change.model.config
    by_mode = "mode" if change.before.writing.mode != change.after.writing.mode else ""
    if before.order_by != after.order_by:
        option = "order_by" if was.order_by != now.order_by else by_mode or "keys"
        yield _Shaped("order-changed", option, replace(before, order_by=after.order_by))
    if before.properties != after.properties:
        option = (
            "properties"
            if was.properties != now.properties
            else by_mode or "partition_by"
        )
        yield _Shaped(
            "properties-changed", option, replace(before, properties=after.properties)
        )


def _judge(change: ModelVersions, before: TableSpec, unit: _Unit) -> Iterator[Reason]:
    """The reasons for one difference of the table: what `run` would do if it were the
    only one."""
    place = _place_of(change, unit)
    try:
        steps = plan_table(
            change.model.name,
            unit.spec,
            change.model.config.on_schema_change,
            # the ledger has the new model's name here: `_steps` reports a table of
            # another model
            replace(
                former_table(change, before),
                ledger_models=frozenset({change.model.name}),
            ),
            frozenset({before.name.namespace}),
            change.after.compared if isinstance(unit, _Added) else {},
        )
    except RunError as error:
        for problem in error.problems:
            yield Reason(
                "refused",
                problem.condition,
                problem.what,
                problem.place or place,
                _fix(change, problem.fix),
            )
        return
    yield _reason(change, unit, steps, place)


def _untyped(change: ModelVersions, columns: ColumnChanges) -> Iterator[Reason]:
    """Reasons for columns with a changed expression whose type only Spark's analyzer
    can determine."""
    known = {column.name.lower(): column.type for column in table_columns(change.after)}
    for name in columns.recomputed:
        if known.get(name.lower()) is None:
            what = f"Which type column '{name}' has now is known to Spark's analyzer alone, and is taken to be the same."
            do = "If it is a wider one, the run widens the column; if it is another one, the run refuses (type-change)."
            yield Reason(
                "next-batch", "column-untyped", what, column_place(change, name), do
            )


def _fill(change: ModelVersions) -> str:
    """The advice on how existing rows get values in an added column; '' if no rebuild
    is advised."""
    stored = batches_of(change.after).stored_rows()
    if not stored.do:
        return ""
    first = stored.fill
    return f"To fill it in all rows{f' {first}' if first else ''}: lakesql rebuild {change.model.name}"


def _fix(change: ModelVersions, fix: str) -> str:
    again = fill_again(change.model.name, change.model.config.versions)
    if again in fix:
        return fix
    return f"{fix} Or {again}." if fix else f"{again[0].upper()}{again[1:]}."


def _reason(
    change: ModelVersions, unit: _Unit, steps: Sequence[Step], place: Place
) -> Reason:
    policy = change.model.config.on_schema_change
    said = "; ".join(step.text for step in steps)
    match unit:
        case _Added(column=column):
            if not steps:
                what = f"Column '{column.name}' is not written: the table has none, and on_schema_change='{policy}'."
                return Reason("next-batch", "column-added", what, place)
            what = f"Column '{column.name}' is added to the table; rows that are there have NULL in it."
            stored = batches_of(change.after).stored_rows()
            what += "" if stored.do else f" {stored.what}"
            return Reason("alter", "column-added", what, place, _fill(change))
        case _Dropped(column=column):
            if not steps:
                what = f"Column '{column.name}' stays in the table; new rows have NULL in it."
                do = "To drop it: on_schema_change='sync_all_columns'."
                return Reason("next-batch", "column-dropped", what, place, do)
            what = f"Column '{column.name}' is dropped from the table, with all its values."
            return Reason("alter", "column-dropped", what, place)
        case _RetypedField(before=old, after=column):
            if not steps:
                what = f"Column '{column.name}' is {column.type} now; the table's {old.type} holds it, and stays."
                return Reason("next-batch", "column-widened", what, place)
            what = (
                f"Column '{column.name}' is widened from {old.type} to {column.type}."
            )
            return Reason("alter", "column-widened", what, place)
        case _Shaped(condition=condition):
            if not steps:
                return Reason(
                    "none",
                    condition,
                    f"{unit.option}: the table stays as it is.",
                    place,
                )
            return Reason("alter", condition, f"{said[0].upper()}{said[1:]}.", place)
        case _:
            assert_never(unit)


def _place_of(change: ModelVersions, unit: _Unit) -> Place:
    match unit:
        case (
            _Added(column=column)
            | _Dropped(column=column)
            | _RetypedField(after=column)
        ):
            return column_place(change, column.name)
        case _Shaped(option=option):
            return changed_option_place(change, option)
        case _:
            assert_never(unit)


def former_table(change: ModelVersions, spec: TableSpec) -> TableState:
    """The state of a table that `run` has created by this specification, and that has
    rows."""
    return TableState(
        name=spec.name,
        columns=tuple(
            StateColumn(column.name, _stored(column)) for column in spec.columns
        ),
        partition_by=spec.partition_by,
        order_by=spec.order_by,
        properties=spec.properties,
        ledger_models=frozenset({change.before.model.name}),
    )


def _steps(
    change: ModelVersions, before: TableSpec | None, after: TableSpec
) -> tuple[Step, ...]:
    """The steps of `run` for the table, and for the table beside it that remembers
    deleted keys."""
    model = change.model
    policy: SchemaChange = model.config.on_schema_change
    namespaces = frozenset({change.before.model.table.namespace})
    state = former_table(change, before) if before is not None else None
    steps = plan_table(
        model.name, after, policy, state, namespaces, change.after.compared
    )
    was, now = (
        memory_spec(select, "tombstones", _selected(select, spec))
        if "tombstones" in select.writing.memories
        else None
        for select, spec in ((change.before, before or after), (change.after, after))
    )
    if now is None:
        return steps
    there = None
    if was is not None and before is not None:
        # the table of deleted keys has no ledger
        there = replace(former_table(change, was), ledger_models=frozenset())
    beside = plan_table(
        model.name,
        now,
        "sync_all_columns",
        there,
        namespaces | {after.name.namespace},
        {},
    )
    return (*steps, *beside)


def _selected(select: Select, spec: TableSpec) -> tuple[TableColumn, ...]:
    """The columns of the SELECT, without those that the mode adds, with their types in
    the table."""
    added = {column.name for column in select.writing.added}
    return tuple(column for column in spec.columns if column.name not in added)
