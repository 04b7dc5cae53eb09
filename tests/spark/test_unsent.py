"""Large values that an update has not touched, which the database does not send: the
mirror keeps what it has."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from lakesql.engine.records.change_values import UNAVAILABLE
from tests.spark.project import Fields, Project, Row
from tests.spark.test_debezium import UNSENT as ALL_UNSENT

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


def change(
    op: str,
    id_: int,
    v: int = 0,
    big: str = "",
    more: Any = None,
    at: int = 1,
    other: int | None = None,
) -> Fields:
    """A change of a row; with the `other` key, a half of a change of its key."""
    row = {"id": id_, "v": v, "big": big, "more": more}
    source = {"lsn": at, "txId": at // 10}
    event = {
        "op": op,
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": source,
    }
    headers = [
        [
            "__debezium.newkey" if op == "d" else "__debezium.oldkey",
            json.dumps({"id": other}),
        ]
    ]
    return Fields(
        key={"id": id_}, value=event, **({} if other is None else {"headers": headers})
    )


def move(
    old: int,
    new: int,
    at: int,
    v: int,
    big: str = UNAVAILABLE,
    more: Any = UNSENT["more"],
) -> list[Fields]:
    """The records of a change of a row's key."""
    key = Fields(
        key={"id": old},
        value=None,
        headers=[["__debezium.newkey", json.dumps({"id": new})]],
    )
    return [
        change("d", old, at=at, other=new),
        key,
        change("c", new, v, big, more, at, old),
    ]


def unsent(id_: int, v: int, at: int = 1) -> Fields:
    return change("u", id_, v, **UNSENT, at=at)


def stored(project: Project) -> list[Row]:
    return [
        {name: row[name] for name in ("id", "v", "text", "more")}
        for row in project.rows("m", "id")
    ]


def test_the_row_keeps_what_an_update_does_not_send(project: Project) -> None:
    mirror(project)
    project.record(
        "s",
        [
            change("c", 1, 1, "long", ["x"]),
            change("c", 2, 1, "l2"),
            change("c", 3, 1, "l3"),
        ],
    )
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


def test_values_of_every_type_are_known_to_be_unsent(project: Project) -> None:
    """Those of another row that is in no table yet too, in one batch with it."""
    kinds = [
        {"type": kind} if isinstance(kind, str) else kind for kind, *_ in ALL_UNSENT
    ]
    named = {f"c{at}": {**kind, "required": True} for at, kind in enumerate(kinds)}
    project.stream(
        "s",
        {"id": "int", "v": "int", **named},
        envelope="debezium",
        key=["id"],
        max_per_batch=1,
    )
    project.model(
        "m", f"SELECT id, v, {', '.join(named)} FROM {{s}}", mode="cdc", keys="id"
    )
    sent, left = (
        {name: it[at] for name, it in zip(named, ALL_UNSENT, strict=True)}
        for at in (2, 1)
    )

    def changed(op: str, id_: int, v: int, values: Row) -> Fields:
        return Fields(
            key={"id": id_},
            value={
                "op": op,
                "after": {"id": id_, "v": v, **values},
                "source": {"lsn": v},
            },
        )

    project.record("s", [changed("c", 1, 1, sent)])
    project.run().check()
    (expected,) = project.rows("m")
    assert all(expected[name] is not None for name in named)
    project.record(
        "s",
        [changed("u", 1, 2, left), changed("c", 2, 3, sent), changed("u", 2, 4, left)],
    )
    project.run().check()
    assert not project.has("m__dead_letter"), [
        row["detail"] for row in project.rows("m__dead_letter")
    ]
    assert project.rows("m", "id") == [
        {**expected, "v": 2},
        {**expected, "id": 2, "v": 4},
    ]


def test_a_value_that_is_nowhere_makes_a_dead_letter_and_leaves_the_row(
    project: Project,
) -> None:
    mirror(project)
    project.record(
        "s",
        [
            change("c", 1, -1, "hidden"),
            change("c", 2, 1, "two"),
            change("c", 4, 1, "four"),
        ],
    )
    project.record(
        "s", [unsent(1, 3), unsent(2, -1), unsent(9, -1), change("d", 4), unsent(4, 7)]
    )
    project.run().check()
    assert [row["id"] for row in stored(project)] == [4]
    letters = project.rows("m__dead_letter", "offset")
    assert [(row["offset"], row["reason"]) for row in letters] == [
        (3, "unparsable"),
        (7, "unparsable"),
    ]
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
    assert [row["detail"].split(":")[0] for row in project.rows("m__dead_letter")] == [
        "big"
    ]


@pytest.mark.parametrize(
    "config",
    [
        {"mode": "append"},
        {"mode": "upsert", "delete_when": "op = 'd'"},
        {"mode": "cdc"},
        {"mode": "scd2", "sequence_by": "_change.position"},
    ],
    ids=["append", "upsert", "cdc", "scd2"],
)
def test_a_value_that_nothing_reads_may_be_unsent(
    project: Project, config: Row
) -> None:
    """It must be one of its column's type all the same."""
    project.stream("s", {**COLUMNS, "n": "int"}, envelope="debezium", key=["id"])
    keys = {} if config["mode"] == "append" else {"keys": "id"}
    op = ", _change.op AS op" if "delete_when" in config else ""
    project.model(
        "m", f"SELECT id, v, _change.position AS at{op} FROM {{s}}", **config, **keys
    )
    misfit = change("u", 1, 3, at=13)
    misfit["value"]["after"]["n"] = "x"
    project.record(
        "s",
        [
            change("c", 1, 1, "big", ["x"], 11),
            unsent(1, 2, 12),
            misfit,
            change("c", 2, 4, **UNSENT),
        ],
    )
    project.run().check()
    newest = {
        row["id"]: row["v"]
        for row in sorted(project.rows("m"), key=lambda row: row["v"])
    }
    assert newest == {1: 2, 2: 4}
    assert [row["detail"] for row in project.rows("m__dead_letter")] == ["n: not a int"]


def test_what_is_not_sent_moves_along_with_the_key(project: Project) -> None:
    """From the table or from an earlier change in the batch, over several keys, and
    past rows that take the old one."""
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], max_per_batch=1)
    project.model(
        "m",
        "SELECT id AS x, v, big AS text, more FROM {s} WHERE v >= 0",
        mode="cdc",
        keys="x",
    )
    project.record(
        "s",
        [change("c", id_, 1, f"t{id_}", [f"m{id_}"], 1) for id_ in (1, 2, 3, 4, 5, 6)],
    )
    project.record(
        "s",
        [
            *move(1, 11, 21, v=2),
            change("c", 1, 1, "another", ["a"], 22),
            unsent(1, 5, 23),
            change("u", 2, 3, "sent", UNSENT["more"], 24),
            *move(2, 22, 25, v=3),
            *move(22, 23, 26, v=4),
            change("u", 23, 5, UNAVAILABLE, ["new"], 27),
            *move(23, 2, 28, v=6),
            unsent(2, 7, 29),
            *move(3, 33, 30, v=-1),
            change("d", 4, at=31),
            *move(5, 4, 32, v=8),
            *move(6, 66, 33, v=9, big="sent too"),
            *move(7, 77, 34, v=1),
        ],
    )
    project.run().check()
    assert [tuple(row.values()) for row in project.rows("m", "x")] == [
        (1, 5, "another", ["a"]),
        (2, 7, "sent", ["new"]),
        (4, 8, "t5", ["m5"]),
        (11, 2, "t1", ["m1"]),
        (66, 9, "sent too", ["m6"]),
    ]
    assert [json.loads(row["key"]) for row in project.rows("m__dead_letter")] == [
        {"id": 77}
    ]


def test_a_key_change_in_two_batches_moves_what_is_not_sent(project: Project) -> None:
    """From the table, or from the batch of the first half. Where the insert is read
    first there is none yet: earlier changes of the old key may be on their way where
    its delete is."""
    mirror(project)
    project.record(
        "s", [change("c", id_, 1, f"t{id_}", [f"m{id_}"]) for id_ in (1, 2, 3)]
    )
    (gone, _, come), (later, _, first) = move(1, 11, 21, v=2), move(2, 22, 31, v=3)
    sent, (left, _, entered), (left_again, _, last) = (
        change("u", 3, 1, "new", ["n"]),
        move(3, 4, 41, 4),
        move(4, 5, 42, 5),
    )
    project.record("s", [gone], partition=1)
    project.run().check()
    assert [row["id"] for row in stored(project)] == [2, 3]
    batches = (
        ((0, come), (0, first), (1, later)),
        ((0, sent, left),),
        ((0, entered, left_again), (0, change("c", 3, 9, "x")), (0, last)),
    )
    for partition, *changes in (each for batch in batches for each in batch):
        project.record("s", changes, partition=partition)
    project.run().check()
    assert stored(project) == [
        {"id": 3, "v": 9, "text": "x", "more": None},
        {"id": 5, "v": 5, "text": "new", "more": ["n"]},
        {"id": 11, "v": 2, "text": "t1", "more": ["m1"]},
    ]
    assert [json.loads(row["key"])["id"] for row in project.rows("m__dead_letter")] == [
        22
    ]


@pytest.mark.parametrize(
    "options",
    [{}, {"sequence_by": "_change.position"}, {"apply_deletes": "soft"}],
    ids=["arrival", "sequence", "soft"],
)
def test_any_cut_into_batches_gives_the_rows_of_the_source(
    project: Project, feed_seed: int, options: dict[str, str]
) -> None:
    mirror(
        project,
        "SELECT id, v, big AS text, more, _change.position AS at FROM {s}",
        **options,
    )
    chance, rows, events = (
        random.Random(feed_seed),
        dict[int, Row](),
        list[list[Fields]](),
    )
    deleted: dict[int, Row] = {}
    for at in range(1, 160):
        id_, new = chance.randrange(5), chance.randrange(7)
        if id_ in rows and new not in rows and chance.random() < 0.3:
            row = deleted[id_] = rows.pop(id_)
            rows[new] = {**row, "id": new, "v": at}
            sent = {"big": row["text"], "more": row["more"]}
            events.append(
                [*move(id_, new, at, at, **chance.choice([UNSENT, UNSENT, sent]))]
            )
            continue
        if id_ in rows and chance.random() < 0.15:
            deleted[id_] = rows.pop(id_)
            events.append([change("d", id_, at=at)])
            continue
        op, v, known = "u" if id_ in rows else "c", chance.randrange(100), rows.get(id_)
        if known and chance.random() < 0.6:
            rows[id_] = {**known, "v": v}
            events.append([unsent(id_, v, at)])
        else:
            rows[id_] = {"id": id_, "v": v, "text": f"text {at}", "more": [f"{at}"]}
            events.append([change(op, id_, v, f"text {at}", [f"{at}"], at)])
    left = [event for group in events for event in group]
    while left:
        size = chance.randrange(1, 30)
        project.record("s", left[:size])
        left = left[size:]
    project.run().check()
    expected = {**deleted, **rows} if "apply_deletes" in options else rows
    assert stored(project) == [expected[id_] for id_ in sorted(expected)]
    assert not project.has("m__dead_letter")
    if "apply_deletes" in options:
        marked = {
            row["id"] for row in project.rows("m") if row["_deleted_at"] is not None
        }
        assert marked == deleted.keys() - rows.keys()


def test_a_table_with_bytes_keeps_what_an_update_does_not_send(
    project: Project,
) -> None:
    """Texts of a table with bytes are counted as they are written, which is before the
    rows are filled."""
    project.stream("s", {**COLUMNS, "data": "binary"}, envelope="debezium", key=["id"])
    project.model(
        "m", "SELECT id, v, big AS text, more, data FROM {s}", mode="cdc", keys="id"
    )
    project.record("s", [change("c", 1, 1, "long", ["x"])])
    project.run().check()
    project.record("s", [unsent(1, 2)])
    project.run().check()
    assert stored(project) == [{"id": 1, "v": 2, "text": "long", "more": ["x"]}]
