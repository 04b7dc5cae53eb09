from __future__ import annotations

from lakesql.model.table_name import TableName
from lakesql.modes.batches.insert import insert_statement

NAME = TableName("lake", "shop", "clicks")


def test_columns_land_by_their_names() -> None:
    assert insert_statement(NAME, ("id", "a b", "true")) == (
        "INSERT INTO lake.shop.clicks BY NAME\nSELECT id, `a b`, `true`\nFROM _lakesql_rows"
    )


def test_columns_that_only_spark_knows_land_by_their_names() -> None:
    assert (
        insert_statement(NAME, None)
        == "INSERT INTO lake.shop.clicks BY NAME\nSELECT *\nFROM _lakesql_rows"
    )
