"""Expressions and SELECTs that DuckDB is held to answer as Spark does, and rows over
which both are asked."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakesql.stream.types import parse_type
from tests.selects import FOLDER, TABLES, statements

Row = dict[str, Any]

TYPES = {
    "i": "int",
    "j": "int",
    "b": "bigint",
    "c": "bigint",
    "d": "double",
    "e": "double",
    "m": "decimal(12,2)",
    "n": "decimal(12,2)",
    "w": "decimal(38,4)",
    "s": "string",
    "u": "string",
    "t": "timestamp",
    "v": "timestamp",
    "day": "date",
    "due": "date",
    "yes": "boolean",
    "no": "boolean",
    "place": "struct<city:string,zip:int>",
    "tags": "array<string>",
    "ns": "array<int>",
    "items": "array<struct<sku:string,n:int>>",
    "attrs": "map<string,string>",
    "counts": "map<string,int>",
}
"""The columns of the relation `r`."""

TEXTS = (
    None,
    "",
    " ",
    " Ada ",
    "Ada",
    "ADA",
    "a%b_c",
    "a,b",
    "true",
    "FALSE",
    "12",
    "-7",
    "+5",
    " 12 ",
    "1e3",
    "1.50",
)
TEXTS += (
    "2026-03-29",
    "2026-02-30",
    "2024-02-29 23:59:59",
    "NaN",
    "99999999999",
    "aaa",
    "\t",
    "a\nb",
    "null",
)
UNICODE = ("ß", "İ", "Ä", "e\u0301", "😀", "ﬀ", "ǅ", "\u00a0")
EDGES: dict[str, Sequence[Any]] = {
    "int": (None, 0, 1, -1, 2, 7, -7, 10, 2**31 - 1, -(2**31)),
    "bigint": (None, 0, 1, -1, 3, -3, 5_000_000_000, 2**53 + 1, 2**63 - 1, -(2**63)),
    "double": (
        *(None, 0.0, -0.0, 1.5, -2.5, 0.1, 1e300, -1e300, 5e-324, 2.0**53),
        *(float("nan"), float("inf"), float("-inf")),
    ),
    "decimal(12,2)": tuple(
        None if text is None else Decimal(text)
        for text in (
            None,
            "0.00",
            "12.50",
            "-0.01",
            "2.45",
            "-2.55",
            "9999999999.99",
            "-9999999999.99",
        )
    ),
    "decimal(38,4)": tuple(
        None if text is None else Decimal(text)
        for text in (None, "0.0000", "1.0500", "-7.1250", "9" * 34 + ".9999")
    ),
    "string": (*TEXTS, *UNICODE),
    "timestamp": (
        None,
        datetime(2026, 3, 29, 2, 30),
        datetime(2026, 3, 5, 23, 59, 59, 500_000),
        datetime(2024, 2, 29, 12),
        datetime(2023, 12, 31, 23, 59, 59, 999_999),
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(1582, 10, 10),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ),
    "date": (
        *(
            None,
            date(2026, 3, 29),
            date(2024, 2, 29),
            date(2023, 12, 31),
            date(2024, 12, 30),
            date(2026, 1, 31),
        ),
        *(date(1969, 12, 31), date(1582, 10, 10), date(1, 1, 1), date(9999, 12, 31)),
    ),
    "boolean": (None, True, False),
    "struct<city:string,zip:int>": (
        None,
        {"city": "Delft", "zip": 2611},
        {"city": None, "zip": None},
    ),
    "array<string>": (
        None,
        [],
        ["a"],
        ["b", "a", "b"],
        ["a", None],
        [None],
        ["", "Ada"],
        ["Ä"],
    ),
    "array<int>": (
        None,
        [],
        [1],
        [3, 1, 2],
        [1, None],
        [None],
        [2**31 - 1, 1],
        [-1, 0, 7],
    ),
    "array<struct<sku:string,n:int>>": (
        None,
        [],
        [{"sku": "x", "n": 2}, {"sku": None, "n": None}],
        [None],
    ),
    "map<string,string>": (
        None,
        [],
        [("a", "1"), ("b", None)],
        [("", "x"), ("Ada", "Ada")],
    ),
    "map<string,int>": (None, [], [("a", 1)], [("b", None), ("a", -1)]),
}
"""Values of each type that both engines might treat otherwise, NULL among them."""

EXPRESSIONS = tuple((FOLDER / "answered.txt").read_text("utf-8").splitlines())
"""Expressions over the columns of `r`, each of which DuckDB answers for some rows at
least."""

QUERIES = tuple(statements("answered.sql"))
"""SELECTs over `r`, which has an `id` beside its columns."""


def arrow_type(kind: str) -> pa.DataType:
    """Arrow's type for one of Spark's."""
    parsed = parse_type(kind)
    assert parsed is not None
    parts = [(field.name, arrow_type(field.type.text)) for field in parsed.fields]
    match parsed.name:
        case "decimal":
            return pa.decimal128(*map(int, parsed.parameters))
        case "array":
            return pa.list_(parts[0][1])
        case "map":
            return pa.map_(parts[0][1], parts[1][1])
        case "struct":
            return pa.struct(parts)
        case name:
            return _ARROW[name]


_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_table(rows: Iterable[Row], types: Mapping[str, str]) -> pa.Table:
    return pa.Table.from_pylist(
        list(rows),
        pa.schema([(name, arrow_type(kind)) for name, kind in types.items()]),
    )


def edge_rows(seed: int, number: int) -> list[Row]:
    """Rows of `r` in which each edge of a column comes up, beside others by chance."""
    chance = random.Random(seed)
    rows: list[Row] = [{"id": at} for at in range(number)]
    for name, kind in TYPES.items():
        values = [*EDGES[kind], *(chance.choice(EDGES[kind]) for _ in range(number))][
            :number
        ]
        chance.shuffle(values)
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def shop_rows(seed: int, is_plain: bool) -> dict[str, list[Row]]:
    """Rows of the tables of the corpus. Plain ones meet each other in joins, and few
    guards."""
    chance = random.Random(seed)
    plain: dict[str, Sequence[Any]] = {
        "int": (None, 0, 1, 2, 3, 7),
        "bigint": (None, 1, 2, 3),
        "double": (None, 0.5, 1.5, -2.0),
        "decimal(12,2)": (None, Decimal("1.50"), Decimal("12.00"), Decimal("0.05")),
        "decimal(10,2)": (None, Decimal("2.50"), Decimal("10.01")),
        "string": (None, "", "a", "b", "paid", "DE", "x"),
    }

    def value(kind: str) -> Any:
        parsed = parse_type(kind)
        assert parsed is not None
        if parsed.fields and chance.random() < 0.1:
            return None
        match parsed.name:
            case "struct":
                return {field.name: value(field.type.text) for field in parsed.fields}
            case "array":
                return [
                    value(parsed.fields[0].type.text)
                    for _ in range(chance.randrange(1 if is_plain else 0, 4))
                ]
            case "map":
                keys = chance.sample(["a", "b", "size"], chance.randrange(3))
                return [(key, value(parsed.fields[1].type.text)) for key in keys]
            case _:
                known = plain.get(kind) if is_plain else None
                return chance.choice(known or EDGES.get(kind) or plain[kind])

    return {
        name: [
            {column: value(kind) for column, kind in columns.items()} for _ in range(12)
        ]
        for name, columns in TABLES.items()
    }
