"""Mode `scd2`: a row for each version, whatever comes late, comes twice, or is cut into
batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from lakesql.engine.batch.bounds import BULK
from tests.spark.project import Fields, Project, Row

pytestmark = pytest.mark.long

Change = tuple[int, int, int | None, int]
"""A key, when it changed, its value (None: it was deleted), and another one."""


def versions(changes: Iterable[Change], tracks_both: bool = True) -> list[Row]:
    """The history that the changes leave, in plain Python. Of two with one time, the
    last counts."""
    by_key: dict[int, dict[int, Change]] = {}
    for change in changes:
        by_key.setdefault(change[0], {})[change[1]] = change
    found: list[Row] = []
    for key, by_time in by_key.items():
        former: tuple[Any, ...] | None = None
        for at, (_, _, v, w) in sorted(by_time.items()):
            tracked = None if v is None else (v, w) if tracks_both else (v,)
            if tracked == former:
                continue
            if former is not None:
                found[-1].update(valid_to=at, is_current=False)
            if tracked is not None:
                found.append(
                    {
                        "id": key,
                        "v": v,
                        "w": w,
                        "at": at,
                        "valid_from": at,
                        "valid_to": None,
                        "is_current": True,
                    }
                )
            former = tracked
    return sorted(found, key=by_key_and_time)


def by_key_and_time(row: Row) -> tuple[int, int]:
    return row["id"], row["valid_from"]


def stored(project: Project, name: str) -> list[Row]:
    return sorted(project.rows_without_spark(name), key=by_key_and_time)


def event(change: Change) -> Fields:
    key, at, v, w = change
    row = {"id": key, "v": v, "w": w, "at": at}
    value = (
        {"op": "d", "before": {**row, "v": 1}}
        if v is None
        else {"op": "u", "after": row}
    )
    return Fields(key={"id": key}, value={**value, "source": {"lsn": at}})


def record(project: Project, changes: Sequence[Change]) -> None:
    project.record("s", [event(change) for change in changes])


def feed(project: Project) -> None:
    columns = {
        "id": {"type": "int", "required": True},
        "v": "int",
        "w": "int",
        "at": "int",
    }
    project.stream("s", columns, envelope="debezium", key=["id"], max_per_batch=1)


def test_what_a_batch_does_not_change_is_not_written_again(project: Project) -> None:
    feed(project)
    project.model(
        "m", "SELECT id, v, w, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    record(project, [(1, 1, 1, 1), (1, 2, 2, 1), (1, 3, 3, 1), (2, 1, 1, 1)])
    project.run().check()
    record(project, [(1, 4, 4, 1)])
    project.run().check()
    # the new version, and the one that it ends
    assert project.summaries("m")[-1]["added-records"] == "2"
    assert stored(project, "m") == versions(
        [(1, 1, 1, 1), (1, 2, 2, 1), (1, 3, 3, 1), (2, 1, 1, 1), (1, 4, 4, 1)]
    )


def test_a_large_batch_is_not_bounded_by_its_keys(project: Project) -> None:
    """After a batch of so many rows, and in a table that has few more, its keys are not
    read first."""
    project.stream("s", {"id": "int", "v": "int", "at": "int"}, max_per_batch=1)
    project.model(
        "m", "SELECT id, v, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    for at in (1, 2):
        project.record(
            "s",
            [
                *({"id": it, "v": at, "at": at} for it in range(BULK)),
                {"id": None, "v": 1, "at": at},
            ],
        )
    project.run().check()
    rows = stored(project, "m")
    assert len(rows) == 2 * BULK and sum(row["is_current"] for row in rows) == BULK
    assert len(project.rows("m__dead_letter")) == 2


def test_the_names_of_the_columns_and_the_place_in_the_log_can_be_chosen(
    project: Project,
) -> None:
    feed(project)
    project.model(
        "m",
        "SELECT id, v, _change.position AS place FROM {s}",
        mode="scd2",
        keys=["id"],
        sequence_by="_change.position",
        valid_from="since",
        valid_to="until",
        is_current="now",
    )
    project.model(
        "current",
        "SELECT s.id, m.v FROM {s} s JOIN {m!r} m ON m.id = s.id AND m.now",
        mode="append",
    )
    record(project, [(1, 1, 1, 1), (1, 2, None, 1), (1, 3, 3, 1)])
    project.run("m").check()
    assert project.rows("m", "since") == [
        {"id": 1, "v": 1, "place": [1], "since": [1], "until": [2], "now": False},
        {"id": 1, "v": 3, "place": [3], "since": [3], "until": None, "now": True},
    ]
    project.run("current").check()
    assert project.rows("current") == [{"id": 1, "v": 3}] * 3


def test_a_truncate_stops_a_history(project: Project) -> None:
    feed(project)
    project.model(
        "m", "SELECT id, v, w, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    record(project, [(1, 1, 1, 1)])
    project.run().check()
    project.record(
        "s",
        [
            Fields(
                key=None,
                value={"op": "t", "before": None, "after": None, "source": {"lsn": 9}},
            )
        ],
    )
    assert project.run().conditions("m") == ["truncate-refused"]


@pytest.mark.parametrize("step", ["stage", "publish", "finish"])
def test_a_batch_that_is_written_again_adds_no_version(
    project: Project, step: str
) -> None:
    feed(project)
    project.model(
        "m", "SELECT id, v, w, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    first, second = (
        [(1, 1, 1, 1), (2, 1, 1, 1), (3, 3, 3, 3)],
        [(1, 3, 1, 1), (1, 2, 5, 1), (2, 2, None, 1)],
    )
    record(project, first)
    project.run().check()
    record(project, second)

    def break_off(_: str, reached: str) -> None:
        if reached == step:
            raise RuntimeError("killed")

    assert not project.run(reached=break_off).succeeded
    project.run().check()
    record(project, [(2, 1, 1, 1), (2, 1, 7, 1)])
    project.run().check()
    assert stored(project, "m") == versions(
        [*first, *second, (2, 1, 1, 1), (2, 1, 7, 1)]
    )


FORGOTTEN: dict[str, tuple[list[Change], list[tuple[int, int, int | None]]]] = {
    "another version": ([(1, 132, 2, 1)], [(1, 100, 105), (2, 132, None)]),
    "the same values again": ([(1, 132, 1, 1)], [(1, 100, 105), (1, 132, None)]),
    "the version itself again": ([(1, 100, 1, 1)], [(1, 100, 105)]),
    "the version itself, as it should have been": ([(1, 100, 7, 1)], [(7, 100, 105)]),
    "the delete again": ([(1, 105, None, 1)], [(1, 100, 105)]),
    "what came before it": ([(1, 103, 2, 1)], [(1, 100, 103), (2, 103, 105)]),
    "the same values before it": ([(1, 90, 1, 1)], [(1, 90, 105)]),
    "at its moment": ([(1, 105, 2, 1)], [(1, 100, 105), (2, 105, None)]),
    "several": (
        [(1, 103, None, 1), (1, 110, 1, 1), (1, 104, 3, 1)],
        [(1, 100, 103), (3, 104, 105), (1, 110, None)],
    ),
}
"""What comes after the delete at 105 of a version since 100 is forgotten; the versions
then: value, since, until."""


def test_a_delete_that_is_forgotten_has_still_ended_its_version(
    project: Project,
) -> None:
    feed(project)
    project.model(
        "m", "SELECT id, v, w, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    keys = dict(enumerate(FORGOTTEN.values()))
    record(
        project,
        [change for key in keys for change in ((key, 100, 1, 1), (key, 105, None, 1))],
    )
    project.run().check()
    assert len(project.rows("m__tombstones")) == len(keys)
    project.sql(f"DELETE FROM {project.table('m__tombstones')}")
    for _ in range(2):  # what has come once is nothing new
        record(
            project,
            [
                (key, *change[1:])
                for key, (changes, _) in keys.items()
                for change in changes
            ],
        )
        project.run().check()
        found = {name: [] for name in FORGOTTEN}
        for row in stored(project, "m"):
            found[[*FORGOTTEN][row["id"]]].append(
                (row["v"], row["valid_from"], row["valid_to"])
            )
        assert found == {name: expected for name, (_, expected) in FORGOTTEN.items()}
    assert all(
        row["is_current"] == (row["valid_to"] is None) for row in stored(project, "m")
    )


def test_a_version_that_ended_as_soon_as_it_began_stays_so(project: Project) -> None:
    """Of two changes of one moment, the place in the log says which is first."""
    feed(project)
    sequence = {"sequence_by": ["at", "_change.position"]}
    project.model(
        "m",
        "SELECT id, v, at, _change.position AS p FROM {s}",
        mode="scd2",
        keys=["id"],
        **sequence,
    )
    places = iter(range(1, 9))

    def send(at: int, v: int | None) -> None:
        row = {"id": 1, "v": v, "w": 1, "at": at}
        value = {"op": "d", "before": row} if v is None else {"op": "u", "after": row}
        project.record(
            "s",
            [Fields(key={"id": 1}, value={**value, "source": {"lsn": next(places)}})],
        )
        project.run().check()

    send(100, 1)
    send(100, None)
    project.sql(f"DELETE FROM {project.table('m__tombstones')}")
    send(100, 2)
    send(120, 2)
    send(130, None)
    project.sql(f"DELETE FROM {project.table('m__tombstones')}")
    send(140, 3)
    assert [
        (row["v"], row["valid_from"], row["valid_to"])
        for row in sorted(project.rows("m"), key=lambda row: row["p"])
    ] == [
        (1, 100, 100),
        (2, 100, 130),
        (3, 140, None),
    ]


def test_a_history_is_filled_again(project: Project) -> None:
    feed(project)
    project.model(
        "m",
        "SELECT id, v, w, at FROM {s}",
        mode="scd2",
        keys=["id"],
        sequence_by="at",
        track_columns="w",
    )
    changes: list[Change] = [(1, 1, 1, 1), (1, 3, 2, 1), (1, 5, None, 1), (1, 7, 2, 2)]
    record(project, changes)
    project.run().check()
    assert len(stored(project, "m")) == 2
    project.model(
        "m", "SELECT id, v, w, at FROM {s}", mode="scd2", keys=["id"], sequence_by="at"
    )
    project.rebuild("m").check()
    late = (1, 2, 9, 9)
    record(project, [late])
    project.run().check()
    assert stored(project, "m") == versions([*changes, late])


def test_another_sequence_is_refused_until_the_history_is_filled_again(
    project: Project,
) -> None:
    feed(project)
    select = "SELECT id, v, w, at, _change.position AS place FROM {s}"
    project.model("m", select, mode="scd2", keys=["id"], sequence_by="at")
    record(project, [(1, 1, 1, 1), (1, 2, 2, 1)])
    project.run().check()
    project.model("m", select, mode="scd2", keys=["id"], sequence_by="_change.position")
    record(project, [(1, 3, 3, 1)])
    assert project.run().conditions("m") == ["keys-changed"]
    project.rebuild("m").check()
    project.run().check()
    assert [
        (row["valid_from"], row["valid_to"]) for row in project.rows("m", "at")
    ] == [
        ([1], [2]),
        ([2], [3]),
        ([3], None),
    ]


def test_another_name_of_an_interval_is_refused_until_the_history_is_filled_again(
    project: Project,
) -> None:
    feed(project)
    config = {"mode": "scd2", "keys": ["id"], "sequence_by": "at", "track_columns": "v"}
    project.model("m", "SELECT id, v, w, at FROM {s}", **config)
    record(project, [(1, 1, 1, 1)])
    project.run().check()
    project.model("m", "SELECT id, v, w, at FROM {s}", **config, valid_to="ended")
    record(project, [(1, 2, 2, 1)])
    assert project.run().conditions("m") == ["schema-change"]
    assert "ended" not in project.rows("m")[0]
    project.rebuild("m").check()
    project.run().check()
    assert [(row["at"], row["ended"]) for row in project.rows("m", "at")] == [
        (1, 2),
        (2, None),
    ]
