"""Rows that a snapshot has read, beside changes whose places in the log say little of
which is newer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tests.spark.project import Fields, Project

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {"id": {"type": "int", "required": True}, "v": "string"}
SELECT = "SELECT id, v, _change.position AS at FROM {s} WHERE v <> 'hidden'"

Sent = tuple[str, str, int | None]
"""What is sent of a row: its op, the new value, and where the log has it."""

CASES: dict[str, tuple[list[Sent], str | None]] = {
    "a transaction that was open": ([("r", "old", 100), ("u", "new", 90)], "new"),
    "its delete": ([("r", "old", 100), ("d", "", 90)], None),
    "its two updates": ([("r", "old", 100), ("u", "a", 90), ("u", "b", 95)], "b"),
    "a change before both": ([("c", "a", 50), ("r", "a", 100), ("u", "b", 90)], "b"),
    "a row that the WHERE hides": ([("r", "hidden", 100), ("u", "new", 90)], "new"),
    "a snapshot after a gap": ([("c", "a", 50), ("r", "b", 100)], "b"),
    "changes that are replayed behind it": (
        [("r", "c", 100), ("c", "a", 80), ("u", "b", 85), ("u", "c", 99)],
        "c",
    ),
    "a snapshot that is older than a change": (
        [("u", "new", 110), ("r", "old", 100)],
        "new",
    ),
    "two snapshots": (
        [("r", "a", 100), ("u", "b", 90), ("r", "c", 200), ("u", "d", 190)],
        "d",
    ),
    "a deleted row that is read again": (
        [("c", "a", 50), ("d", "", 60), ("r", "b", 100)],
        "b",
    ),
    "no place": ([("r", "a", None)], "a"),
    "no place, and a change": ([("r", "a", None), ("u", "b", 10)], "b"),
    "no place, after a change": ([("c", "a", 50), ("r", "b", None)], "b"),
    "no place, and all is sent again": (
        [("c", "a", 50), ("r", "a", None), ("u", "b", 60), ("u", "c", 70)] * 2,
        "c",
    ),
    "no place, and a place": ([("r", "a", 100), ("r", "b", None), ("u", "c", 90)], "c"),
    "no place, of a deleted row": (
        [("r", "a", None), ("d", "", 60), ("r", "a", None), ("d", "", 60)],
        None,
    ),
}
"""What is sent of a row, and the value that it has in the end: None where it is
gone."""


def event(key: int, sent: Sent, is_flat: bool) -> Fields:
    op, v, lsn = sent
    row = {"id": key, "v": v}
    snapshot = "false" if op != "r" else "true" if lsn else "incremental"
    if is_flat:
        said = {
            "__op": op,
            "__lsn": lsn,
            "__deleted": str(op == "d").lower(),
            "__source_snapshot": snapshot,
        }
        return Fields(key={"id": key}, value={**row, **said})
    sides = (
        {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    )
    return Fields(
        key={"id": key},
        value={"op": op, **sides, "source": {"lsn": lsn, "snapshot": snapshot}},
    )


def cuts(length: int) -> list[tuple[int, ...]]:
    """The ways to cut so many records into batches: where each begins but the first."""
    return [
        places
        for count in range(length)
        for places in combinations(range(1, length), count)
    ][:12]


@pytest.mark.parametrize("is_flat", [False, True], ids=["debezium", "flat"])
def test_each_case_is_right_however_it_is_cut_into_batches(
    project: Project, is_flat: bool
) -> None:
    """Each case with each cut has a key of its own."""
    envelope = "debezium_flat" if is_flat else "debezium"
    project.stream("s", COLUMNS, envelope=envelope, key=["id"], max_per_batch=1)
    mode = {"mode": "cdc", "keys": "id", "sequence_by": "_change.position"}
    project.model("hard", SELECT, **mode)
    project.model("soft", SELECT, **mode, apply_deletes="soft")
    batches: dict[int, list[Fields]] = {}
    expected: dict[int, str] = {}
    names: dict[int, str] = {}
    for name, (sent, value) in CASES.items():
        for places in cuts(len(sent)):
            key = len(names)
            names[key] = f"{name}, cut at {places}"
            if value is not None:
                expected[key] = value
            for at, each in enumerate(sent):
                batches.setdefault(sum(at >= place for place in places), []).append(
                    event(key, each, is_flat)
                )
    for _, records in sorted(batches.items()):
        project.record("s", records)
    project.run().check()
    for model in ("hard", "soft"):
        found = {
            row["id"]: row["v"]
            for row in project.rows(model)
            if row.get("_deleted_at") is None
        }
        wrong = {names[key] for key in names if found.get(key) != expected.get(key)}
        assert not wrong, model
        assert not project.reasons(model)


def test_the_history_has_them_behind_what_they_follow(project: Project) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], max_per_batch=1)
    project.model("h", SELECT, mode="scd2", keys="id", sequence_by="_change.position")
    for each in [
        ("c", "a", 50),
        ("r", "a", 100),
        ("u", "b", 90),
        ("r", "b", None),
        ("u", "c", 95),
        ("r", "d", 200),
    ]:
        project.record("s", [event(1, each, False)])
    project.record("s", [event(1, ("r", "d", 200), False)])
    project.run().check()
    found = [
        (row["v"], row["valid_from"], row["valid_to"])
        for row in project.rows("h", "at")
    ]
    assert found == [
        ("a", [50], [90]),
        ("b", [90], [95]),
        ("c", [95], [95, -1, 200]),
        ("d", [95, -1, 200], None),
    ]


POSITIONS: dict[str, tuple[dict[str, Any], list[int] | None]] = {
    "sqlserver": (
        {
            "commit_lsn": "00000027:00000ac0:0002",
            "change_lsn": "00000027:00000758:0003",
            "event_serial_no": 2,
        },
        [0x27, 0xAC0, 2, 0x27, 0x758, 3, 2],
    ),
    "oracle": (
        {"scn": "110", "commit_scn": "115", "rs_id": "001234.00012345.0124", "ssn": 1},
        [115, 110, 0x1234, 0x12345, 0x124, 1],
    ),
    "informix": (
        {"commit_lsn": "4624789876736", "change_lsn": "4624789876700"},
        [4624789876736, 4624789876700],
    ),
    "mysql": ({"file": "bin.000010", "pos": 4, "row": 0}, [10, 4, 0]),
    "spanner": ({}, None),
}
"""What connectors say of the place of a change."""


def test_what_connectors_say_of_places_is_compared_as_numbers(project: Project) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"])
    project.model("m", "SELECT v, _change.position AS at FROM {s}", mode="append")
    for at, (name, (source, _)) in enumerate(POSITIONS.items()):
        value = {
            "op": "c",
            "after": {"id": at, "v": name},
            "source": {"connector": name, **source},
        }
        project.record("s", [Fields(key={"id": at}, value=value)])
    project.run().check()
    assert {row["v"]: row["at"] for row in project.rows("m")} == {
        name: position for name, (_, position) in POSITIONS.items()
    }


def test_a_connector_without_places_is_named_and_the_run_fails_until_the_model_fits(
    project: Project,
) -> None:
    """Each record a dead letter: that is no success, whatever share of them is
    allowed."""
    project.stream("s", COLUMNS, envelope="debezium", key=["id"])
    project.model("m", SELECT, mode="cdc", keys="id", sequence_by="_change.position")
    value = {
        "op": "c",
        "after": {"id": 1, "v": "a"},
        "source": {"connector": "spanner", "snapshot": "false"},
    }
    project.record("s", [Fields(key={"id": 1}, value=value)])
    ran = project.run()
    assert ran.conditions("m") == ["no-usable-record"]
    assert "spanner" in ran.finished("m").problems[0].why
    assert project.reasons("m") == {"sequence-missing": 1}
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys="id")
    project.rebuild("m").check()
    assert [row["v"] for row in project.rows("m")] == ["a"]
    project.record(
        "s", [Fields(key={"id": 2}, value={**value, "after": {"id": None, "v": "b"}})]
    )
    # the table has rows: one that does not fit is a dead letter, and no more
    project.run().check()


def test_the_documents_of_mongodb_are_refused_by_name(project: Project) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"])
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys="id")
    value = {
        "op": "c",
        "after": '{"_id": 1, "v": "a"}',
        "source": {"connector": "mongodb", "snapshot": "false"},
    }
    project.record(
        "s",
        [
            Fields(key={"id": 1}, value=value),
            Fields(key={"id": 1}, value={**value, "op": "d"}),
        ],
    )
    ran = project.run()
    assert ran.conditions("m") == ["no-usable-record"]
    assert {row["detail"].split(",")[0] for row in project.rows("m__dead_letter")} == {
        "an event of Debezium's connector for MongoDB"
    }


@pytest.mark.parametrize("is_placed", [False, True])
def test_a_row_that_moves_between_topics_is_not_lost(
    project: Project, is_placed: bool
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["id"], topics=["t_1", "t_2"])
    more = {"sequence_by": "_change.position"} if is_placed else {}
    project.model("m", SELECT, mode="cdc", keys="id", **more)
    project.record(
        "t_1", [event(1, ("c", "b", 210), False), event(2, ("c", "a", 100), False)]
    )
    project.record(
        "t_2", [event(1, ("c", "a", 100), False), event(1, ("d", "", 200), False)]
    )
    project.run().check()
    assert {row["id"]: row["v"] for row in project.rows("m")} == {1: "b", 2: "a"}
    if is_placed:
        project.record("t_2", [event(2, ("c", "b", 310), False)])
        project.run().check()
        project.record("t_1", [event(2, ("d", "", 300), False)])
        project.run().check()
        assert {row["id"]: row["v"] for row in project.rows("m")} == {1: "b", 2: "b"}
