"""The statements of an upserting batch: the newest row of each key, and the MERGE that writes them."""

from __future__ import annotations

from collections.abc import Mapping

from lakesql.compile.log_positions import is_not_older, is_unplaced, own_place
from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.modes.upsert import Upsert
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
"""The `delete_when` of a mode that deletes keys, though by no condition on a row."""


def newest_rows(config: Upsert, positioned: bool, columns: tuple[str, ...] = (), has_tombstones: bool = False) -> str:
    """The last row of each key in the view `_lakesql_rows`, by `sequence_by`, then by arrival if `positioned`.

    Rows whose key or sequence is NULL are left out: they are dead letters. Adds the column `_lakesql_delete` where the
    model has `delete_when`. `columns` are those that land: where an update does not simply replace them all, the row
    has with it what else the MERGE needs. `has_tombstones`: the view is `_lakesql_tombstoned`, of which all this is
    true already.
    """
    order = [*config.sequence_by, *([POSITION] if positioned else [])] or list(config.keys)
    newest_first = f"PARTITION BY {identifiers(config.keys)} ORDER BY "
    newest_first += ", ".join(f"{identifier(column)} DESC" for column in order)
    adds_delete = bool(config.delete_when) and not has_tombstones
    delete = f"{_is_delete(config)} AS {DELETE}"
    rows, where = (TOMBSTONED_VIEW, "") if has_tombstones else (ROWS_VIEW, f"\n  WHERE {_not_null(config)}")
    folds = _folds(config, columns)
    if not folds:
        return _NEWEST.format(
            delete=f",\n    {delete}" if adds_delete else "",
            newest_first=newest_first,
            rank=RANK,
            rows=rows,
            where=where,
        )
    window = f"newest_first AS (\n  {newest_first}\n  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW\n)"
    can_be_outdated = bool(config.sequence_by) and positioned
    outdated = f"min({POSITION}) OVER newest_first < {POSITION} AS {OUTDATED}"
    return _FOLDED.format(
        folds="".join(f",\n    {fold}" for fold in folds),
        deletes=f",\n      count_if({DELETE}) OVER newest_first AS {DELETES}" if config.delete_when else "",
        rank=RANK,
        delete=f",\n        {delete}" if adds_delete else "",
        outdated=f",\n        {outdated}" if can_be_outdated else "",
        rows=rows,
        where=_indented(where, 4),
        outdated_window=f"\n      WINDOW {_indented(window, 6)}" if can_be_outdated else "",
        is_current=f"\n    WHERE NOT {OUTDATED}" if can_be_outdated else "",
        window=_indented(window, 4),
    )


def tombstoned_rows(table: TableName, config: Upsert, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """The rows of the view `_lakesql_rows` and, as rows that delete, the keys of `_lakesql_tombstones`; cut where the
    bounds of these keys come.

    `outputs` are the columns of the SELECT. A tombstone has the `sequence_by` of the newest row of its key that was
    read before it: of the batch, of the table, or one that is remembered as deleted. So it deletes each of them, and
    what comes later and is older than one of them stays away, wherever a batch ends. Where there is none, it has NULL,
    and there is nothing to be deleted.
    """
    keys, sequence = {key.lower() for key in config.keys}, {column.lower() for column in config.sequence_by}

    def columns_of(names: set[str]) -> str:
        return ", ".join(
            identifier(output) if output.lower() in names else f"NULL AS {identifier(output)}" for output in outputs
        )

    words = {
        "columns": identifiers(outputs),
        "position": POSITION,
        "is_delete": _is_delete(config),
        "delete": DELETE,
        "rows": ROWS_VIEW,
        "not_null": _not_null(config),
        "of_tombstones": columns_of(keys),
        "of_table": columns_of(keys | sequence),
        "tombstones": TOMBSTONES_VIEW,
        "keys": identifiers(config.keys),
        "sequence": identifiers(config.sequence_by),
        "known": SEQUENCE,
        "sequences": ",\n  ".join(
            f"coalesce({identifier(column)}, {column_of(SEQUENCE, column)}) AS {identifier(column)}"
            for column in config.sequence_by
        ),
    }
    tombstoned = _TOMBSTONED.format(**words)
    if not sequence:
        return (tombstoned,)

    def stored(name: TableName, alias: str) -> str:
        return _STORED.format(
            **words, table=table_name(name), alias=alias, match=_match(alias, config, TOMBSTONES_VIEW, " ")
        )

    return (
        _SEQUENCED.format(**words, tombstoned=_indented(tombstoned, 4)) + stored(table, STORED),
        "\n    UNION ALL" + stored(table.tombstones, REMEMBERED),
        _OF_BATCH.format(**words),
    )


def _is_delete(config: Upsert) -> str:
    return "false" if config.delete_when == NEVER else f"coalesce(({config.delete_when}), false)"


def _not_null(config: Upsert) -> str:
    """The condition of a row that is no dead letter."""
    return " AND ".join(f"{identifier(column)} IS NOT NULL" for column in (*config.keys, *config.sequence_by))


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def _folds(config: Upsert, columns: tuple[str, ...]) -> list[str]:
    """What the rows of a key in a batch leave besides the newest one, so that the batch does what they would do if each
    were a batch of its own. Rows before a delete count for nothing but the delete itself."""
    of_key = f"OVER (PARTITION BY {identifiers(config.keys)})"
    alive = f"{DELETES} = 0" if config.delete_when else ""
    rank = f"CASE WHEN {alive} THEN {RANK} END" if alive else RANK
    kept, merged = _kept(config, columns), _merged(config, columns)
    folds = []
    if kept:
        folds.append(f"max_by(struct({identifiers(kept)}), {rank})\n      {of_key} AS {FIRST}")
    if merged:
        at = f", struct({identifiers(config.sequence_by)}) AS at" if config.sequence_by else ""
        fields = []
        for column in map(identifier, merged):
            known = " AND ".join(filter(None, (alive, f"{column} IS NOT NULL")))
            rank_of_known = f"CASE WHEN {known} THEN {RANK} END"
            fields.append(f"min_by(struct({column} AS value{at}), {rank_of_known})\n        {of_key} AS {column}")
        each = ",\n      ".join(fields)
        folds.append(f"struct(\n      {each}\n    ) AS {LAST}")
    if config.delete_when and (kept or merged or config.when_matched):
        last = f"min_by(struct({identifiers(config.sequence_by)}), CASE WHEN {DELETE} THEN {RANK} END)"
        folds.append(f"{last if config.sequence_by else f'bool_or({DELETE})'}\n      {of_key} AS {DELETED}")
    return folds


def _kept(config: Upsert, columns: tuple[str, ...]) -> list[str]:
    """The columns that a row gets when it is inserted, and no update changes."""
    keys = {key.lower() for key in config.keys}
    return [column for column in columns if column.lower() not in keys and not config.updates(column)]


def _merged(config: Upsert, columns: tuple[str, ...]) -> list[str]:
    """The columns of which a NULL updates nothing. Those of the sequence are never NULL."""
    sequence = {column.lower() for column in config.sequence_by}
    return [
        column for column in _changed(config, columns) if column.lower() not in sequence and config.ignore_null_updates
    ]


def merge_parts(
    table: TableName,
    config: Upsert,
    columns: tuple[str, ...] | None,
    remembers: bool = False,
    marks: bool = False,
    is_placed: bool = False,
) -> tuple[str, ...]:
    """The MERGE of the rows in the view `_lakesql_batch`, cut where the bounds of the batch's keys come.

    `columns` are the columns that land, None where only Spark's analyzer knows them. The bounds narrow the scans to the
    keys of the batch: of the target, and before it, where the MERGE `remembers` what was deleted, of its tombstones.
    They must hold for every key of it, or an update becomes a second row. A row that is older than the tombstone of its
    key is left out. With `marks`, rows of the batch may only mark the stored ones (`_lakesql_only_marks`). `is_placed`:
    the sequence is a place in a database's log, by which a row that a snapshot has read is compared in a way of its
    own, and by which a row that is older than a truncate is left out.

    Keys are matched with `=`: those of the batch are not NULL, so `<=>` would find the same rows, but Spark would
    shuffle the batch again for it.
    """
    first, *rest = _source_parts(table, config, remembers, marks, is_placed)
    on = _ON.format(match=_match("target", config, "source", "\n  "))
    clauses = "\n" + "\n".join(_clauses(config, columns, marks, is_placed))
    *before, last = (_MERGE.format(table=table_name(table), source=first), *rest)
    return *before, last + on, clauses


def insert_parts(
    table: TableName,
    config: Upsert,
    columns: tuple[str, ...] | None,
    remembers: bool = False,
    marks: bool = False,
    is_placed: bool = False,
) -> tuple[str, ...]:
    """What the MERGE of `merge_parts` does to a table without a row of these keys: the INSERT of those not deleted."""
    first, *rest = _source_parts(table, config, remembers, marks, is_placed)
    landing = "*"
    if columns is not None:
        new = _new_values(config, columns)
        landing = ", ".join(_named(value, column) for column, value in new.items())
    *before, last = (_INSERT.format(table=table_name(table), landing=landing, source=first), *rest)
    where = f"\nWHERE NOT {_without_row(marks)}" if config.delete_when else ""
    return *before, f"{last} AS source{where}"


def _named(value: str, column: str) -> str:
    """The value under the column's name."""
    return value if value == column_of("source", column) else f"{value} AS {identifier(column)}"


def _source_parts(table: TableName, config: Upsert, remembers: bool, marks: bool, is_placed: bool) -> tuple[str, ...]:
    """The rows of the batch that no tombstone outdates, cut where the bounds of their keys come."""
    if not remembers:
        return (BATCH_VIEW,)
    sequence, deleted_sequence = _sequence_of(BATCH_VIEW, config), _sequence_of("deleted", config)
    is_outdated = f"{deleted_sequence} > {sequence}"
    if is_placed:
        is_outdated = f"NOT {_indented(is_not_older(config.sequence_by[0], 'deleted', BATCH_VIEW), 2)}"
    of_tombstones = {
        "batch": BATCH_VIEW,
        "tombstones": table_name(table.tombstones),
        "match": _match("deleted", config, BATCH_VIEW, "\n      "),
        "deleted_sequence": deleted_sequence,
        "sequence": own_place(sequence) if is_placed else sequence,
        "is_placed": f"NOT {is_unplaced(sequence)} AND " if is_placed else "",
        "is_outdated": is_outdated,
        "no_key": f"{column_of('deleted', config.keys[0])} IS NULL",
        "open": "(" if marks else "",
        "or_marked": f" OR {column_of(BATCH_VIEW, MARKED_AT)} IS NOT NULL)" if marks else "",
    }
    emptied = _NOT_EMPTIED.format(**of_tombstones) if is_placed else ""
    return _NOT_OUTDATED.format(**of_tombstones), f"\n  ){emptied}\n)"


def _without_row(marks: bool) -> str:
    """Whether a row of the batch says that there is no row of its key, or nothing of it."""
    deleted = column_of("source", DELETE)
    return f"({deleted} OR {column_of('source', ONLY_MARKS)})" if marks else deleted


def remember_statement(table: TableName, config: Upsert, truncates: str = "", condition: str = DELETE) -> str:
    """Insert what the batch deletes, by this condition, into the tombstones, and what `truncates` finds."""
    columns = (*config.keys, *config.sequence_by)
    of_batch = f"SELECT {identifiers(columns)}, current_timestamp() FROM {BATCH_VIEW} WHERE {condition}"
    deleted = f"{of_batch}\nUNION ALL\n{truncates}" if truncates else of_batch
    return _REMEMBER.format(
        tombstones=table_name(table.tombstones), columns=identifiers((*columns, DELETED_AT)), deleted=deleted
    )


def _match(alias: str, config: Upsert, other: str, indent: str) -> str:
    return f"{indent}AND ".join(f"{column_of(alias, key)} = {column_of(other, key)}" for key in config.keys)


def _sequence_of(alias: str, config: Upsert) -> str:
    columns = ", ".join(column_of(alias, column) for column in config.sequence_by)
    return f"struct({columns})" if len(config.sequence_by) > 1 else columns


def _changed(config: Upsert, columns: tuple[str, ...]) -> list[str]:
    return [column for column in columns if config.updates(column)]


def _clauses(config: Upsert, columns: tuple[str, ...] | None, marks: bool, is_placed: bool) -> list[str]:
    newer = f" AND {is_not_older(config.sequence_by[0], 'target', 'source')}" if is_placed else _newer(config)
    deleted = column_of("source", DELETE)
    clauses = []
    if config.delete_when:
        clauses.append(f"WHEN MATCHED AND {deleted}{newer} THEN DELETE")
    if marks:
        marking = _set({name: column_of("source", name) for name in (MARKED_AT, *config.sequence_by)})
        clauses.append(f"WHEN MATCHED AND {column_of('source', ONLY_MARKS)}{newer} THEN {marking}")
    if columns is None:
        update, insert = "UPDATE SET *", "INSERT *"
    else:
        new = _new_values(config, columns)
        keys = {key.lower() for key in config.keys}
        if config.delete_when and _folds(config, columns):
            replace = _set({column: value for column, value in new.items() if column.lower() not in keys})
            clauses += [f"WHEN MATCHED AND {_was_deleted(config)} THEN {replace}"] if replace else []
        merged = _merged(config, columns)
        update = _set(
            {
                column: _unless_null(config, column) if column in merged else new[column]
                for column in _changed(config, columns)
            }
        )
        insert = f"INSERT ({identifiers(columns)})\n  VALUES ({', '.join(new.values())})"
    if update:
        when = f" AND ({config.when_matched})" if config.when_matched else ""
        clauses.append(f"WHEN MATCHED{newer}{when} THEN {update}")
    when = f"WHEN NOT MATCHED AND NOT {_without_row(marks)}" if config.delete_when else "WHEN NOT MATCHED"
    clauses.append(f"{when} THEN {insert}")
    return clauses


def _set(values: Mapping[str, str]) -> str:
    sets = ",\n  ".join(f"{identifier(column)} = {value}" for column, value in values.items())
    return f"UPDATE SET\n  {sets}" if sets else ""


def _new_values(config: Upsert, columns: tuple[str, ...]) -> dict[str, str]:
    """The columns of a row that is not in the table, or not any more."""
    kept, merged = _kept(config, columns), _merged(config, columns)
    values = {}
    for column in columns:
        if column in kept:
            values[column] = column_of(f"source.{FIRST}", column)
        elif column in merged:
            values[column] = f"{column_of(f'source.{LAST}', column)}.value"
        else:
            values[column] = column_of("source", column)
    return values


def _unless_null(config: Upsert, column: str) -> str:
    """A column's last value in the batch, unless there is none or its row is older than the stored one."""
    last, stored = column_of(f"source.{LAST}", column), column_of("target", column)
    if not config.sequence_by:
        return f"coalesce({last}.value, {stored})"
    return f"CASE WHEN {last}.at >= {_stored_sequence(config)} THEN {last}.value ELSE {stored} END"


def _was_deleted(config: Upsert) -> str:
    """The condition that a row of the batch deletes the stored one before the newest one is inserted."""
    deleted = column_of("source", DELETED)
    return f"{deleted} >= {_stored_sequence(config)}" if config.sequence_by else deleted


def _stored_sequence(config: Upsert) -> str:
    return f"struct({', '.join(column_of('target', column) for column in config.sequence_by)})"


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
