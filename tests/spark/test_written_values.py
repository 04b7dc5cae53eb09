"""Values of JSON are kept as they are written, in whatever a record wraps its row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn, parse_records
from lakesql.stream.stream import Envelope

pytestmark = [pytest.mark.spark, pytest.mark.long]

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
DDL = (
    "id int, s string, `größe` string, list array<string>, inner struct<x:string,deep:array<struct<y:string>>>, "
    "words map<string,string>, exact decimal(38,20)"
)
NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "1.10",
        "-1.0",
        "1e400",
        "-1E+400",
        "1e-400",
        "0.1234567890123456789",
        "12345678901234567890.125",
    ),
    *(
        "100000000000000000000000",
        "1E5",
        "2.50",
        "0.30000000000000004",
        "true",
        "false",
    ),
)
STRINGS = (
    "",
    "1.10",
    "[1.10]",
    '{"a": 1.10}',
    "-0",
    '"Infinity"',
    "a,b",
    "]}",
    "\\",
    "é\u2028",
    'x": 1.10, "s": 2.50',
)
DECIMALS = (
    "1.10",
    "0.12345678901234567890",
    "12345678901234.5",
    "123456789012345678.00000000000000000001",
    "3",
    "1e3",
)


class Values:
    """Random values: each as a text of JSON, and what is to be read of it as text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> tuple[str, str | None]:
        match self.random.randrange(5):
            case 0:
                return "null", None
            case 1:
                written = self.nested(2)
                return written, written
            case 2:
                word = self.random.choice(STRINGS)
                return json.dumps(word, ensure_ascii=self.random.random() < 0.5), word
            case _:
                number = self.random.choice(NUMBERS)
                return number, number

    def nested(self, depth: int) -> str:
        """An array or an object, with white space of any kind."""
        words = map(json.dumps, STRINGS)
        parts = [
            self.random.choice([*NUMBERS, "null", *words])
            for _ in range(self.random.randrange(4))
        ]
        if depth:
            parts.append(self.nested(depth - 1))
        comma = self.random.choice([",", ", ", " ,\n"])
        if self.random.random() < 0.5:
            return "[" + comma.join(parts) + "]"
        colon = self.random.choice([":", ": ", " : "])
        return "{" + comma.join(f'"s"{colon}{part}' for part in parts) + "}"

    def row(self, number: int) -> tuple[str, dict[str, Any]]:
        """The text of a row, and its values."""
        s, size, x, y, word = (self.text() for _ in range(5))
        many = [self.text() for _ in range(self.random.randrange(4))]
        exact = self.random.choice(DECIMALS)
        comma = self.random.choice([",", ", "])
        members = [
            f'"id":{number}',
            f'"s":{s[0]}',
            f"{self.random.choice([json.dumps('größe'), chr(34) + 'größe' + chr(34)])} : {size[0]}",
            f'"list": [{comma.join(each[0] for each in many)}]',
            f'"inner":{{"deep":[{{"y":{y[0]}}}],"x":{x[0]}}}',
            f'"words":{{"a":{word[0]},"b c":{x[0]}}}',
            f'"exact":{exact}',
            f'"other":{self.nested(1)}',
        ]
        self.random.shuffle(members)
        expected = {
            "id": number,
            "s": s[1],
            "größe": size[1],
            "list": [each[1] for each in many],
            "inner": {"x": x[1], "deep": [{"y": y[1]}]},
            "words": {"a": word[1], "b c": x[1]},
            "exact": Decimal(exact),
        }
        return "{" + comma.join(members) + "}", expected


SCHEMA = '{"type":"struct","fields":[{"field":"after","fields":[{"field":"s","type":"string"}]}]}'
FLAT_SCHEMA = '{"type":"struct","fields":[{"field":"s","type":"string"}]}'
EVENT = '{"before":%s,"after":%s,"source":{"lsn":100,"s":1.10},"op":"%s"}'
METADATA = '{"record-type":"data","operation":"%s","schema-name":"a","table-name":"t"}'
WRAPS: dict[str, tuple[Envelope, Callable[[str, str], str]]] = {
    "plain": ("none", lambda row, _: row),
    "event": ("debezium", lambda row, _: EVENT % ("null", row, "c")),
    "delete": ("debezium", lambda row, other: EVENT % (row, "null", "d")),
    "event with the row before": (
        "debezium",
        lambda row, other: EVENT % (other, row, "u"),
    ),
    "event with a schema": (
        "debezium",
        lambda row, other: (
            f'{{"schema":{SCHEMA},"payload":{EVENT % (other, row, "u")}}}'
        ),
    ),
    "flat": ("debezium_flat", lambda row, _: row),
    "flat with a schema": (
        "debezium_flat",
        lambda row, _: f'{{"schema":{FLAT_SCHEMA},"payload":{row}}}',
    ),
    "dms": ("dms", lambda row, _: f'{{"data":{row},"metadata":{METADATA % "insert"}}}'),
    "dms update": (
        "dms",
        lambda row, other: (
            f'{{"data":{row},"before-image":{other},"metadata":{METADATA % "update"}}}'
        ),
    ),
    "flat dms": ("dms", lambda row, _: '{"Op":"I",' + row[1:]),
}


def plain(value: Any) -> Any:
    """A value of a row as Python's own."""
    if isinstance(value, T.Row):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def rows(seed: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    values = Values(seed)
    return (values.row(number) for number in range(count))


def contract_of(columns: tuple[ContractColumn, ...], envelope: Envelope) -> Contract:
    """A stream's contract. Of the envelopes, DMS alone is of one table here."""
    tables = ("a.t",) if envelope == "dms" else ()
    key = () if envelope == "none" else ("id",)
    return Contract(columns, key=key, envelope=envelope, source_table=tables)


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_value_is_kept_as_it_is_written(spark: SparkSession, wrap: str) -> None:
    envelope, write = WRAPS[wrap]
    columns = tuple(
        ContractColumn(field.name, field.dataType)
        for field in T.StructType.fromDDL(DDL).fields
    )  # type: ignore[attr-defined]
    contract = contract_of(columns, envelope)
    found, others = list(rows(1, 200)), list(rows(2, 200))
    values = [
        write(text, other[0].replace('"id":', '"id": '))
        for (text, _), other in zip(found, others, strict=True)
    ]
    raw = spark.createDataFrame(
        [(f'{{"id":{number}}}'.encode(), value.encode(), "t", 0, number, None, None)
         for number, value in enumerate(values)],
        RAW,
    ).coalesce(1)  # fmt: skip
    if envelope == "none":
        parsed = parse_records(raw, contract, frozenset())
    else:
        parsed = parse_changes(raw, contract, frozenset(), frozenset())
    names = [column.name for column in columns]
    for record, value, (_, expected) in zip(
        parsed.collect(), values, found, strict=True
    ):
        assert record["_lakesql_rejected"] is None, value
        assert {name: plain(record[name]) for name in names} == expected, value


@pytest.mark.parametrize("wrap", ["event", "event with a schema", "flat", "dms"])
def test_values_of_simple_columns_are_kept_too(spark: SparkSession, wrap: str) -> None:
    """Without an array or a struct in the contract, as an event is read as it stands
    then."""
    envelope, write = WRAPS[wrap]
    columns = (
        ContractColumn("id", T.IntegerType()),
        ContractColumn("s", T.StringType()),
    )
    contract = contract_of(columns, envelope)
    random_values = Values(3)
    found = [random_values.text() for _ in range(200)]
    raw = spark.createDataFrame(
        [(b'{"id":1}', write(f'{{"id":1,"s":{text}}}', '{"id":1,"s":2.50}').encode(), "t", 0, 0, None, None)
         for text, _ in found],
        RAW,
    ).coalesce(1)  # fmt: skip
    parsed = parse_changes(raw, contract, frozenset(), frozenset())
    for record, (text, expected) in zip(parsed.collect(), found, strict=True):
        assert (record["_lakesql_rejected"], record["s"]) == (None, expected), text


@pytest.mark.parametrize("lsn", ["100", '"100"'])
@pytest.mark.parametrize("order", ["3", '"3"'])
def test_numbers_beside_the_rows_may_be_texts(
    spark: SparkSession, lsn: str, order: str
) -> None:
    """With the row before, and without it: then an event is read as it stands."""
    contract = Contract(
        (ContractColumn("id", T.IntegerType()),), key=("id",), envelope="debezium"
    )
    source = f'{{"connector":"postgresql","lsn":{lsn},"ts_ms":"1772366400000","snapshot":"false"}}'
    value = f'{{"after":{{"id":1}},"source":{source},"transaction":{{"id":"7:90","total_order":{order}}},"op":"c"}}'
    raw = spark.createDataFrame(
        [(b'{"id":1}', value.encode(), "t", 0, 0, None, None)], RAW
    )
    for fields in (("position", "ts"), ("position", "ts", "before")):
        (row,) = parse_changes(raw, contract, frozenset(), frozenset(fields)).collect()
        assert row["_lakesql_rejected"] is None
        assert (row["_change"]["position"], row["_change"]["ts"].year) == (
            [100, 3],
            2026,
        )


def test_what_a_router_adds_to_a_key_is_no_column_of_it(spark: SparkSession) -> None:
    columns = (ContractColumn("id", T.IntegerType()),)
    contract = Contract(columns, key=("id",), envelope="debezium", is_mirrored=True)
    keys = {
        '{"id":1,"__dbz__physicalTableIdentifier":"s.t_2025"}': True,
        '{"schema":{"type":"struct"},"payload":{"id":1,"__dbz__physicalTableIdentifier":"s.t_2025"}}': True,
        '{"id":1}': True,
        '{"id":1,"other":2}': False,
        '{"__dbz__physicalTableIdentifier":"s.t_2025"}': False,
    }
    raw = spark.createDataFrame(
        [
            (
                key.encode(),
                (EVENT % ("null", '{"id":1}', "c")).encode(),
                "t",
                0,
                0,
                None,
                None,
            )
            for key in keys
        ],
        RAW,
    ).coalesce(1)
    found = parse_changes(raw, contract, frozenset(), frozenset()).collect()
    assert [row["_lakesql_rejected"] is None for row in found] == list(keys.values())
