"""SELECTs that Spark accepts, SELECTs that it does not, and the tables that both read.

`accepted.sql` holds one SELECT after another, each ended by a semicolon at the end of a
line. `accepted_examples.sql` holds those of Spark's own documentation of its functions,
as DESCRIBE FUNCTION EXTENDED prints them. `answered.sql` and `answered.txt` hold
SELECTs and expressions that DuckDB is held to answer as Spark does. In `wrong.sql` each
stands under comments that say what is found in it: a condition, and the line and the
column in the SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent

TABLES = {
    "orders": {
        "order_id": "bigint",
        "customer_id": "bigint",
        "amount": "decimal(12,2)",
        "status": "string",
        "placed_at": "timestamp",
        "tags": "array<string>",
        "attributes": "map<string,string>",
        "address": "struct<city:string,zip:string,geo:struct<lat:double,lon:double>>",
        "items": "array<struct<sku:string,quantity:int,price:decimal(10,2)>>",
    },
    "customers": {
        "customer_id": "bigint",
        "name": "string",
        "country": "string",
        "email": "string",
        "since": "date",
        "score": "double",
    },
    "employees": {
        "name": "string",
        "dept": "string",
        "salary": "int",
        "hired": "date",
        "boss": "string",
    },
    "numbers": {
        "a": "int",
        "b": "int",
        "c": "int",
        "d": "double",
        "s": "string",
        "flag": "boolean",
    },
    "clicks": {"id": "string", "url": "string", "at": "timestamp", "payload": "string"},
}
"""The tables of `lake.shop`, with their columns."""


def accepted() -> list[str]:
    """The SELECTs of `accepted.sql` and `accepted_examples.sql`."""
    return [*accepted_own(), *statements("accepted_examples.sql")]


def accepted_own() -> list[str]:
    """The SELECTs of `accepted.sql`: the project's own."""
    return list(statements("accepted.sql"))


def wrong() -> list[tuple[str, list[tuple[str, int, int]]]]:
    """The SELECTs of `wrong.sql`, each with what is found in it: condition, line and
    column."""
    cases = []
    for text in statements("wrong.sql"):
        found = re.findall(r"^-- (\S+) (\d+):(\d+)\n", text, re.MULTILINE)
        select = re.sub(r"^(-- .*\n)+", "", text)
        cases.append(
            (
                select,
                [
                    (condition, int(line), int(column))
                    for condition, line, column in found
                ],
            )
        )
    return cases


def statements(file: str) -> Iterator[str]:
    """The SELECTs of a file, each ended by a semicolon at the end of a line."""
    for text in re.split(r";\n", (FOLDER / file).read_text("utf-8")):
        if text.strip():
            yield text.strip()
