"""The SQL of a batch in mode `append`: the INSERT, and with `keys` the query for the
first row of each key."""

from __future__ import annotations

from lakesql.compile.quote import column_of, identifier, identifiers, table_name
from lakesql.model.table_name import TableName
from lakesql.modes.append import Append
from lakesql.names import BATCH_VIEW, POSITION, RANK, ROWS_VIEW

_INSERT = """\
INSERT INTO {table} BY NAME
SELECT {columns}
FROM {rows}"""

_FIRST = """\
SELECT *
FROM (
  SELECT *,
    row_number() OVER (PARTITION BY {keys} ORDER BY {first}) AS {rank}
  FROM {rows}
  WHERE {not_null}
)
WHERE {rank} = 1"""

_NUMBERED = """\
SELECT *,
  row_number() OVER (PARTITION BY {keys} ORDER BY {first}) AS {rank}
FROM {rows}
WHERE {not_null}"""

_INSERT_FIRST = """\
INSERT INTO {table} BY NAME
SELECT {columns}
FROM {batch}
WHERE NOT EXISTS (
  SELECT 1
  FROM {table} AS target
  WHERE {match}
    AND """

_INSERT_FIRST_WITHIN = """\
INSERT INTO {table} BY NAME
SELECT {columns}
FROM (
  SELECT inline(
    aggregate(
      array_sort(collect_list(struct(*)), (one, other) -> one.{rank} - other.{rank}),
      slice(collect_list(struct(*)), 1, 0),
      (firsts, row) -> if(
        exists(firsts, one -> {is_near}),
        firsts,
        firsts || array(row)
      )
    )
  )
  FROM {batch}
  WHERE NOT EXISTS (
    SELECT 1
    FROM {table} AS target
    WHERE {match}
      AND """


def keyed_rows(config: Append, positioned: bool) -> str:
    """The query for the first row of each key in the view `_lakesql_rows`, by arrival
    if `positioned`. With `within`, all rows with their ranks: which of them are
    inserted depends on the table's rows too.

    Rows whose key, or with `within` whose time, is NULL are left out: they are dead
    letters.
    """
    form, not_null = (
        (_NUMBERED, (*config.keys, config.time_column))
        if config.within
        else (_FIRST, config.keys)
    )
    return form.format(
        keys=identifiers(config.keys),
        first=POSITION if positioned else identifiers(config.keys),
        rank=RANK,
        rows=ROWS_VIEW,
        not_null=" AND ".join(
            f"{identifier(column)} IS NOT NULL" for column in not_null
        ),
    )


def insert_first_parts(
    table: TableName, config: Append, columns: tuple[str, ...] | None
) -> tuple[str, str]:
    """The INSERT of the rows in the view `_lakesql_batch` whose keys are not in the
    table: the parts between which the bounds of the batch's keys are inserted.

    `columns` are those that the table gets; None if only Spark's analyzer knows them.
    """
    matches = [
        f"{column_of('target', key)} = {column_of(BATCH_VIEW, key)}"
        for key in config.keys
    ]
    matches += [_is_near(config, "target", BATCH_VIEW)] if config.within else []
    words = {
        "table": table_name(table),
        "columns": _landing(columns),
        "batch": BATCH_VIEW,
        "rank": RANK,
    }
    if not config.within:
        return _INSERT_FIRST.format(match="\n    AND ".join(matches), **words), "\n)"
    match, is_near = "\n      AND ".join(matches), _is_near(config, "one", "row")
    insert = _INSERT_FIRST_WITHIN.format(match=match, is_near=is_near, **words)
    return insert, f"\n  )\n  GROUP BY {identifiers(config.keys)}\n)"


def _is_near(config: Append, one: str, other: str) -> str:
    """The condition that the times of two rows of a key are at most `within` apart."""
    assert config.within is not None, "otherwise all rows of a key are one"
    at, time = column_of(one, config.time_column), column_of(other, config.time_column)
    interval = f"INTERVAL '{config.within.length_ms / 1000:.15g}' SECOND"
    return f"{at} BETWEEN {time} - {interval} AND {time} + {interval}"


def _landing(columns: tuple[str, ...] | None) -> str:
    return f"* EXCEPT ({POSITION}, {RANK})" if columns is None else identifiers(columns)


def insert_statement(table: TableName, columns: tuple[str, ...] | None) -> str:
    """The INSERT of the view `_lakesql_rows`. `columns` are those that the table gets;
    None if only Spark's analyzer knows them.

    It is BY NAME, as a MERGE is: otherwise Spark would match the fields of structs by
    their position.
    """
    landing = "*" if columns is None else identifiers(columns)
    return _INSERT.format(table=table_name(table), columns=landing, rows=ROWS_VIEW)
