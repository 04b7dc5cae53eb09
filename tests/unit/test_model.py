from __future__ import annotations

from lakesql.errors import Place
from lakesql.model.table_name import TableName
from tests.unit.test_manifest import load


def test_an_option_stands_where_the_model_gives_it() -> None:
    text = "-- x\n{{ config(\n  mode='append',\n  tags=['a'],\n) }}\nSELECT id FROM {{ stream('orders') }}"
    model = load(
        {"models/m.sql": text}, "[tool.lakesql.models]\ntrigger = '1 minute'\n"
    ).models["m"]
    assert model.place == Place("models/m.sql", 1, 1)
    assert model.option_place("tags") == Place("models/m.sql", 4, 8)
    assert model.option_place("trigger") == Place("models/m.sql", 2, 4)


def test_the_dead_letter_table_is_named_after_its_table() -> None:
    table = TableName("lake", "shop", "orders")
    assert str(table) == "lake.shop.orders"
    assert table.dead_letter == TableName("lake", "shop", "orders__dead_letter")
    assert sorted([table.dead_letter, table]) == [table, table.dead_letter]
