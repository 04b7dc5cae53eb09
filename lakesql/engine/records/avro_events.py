"""How change events in Avro become JSON: the text that Connect's JsonConverter would
have written, with the schema beside the event."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from lakesql.engine.records.avro_value import MISFIT, TAIL, with_tail
from lakesql.engine.records.cases import first_of
from lakesql.engine.records.frame import body_of, nameless, schema_id
from lakesql.names import REPLACED
from lakesql.registry.avro import parse_avro
from lakesql.registry.connect_schema import connect_schema, without_meanings
from lakesql.registry.registered import Registered, say_schema
from lakesql.registry.schema_error import SchemaError
from lakesql.registry.schemas import StreamSchemas

MISREAD = "_lakesql_misread"
"""The column with a text about a key or a value that is no valid Avro of its schema;
NULL if both are valid."""

_ARRIVED, _IDS, _READ = "_lakesql_arrived", "_lakesql_schemas", "_lakesql_avro_"

SIDES = ("key", "value")


def with_json_events(raw: DataFrame, schemas: StreamSchemas) -> DataFrame:
    """The raw records with keys and values as JSON, and `MISREAD`. The bytes that
    arrived are kept in a helper column until `as_arrived`."""
    raw = raw.withColumn(_ARRIVED, F.struct(*SIDES))
    ids = F.struct(
        *(schema_id(schemas, side).alias(side) for side in SIDES),
        F.spark_partition_id().alias("once"),
    )
    raw = raw.withColumn(_IDS, ids)
    for side in SIDES:
        raw = raw.withColumn(f"{_READ}{side}", _read(side, schemas))
    misread = F.coalesce(*(_misread(side, schemas) for side in SIDES))
    raw = raw.withColumn(MISREAD, misread)
    texts = {side: F.encode(F.col(f"{_READ}{side}")["json"], "UTF-8") for side in SIDES}
    # a text that is no JSON, as a value that cannot be read is no tombstone
    texts = {
        side: F.when(F.col(side).isNotNull(), F.coalesce(text, F.lit(b"?")))
        for side, text in texts.items()
    }
    return raw.withColumns(texts).drop(*(f"{_READ}{side}" for side in SIDES))


def as_arrived(records: DataFrame) -> DataFrame:
    """The records with the keys and values that arrived put back."""
    return records.withColumns({side: F.col(_ARRIVED)[side] for side in SIDES}).drop(
        _ARRIVED, _IDS
    )


def _read(side: str, schemas: StreamSchemas) -> Column:
    """A struct of the JSON text (`json`), and of whether the bytes were read to their
    end (`is_whole`); NULL if no schema reads them."""
    body = F.concat(body_of(schemas.wire, side), F.lit(TAIL))
    readers = (
        (each.id, reader)
        for each in schemas.known
        if (reader := _reader(each)) is not None
    )
    read = ((F.col(_IDS)[side] == F.lit(id_), reader(body)) for id_, reader in readers)
    return first_of(read, F.lit(None).cast("struct<json:string,is_whole:boolean>"))


def _reader(each: Registered) -> Callable[[Column], Column] | None:
    """A function that reads values of a schema as `_read` returns them; None if the
    schema cannot be used."""
    if each.kind != "AVRO":
        return None
    try:
        schema = parse_avro(each.text)
    except (SchemaError, RecursionError):
        return None
    said = F.lit(f'{{"schema":{connect_schema(schema)},"payload":')
    writer = with_tail(without_meanings(schema).text())

    def read(value: Column) -> Column:
        found = from_avro(value, writer, {"mode": "PERMISSIVE"})

        def as_struct(record: Column) -> Column:
            is_whole = F.coalesce(record["tail"] == F.lit(TAIL), F.lit(False))
            payload = F.to_json(
                F.struct(record["body"].alias("v")), {"ignoreNullFields": "false"}
            )
            # Spark writes only structs as JSON: so the value is written as the one
            # member of an object, and the text before it is removed.
            text = F.concat(said, F.substring(payload, len('{"v":') + 1, 2**31 - 1))
            return F.struct(
                F.when(is_whole, text).alias("json"), is_whole.alias("is_whole")
            )

        return F.transform(F.array(found), as_struct)[0]

    return read


def _misread(side: str, schemas: StreamSchemas) -> Column:
    id_, read = F.col(_IDS)[side], F.col(f"{_READ}{side}")
    is_there = F.col(side).isNotNull()
    said = F.when(
        is_there & id_.isNull(),
        F.concat(F.lit(f"the {side}: "), nameless(schemas, side)),
    )
    for each in sorted(schemas.missing):
        said = said.when(
            id_ == each, F.lit(f"the {side}: {say_schema(each)} is not in the registry")
        )
    for known in schemas.known:
        if _reader(known) is None:
            said = said.when(
                id_ == known.id,
                F.lit(f"the {side}: {say_schema(known.id)} cannot be read"),
            )
    said = said.when(is_there & ~read["is_whole"], F.lit(f"the {side}: {MISFIT}"))
    is_replaced = read["json"].contains(REPLACED) & ~F.contains(
        F.col(side), F.lit(REPLACED.encode())
    )
    return said.when(is_replaced, F.lit(f"the {side}: not UTF-8"))
