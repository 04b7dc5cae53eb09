"""How Debezium's events are parsed, and which database table each is of: `{"before": …,
"after": …, "op": …, "ts_ms": …, "source": {…}, "transaction": {…}}`, with or without a
schema around them (`{"schema": …, "payload": …}`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.compile.log_positions import LATE_READ, READ_BY_SNAPSHOT
from lakesql.engine.records.json_text import bound
from lakesql.engine.records.parse import as_text, from_json, with_stages
from lakesql.names import CORRUPT
from lakesql.stream.feed_schema import FIELD_PARTS, SEPARATOR, FieldSchema

_SOURCE_TEXTS = (
    *("connector", "db", "schema", "table", "collection", "file", "snapshot", "txId"),
    *("commit_lsn", "change_lsn", "commit_scn", "scn", "rs_id"),
)
_SOURCE_NUMBERS = ("lsn", "pos", "row", "ts_ms", "event_serial_no", "ssn")
SOURCE = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in _SOURCE_TEXTS),
        *(T.StructField(name, T.LongType()) for name in _SOURCE_NUMBERS),
    ]
)
TRANSACTION = T.StructType(
    [T.StructField("id", T.StringType()), T.StructField("total_order", T.LongType())]
)

HEAD = (
    T.StructField("op", T.StringType()),
    T.StructField("ts_ms", T.LongType()),
    T.StructField("source", SOURCE),
    T.StructField("transaction", TRANSACTION),
)
"""The fields of an event besides its rows."""

HEAD_TEXTS = tuple(T.StructField(field.name, as_text(field.dataType)) for field in HEAD)
"""The same fields as they are parsed: numbers may be JSON's, or texts (`"total_order":
"3"`), as some converters write them."""

_PARAMETERS = {"scale": "scale", "precision": "connect.decimal.precision"}
_KIND = T.StructType(
    [
        T.StructField(part, T.StringType())
        for part in FIELD_PARTS
        if part not in _PARAMETERS
    ]
)
_KIND = _KIND.add(
    "parameters",
    T.StructType(
        [T.StructField(name, T.StringType()) for name in _PARAMETERS.values()]
    ),
)
KINDS = T.MapType(T.StringType(), _KIND)
"""The type of `kinds`: for each column, the parts of the schema beside the event that
give the encoding of its values."""

_SIDE = T.StructType().add("field", "string").add("fields", T.ArrayType(_KIND))
_SCHEMA = T.StructType().add("fields", T.ArrayType(_SIDE))

Head = Column | Mapping[str, Column]
"""The fields of `HEAD`, by name."""

OPS = ("c", "u", "r", "d", "t")
"""The values of an event's `op` that concern rows."""

READ = "_lakesql_read"
"""The column with the record as parsed for its envelope."""


def typed_head(read: Head) -> dict[str, Column]:
    """The fields of `HEAD` in their types, from those parsed as `HEAD_TEXTS`."""
    return {field.name: read[field.name].try_cast(field.dataType) for field in HEAD}


def debezium_event(
    row: T.StructType, deletes_by_key: bool
) -> tuple[list[dict[str, Column]], Column]:
    """The stages to parse first, and over these the event; if a schema stands beside
    it, the one in `payload`.

    The event is NULL if the record holds none. Its field `kinds` is what the schema
    declares for the columns of the row after the change, by name. If `deletes_by_key`,
    a record without a value is a delete.
    """
    fields = [*(T.StructField(name, row) for name in ("after", "before")), *HEAD_TEXTS]
    added = [
        T.StructField("schema", _SCHEMA),
        T.StructField("payload", T.StructType(fields)),
        T.StructField(CORRUPT, T.StringType()),
    ]
    found = F.col(READ)
    tombstone = F.when(F.col("value").isNull(), F.lit("d"))
    rows = F.filter(found["schema"]["fields"], lambda field: field["field"] == "after")
    each = {field.name: _of_event(field.name) for field in fields}
    each |= typed_head(each)
    if deletes_by_key:
        each["op"] = F.coalesce(each["op"], tombstone)
    read = from_json(F.col("value").cast("string"), T.StructType([*fields, *added]))
    kinds = F.when(
        found["schema"].isNotNull(), by_name(F.get(rows, F.lit(0))["fields"])
    )
    each["kinds"] = kinds
    event = F.struct(*(value.alias(name) for name, value in each.items()))
    return [{READ: read}], F.when(found[CORRUPT].isNull(), event)


def with_source(raw: DataFrame) -> DataFrame:
    """The raw records with `_lakesql_read`: the `source` of each event, as
    `debezium_event` would find it, without parsing the rest. NULL if the record holds
    no event."""
    objects = [
        T.StructField(name, T.StructType([]))
        for name in ("after", "before", "transaction")
    ]
    source = T.StructType(
        [
            T.StructField(name, T.StringType())
            for name in ("db", "schema", "table", "collection")
        ]
    )
    event = [
        *objects,
        T.StructField("op", T.StringType()),
        T.StructField("source", source),
    ]
    added = [
        # in full, as a schema that does not fit makes the record a bad one
        T.StructField("schema", _SCHEMA),
        T.StructField("payload", T.StructType(event)),
        T.StructField(CORRUPT, T.StringType()),
    ]
    read = from_json(F.col("value").cast("string"), T.StructType([*event, *added]))
    return with_stages(
        raw,
        [
            {READ: read},
            {READ: F.when(F.col(READ)[CORRUPT].isNull(), _of_event("source"))},
        ],
    )


def _of_event(name: str) -> Column:
    """A field of the parsed event, or of the one in its `payload`."""
    found = F.col(READ)
    return F.when(found["op"].isNull(), found["payload"][name]).otherwise(found[name])


def by_name(fields: Column) -> Column:
    """The fields of a schema as `KINDS`: those that have a name; of several with one
    name, the first."""

    def named(names: Column) -> Column:
        are_apart = F.size(F.array_distinct(F.array_compact(names))) == F.size(names)
        # the position of a name that is NULL is NULL
        first = F.filter(
            fields, lambda it, place: F.array_position(names, it["field"]) == place + 1
        )
        return F.when(are_apart, fields).otherwise(first)

    found = bound(F.transform(fields, lambda it: it["field"]), named)
    return F.map_from_entries(F.transform(found, lambda it: F.struct(it["field"], it)))


def compact(*values: Column) -> Column:
    """An array of those values that are not NULL."""
    return F.concat(
        *(
            F.when(value.isNotNull(), F.array(value)).otherwise(F.array())
            for value in values
        )
    )


def kind_text(kind: Column) -> Column:
    """The text of the `FieldSchema` for a value of `KINDS`."""
    parts = (
        kind["parameters"][_PARAMETERS[part]] if part in _PARAMETERS else kind[part]
        for part in FIELD_PARTS
    )
    return F.concat_ws(SEPARATOR, *(F.coalesce(part, F.lit("")) for part in parts))


def field_kind(field: FieldSchema) -> dict[str, object]:
    """The JSON of the value of `KINDS` for this `FieldSchema`."""
    said = {part: getattr(field, part) for part in FIELD_PARTS if getattr(field, part)}
    parameters = {
        _PARAMETERS[part]: said.pop(part) for part in _PARAMETERS if part in said
    }
    return {**said, "parameters": parameters}


def debezium_field(event: Head, name: str) -> Column:
    """A field of `_change`, except `op` and `before`."""
    source, transaction = event["source"], event["transaction"]
    match name:
        case "ts":
            return F.timestamp_millis(F.coalesce(source["ts_ms"], event["ts_ms"]))
        case "position":
            return _position(source, transaction)
        case "tx":
            return F.coalesce(source["txId"], transaction["id"])
        case "source_db" | "source_schema":
            return source[name.removeprefix("source_")]
        case "source_table":
            return table_of(source)
        case _:
            return F.coalesce(source["snapshot"] != "false", F.lit(False))


def is_read_by_snapshot(event: Head) -> Column:
    """Whether the event is a row that a snapshot has read, and not a change."""
    is_said = (event["source"]["snapshot"] != "false") & event["op"].isin("c", "u")
    return (event["op"] == "r") | F.coalesce(is_said, F.lit(False))


def place_of(event: Head, is_late: bool) -> Column:
    """The position of an event, comparable with those of other changes of its row as in
    `compile/log_positions.py`.

    NULL if a change has none. `is_late`: it is unknown what precedes the event (a
    replayed dead letter), so that a row read by a snapshot must not replace anything.
    """
    position = debezium_field(event, "position")
    own = F.coalesce(position, F.array().cast("array<bigint>"))
    return F.when(
        is_read_by_snapshot(event),
        F.concat(
            F.array(F.lit(LATE_READ if is_late else READ_BY_SNAPSHOT).cast("bigint")),
            own,
        ),
    ).otherwise(position)


def _position(source: Column, transaction: Column) -> Column:
    """The position in the database's log, as numbers: file 10 comes after file 9.

    Postgres: the log's position, then the order in the transaction. MySQL and MariaDB:
    the number of the log's file, the position and the row in it. SQL Server and Db2:
    the position of the commit, that of the change, and the number of the event. Oracle:
    the number of the commit (of a snapshot, its own), that of the change, and the
    position in the redo log.
    """
    number = F.regexp_extract(source["file"], r"([0-9]+)$", 1).try_cast("bigint")
    commit = F.regexp_extract(source["commit_scn"], r"^([0-9]+)", 1).try_cast("bigint")
    scn = source["scn"].try_cast("bigint")
    postgres = compact(source["lsn"], transaction["total_order"])
    mysql = compact(number, source["pos"], source["row"])
    sql_server = F.concat(
        _numbers(source["commit_lsn"]),
        _numbers(source["change_lsn"]),
        compact(source["event_serial_no"]),
    )
    oracle = F.concat(
        compact(commit, scn), _numbers(source["rs_id"]), compact(source["ssn"])
    )
    return (
        F.when(source["lsn"].isNotNull(), postgres)
        .when(
            source["pos"].isNotNull() & F.coalesce(source["file"] != "", F.lit(True)),
            mysql,
        )
        .when(F.size(_numbers(source["commit_lsn"])) > 0, sql_server)
        .when(scn.isNotNull(), oracle)
    )


def _numbers(place: Column) -> Column:
    """The numbers of a position such as `00000027:00000ac0:0002`, in hexadecimal
    digits, or of one decimal number."""
    parts = F.split(F.trim(place), "[:.]")
    hexadecimal = F.transform(
        parts, lambda part: F.conv(part, 16, 10).try_cast("bigint")
    )
    is_hexadecimal = place.rlike("^ *[0-9A-Fa-f]{1,15}([:.][0-9A-Fa-f]{1,15})+ *$")
    decimal = place.try_cast("bigint")
    return F.when(is_hexadecimal, hexadecimal).otherwise(compact(decimal))


def table_of(source: Column) -> Column:
    """The name of the event's table, or of MongoDB's collection; NULL if the event
    names none."""
    return F.coalesce(source["table"], source["collection"])


def full_name(source: Column) -> Column:
    """The name of the event's table with its schema and its database, if the event
    names them; NULL if it names no table."""
    table = table_of(source)
    return F.when(
        table.isNotNull(), F.concat_ws(".", source["db"], source["schema"], table)
    )


def is_of(source: Column, tables: Sequence[str]) -> Column:
    """Whether the event is of one of these tables; NULL if it names none.

    Each is `schema.table` or `database.schema.table`. Where databases have no schemas,
    as in MySQL and MongoDB, the database takes the place of the schema. `*` matches any
    characters.
    """
    parts = _parts(source)
    return F.when(
        table_of(source).isNotNull(),
        reduce(or_, (_fits(parts, each) for each in tables)),
    )


def which_of(source: Column, tables: Sequence[str]) -> Column:
    """The name in `tables` that the event's table has (as in `is_of`, but without `*`);
    '' if it is none of them. NULL if the event names no table, or if it fits two of the
    names."""
    short, whole = _names(_parts(source))
    is_short, is_whole = short.isin([*tables]), whole.isin([*tables])
    is_both = is_short & is_whole & (short != whole)
    found = F.when(is_short, short).when(is_whole, whole).otherwise(F.lit(""))
    return F.when(table_of(source).isNotNull() & ~is_both, found)


def _parts(source: Column) -> tuple[Column, Column, Column]:
    """The database, the schema and the table of an event."""
    database = F.coalesce(source["db"], F.lit(""))
    return database, F.coalesce(source["schema"], database), table_of(source)


def _names(parts: Sequence[Column]) -> tuple[Column, Column]:
    """The two names of a table: `schema.table`, and the same with the database before
    it."""
    return F.concat_ws(".", *parts[-2:]), F.concat_ws(".", *parts)


def _fits(parts: Sequence[Column], table: str) -> Column:
    """Whether the last parts of a name match those of `table`. Without `*` the texts
    are compared as a whole, so that the parts of a name may have dots."""
    if "*" not in table:
        short, whole = _names(parts)
        return (short == table) | (whole == table)
    wanted = table.split(".")
    return reduce(and_, map(_is, parts[-len(wanted) :], wanted))


def _is(part: Column, wanted: str) -> Column:
    pattern = ".*".join(map(re.escape, wanted.split("*")))
    return part.rlike(rf"\A(?s:{pattern})\z")
