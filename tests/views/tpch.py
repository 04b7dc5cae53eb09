"""TPC-H in DuckDB: its tables, its queries as models, and changes of the tables, its
refresh functions among them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TypeAlias

import duckdb
import duckdb_extension_tpch
import sqlglot
from sqlglot import exp

from lakesql.views.view_tree import ViewInput
from tests.views.keeper import Row, Rows

TABLES = (
    "region",
    "nation",
    "supplier",
    "part",
    "partsupp",
    "customer",
    "orders",
    "lineitem",
)

KEYS: Mapping[str, tuple[str, ...]] = {
    "q2_rows": ("s_name", "p_partkey"),
    "q15": ("s_suppkey",),
    "q20": ("s_name",),
}
"""What tells the rows of a view apart whose GROUP BY does not."""

SPARK_TYPES = {
    "INTEGER": "int",
    "BIGINT": "bigint",
    "DATE": "date",
    "VARCHAR": "string",
}

HELD_BACK = 8
"""Of so many orders one is not there in the beginning: those are the new orders of the
first refresh function."""


def open_tpch(scale: float) -> duckdb.DuckDBPyConnection:
    """The tables of a scale, but for the orders that are inserted later, which wait in
    `later_orders` and `later_lineitem`."""
    (extension,) = Path(duckdb_extension_tpch.__file__).parent.rglob(
        "*.duckdb_extension"
    )
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CALL dbgen(sf = {scale})")
    one_of_each = (
        "SELECT DISTINCT ON (ps_partkey, ps_suppkey) * FROM partsupp ORDER BY ALL"
    )
    # at small scales a key is there twice
    connection.execute(f"CREATE OR REPLACE TABLE partsupp AS {one_of_each}")
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        held_back = f"hash({key}) % {HELD_BACK} = 0"
        connection.execute(
            f"CREATE TABLE later_{table} AS SELECT * FROM {table} WHERE {held_back}"
        )
        connection.execute(f"DELETE FROM {table} WHERE {held_back}")
    return connection


@cache
def inputs() -> tuple[ViewInput, ...]:
    """The tables as a view reads them."""
    connection = open_tpch(0)
    found = []
    for table in TABLES:
        described = connection.execute(f"DESCRIBE {table}").fetchall()
        types = tuple(SPARK_TYPES.get(kind, kind.lower()) for _, kind, *_ in described)
        found.append(ViewInput((table,), tuple(name for name, *_ in described), types))
    return tuple(found)


@cache
def models() -> Mapping[str, str]:
    """The SELECTs by the names of their models: `q1` to `q22`, and `q2_rows` where a
    LIMIT takes some of its rows.

    They are the extension's own texts, in which the one output without a name has got
    one, and the fraction of q11 is that of a small scale.
    """
    found: dict[str, str] = {}
    for number, text in open_tpch(0).execute("FROM tpch_queries()").fetchall():
        select = text.strip().rstrip(";")
        for own, ours in (
            ("sum(l_quantity)\nFROM", "sum(l_quantity) AS quantity\nFROM"),
            ("0.0001000000", "0.005"),
        ):
            select = select.replace(own, ours)
        all_rows = re.sub(r"ORDER BY[^()]*LIMIT \d+$", "", select)
        found[f"q{number}"] = select
        if all_rows != select:
            found[f"q{number}_rows"] = all_rows.strip()
    return found


def with_names(select: str, name_of: Callable[[str], str]) -> str:
    """A SELECT whose tables have other names."""
    tables = [
        node.this
        for node in sqlglot.parse_one(select, read="spark").find_all(exp.Table)
    ]
    for table in sorted(tables, key=lambda table: -table.meta["start"]):
        if table.name in TABLES:
            start, end = table.meta["start"], table.meta["end"] + 1
            select = f"{select[:start]}{name_of(table.name)}{select[end:]}"
    return select


# --- changes

ASKED_NATIONS = ("GERMANY", "FRANCE", "CANADA", "SAUDI ARABIA", "BRAZIL", "CHINA")
"""Nations that the queries ask for."""

Change: TypeAlias = Callable[[duckdb.DuckDBPyConnection, Random], None]


def insert_orders(
    connection: duckdb.DuckDBPyConnection, dice: Random, count: int = 12
) -> None:
    """The first refresh function: new orders, with their lines."""
    keys = _some(connection, "later_orders", "o_orderkey", dice, count)
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        connection.execute(
            f"INSERT INTO {table} SELECT * FROM later_{table} WHERE {key} IN ({keys})"
        )
        connection.execute(f"DELETE FROM later_{table} WHERE {key} IN ({keys})")


def delete_orders(
    connection: duckdb.DuckDBPyConnection, dice: Random, count: int = 12
) -> None:
    """The second one: orders that leave, with their lines."""
    keys = _some(connection, "orders", "o_orderkey", dice, count)
    connection.execute(f"DELETE FROM lineitem WHERE l_orderkey IN ({keys})")
    connection.execute(f"DELETE FROM orders WHERE o_orderkey IN ({keys})")


def update_lines(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """Lines of some orders change: in what the queries ask for, or in anything."""
    keys = _some(connection, "orders", "o_orderkey", dice, 25)
    supplier = _some(connection, "supplier", "s_suppkey", dice, 1)
    of = f"WHERE l_orderkey IN ({keys})"
    sets = dice.choice(
        (
            "l_quantity = l_quantity * 3",
            "l_receiptdate = l_commitdate + 1, l_shipdate = l_commitdate - 1, l_shipmode = 'MAIL'",
            "l_receiptdate = l_commitdate - 1",
            f"l_suppkey = {supplier}, l_shipdate = DATE '1996-02-01', l_discount = 0.06",
            "l_shipdate = DATE '1995-09-15', l_returnflag = 'R'",
            "l_shipmode = 'AIR', l_shipinstruct = 'DELIVER IN PERSON', l_quantity = 5",
            "l_extendedprice = l_extendedprice + 7, l_tax = 0.01",
        )
    )
    connection.execute(f"UPDATE lineitem SET {sets} {of}")
    connection.execute(
        f"UPDATE orders SET o_orderstatus = 'F' WHERE o_orderkey IN ({keys}) AND o_orderkey % 2 = 0"
    )


def update_orders(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    keys = _some(connection, "orders", "o_orderkey", dice, 25)
    customer = _some(connection, "customer", "c_custkey", dice, 1)
    sets = dice.choice(
        (
            f"o_custkey = {customer}",
            "o_orderdate = DATE '1993-08-01', o_orderpriority = '1-URGENT'",
            "o_orderdate = DATE '1994-12-31'",
            "o_comment = 'very special and slow requests'",
            "o_totalprice = o_totalprice + 1",
        )
    )
    connection.execute(f"UPDATE orders SET {sets} WHERE o_orderkey IN ({keys})")


def update_parts(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """Parts become such as the queries ask for, or no longer are; some leave."""
    keys = _some(connection, "part", "p_partkey", dice, 12)
    sets = dice.choice(
        (
            "p_brand = 'Brand#23', p_container = 'MED BOX'",
            "p_type = 'ECONOMY ANODIZED STEEL'",
            "p_size = 15, p_type = 'PROMO BURNISHED BRASS'",
            "p_name = 'forest green ' || p_partkey",
            "p_brand = 'Brand#12', p_container = 'SM BOX', p_size = 3",
        )
    )
    connection.execute(f"UPDATE part SET {sets} WHERE p_partkey IN ({keys})")
    connection.execute(
        f"DELETE FROM part WHERE p_partkey IN ({_some(connection, 'part', 'p_partkey', dice, 1)})"
    )


def update_stock(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """What suppliers ask for parts, and have of them."""
    keys = _some(connection, "partsupp", "ps_partkey", dice, 60)
    sets = dice.choice(
        (
            "ps_supplycost = 1.00",
            "ps_availqty = ps_availqty * 9",
            "ps_supplycost = ps_supplycost + 500",
        )
    )
    connection.execute(
        f"UPDATE partsupp SET {sets} WHERE ps_partkey IN ({keys}) AND ps_suppkey % 2 = 0"
    )


def update_suppliers(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    keys = _some(connection, "supplier", "s_suppkey", dice, 3)
    sets = dice.choice(
        (
            f"s_nationkey = {_asked_nation('s_suppkey', dice)}",
            f"s_nationkey = {_asked_nation('s_suppkey', dice)}",
            "s_comment = 'Customer of many Complaints'",
            "s_acctbal = s_acctbal + 1, s_comment = ''",
        )
    )
    connection.execute(f"UPDATE supplier SET {sets} WHERE s_suppkey IN ({keys})")


def update_customers(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """Customers move, or have other balances; one leaves, and one comes that has
    ordered nothing yet."""
    keys = _some(connection, "customer", "c_custkey", dice, 12)
    sets = dice.choice(
        (
            f"c_nationkey = {_asked_nation('c_custkey', dice)}",
            "c_acctbal = c_acctbal + 1000",
            "c_mktsegment = 'BUILDING'",
            "c_phone = '13' || substring(c_phone, 3)",
        )
    )
    connection.execute(f"UPDATE customer SET {sets} WHERE c_custkey IN ({keys})")
    connection.execute(
        "INSERT INTO customer SELECT * REPLACE ((SELECT max(c_custkey) + 1 FROM customer) AS c_custkey) "
        f"FROM customer WHERE c_custkey IN ({_some(connection, 'customer', 'c_custkey', dice, 1)})"
    )
    gone = _some(connection, "customer", "c_custkey", dice, 1)
    connection.execute(f"DELETE FROM customer WHERE c_custkey IN ({gone})")


def rename_nation(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """Two nations exchange their names."""
    one, other = dice.sample(ASKED_NATIONS, 2)
    swapped = f"CASE n_name WHEN '{one}' THEN '{other}' WHEN '{other}' THEN '{one}' ELSE n_name END"
    connection.execute(f"UPDATE nation SET n_name = {swapped}")


def make_matches(connection: duckdb.DuckDBPyConnection, dice: Random) -> None:
    """Changes so much that at a small scale, too, rows are what each query asks for."""
    for change in (
        update_lines,
        update_orders,
        update_parts,
        update_stock,
        update_suppliers,
        update_customers,
    ) * 8:
        change(connection, dice)


REFRESH_FUNCTIONS: tuple[Change, ...] = (insert_orders, delete_orders)

ROUNDS: tuple[tuple[Change, ...], ...] = (
    REFRESH_FUNCTIONS,
    (
        *REFRESH_FUNCTIONS,
        update_lines,
        update_parts,
        update_stock,
        update_suppliers,
        update_customers,
        update_orders,
    ),
    (update_parts, update_stock, update_suppliers),
    (update_orders, update_customers),
    (update_suppliers,),
    (update_lines,),
    (update_customers,),
    (update_stock,),
    (rename_nation, update_orders),
    (*REFRESH_FUNCTIONS, update_lines, update_parts),
)
"""What changes between two refreshes."""


def some_changes() -> Iterator[tuple[Change, ...]]:
    """What changes in each round: these rounds again and again."""
    return cycle(ROUNDS)


# --- what has changed


def find_changes(connection: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """The numbers of the tables that have changed since `remember`; of each table the
    rows that have left it are in `_lakesql_gone_0` and so on, and those that have come
    to it in `_lakesql_come_0`."""
    changed: set[int] = set()
    for number, table in enumerate(TABLES):
        before = f"before_{number}"
        for view, one, other in (("gone", before, table), ("come", table, before)):
            differ = f"FROM {one} EXCEPT ALL FROM {other}"
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE _lakesql_{view}_{number} AS {differ}"
            )
            if connection.execute(f"FROM _lakesql_{view}_{number} LIMIT 1").fetchall():
                changed.add(number)
    return frozenset(changed)


def remember(connection: duckdb.DuckDBPyConnection, changed: Iterable[int]) -> None:
    """Takes the tables of these numbers as they are: in `before_0` and so on."""
    for number in changed:
        connection.execute(
            f"CREATE OR REPLACE TABLE before_{number} AS FROM {TABLES[number]}"
        )


# --- answers


def differing(kept: Rows, right: Rows) -> list[tuple[Row | None, Row | None]]:
    """The rows by which two tables differ."""
    if len(kept) != len(right):
        return [*((row, None) for row in kept), *((None, row) for row in right)]
    pairs = zip(sorted(kept, key=order), sorted(right, key=order), strict=True)
    return [(one, other) for one, other in pairs if not all(map(equal, one, other))]


def order(row: Row) -> tuple[str, ...]:
    """By what is no computed number first: sums may be of another type."""
    exact = [str(value) for value in row if not isinstance(value, float | Decimal)]
    return (
        *exact,
        *(f"{value:020.2f}" for value in row if isinstance(value, float | Decimal)),
    )


def equal(one: object, other: object) -> bool:
    """Whether two values are one: DuckDB has other types for averages and quotients
    than Spark."""
    if isinstance(one, float | Decimal | int) and isinstance(
        other, float | Decimal | int
    ):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-5)
    return one == other


# --- parts of the changes


def _asked_nation(key: str, dice: Random) -> str:
    """The key of one of the nations that are asked for, which one depends on a key."""
    names = ", ".join(f"'{name}'" for name in ASKED_NATIONS)
    place = (
        f"1 + CAST(hash({key} + {dice.randrange(100)}) % {len(ASKED_NATIONS)} AS INT)"
    )
    return f"(SELECT n_nationkey FROM nation WHERE n_name = [{names}][{place}])"


def _some(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, dice: Random, most: int
) -> str:
    """Some keys of a table, as the text of a list."""
    keys = [
        one
        for (one,) in connection.execute(
            f"SELECT DISTINCT {key} FROM {table} ORDER BY 1"
        ).fetchall()
    ]
    return ", ".join(map(str, dice.sample(keys, min(most, len(keys)))))
