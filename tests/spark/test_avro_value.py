"""Values in Avro of other types than the contract's: what would lose a part of them is
refused."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import to_avro

from lakesql.engine.records.avro_value import avro_columns
from lakesql.engine.records.parse import with_each

TIME = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 4}

CASES: list[tuple[object, str, str, bool]] = [
    ("long", "1772800000", "timestamp", True),
    ("long", "1772800000000", "timestamp", False),
    ("long", "1772800000000000", "timestamp", False),
    ("string", "'2026-03-01 10:15:00'", "timestamp", True),
    ("string", "'10:15'", "timestamp", False),
    (TIME, "TIMESTAMP '2026-03-01 10:15:00'", "timestamp", True),
    (TIME, "TIMESTAMP '2026-03-01 10:15:00'", "date", False),
    (TIME, "TIMESTAMP '2026-03-01 00:00:00'", "date", True),
    ("string", "'2026-03-01'", "date", True),
    ("double", "0.5D", "float", True),
    ("double", "1e300", "float", False),
    ("double", "double('Infinity')", "float", True),
    (DECIMAL, "1.2300BD", "decimal(12,2)", True),
    (DECIMAL, "1.2345BD", "decimal(12,2)", False),
    ("string", "'1.25'", "decimal(12,2)", True),
    ("double", "1.5D", "int", False),
    ("string", "'x'", "boolean", False),
]


@pytest.mark.parametrize(("written", "value", "wanted", "fits"), CASES)
def test_a_value_of_another_type_is_taken_where_nothing_of_it_is_lost(
    spark: SparkSession, written: object, value: str, wanted: str, fits: bool
) -> None:
    schema = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "a", "type": [written, "null"]}],
        }
    )
    given = {
        str(TIME): "timestamp",
        str(DECIMAL): "decimal(18,4)",
        "long": "bigint",
    }.get(str(written), str(written))
    record = F.struct(F.expr(f"CAST({value} AS {given})").alias("a"))
    column = ("a", T._parse_datatype_string(wanted))
    for each, is_null in (
        (record, False),
        (F.struct(F.lit(None).cast(given).alias("a")), True),
    ):
        frame = spark.range(1).select(to_avro(each, schema).alias("value"))
        read = with_each(
            frame, avro_columns(F.col("value"), [column], schema, "row", "wrong")
        )
        (found,) = read.select(
            "row.wrong", F.col("row.a").isNull().alias("is_null")
        ).collect()
        assert (found["wrong"] is None) == (fits or is_null)
        assert found["is_null"] == is_null or not fits
