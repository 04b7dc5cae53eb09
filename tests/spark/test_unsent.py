"""Large values that an update has not touched, which the database does not send: the mirror keeps what it has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakesql.engine.records.change_values import UNAVAILABLE
from tests.spark.project import Fields, Project, Row

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {
    "id": {"type": "int", "required": True},
    "v": "int",
    "big": {"type": "string", "required": True},
    "more": "array<string>",
}
UNSENT = {"big": UNAVAILABLE, "more": [UNAVAILABLE]}
SELECT = "SELECT id, v, big AS text, more FROM {s} WHERE v >= 0"


def mirror(project: Project, select: str = SELECT, **config: Any) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], max_per_batch=1)
    project.model("m", select, mode="cdc", keys="id", **config)


def change(op: str, id_: int, v: int = 0, big: str = "", more: Any = None, at: int = 1) -> Fields:
    row = {"id": id_, "v": v, "big": big, "more": more}
    event = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": {"lsn": at}}
    return Fields(key={"id": id_}, value=event)


def unsent(id_: int, v: int, at: int = 1) -> Fields:
    return change("u", id_, v, **UNSENT, at=at)


def stored(project: Project) -> list[Row]:
    return [{name: row[name] for name in ("id", "v", "text", "more")} for row in project.rows("m", "id")]


def test_the_row_keeps_what_an_update_does_not_send(project: Project) -> None:
    mirror(project)
    project.record("s", [change("c", 1, 1, "long", ["x"]), change("c", 2, 1, "l2"), change("c", 3, 1, "l3")])
    project.record(
        "s",
        [
            unsent(1, 2),
            change("u", 2, 5, "sent", ["y"]),
            unsent(2, 6),
            unsent(2, 7),
            change("d", 3),
            change("c", 3, 8, "again"),
            unsent(3, 9),
        ],
    )
    project.run().check()
    assert stored(project) == [
        {"id": 1, "v": 2, "text": "long", "more": ["x"]},
        {"id": 2, "v": 7, "text": "sent", "more": ["y"]},
        {"id": 3, "v": 9, "text": "again", "more": None},
    ]
    assert not project.has("m__dead_letter")


def test_a_value_that_is_nowhere_makes_a_dead_letter_and_leaves_the_row(project: Project) -> None:
    mirror(project)
    project.record("s", [change("c", 1, -1, "hidden"), change("c", 2, 1, "two"), change("c", 4, 1, "four")])
    project.record("s", [unsent(1, 3), unsent(2, -1), unsent(9, -1), change("d", 4), unsent(4, 7)])
    project.run().check()
    assert [row["id"] for row in stored(project)] == [4]
    letters = project.rows("m__dead_letter", "offset")
    assert [(row["offset"], row["reason"]) for row in letters] == [(3, "unparsable"), (7, "unparsable")]
    assert letters[0]["detail"] == (
        "big, more: not in the event, and the table has no row of this key. REPLICA IDENTITY FULL sends it"
    )


def test_a_column_that_the_select_works_with_cannot_be_kept(project: Project) -> None:
    mirror(project, "SELECT id, v, upper(big) AS text, more FROM {s}")
    project.record("s", [change("c", 1, 1, "a", ["b"]), change("c", 2, 1, "a", ["b"])])
    project.record("s", [unsent(1, 2), change("u", 2, 2, "c", [UNAVAILABLE])])
    project.run().check()
    assert stored(project) == [
        {"id": 1, "v": 1, "text": "A", "more": ["b"]},
        {"id": 2, "v": 2, "text": "C", "more": ["b"]},
    ]
    assert [row["detail"].split(":")[0] for row in project.rows("m__dead_letter")] == ["big"]


@pytest.mark.parametrize("sequence", [{}, {"sequence_by": "_change.position"}], ids=["arrival", "sequence"])
def test_any_cut_into_batches_gives_the_rows_of_the_source(
    project: Project, feed_seed: int, sequence: dict[str, str]
) -> None:
    mirror(project, "SELECT id, v, big AS text, more, _change.position AS at FROM {s}", **sequence)
    chance, rows, events = random.Random(feed_seed), dict[int, Row](), list[Fields]()
    for at in range(1, 160):
        id_ = chance.randrange(5)
        if id_ in rows and chance.random() < 0.15:
            del rows[id_]
            events.append(change("d", id_, at=at))
            continue
        op, v, known = "u" if id_ in rows else "c", chance.randrange(100), rows.get(id_)
        if known and chance.random() < 0.6:
            rows[id_] = {**known, "v": v}
            events.append(unsent(id_, v, at))
        else:
            rows[id_] = {"id": id_, "v": v, "text": f"text {at}", "more": [f"{at}"]}
            events.append(change(op, id_, v, f"text {at}", [f"{at}"], at))
    while events:
        size = chance.randrange(1, 40)
        project.record("s", events[:size])
        events = events[size:]
    project.run().check()
    assert stored(project) == [rows[id_] for id_ in sorted(rows)]
    assert not project.has("m__dead_letter")
