"""Types of PostgreSQL's, values of each as SQL writes them, and what a mirror has of a
value: an oracle of its own."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

AS_TEXT = "format('%s', {})"
"""The text of a value as PostgreSQL writes it, whatever its type is."""
AS_JSON = "to_json({})"


@dataclass(frozen=True, slots=True)
class Kind:
    """A type. `read` makes of the text of a value, which is selected by `select`, what
    the mirror has of it."""

    sql: str
    literals: tuple[str, ...]
    read: Callable[[str], Any] = str
    select: str = AS_TEXT


def _single(text: str) -> float:
    """The number that a float of four bytes has."""
    found: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    return found


def _money(text: str) -> Decimal:
    number = Decimal(re.sub(r"[^0-9.]", "", text))
    return -number if "-" in text or "(" in text else number


def _unscaled(text: str) -> str:
    """A number without a scale, as Debezium writes it: without the zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _items(read: Callable[[Any], Any]) -> Callable[[str], Any]:
    """What an array's JSON has, each item read."""

    def each(text: str) -> Any:
        found = json.loads(text, parse_float=Decimal)
        return [None if item is None else read(item) for item in found]

    return each


_LARGE = tuple(f"repeat(md5('{number}'), {150 + 40 * number})" for number in range(4))
"""Texts that PostgreSQL keeps beside the row, and does not send where an update leaves
them as they are."""

SMALL, WHOLE, LONG = (
    Kind("smallint", ("0", "-32768", "32767", "7"), int),
    Kind("int", ("0", "-2147483648", "2147483647", "42"), int),
    Kind(
        "bigint",
        ("0", "-9223372036854775808", "9223372036854775807", "1099511627776"),
        int,
    ),
)
REAL, DOUBLE = (
    Kind(
        "real",
        ("0.1", "-3.4e38", "'NaN'", "'Infinity'", "'-Infinity'", "16777217"),
        _single,
    ),
    Kind(
        "double precision",
        ("0.1", "1e300", "'NaN'", "'Infinity'", "'-Infinity'", "-2.5"),
        float,
    ),
)
TEXT = Kind(
    "text",
    (
        "''",
        "'é𝄞'",
        "'a''b\"c'",
        "'__debezium'",
        "E'line\\n\\ttab\\\\'",
        "'NaN'",
        "'null'",
    ),
)
SHORT = Kind("varchar(20)", ("''", "'short'", "'exactly twenty chars'"))
LARGE = Kind("text", _LARGE)
DAY = Kind(
    "date",
    ("'2026-02-03'", "'1900-03-01'", "'9999-12-31'", "'0001-01-01'"),
    date.fromisoformat,
)
NARROW, WIDE = (
    Kind("numeric(8,2)", ("0", "1.50", "-0.01", "999999.99"), Decimal),
    Kind(
        "numeric(38,10)",
        ("0", "1.5", "-9999999999999999999999999999.9999999999", "0.0000000001"),
        Decimal,
    ),
)
UNSCALED = Kind(
    "numeric",
    ("0", "1.500", "-123456789012345678901234567890.125", "1e10", "0.00000001"),
    _unscaled,
)
STAMP, ZONED = (
    Kind(
        "timestamp",
        ("'2026-01-02 03:04:05.000006'", "'1969-12-31 23:59:59.9'", "'0001-01-01'"),
        datetime.fromisoformat,
    ),
    Kind(
        "timestamptz",
        ("'2026-01-02 03:04:05+05:30'", "'1900-01-01 00:00:00.1Z'"),
        datetime.fromisoformat,
    ),
)

KINDS: tuple[Kind, ...] = (
    *(
        SMALL,
        WHOLE,
        LONG,
        REAL,
        DOUBLE,
        TEXT,
        SHORT,
        LARGE,
        NARROW,
        WIDE,
        DAY,
        STAMP,
        ZONED,
    ),
    Kind("numeric(5,0)", ("0", "99999", "-1"), Decimal),
    UNSCALED,
    Kind("char(6)", ("'ab'", "''", "'abcdef'")),
    Kind(
        "bytea",
        (r"'\x'", r"'\x00ff10'", "decode(repeat('ab', 3000), 'hex')"),
        lambda text: bytes.fromhex(text[2:]),
    ),
    Kind("boolean", ("true", "false"), lambda text: text == "t"),
    Kind("time", ("'07:30'", "'23:59:59.999999'", "'00:00'", "'12:00:00.5'")),
    Kind("time(3)", ("'07:30:00.125'", "'00:00'")),
    Kind(
        "timetz",
        ("'07:30+02'", "'23:00:00-05'"),
        str,
        "to_char(date '2026-01-01' + {}, 'HH24:MI:SS\"Z\"')",
    ),
    Kind(
        "timestamp(3)",
        ("'2026-01-02 03:04:05.006'", "'1969-12-31 23:59:59.9'"),
        datetime.fromisoformat,
    ),
    Kind(
        "interval",
        ("'3 days 04:05:06.5'", "'-00:00:01'"),
        int,
        "(extract(epoch FROM {}) * 1000000)::bigint",
    ),
    Kind(
        "uuid",
        (
            "'00000000-0000-0000-0000-000000000001'",
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        ),
    ),
    Kind(
        "json",
        ("'{\"a\": [1, 2.50]}'", "'null'", "'\"é\"'", '\'{"b":  1,"a": 1e400}\''),
    ),
    Kind(
        "jsonb",
        ('\'{"b": 1, "a": [1, 2.50, 12345678901234567890.5]}\'', "'[]'", "'\"x\"'"),
    ),
    Kind("inet", ("'10.0.0.1'", "'10.1.2.3/24'", "'::1'")),
    Kind("cidr", ("'10.0.0.0/8'",)),
    Kind("macaddr", ("'08:00:2b:01:02:03'",)),
    Kind("money", ("0", "'-12.34'", "92233720368547758.07::numeric::money"), _money),
    Kind("mood", ("'sad'", "'so-so'", "'it''s fine'")),
    Kind("int[]", ("'{}'", "'{1,2,NULL}'"), _items(int), AS_JSON),
    Kind("bigint[]", ("'{9223372036854775807}'", "'{}'"), _items(int), AS_JSON),
    Kind(
        "text[]", ("'{}'", '\'{a,"b,c",NULL,""}\'', "'{\"é\"}'"), _items(str), AS_JSON
    ),
    Kind("boolean[]", ("'{t,f,NULL}'",), _items(bool), AS_JSON),
    Kind(
        "uuid[]",
        ("'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}'",),
        _items(str),
        AS_JSON,
    ),
    Kind("numeric(10,2)[]", ("'{1.50,-0.01,NULL}'",), _items(Decimal), AS_JSON),
    Kind("date[]", ("'{2026-02-03,NULL}'",), _items(date.fromisoformat), AS_JSON),
    Kind("int4range", ("'[1,5)'", "'empty'")),
    Kind(
        "bit(12)", ("B'100000000011'",), lambda text: int(text, 2).to_bytes(2, "little")
    ),
)
"""Types of columns that are no part of a key."""

WIDENED = {
    "smallint": (WHOLE, LONG),
    "int": (LONG,),
    "real": (DOUBLE,),
    "varchar(20)": (Kind("varchar(200)", ("repeat('long', 40)", "''")), TEXT),
    "numeric(8,2)": (Kind("numeric(12,2)", ("9999999999.99", "0.5"), Decimal),),
}
"""What a column's type may become, so that each of its values stays what it is."""


def plain(value: Any) -> Any:
    """A value of the mirror's or of the database's, to be compared with another:
    numbers that are none are equal."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
