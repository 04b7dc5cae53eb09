"""Columns that records spell in other capitals, as the first records of a run show
them."""

from __future__ import annotations

import json

from lakesql.engine.batch.other_capitals import find_spelled
from lakesql.stream.stream import Column
from tests.cases import each_of

COLUMNS = (
    Column("id", "int"),
    Column("Größe", "int"),
    Column("b", "int", from_field="B"),
)


@each_of(
    ("records", "found"),
    [
        ([{"ID": 1, "B": 2}], (("id", "ID"),)),
        ([{"ID": 1}, {"id": 1}], ()),
        ([{"x": {"ID": 1}, "v": "ID"}], ()),
        ([{"GRÖSSE": 1, "GRÖßE": 2, "b": 3}], (("Größe", "GRÖßE"), ("b", "b"))),
        ([{}, [1], "x"], ()),
    ],
)
def test_a_column_that_no_record_has_is_found_in_other_capitals(
    records: list[object], found: tuple[tuple[str, str], ...]
) -> None:
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    assert find_spelled(COLUMNS, [*texts, None, "no JSON"]) == found
