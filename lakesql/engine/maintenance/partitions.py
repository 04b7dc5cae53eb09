"""The partitions of a table, as its maintenance asks for them: which have files that
are newer than its last rewrite, and whether the table has a spec that a task names.
Manifests are read for it, no data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakesql.compile.maintenance import PartitionValue
from lakesql.compile.quote import literal, table_name
from lakesql.engine.ledger.snapshots import JavaTable, load_table
from lakesql.errors import Problem, RunError
from lakesql.model.maintenance_tasks import maintenance_tasks, said_at
from lakesql.model.model import Model
from lakesql.model.table_name import TableName
from lakesql.project.procedures import spec_of

MOST = 200
"""How many partitions a condition names at most: one of more takes longer to plan than
it saves."""

_ENTRIES = """SELECT DISTINCT data_file.spec_id AS spec, data_file.partition AS partition
FROM {table}.entries
WHERE status < 2 AND sequence_number > {since}"""


def read_partitions(
    session: SparkSession, name: TableName, table: JavaTable, since: int
) -> list[tuple[PartitionValue, ...]] | None:
    """The partitions that have data or delete files of commits after the sequence
    number `since`, each as its fields.

    None where they cannot be told: some files have no partition, or there are more of
    them than a condition takes.
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
    """Raise `RunError` (`unknown-partition-spec`) for tasks that name a partition spec
    which the table does not have.

    The ids of the specs stand in the table's metadata alone, where no compiler sees
    them.
    """
    asked = [
        (task, spec)
        for task in maintenance_tasks(model)
        if (spec := spec_of(task.options)) is not None
    ]
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
