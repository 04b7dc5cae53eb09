"""The statements of an upserting batch: the newest row of each key, and the MERGE that writes them."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.compile.quote import Literal, column_of, identifier, identifiers, literal, table_name
from lakesql.model.config import Upsert
from lakesql.model.table_name import TableName
from lakesql.names import BATCH_VIEW, DELETE, POSITION, RANK, ROWS_VIEW

_NEWEST = """\
SELECT *
FROM (
  SELECT *{delete},
    row_number() OVER (PARTITION BY {keys} ORDER BY {newest_first}) AS {rank}
  FROM {rows}
  WHERE {not_null}
)
WHERE {rank} = 1"""

_MERGE = """\
MERGE INTO {table} AS target
USING {batch} AS source
ON {match}
  AND """

BOUNDS_PLACE = "/* the batch's key range */ true"
"""What stands in the compiled MERGE where each batch puts a literal predicate on the target's keys."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one batch in one column: all of them, the smallest and the largest, or both."""

    column: str
    values: tuple[Literal, ...] = ()
    low: Literal | None = None
    high: Literal | None = None


def newest_rows(config: Upsert, positioned: bool) -> str:
    """The last row of each key in the view `_lakesql_rows`, by `sequence_by`, then by arrival if `positioned`.

    Rows whose key or sequence is NULL are left out: they are dead letters. Adds the column `_lakesql_delete` where the
    model has `delete_when`.
    """
    order = [*config.sequence_by, *([POSITION] if positioned else [])] or list(config.keys)
    return _NEWEST.format(
        delete=f",\n    coalesce(({config.delete_when}), false) AS {DELETE}" if config.delete_when else "",
        keys=identifiers(config.keys),
        newest_first=", ".join(f"{identifier(column)} DESC" for column in order),
        rank=RANK,
        rows=ROWS_VIEW,
        not_null=" AND ".join(f"{identifier(column)} IS NOT NULL" for column in (*config.keys, *config.sequence_by)),
    )


def merge_parts(table: TableName, config: Upsert, columns: tuple[str, ...] | None) -> tuple[str, str]:
    """The MERGE of the rows in the view `_lakesql_batch`, up to the bounds of the batch's keys, and after them.

    `columns` are the columns that land, None where only Spark's analyzer knows them. The bounds narrow the target's
    scan to the keys of the batch. They must hold for every key of it, or an update becomes a second row.

    Keys are matched with `=`: those of the batch are not NULL, so `<=>` would find the same rows, but Spark would
    shuffle the batch again for it.
    """
    match = "\n  AND ".join(f"{column_of('target', key)} = {column_of('source', key)}" for key in config.keys)
    before = _MERGE.format(table=table_name(table), batch=BATCH_VIEW, match=match)
    return before, "\n" + "\n".join(_clauses(config, columns))


def inserts_only(config: Upsert, columns: tuple[str, ...]) -> bool:
    """Whether the MERGE does nothing to rows that match. Spark makes an append of it, of which Iceberg checks nothing:
    not whether a key has come in by another writer since the table was read."""
    return not config.delete_when and not _changed(config, columns)


def _changed(config: Upsert, columns: tuple[str, ...]) -> list[str]:
    keys = {key.lower() for key in config.keys}
    return [column for column in columns if column.lower() not in keys]


def _clauses(config: Upsert, columns: tuple[str, ...] | None) -> list[str]:
    newer = _newer(config)
    deleted = column_of("source", DELETE)
    clauses = []
    if config.delete_when:
        clauses.append(f"WHEN MATCHED AND {deleted}{newer} THEN DELETE")
    if columns is None:
        update, insert = "UPDATE SET *", "INSERT *"
    else:
        values = [column_of("source", column) for column in columns]
        sets = ",\n  ".join(
            f"{identifier(column)} = {column_of('source', column)}" for column in _changed(config, columns)
        )
        update = f"UPDATE SET\n  {sets}" if sets else ""
        insert = f"INSERT ({identifiers(columns)})\n  VALUES ({', '.join(values)})"
    if update:
        clauses.append(f"WHEN MATCHED{newer} THEN {update}")
    when = f"WHEN NOT MATCHED AND NOT {deleted}" if config.delete_when else "WHEN NOT MATCHED"
    clauses.append(f"{when} THEN {insert}")
    return clauses


def _newer(config: Upsert) -> str:
    """The condition that a matched row is not older than the stored one; nothing where arrival decides."""
    match config.sequence_by:
        case ():
            return ""
        case (column,):
            stored, arrived = column_of("target", column), column_of("source", column)
            return f" AND ({stored} IS NULL OR {arrived} >= {stored})"
        case several:
            stored = ", ".join(column_of("target", column) for column in several)
            arrived = ", ".join(column_of("source", column) for column in several)
            return f" AND struct({arrived}) >= struct({stored})"


def bounds_text(ranges: tuple[KeyRange, ...]) -> str:
    """The literal predicate on the target's keys."""
    return "\n  AND ".join(_bound(bound) for bound in ranges) or "true"


def _bound(bound: KeyRange) -> str:
    column, tests = column_of("target", bound.column), []
    if bound.low is not None and bound.high is not None:
        tests.append(f"{column} BETWEEN {literal(bound.low)} AND {literal(bound.high)}")
    if bound.values:
        tests.append(f"{column} IN ({', '.join(literal(value) for value in bound.values)})")
    return "\n  AND ".join(tests)
