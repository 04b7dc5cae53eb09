"""Events that are read as they stand give what they give when each value is read as
text first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakesql.engine.records.changes import parse_changes
from lakesql.engine.records.parse import Contract, ContractColumn
from lakesql.engine.records.plain_event import PLAIN, can_be_plain, with_plain
from lakesql.names import CHANGE, MOVE, UNSENT

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
TYPES: dict[str, T.DataType] = {
    "tiny": T.ByteType(),
    "short": T.ShortType(),
    "i": T.IntegerType(),
    "big": T.LongType(),
    "f": T.FloatType(),
    "d": T.DoubleType(),
    "exact": T.DecimalType(8, 2),
    "s": T.StringType(),
    "flag": T.BooleanType(),
    "day": T.DateType(),
    "at": T.TimestampType(),
    "local": T.TimestampNTZType(),
    "bytes": T.BinaryType(),
}
KEPT = tuple(name for name in TYPES if name != "i")
COLUMNS = (
    ContractColumn("k", T.LongType()),
    *(
        ContractColumn(name, kind, unit="milliseconds" if name == "at" else None)
        for name, kind in TYPES.items()
    ),
)
MIRROR = Contract(
    COLUMNS, key=("k",), envelope="debezium", kept=KEPT, moves=True, is_mirrored=True
)
CONTRACTS = {
    "mirror": MIRROR,
    "by position": replace(MIRROR, sequence=(f"{CHANGE}.position",)),
    "by a column": replace(
        MIRROR, sequence=("I",), kept=tuple(name for name in KEPT if name != "d")
    ),
    "without a declared key": replace(MIRROR, names_key=False),
    "required": replace(
        MIRROR,
        columns=tuple(
            replace(column, required=column.name == "s") for column in COLUMNS
        ),
    ),
    "unused": replace(
        MIRROR, kept=tuple(name for name in KEPT if name != "s"), unused=("s",)
    ),
    "append": Contract(COLUMNS, key=("k",), envelope="debezium"),
}
VALUES = (
    *(
        "null",
        "0",
        "1",
        "-0",
        "12",
        "127",
        "128",
        "-129",
        "255",
        "32768",
        "2147483648",
        "9223372036854775807",
    ),
    *(
        "1e-310",
        "1e-324",
        "-1.5E-400",
        "9223372036854775808",
        "123456789012345678901234",
        "1.0",
        "1.5",
        "-0.0",
        "0.1",
        "1e3",
        "1E400",
        "-1e400",
        "NaN",
    ),
    *(
        "Infinity",
        "-Infinity",
        "12.345",
        "12345678.91",
        "0.30000000000000004",
        "123456.10000000000000001",
        "12.50",
    ),
    *(
        "true",
        "false",
        "[]",
        "{}",
        "[1]",
        '{"a":1}',
        '{"scale":1,"value":"fQ=="}',
        "20260131",
        "1772366400000",
    ),
    *("1772366400000123", "99999999999999999", "-62135596800001"),
    *map(
        json.dumps,
        (
            *(
                "",
                " ",
                "1",
                " 1",
                "1.0",
                "1,5",
                "NaN",
                "Infinity",
                "-inf",
                "INF",
                "+INF",
                "true",
                "no",
                "é",
                "\x00",
            ),
            *(
                "2026-01-31",
                "2026-01-31Z",
                "2026-02-30",
                "10000-01-01",
                "07:30",
                "2026-01-31T07:30:00.123456Z",
            ),
            *(
                "2026-01-31 07:30:00",
                "2026-01-31T07:30:00+02:00",
                "+12026-01-31T00:00:00Z",
                "1772366400000",
                "fQ==",
            ),
            *(
                "7d",
                "__debezium_unavailable_value",
                "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
            ),
            b"__debezium_unavailable_value".hex(),
        ),
    ),
)
SOURCE = '{"connector":"postgresql","ts_ms":1772366400000,"snapshot":"false","lsn":100,"txId":7,"file":null}'
KEY = b'{"k":1}'


def event(
    after: str,
    op: str = '"u"',
    source: str = SOURCE,
    before: str = "null",
    more: str = "",
) -> str:
    return f'{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":{op},"ts_ms":5{more}}}'


def row(**values: str) -> str:
    return (
        "{"
        + ",".join(f'"{name}":{text}' for name, text in {"k": "1", **values}.items())
        + "}"
    )


WHOLE = row(
    **dict.fromkeys(TYPES, "null")
    | {"i": "3", "s": '"x"', "d": "2.5", "short": "7", "big": "8"}
)


def records() -> Iterator[tuple[bytes | None, bytes | None, Any]]:
    """Keys, values and headers: each type with each value, and events of each other
    kind."""
    for name in TYPES:
        for value in VALUES:
            yield KEY, event(row(**{"s": '"x"', "i": "3", name: value})).encode(), None
    for op in ('"c"', '"u"', '"r"', '"d"', '"t"', '"m"', '"x"', "null", "1", '""'):
        for after in (WHOLE, "null", "{}", "[]", '"x"'):
            yield KEY, event(after, op, before=WHOLE).encode(), None
    for source in (
        "null",
        "{}",
        '{"lsn":"9"}',
        '{"file":"bin.9","pos":4,"row":0}',
        '{"lsn":1e3}',
        '{"lsn":"x"}',
    ):
        yield KEY, event(WHOLE, source=source).encode(), None
    for key in (
        None,
        b"",
        b"x",
        b"{}",
        b'{"K":1}',
        b'{"k":1,"j":2}',
        b'{"k":1,"k":2}',
        b'{"j":2}',
        b"1",
        b"null",
    ):
        yield key, event(WHOLE).encode(), None
    wrapped = f'{{"schema":{{"type":"struct","fields":[]}},"payload":{event(WHOLE)}}}'
    turned = f'{{"payload":{event(WHOLE)},"schema":null}}'
    beside = event(
        WHOLE,
        more=',"schema":{"fields":[{"field":"after","fields":[{"field":"s","name":"x"}]}]}',
    )
    twice = event(WHOLE, more=f',"after":{row(i="4", s="1")}')
    others = (
        wrapped,
        turned,
        beside,
        twice,
        event(WHOLE) + "x",
        event(WHOLE)[:-1],
        " " + event(WHOLE),
        "[]",
        "",
        "null",
    )
    for text in (
        *others,
        event(WHOLE, more=',"other":[1,{"a":2}]'),
        event(WHOLE.replace('"i"', '"I"')),
    ):
        yield KEY, text.encode(), None
    yield KEY, None, None
    yield KEY, event(WHOLE).encode().replace(b'"x"', b'"\xff"'), None
    for header in ("__debezium.oldkey", "__debezium.newkey"):
        yield KEY, event(WHOLE, '"c"').encode(), [(header, b"{}")]
        yield (
            KEY,
            event(row(s='"__debezium_unavailable_value"'), '"c"').encode(),
            [(header, b"{}")],
        )


def raw_of(spark: SparkSession) -> DataFrame:
    rows = [
        (key, value, "t", 0, at, None, headers)
        for at, (key, value, headers) in enumerate(records())
    ]
    return spark.createDataFrame(rows, RAW).coalesce(1)


def parsed(raw: DataFrame, contract: Contract, *change: str) -> list[Row]:
    fields = frozenset({"op", "position", "tx", "ts", "snapshot", *change})
    frame = parse_changes(raw, contract, frozenset({"offset"}), fields)
    told = F.col(CHANGE).dropFields("before") if change else F.col(CHANGE)
    return frame.withColumn(CHANGE, told).drop(MOVE).orderBy("_record.offset").collect()


@pytest.mark.parametrize("name", CONTRACTS)
def test_an_event_gives_the_same_in_whatever_way_it_is_read(
    spark: SparkSession, name: str
) -> None:
    """With the row before, which is only read as texts, and without it."""
    contract, raw = CONTRACTS[name], raw_of(spark)
    assert can_be_plain(contract, False) and not can_be_plain(contract, True)
    for found, expected, record in zip(
        parsed(raw, contract), parsed(raw, contract, "before"), records(), strict=True
    ):
        assert repr(found) == repr(expected), record
    plain = with_plain(raw, contract, F.lit(True)).where(f"{PLAIN}.is_plain")
    assert plain.count() > len(TYPES) * 3 and plain.count() < raw.count() * 0.7


def test_what_no_value_is_wrong_in_is_read_as_it_stands(spark: SparkSession) -> None:
    values = [
        event(WHOLE),
        event(row(s='"y"', at="1772366400000", exact='"12.50"', flag="true"), '"c"'),
    ]
    values += [
        event(row(s=f'"{unsent}"')) for unsent in ("__debezium_unavailable_value", "x")
    ]
    rows = [(KEY, value.encode(), "t", 0, 0, None, None) for value in values]
    plain = with_plain(
        spark.createDataFrame(rows, RAW).coalesce(1), MIRROR, F.lit(True)
    )
    assert [found[0] for found in plain.select(f"{PLAIN}.is_plain").collect()] == [
        True,
        True,
        False,
        True,
    ]
    assert (
        UNSENT
        in parse_changes(raw_of(spark), MIRROR, frozenset(), frozenset({"op"})).columns
    )
