"""Which partitions of a table have files newer than its last rewrite, and whether the
table has the partition specs that tasks name. Only manifests are read, no data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakesql.compile.maintenance import PartitionValue
from lakesql.compile.quote import literal, table_name
from lakesql.engine.ledger.snapshots import JavaTable, load_table
from lakesql.errors import Problem, RunError, did_you_mean
from lakesql.model.maintenance_tasks import MaintenanceTask, maintenance_tasks, said_at
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.project.procedures import fields_of_manifests, spec_of

MOST = 200
"""How many partitions a condition names at most: with more, planning takes longer than
it saves."""

_ENTRIES = """SELECT DISTINCT data_file.spec_id AS spec, data_file.partition AS partition
FROM {table}.entries
WHERE status < 2 AND sequence_number > {since}"""


def read_partitions(
    session: SparkSession, name: TableName, table: JavaTable, since: int
) -> list[tuple[PartitionValue, ...]] | None:
    """The partitions that have data or delete files of commits after the sequence
    number `since`, each as its fields.

    None if they cannot be listed: one of the table's specs has no fields, so that files
    may have no partition, or there are more partitions than a condition may name.
    """
    specs: Mapping[int, tuple[tuple[str, str, str], ...]] = {
        int(spec.specId()): tuple(
            (
                str(field.name()),
                str(table.schema().findColumnName(field.sourceId())),
                str(field.transform()),
            )
            for field in spec.fields()
        )
        for spec in table.specs().values()
    }
    if not all(specs.values()):
        return None
    statement = _ENTRIES.format(table=table_name(name), since=literal(since))
    rows: list[Any] = session.sql(statement).limit(MOST + 1).collect()
    if len(rows) > MOST:
        return None
    return [
        tuple(
            PartitionValue(column, transform, row["partition"][field])
            for field, column, transform in specs[row["spec"]]
        )
        for row in rows
    ]


def check_specs(session: SparkSession, model: Model) -> None:
    """Raise `RunError` for tasks that name a partition spec, or fields of one, that the
    table does not have (`unknown-partition-spec`, `unknown-partition-field`).

    The ids of specs and the names of their fields are only in the table's metadata,
    which no compiler reads.
    """
    tasks = [
        task
        for task in maintenance_tasks(model)
        if spec_of(task.options) is not None or fields_of_manifests(task.options)
    ]
    if not tasks:
        return
    table = load_table(session, model.table)
    specs = {
        int(spec.specId()): [str(field.name()) for field in spec.fields()]
        for spec in table.specs().values()
    }
    problems = _unknown_specs(model, tasks, specs)
    problems = problems or _unknown_fields(
        model, tasks, specs, int(table.spec().specId())
    )
    if problems:
        raise RunError(problems)


def _unknown_specs(
    model: Model, tasks: Iterable[MaintenanceTask], specs: Mapping[int, list[str]]
) -> list[Problem]:
    known = sorted(specs)
    asked = [(task, spec_of(task.options)) for task in tasks]
    return [
        Problem(
            "unknown-partition-spec",
            f"Task '{task.name}' asks for the partition spec {spec}, which table {task.table} does not have.",
            f"It has {', '.join(map(str, known))}.",
            place=said_at(model, task),
        )
        for task, spec in asked
        if spec is not None
        if spec not in known
    ]


def _unknown_fields(
    model: Model,
    tasks: Iterable[MaintenanceTask],
    specs: Mapping[int, list[str]],
    current: int,
) -> list[Problem]:
    """Problems for fields by which manifests are to be ordered and that the spec of
    these manifests does not have."""
    problems: list[Problem] = []
    for task in tasks:
        spec = spec_of(task.options)
        known = specs[current if spec is None else spec]
        problems += [
            Problem(
                "unknown-partition-field",
                f"Task '{task.name}' orders by '{name}', which is no partition field of table {task.table}.",
                "" if known else "The table has no partitions.",
                did_you_mean(name, known),
                said_at(model, task),
            )
            for name in fields_of_manifests(task.options)
            if name not in known
        ]
    return problems
