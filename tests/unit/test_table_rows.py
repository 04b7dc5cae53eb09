"""NULL arrays, maps and structs are read as what they are, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakesql.catalog.table_rows import keep_nulls, scan_rows

STRUCT = pa.struct({"p": pa.int32(), "t": pa.string()})
KINDS = {
    "array of structs": pa.list_(STRUCT),
    "map of structs": pa.map_(pa.string(), STRUCT),
    "array of numbers": pa.list_(pa.int32()),
    "array of arrays": pa.list_(pa.list_(STRUCT)),
    "struct of an array": pa.struct(
        {"l": pa.list_(STRUCT), "m": pa.map_(pa.string(), STRUCT)}
    ),
    "map of arrays": pa.map_(pa.string(), pa.list_(STRUCT)),
}


def value_of(kind: pa.DataType, random: Random) -> Any:
    """A random value of a type, which is NULL or empty as often as not."""
    if random.random() < 0.3:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, random) for field in kind}
    if pa.types.is_map(kind):
        return {
            f"k{number}": value_of(kind.item_type, random)
            for number in range(random.randrange(3))
        }
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, random) for _ in range(random.randrange(3))]
    return 7 if pa.types.is_integer(kind) else "x"


@pytest.mark.parametrize("name", KINDS)
def test_what_is_null_stays_null(tmp_path: Path, name: str) -> None:
    keep_nulls()
    random = Random(3)
    values = [value_of(KINDS[name], random) for _ in range(60)]
    made = [
        [*each.items()] if pa.types.is_map(KINDS[name]) and each is not None else each
        for each in values
    ]
    rows = pa.table(
        {"id": pa.array(range(60), pa.int64()), "x": pa.array(made, KINDS[name])}
    )
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    table.delete("id = 5")
    scan = table.scan()
    for limit in (None, 20):
        read = [
            row
            for batch in scan_rows(table, scan.projection(), limit).to_record_batches(
                scan.plan_files()
            )
            for row in batch.to_pylist(maps_as_pydicts="lossy")
        ]
        assert {row["id"]: row["x"] for row in read} == {
            row["id"]: values[row["id"]] for row in read
        }
        assert len(read) == (limit or 59)
