"""Mode `cdc` with `apply_deletes='soft'`: what the source deletes stays, marked, and
the rest is as in any mirror."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.spark.project import Fields, Project, Row
from tests.spark.test_cdc import (
    COLUMNS,
    SELECT,
    Source,
    by_key,
    cuts,
    feed,
    shuffled_cuts,
)

pytestmark = pytest.mark.long

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def marked_ms(row: Row) -> int | None:
    at = row["_deleted_at"]
    return None if at is None else round((at - EPOCH).total_seconds() * 1000)


def split(rows: list[Row]) -> tuple[list[Row], dict[tuple[Any, ...], Row]]:
    """The rows that are there, sorted, and those that are marked, by their keys."""
    there = [
        {name: row[name] for name in ("x", "y", "v")}
        for row in rows
        if row["_deleted_at"] is None
    ]
    return sorted(there, key=by_key), {
        by_key(row): row for row in rows if row["_deleted_at"] is not None
    }


@pytest.mark.parametrize("partitions", [1, 3])
def test_any_cut_keeps_what_the_source_deletes_and_no_other_row(
    project: Project, feed_seed: int, partitions: int
) -> None:
    """A marked row is as it was when it was deleted, if it passed the WHERE then."""
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    project.model("m", SELECT, mode="cdc", keys=["x", "y"], apply_deletes="soft")
    source = Source(feed_seed + 100, partitions)
    for _ in range(120):
        source.change()
    for batch in cuts(source, again=partitions == 1):
        for place in range(partitions):
            project.record(
                "s",
                [Fields(event) for at, event in batch if at == place],
                partition=place,
            )
        project.run().check()
    there, marked = split(project.rows_without_spark("m"))
    assert there == source.expected()
    expected = {
        key: it
        for key, it in source.deleted.items()
        if it[0] is not None and it[0] >= 0
    }
    assert {key: row["v"] for key, row in marked.items()} == {
        key: it[0] for key, it in expected.items()
    }
    for key, (_, op, at_ms) in expected.items():
        found_ms = marked_ms(marked[key])
        # A batch with several truncates has the time of the last one.
        assert (
            found_ms == at_ms
            if op == "d"
            else found_ms is not None and found_ms >= at_ms
        )
    assert marked, "nothing was deleted, and the test is blind"
    assert not project.has("m__dead_letter") or project.reasons("m") == {}


def test_the_sequence_keeps_rows_and_marks_apart_in_any_order_of_arrival(
    project: Project, feed_seed: int
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    select = SELECT.replace("v FROM", "v, _change.position AS at FROM")
    project.model(
        "m",
        select,
        mode="cdc",
        keys=["x", "y"],
        sequence_by="_change.position",
        apply_deletes="soft",
    )
    source = Source(feed_seed + 100, partitions=2)
    for _ in range(120):
        source.change()
    for batch in shuffled_cuts(source):
        for place in range(source.partitions):
            project.record(
                "s",
                [Fields(event) for at, event in batch if at == place],
                partition=place,
            )
        project.run().check()
    there, marked = split(project.rows_without_spark("m"))
    assert there == source.expected()
    assert marked and marked.keys() <= source.deleted.keys()


def test_rows_are_marked_cleared_and_counted_and_no_other_mode_takes_the_table(
    project: Project,
) -> None:
    def send(*changes: tuple[str, int | None, int | None]) -> None:
        events = [
            {
                "op": op,
                "before": {"id": id_, "v": None} if op == "d" else None,
                "after": {"id": id_, "v": v} if op in "cur" else None,
            }
            for op, id_, v in changes
        ]
        keys = [{"id": id_} for _, id_, _ in changes]
        project.record(
            "s",
            [
                Fields(key=key, value=event)
                for key, event in zip(keys, events, strict=True)
            ],
        )

    def state() -> dict[int, tuple[int | None, bool]]:
        return {
            row["id"]: (row["v"], row["_deleted_at"] is not None)
            for row in project.rows("m")
        }

    feed(project, v="int")
    options: dict[str, Any] = {"mode": "cdc", "keys": ["id"]}
    project.model("m", "SELECT id, v FROM {s} WHERE v > 0", **options)
    send(*(("c", id_, id_) for id_ in range(1, 7)), ("d", 6, None))
    project.run().check()
    project.model(
        "m",
        "SELECT id, v FROM {s} WHERE v > 0",
        **options,
        apply_deletes="soft",
        max_delete_ratio=0.5,
    )
    # the delete has no time: the batch's
    send(("d", 1, None), ("u", 2, 0), ("c", 7, 7), ("u", 3, 30))
    project.run().check()
    assert state() == {
        1: (1, True),
        3: (30, False),
        4: (4, False),
        5: (5, False),
        7: (7, False),
    }
    send(
        ("r", 1, 10),
        ("u", 3, 31),
        ("d", 3, None),
        ("c", 8, 0),
        ("d", 8, None),
        ("d", 99, None),
    )
    project.run().check()
    assert state() == {
        1: (10, False),
        3: (31, True),
        4: (4, False),
        5: (5, False),
        7: (7, False),
    }
    send(("d", 4, None), ("d", 5, None), ("d", 7, None), ("d", 98, None))
    assert project.run().conditions("m") == ["too-many-deletes"]
    project.model("m", "SELECT id, v FROM {s} WHERE v > 0", **options)
    assert project.run().conditions("m") == ["mode-changed"]
    project.rebuild("m").check()
    assert project.rows("m", "id") == [{"id": 1, "v": 10}]
    send(("d", 1, None))
    project.run().check()
    assert project.rows("m") == []
