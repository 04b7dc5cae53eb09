"""Mirrors of wide tables, of which Spark goes through the expressions by recursion."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

VALUES: dict[str, Any] = {
    "string": "x",
    "bigint": 5,
    "decimal(12,2)": "1.25",
    "double": 1.5,
    "boolean": True,
}
COLUMNS = {f"c{number:04}": [*VALUES][number % len(VALUES)] for number in range(400)}
"""More than fit in the stack that Java gives its threads by default: 250 to 300 do."""


def test_a_mirror_has_more_columns_than_fit_in_a_default_stack(
    project: Project,
) -> None:
    project.stream(
        "s",
        {"id": {"type": "int", "required": True}, **COLUMNS},
        envelope="debezium",
        key=["id"],
    )
    project.model("m", "SELECT * FROM {s}", mode="cdc", keys="id")
    row = {"id": 1, **{name: VALUES[kind] for name, kind in COLUMNS.items()}}
    events = [
        {
            "op": op,
            "after": None if op == "d" else row | {"id": id_},
            "before": {"id": id_},
            "source": {"lsn": lsn},
        }
        for lsn, (op, id_) in enumerate([("c", 1), ("c", 2), ("d", 2), ("u", 1)])
    ]
    keys = [{"id": (event["after"] or event["before"])["id"]} for event in events]
    project.record(
        "s",
        [Fields(key=key, value=event) for key, event in zip(keys, events, strict=True)],
    )
    project.run(hangs_after_s=1200.0).check()
    expected = {
        name: Decimal("1.25") if value == "1.25" else value
        for name, value in row.items()
    }
    assert project.rows("m") == [expected]
