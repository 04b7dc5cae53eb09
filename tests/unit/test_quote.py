from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp, parse_one

from lakesql.compile.quote import (
    EpochDay,
    Instant,
    Literal,
    column_of,
    identifier,
    identifiers,
    literal,
    text,
)
from lakesql.errors import InternalError
from tests.cases import each_of


@each_of(
    ("name", "written"),
    [
        ("order_id", "order_id"),
        ("_x1", "_x1"),
        ("order id", "`order id`"),
        ("1st", "`1st`"),
        ("größe", "`größe`"),
        ("a.b", "`a.b`"),
        ("a`b", "`a``b`"),
        ("it's", "`it's`"),
        ("a\n", "`a\n`"),
        ("", "``"),
        ("a; DROP TABLE x", "`a; DROP TABLE x`"),
        ("true", "`true`"),
        ("NULL", "`NULL`"),
        ("Select", "`Select`"),
        ("from", "`from`"),
        ("timestamp", "timestamp"),
    ],
)
def test_a_name_is_quoted_where_it_would_be_read_otherwise(
    name: str, written: str
) -> None:
    assert identifier(name) == written
    assert column_of("target", name) == f"target.{written}"


def test_names_keep_their_order() -> None:
    assert identifiers(["b", "a b", "a"]) == "b, `a b`, a"
    assert identifiers([]) == ""


@each_of(
    ("value", "written"),
    [
        ("", "''"),
        ("it's", r"'it\'s'"),
        ("a\\b", r"'a\\b'"),
        ("\\'", r"'\\\''"),
        ("a\nb\r", r"'a\nb\r'"),
        ("100%_\\%", r"'100%_\\%'"),
        ("a\x00b", "'a\x00b'"),
        ("größe 列 🙂", "'größe 列 🙂'"),
        ("trailing  ", "'trailing  '"),
        ("${env:HOME}", "'${env:HOME}'"),
        ('say "so"', "'say \"so\"'"),
        ("-- no comment /*", "'-- no comment /*'"),
    ],
)
def test_a_text_is_one_literal(value: str, written: str) -> None:
    assert text(value) == literal(value) == written
    read = parse_one(f"SELECT {written} AS a, 1 AS b", dialect="spark")
    assert isinstance(read, exp.Select) and [
        column.alias for column in read.expressions
    ] == ["a", "b"]
    assert read.expressions[0].this.this == value


@each_of(
    ("value", "written"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (2**31 - 1, "2147483647"),
        (2**31, "2147483648L"),
        (-(2**31) + 1, "-2147483647"),
        (-(2**31), "-2147483648L"),
        (2**63 - 1, "9223372036854775807L"),
        (-(2**63), "-9223372036854775808L"),
        (Decimal("1.50"), "1.50BD"),
        (Decimal("-0.5"), "-0.5BD"),
        (Decimal("1E+5"), "100000BD"),
        (Decimal("0E-18"), "0.000000000000000000BD"),
        (Decimal("1E-18"), "0.000000000000000001BD"),
        (Decimal("9" * 38), "9" * 38 + "BD"),
        (Instant(0), "timestamp_micros(0)"),
        (Instant(1_772_400_000_123_456), "timestamp_micros(1772400000123456)"),
        (Instant(-62_135_596_800_000_001), "timestamp_micros(-62135596800000001)"),
        (EpochDay(20_000), "date_from_unix_date(20000)"),
        (EpochDay(-150_000), "date_from_unix_date(-150000)"),
    ],
)
def test_a_literal_has_its_value_and_its_type(value: Literal, written: str) -> None:
    assert literal(value) == written


@each_of("value", [None, 1.5, float("nan"), b"x", [1]])
def test_a_value_without_an_exact_literal_is_refused(value: Any) -> None:
    with pytest.raises(InternalError):
        literal(value)
