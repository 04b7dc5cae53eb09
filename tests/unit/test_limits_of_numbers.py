"""Conditions at the limits of number types: where Spark ends with an overflow, DuckDB
gives no answer of its own.

What a condition means is worked out in plain Python, where numbers have no limits: a
test whose arithmetic leaves its type must be left to Spark, whatever its comparison
would say.
"""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from tests.share import a_few
from tests.unit.test_data_tests import Shop

Number = int | float | Decimal

VALUES: dict[str, list[Number]] = {
    "int": [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 2, 2**31 - 1],
    "bigint": [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1],
    "decimal(10,2)": [
        Decimal("-99999999.99"),
        Decimal("-0.01"),
        Decimal(0),
        Decimal("0.01"),
        Decimal("99999999.99"),
    ],
    "double": [
        -sys.float_info.max,
        -1.5,
        0.0,
        sys.float_info.min,
        1.5,
        sys.float_info.max,
    ],
}
"""The limits of each type, and what is near them."""

ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "double": pa.float64(),
}
OVERFLOWS = {"int", "bigint"}
"""The result of the others has a larger type, or is infinite."""

OPERATORS: dict[str, Callable[[Number, int], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
COMPARISONS: dict[str, Callable[[Number, int], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
}
TESTS = 60


@pytest.mark.checks
@pytest.mark.parametrize("kind", a_few(VALUES, 1))
def test_both_engines_answer_alike_or_duckdb_does_not(
    kind: str, tmp_path: Path
) -> None:
    chance = random.Random(kind)
    values = VALUES[kind]
    shop = Shop(tmp_path)
    shop.write(
        "streams/s.yml",
        f"streams: [{{name: orders, connection: broker, topic: o, columns: {{id: int, n: '{kind}'}}}}]\n",
    )
    for model in ("orders", "customers"):
        shop.write(
            f"models/{model}.sql",
            "{{ config(mode='append') }}\nSELECT id, n FROM {{ stream('orders') }}\n",
        )
    tests, expected = [], {}
    for number in range(TESTS):
        sign, compared = chance.choice([*OPERATORS]), chance.choice([*COMPARISONS])
        operand, bound, row = (
            chance.choice([1, 2, 3]),
            chance.choice([-5, 0, 5]),
            chance.randrange(len(values)),
        )
        result = OPERATORS[sign](values[row], operand)
        is_left = chance.random() < 0.5
        condition = (
            f"n {sign} {operand} {compared} {bound}"
            if is_left
            else f"NOT (n {sign} {operand} {compared} {bound})"
        )
        tests.append(
            {
                "expression": {
                    "name": f"t{number}",
                    "expression": condition,
                    "where": f"id = {row}",
                }
            }
        )
        holds = COMPARISONS[compared](result, bound) is is_left
        overflows = kind in OVERFLOWS and not values[0] <= result <= values[-1]
        expected[f"t{number}"] = "error" if overflows else "pass" if holds else "fail"
    shop.write(
        "models/m.yml", yaml.safe_dump({"models": [{"name": "orders", "tests": tests}]})
    )
    schema = pa.schema([("id", pa.int32()), ("n", ARROW[kind])])
    shop.append(
        "orders",
        [{"id": number, "n": value} for number, value in enumerate(values)],
        schema,
    )

    found = shop.run()
    answered = {name: result.status for name, result in found.items()}
    wrong = {
        name: (tests[int(name[1:])], status, expected[name])
        for name, status in answered.items()
        if status != expected[name]
    }
    assert {
        name: it for name, it in wrong.items() if found[name].engine == "duckdb"
    } == {}
    assert {"pass", "fail"} | ({"error"} if kind in OVERFLOWS else set()) == set(
        expected.values()
    )
    assert sum(result.engine == "duckdb" for result in found.values()) > TESTS // 3
