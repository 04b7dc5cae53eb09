"""The SQL of a batch in mode `upsert`: the query for the newest row of each key, the
MERGE or INSERT that writes these rows, and the INSERT into the tombstones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesql.compile.log_positions import is_not_older, is_unplaced, own_place
from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.model.writing import common
from lakesql.names import (
    BATCH_VIEW,
    DELETE,
    DELETED,
    DELETED_AT,
    DELETES,
    FIRST,
    LAST,
    MARKED_AT,
    ONLY_MARKS,
    OUTDATED,
    POSITION,
    RANK,
    REMEMBERED,
    ROWS_VIEW,
    SEQUENCE,
    STORED,
    TOMBSTONED_VIEW,
    TOMBSTONES_VIEW,
)

_NEWEST = """\
SELECT *
FROM (
  SELECT *{delete},
    row_number() OVER ({newest_first}) AS {rank}
  FROM {rows}{where}
)
WHERE {rank} = 1"""

_FOLDED = """\
SELECT *
FROM (
  SELECT *{folds}
  FROM (
    SELECT *{deletes},
      row_number() OVER newest_first AS {rank}
    FROM (
      SELECT *{delete}{outdated}
      FROM {rows}{where}{outdated_window}
    ){is_current}
    WINDOW {window}
  )
)
WHERE {rank} = 1"""

_TOMBSTONED = """\
SELECT {columns}, {position}, {is_delete} AS {delete}
FROM {rows}
WHERE {not_null}
UNION ALL
SELECT {of_tombstones}, {position}, true
FROM {tombstones}"""

_SEQUENCED = """\
SELECT * EXCEPT ({sequence}, {known}),
  {sequences}
FROM (
  SELECT *,
    max(struct({sequence})) OVER (PARTITION BY {keys} ORDER BY {position}) AS {known}
  FROM (
    {tombstoned}
    UNION ALL"""

_STORED = """
    SELECT {of_table}, NULL, false
    FROM {table} AS {alias}
    WHERE EXISTS (SELECT 1 FROM {tombstones} WHERE {match})
      AND """

_OF_BATCH = """
  )
)
WHERE {position} IS NOT NULL"""

_MERGE = """\
MERGE INTO {table} AS target
USING {source}"""

_INSERT = """\
INSERT INTO {table} BY NAME
SELECT {landing}
FROM {source}"""

_ON = """\
 AS source
ON {match}
  AND """

_NOT_OUTDATED = """\
(
  SELECT *
  FROM {batch}
  WHERE NOT EXISTS (
    SELECT 1
    FROM {tombstones} AS deleted
    WHERE {match}
      AND {is_outdated}
      AND """

_NOT_EMPTIED = """
    AND {open}NOT coalesce({is_placed}{sequence} < (
      SELECT max({deleted_sequence})
      FROM {tombstones} AS deleted
      WHERE {no_key}
    ), false){or_marked}"""

_REMEMBER = """\
INSERT INTO {tombstones} ({columns})
{deleted}"""

NEVER = "false"
"""The `delete_when` of a `Merge` whose batches delete keys by records without a value
alone, and by no condition on a row."""


@dataclass(frozen=True, slots=True)
class Updates:
    """What an update of a stored row sets: the columns `only`, or, if that is None, all
    but `never`. It happens only where the condition `when` holds; '' stands for always.
    `keeps_known`: a NULL in an arriving row leaves the stored value."""

    only: tuple[str, ...] | None = None
    never: tuple[str, ...] = ()
    when: str = ""
    keeps_known: bool = False

    def sets(self, column: str) -> bool:
        """Whether an update sets this column. Names are compared
        case-insensitively."""
        if common((column,), self.never):
            return False
        return self.only is None or bool(common((column,), self.only))


@dataclass(frozen=True, slots=True)
class Merge:
    """How the rows of a batch are merged into a table.

    `keys` identify a row. `sequence` decides which of two rows of a key is newer, and
    arrival decides between equal ones. `delete_when` is the condition by which a row
    deletes its key; '' if rows delete nothing. `remembers`: deleted keys are in the
    tombstones, so that no older row brings one back. `marks`: a row of the batch may
    only mark the stored row as deleted (`_lakesql_only_marks`). `is_placed`: the
    sequence is a position in a database's log, by which a snapshot's rows are compared
    by rules of their own (`compile/log_positions.py`), and by which rows older than a
    truncate are left out.
    """

    table: TableName
    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    delete_when: str = ""
    updates: Updates = Updates()
    remembers: bool = False
    marks: bool = False
    is_placed: bool = False

    def updated(self, column: str) -> bool:
        """Whether an update of a stored row sets this column."""
        return not common((column,), self.keys) and self.updates.sets(column)


def newest_rows(
    merge: Merge,
    positioned: bool,
    columns: tuple[str, ...] = (),
    has_tombstones: bool = False,
) -> str:
    """The query for the newest row of each key in the view `_lakesql_rows`, by
    `sequence_by`, then by arrival if `positioned`.

    Rows whose key or sequence is NULL are left out: they are dead letters. If the model
    has `delete_when`, the column `_lakesql_delete` is added. `columns` are those that
    the table gets: if an update does not replace all of them, columns that summarize
    the key's other rows are added for the MERGE (`_folds`). `has_tombstones`: read the
    view `_lakesql_tombstoned`, which has no such NULLs, and has `_lakesql_delete`.
    """
    order = [*merge.sequence, *([POSITION] if positioned else [])] or list(merge.keys)
    newest_first = f"PARTITION BY {identifiers(merge.keys)} ORDER BY "
    newest_first += ", ".join(f"{identifier(column)} DESC" for column in order)
    adds_delete = bool(merge.delete_when) and not has_tombstones
    delete = f"{_is_delete(merge)} AS {DELETE}"
    rows, where = (
        (TOMBSTONED_VIEW, "")
        if has_tombstones
        else (ROWS_VIEW, f"\n  WHERE {_not_null(merge)}")
    )
    folds = _folds(merge, columns)
    if not folds:
        return _NEWEST.format(
            delete=f",\n    {delete}" if adds_delete else "",
            newest_first=newest_first,
            rank=RANK,
            rows=rows,
            where=where,
        )
    window = f"newest_first AS (\n  {newest_first}\n  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW\n)"
    can_be_outdated = bool(merge.sequence) and positioned
    outdated = f"min({POSITION}) OVER newest_first < {POSITION} AS {OUTDATED}"
    return _FOLDED.format(
        folds="".join(f",\n    {fold}" for fold in folds),
        deletes=f",\n      count_if({DELETE}) OVER newest_first AS {DELETES}"
        if merge.delete_when
        else "",
        rank=RANK,
        delete=f",\n        {delete}" if adds_delete else "",
        outdated=f",\n        {outdated}" if can_be_outdated else "",
        rows=rows,
        where=_indented(where, 4),
        outdated_window=f"\n      WINDOW {_indented(window, 6)}"
        if can_be_outdated
        else "",
        is_current=f"\n    WHERE NOT {OUTDATED}" if can_be_outdated else "",
        window=_indented(window, 4),
    )


def tombstoned_rows(merge: Merge, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """The query for the rows of the view `_lakesql_rows` and, as rows that delete, the
    keys of `_lakesql_tombstones`: the parts between which the bounds of these keys are
    inserted.

    `outputs` are the columns of the SELECT. A tombstone gets the `sequence_by` of the
    newest row of its key that was read before it: in the batch, in the table, or
    remembered as deleted. So it deletes each of these rows, and a row that arrives
    later and is older than one of them is ignored, wherever a batch ends. If there is
    no such row, the `sequence_by` is NULL and nothing is deleted.
    """
    keys, sequence = (
        {key.lower() for key in merge.keys},
        {column.lower() for column in merge.sequence},
    )

    def columns_of(names: set[str]) -> str:
        return ", ".join(
            identifier(output)
            if output.lower() in names
            else f"NULL AS {identifier(output)}"
            for output in outputs
        )

    words = {
        "columns": identifiers(outputs),
        "position": POSITION,
        "is_delete": _is_delete(merge),
        "delete": DELETE,
        "rows": ROWS_VIEW,
        "not_null": _not_null(merge),
        "of_tombstones": columns_of(keys),
        "of_table": columns_of(keys | sequence),
        "tombstones": TOMBSTONES_VIEW,
        "keys": identifiers(merge.keys),
        "sequence": identifiers(merge.sequence),
        "known": SEQUENCE,
        "sequences": ",\n  ".join(
            f"coalesce({identifier(column)}, {column_of(SEQUENCE, column)}) AS {identifier(column)}"
            for column in merge.sequence
        ),
    }
    tombstoned = _TOMBSTONED.format(**words)
    if not sequence:
        return (tombstoned,)

    def stored(name: TableName, alias: str) -> str:
        return _STORED.format(
            **words,
            table=table_name(name),
            alias=alias,
            match=_match(alias, merge, TOMBSTONES_VIEW, " "),
        )

    return (
        _SEQUENCED.format(**words, tombstoned=_indented(tombstoned, 4))
        + stored(merge.table, STORED),
        "\n    UNION ALL" + stored(merge.table.tombstones, REMEMBERED),
        _OF_BATCH.format(**words),
    )


def _is_delete(merge: Merge) -> str:
    return (
        "false"
        if merge.delete_when == NEVER
        else f"coalesce(({merge.delete_when}), false)"
    )


def _not_null(merge: Merge) -> str:
    """The condition that neither key nor sequence is NULL: other rows are dead
    letters."""
    return " AND ".join(
        f"{identifier(column)} IS NOT NULL" for column in (*merge.keys, *merge.sequence)
    )


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def _folds(merge: Merge, columns: tuple[str, ...]) -> list[str]:
    """The columns that summarize all rows of a key in a batch, added to the newest one,
    so that the MERGE has the effect that a batch for each row would have. Empty if the
    newest row alone suffices. Of a key that is deleted, rows before the last delete
    count only as that delete."""
    of_key = f"OVER (PARTITION BY {identifiers(merge.keys)})"
    alive = f"{DELETES} = 0" if merge.delete_when else ""
    rank = f"CASE WHEN {alive} THEN {RANK} END" if alive else RANK
    kept, merged = _kept(merge, columns), _merged(merge, columns)
    folds = []
    if kept:
        folds.append(
            f"max_by(struct({identifiers(kept)}), {rank})\n      {of_key} AS {FIRST}"
        )
    if merged:
        at = f", struct({identifiers(merge.sequence)}) AS at" if merge.sequence else ""
        fields = []
        for column in map(identifier, merged):
            known = " AND ".join(filter(None, (alive, f"{column} IS NOT NULL")))
            rank_of_known = f"CASE WHEN {known} THEN {RANK} END"
            fields.append(
                f"min_by(struct({column} AS value{at}), {rank_of_known})\n        {of_key} AS {column}"
            )
        each = ",\n      ".join(fields)
        folds.append(f"struct(\n      {each}\n    ) AS {LAST}")
    if merge.delete_when and (kept or merged or merge.updates.when):
        last = f"min_by(struct({identifiers(merge.sequence)}), CASE WHEN {DELETE} THEN {RANK} END)"
        folds.append(
            f"{last if merge.sequence else f'bool_or({DELETE})'}\n      {of_key} AS {DELETED}"
        )
    return folds


def _kept(merge: Merge, columns: tuple[str, ...]) -> list[str]:
    """The columns that are set when a row is inserted and that no update changes."""
    keys = {key.lower() for key in merge.keys}
    return [
        column
        for column in columns
        if column.lower() not in keys and not merge.updated(column)
    ]


def _merged(merge: Merge, columns: tuple[str, ...]) -> list[str]:
    """The columns in which a NULL leaves the stored value. Those of the sequence are
    not among them, as they are never NULL."""
    sequence = {column.lower() for column in merge.sequence}
    return [
        column
        for column in _changed(merge, columns)
        if column.lower() not in sequence and merge.updates.keeps_known
    ]


def merge_parts(merge: Merge, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """The MERGE of the view `_lakesql_batch`: the parts between which the bounds of the
    batch's keys are inserted.

    `columns` are those that the table gets; None if only Spark's analyzer knows them.
    The bounds narrow the scans of the tombstones, if there are any, and of the target
    to the batch's range of keys. They must include every key of the batch, or an update
    would be inserted as a second row. A row older than the tombstone of its key is left
    out.

    Keys are matched with `=`: those of the batch are not NULL, so `<=>` would find the
    same rows, but Spark would shuffle the batch again for it.
    """
    first, *rest = _source_parts(merge)
    on = _ON.format(match=_match("target", merge, "source", "\n  "))
    clauses = "\n" + "\n".join(_clauses(merge, columns))
    *before, last = (_MERGE.format(table=table_name(merge.table), source=first), *rest)
    return *before, last + on, clauses


def insert_parts(merge: Merge, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """The INSERT that has the effect of `merge_parts` on a table without any of the
    batch's keys: the parts between which the bounds of these keys are inserted."""
    first, *rest = _source_parts(merge)
    landing = "*"
    if columns is not None:
        new = _new_values(merge, columns)
        landing = ", ".join(_named(value, column) for column, value in new.items())
    *before, last = (
        _INSERT.format(table=table_name(merge.table), landing=landing, source=first),
        *rest,
    )
    where = f"\nWHERE NOT {_without_row(merge)}" if merge.delete_when else ""
    return *before, f"{last} AS source{where}"


def _named(value: str, column: str) -> str:
    """The value as an item of a SELECT that has the column's name."""
    return (
        value
        if value == column_of("source", column)
        else f"{value} AS {identifier(column)}"
    )


def _source_parts(merge: Merge) -> tuple[str, ...]:
    """The relation of the batch's rows that are not older than a tombstone: the parts
    between which the bounds of their keys are inserted."""
    if not merge.remembers:
        return (BATCH_VIEW,)
    sequence, deleted_sequence = (
        _sequence_of(BATCH_VIEW, merge),
        _sequence_of("deleted", merge),
    )
    is_outdated = f"{deleted_sequence} > {sequence}"
    if merge.is_placed:
        is_outdated = f"NOT {_indented(is_not_older(merge.sequence[0], 'deleted', BATCH_VIEW), 2)}"
    of_tombstones = {
        "batch": BATCH_VIEW,
        "tombstones": table_name(merge.table.tombstones),
        "match": _match("deleted", merge, BATCH_VIEW, "\n      "),
        "deleted_sequence": deleted_sequence,
        "sequence": own_place(sequence) if merge.is_placed else sequence,
        "is_placed": f"NOT {is_unplaced(sequence)} AND " if merge.is_placed else "",
        "is_outdated": is_outdated,
        "no_key": f"{column_of('deleted', merge.keys[0])} IS NULL",
        "open": "(" if merge.marks else "",
        "or_marked": f" OR {column_of(BATCH_VIEW, MARKED_AT)} IS NOT NULL)"
        if merge.marks
        else "",
    }
    emptied = _NOT_EMPTIED.format(**of_tombstones) if merge.is_placed else ""
    return _NOT_OUTDATED.format(**of_tombstones), f"\n  ){emptied}\n)"


def _without_row(merge: Merge) -> str:
    """The condition that a row of the batch inserts nothing: it deletes its key, or
    only marks the stored row."""
    deleted = column_of("source", DELETE)
    return (
        f"({deleted} OR {column_of('source', ONLY_MARKS)})" if merge.marks else deleted
    )


def remember_statement(
    merge: Merge, truncates: str = "", condition: str = DELETE
) -> str:
    """The INSERT into the tombstones of the batch's rows for which `condition` holds,
    and of the rows that the query `truncates` returns, if it is not ''."""
    columns = (*merge.keys, *merge.sequence)
    of_batch = f"SELECT {identifiers(columns)}, current_timestamp() FROM {BATCH_VIEW} WHERE {condition}"
    deleted = f"{of_batch}\nUNION ALL\n{truncates}" if truncates else of_batch
    return _REMEMBER.format(
        tombstones=table_name(merge.table.tombstones),
        columns=identifiers((*columns, DELETED_AT)),
        deleted=deleted,
    )


def _match(alias: str, merge: Merge, other: str, indent: str) -> str:
    return f"{indent}AND ".join(
        f"{column_of(alias, key)} = {column_of(other, key)}" for key in merge.keys
    )


def _sequence_of(alias: str, merge: Merge) -> str:
    columns = ", ".join(column_of(alias, column) for column in merge.sequence)
    return f"struct({columns})" if len(merge.sequence) > 1 else columns


def _changed(merge: Merge, columns: tuple[str, ...]) -> list[str]:
    return [column for column in columns if merge.updated(column)]


def _clauses(merge: Merge, columns: tuple[str, ...] | None) -> list[str]:
    newer = (
        f" AND {is_not_older(merge.sequence[0], 'target', 'source')}"
        if merge.is_placed
        else _newer(merge)
    )
    deleted = column_of("source", DELETE)
    clauses = []
    if merge.delete_when:
        clauses.append(f"WHEN MATCHED AND {deleted}{newer} THEN DELETE")
    if merge.marks:
        marking = _set(
            {name: column_of("source", name) for name in (MARKED_AT, *merge.sequence)}
        )
        clauses.append(
            f"WHEN MATCHED AND {column_of('source', ONLY_MARKS)}{newer} THEN {marking}"
        )
    if columns is None:
        update, insert = "UPDATE SET *", "INSERT *"
    else:
        new = _new_values(merge, columns)
        keys = {key.lower() for key in merge.keys}
        if merge.delete_when and _folds(merge, columns):
            replace = _set(
                {
                    column: value
                    for column, value in new.items()
                    if column.lower() not in keys
                }
            )
            clauses += (
                [f"WHEN MATCHED AND {_was_deleted(merge)} THEN {replace}"]
                if replace
                else []
            )
        merged = _merged(merge, columns)
        update = _set(
            {
                column: _unless_null(merge, column) if column in merged else new[column]
                for column in _changed(merge, columns)
            }
        )
        insert = (
            f"INSERT ({identifiers(columns)})\n  VALUES ({', '.join(new.values())})"
        )
    if update:
        when = f" AND ({merge.updates.when})" if merge.updates.when else ""
        clauses.append(f"WHEN MATCHED{newer}{when} THEN {update}")
    when = (
        f"WHEN NOT MATCHED AND NOT {_without_row(merge)}"
        if merge.delete_when
        else "WHEN NOT MATCHED"
    )
    clauses.append(f"{when} THEN {insert}")
    return clauses


def _set(values: Mapping[str, str]) -> str:
    sets = ",\n  ".join(
        f"{identifier(column)} = {value}" for column, value in values.items()
    )
    return f"UPDATE SET\n  {sets}" if sets else ""


def _new_values(merge: Merge, columns: tuple[str, ...]) -> dict[str, str]:
    """The values, by column, of a row that is inserted, or that replaces a row which
    the batch deletes first."""
    kept, merged = _kept(merge, columns), _merged(merge, columns)
    values = {}
    for column in columns:
        if column in kept:
            values[column] = column_of(f"source.{FIRST}", column)
        elif column in merged:
            values[column] = f"{column_of(f'source.{LAST}', column)}.value"
        else:
            values[column] = column_of("source", column)
    return values


def _unless_null(merge: Merge, column: str) -> str:
    """An expression for a column's last non-NULL value in the batch, or the stored
    value if there is none or its row is older than the stored one."""
    last, stored = column_of(f"source.{LAST}", column), column_of("target", column)
    if not merge.sequence:
        return f"coalesce({last}.value, {stored})"
    return f"CASE WHEN {last}.at >= {_stored_sequence(merge)} THEN {last}.value ELSE {stored} END"


def _was_deleted(merge: Merge) -> str:
    """The condition that an earlier row of the batch deletes the stored row before the
    newest row sets it anew."""
    deleted = column_of("source", DELETED)
    return f"{deleted} >= {_stored_sequence(merge)}" if merge.sequence else deleted


def _stored_sequence(merge: Merge) -> str:
    return (
        f"struct({', '.join(column_of('target', column) for column in merge.sequence)})"
    )


def _newer(merge: Merge) -> str:
    """The condition, after AND, that a matched row is not older than the stored one; ''
    if arrival decides."""
    match merge.sequence:
        case ():
            return ""
        case (column,):
            stored, arrived = column_of("target", column), column_of("source", column)
            return f" AND ({stored} IS NULL OR {arrived} >= {stored})"
        case several:
            stored = ", ".join(column_of("target", column) for column in several)
            arrived = ", ".join(column_of("source", column) for column in several)
            return f" AND struct({arrived}) >= struct({stored})"
