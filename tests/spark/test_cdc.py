"""Mode `cdc`: the table is what the SELECT says of the rows that the source has,
however the feed is cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.batch.sample import preview_rows
from lakesql.engine.sources.broker import Brokers
from lakesql.events import MaintenanceFailed, TableMaintained
from lakesql.model.maintenance_tasks import maintenance_tasks
from lakesql.run.maintain import maintenance_jobs
from lakesql.run.streams.bind import bind_select
from tests.spark.project import Fields, Project, Row
from tests.spark.test_rebuild import break_off

pytestmark = pytest.mark.long

COLUMNS: dict[str, Any] = {
    "a": {"type": "int", "required": True},
    "b": {"type": "string", "required": True},
    "v": "int",
}
EVERY = "SELECT a AS x, b AS y, v FROM {s}"
SELECT = f"{EVERY} WHERE v >= 0"


@dataclass
class Source:
    """A table with a composite key, and the events that Debezium makes of its changes.

    `deleted` are the rows that it had last under the keys that are gone, each with the
    operation that took it and its time.
    `is_full`: its replica identity is, and its key is checked at the end of a
    transaction. `is_mixed`: it is that of the rows with an odd `a` alone, which are
    another partition. The key is checked at once then, or Postgres would refuse changes
    of the others. `unknown` is what it sends of `v` beside a key alone.
    """

    seed: int
    partitions: int = 1
    is_full: bool = False
    is_mixed: bool = False
    unknown: int | None = None
    rows: dict[tuple[int, str], int | None] = field(default_factory=dict)
    deleted: dict[tuple[int, str], tuple[int | None, str, int]] = field(
        default_factory=dict
    )
    events: list[tuple[int, Fields]] = field(default_factory=list)
    lsn: int = 100
    tx: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def change(self) -> None:
        """One transaction."""
        self.lsn += 10
        self.tx += 1
        kind = self.random.choices(
            [
                "insert",
                "update",
                "delete",
                "move",
                "chain",
                "swap",
                "truncate",
                "snapshot",
                "message",
            ],
            [9, 9, 4, 3, 3, 9 * (self.is_full and not self.is_mixed), 1, 1, 1],
        )[0]
        there = sorted(self.rows)
        if kind in ("insert", "update") or not there:
            key = (self.random.randrange(6), self.random.choice("pqr"))
            self._set(key, self.random.choice([None, -1, *range(9)]))
        elif kind == "delete":
            self._delete(self.random.choice(there))
        elif kind == "move":
            self._move(
                {self.random.choice(there): self._free_key()},
                self.random.choice([None, 1]),
            )
        elif kind == "chain":
            old = self.random.choice(there)
            for new in (
                self._free_key(),
                self._free_key(),
                self.random.choice([old, self._free_key()]),
            ):
                if new not in self.rows:
                    self._move({old: new}, self.random.choice([None, None, 1]))
                    old = new
        elif kind == "swap":
            among = self.random.sample(
                there, min(len(there), self.random.choice([2, 2, 3, 5]))
            )
            self.swap(among, self.random.choice([None, 1]))
        elif kind == "truncate":
            self._send(
                None,
                {"op": "t", "before": None, "after": None},
                self.random.randrange(self.partitions),
            )
            self.deleted |= {
                key: (value, "t", self.lsn) for key, value in self.rows.items()
            }
            self.rows.clear()
        elif kind == "snapshot":
            self.snapshot()
        else:
            self._send(None, {"op": "m", "before": None, "after": None}, 0)

    def snapshot(self) -> None:
        """Read all rows again."""
        for key in sorted(self.rows):
            self._send(key, {"op": "r", "before": None, "after": self._row(key)})

    def swap(self, among: list[tuple[int, str]], more: int | None = None) -> None:
        """Give each of these rows the key of the next one."""
        self._move(dict(zip(among, [*among[1:], among[0]], strict=True)), more)

    def expected(self) -> list[Row]:
        """The rows of `SELECT`."""
        return [row for row in self.every() if row["v"] is not None and row["v"] >= 0]

    def every(self) -> list[Row]:
        """The rows of `EVERY`."""
        return sorted(
            ({"x": a, "y": b, "v": v} for (a, b), v in self.rows.items()), key=by_key
        )

    def _set(self, key: tuple[int, str], value: int | None) -> None:
        op, before = ("u", self._row(key)) if key in self.rows else ("c", None)
        self.rows[key] = value
        self.deleted.pop(key, None)
        before = before if self._sends_rows(key) else None
        self._send(key, {"op": op, "before": before, "after": self._row(key)})

    def _delete(self, key: tuple[int, str]) -> None:
        value = self.rows.pop(key)
        before = {
            "a": key[0],
            "b": key[1],
            "v": value if self._sends_rows(key) else self.unknown,
        }
        self._send(key, {"op": "d", "before": before, "after": None})
        self.deleted[key] = value, "d", self.lsn
        self.events.append(
            (self._partition(key), Fields(key=self._key(key), value=None))
        )

    def _sends_rows(self, key: tuple[int, str]) -> bool:
        return self.is_full and not (self.is_mixed and key[0] % 2 == 0)

    def _free_key(self) -> tuple[int, str]:
        keys = ((a, b) for a in range(7) for b in "pqr")
        return self.random.choice([key for key in keys if key not in self.rows])

    def _move(
        self, keys: dict[tuple[int, str], tuple[int, str]], more: int | None
    ) -> None:
        """Give rows other keys, in any order, and now and then other values at once."""
        before = {old: self.rows.pop(old) for old in keys}
        for old in self.random.sample(sorted(keys), len(keys)):
            new, value = keys[old], before[old]
            self.lsn += 1
            at, row = (
                self.lsn,
                {
                    "a": old[0],
                    "b": old[1],
                    "v": value if self._sends_rows(old) else self.unknown,
                },
            )
            self.rows[new] = value if more is None or value is None else value + more
            # a delete there, an insert here
            if self.is_mixed and self._sends_rows(old) != self._sends_rows(new):
                self._send(old, {"op": "d", "before": row, "after": None})
                self._send(new, {"op": "c", "before": None, "after": self._row(new)})
                self.deleted[old] = value, "d", self.lsn - 1
                continue
            headers = [["__debezium.newkey", self._key_text(new)]]
            self._send(
                old, {"op": "d", "before": row, "after": None}, headers=headers, at=at
            )
            self.deleted[old] = value, "d", self.lsn
            self.events.append(
                (
                    self._partition(old),
                    Fields(key=self._key(old), value=None, headers=headers),
                )
            )
            headers = [["__debezium.oldkey", self._key_text(old)]]
            self._send(
                new,
                {"op": "c", "before": None, "after": self._row(new)},
                headers=headers,
                at=at,
            )
        self.deleted = {
            key: it for key, it in self.deleted.items() if key not in self.rows
        }

    def _key(self, key: tuple[int, str]) -> dict[str, Any]:
        return {"a": key[0], "b": key[1]}

    def _key_text(self, key: tuple[int, str]) -> str:
        return json.dumps(self._key(key))

    def _row(self, key: tuple[int, str]) -> dict[str, Any]:
        return {"a": key[0], "b": key[1], "v": self.rows[key]}

    def _partition(self, key: tuple[int, str]) -> int:
        return (key[0] + ord(key[1])) % self.partitions

    def _send(
        self,
        key: tuple[int, str] | None,
        event: dict[str, Any],
        partition: int | None = None,
        headers: list[list[str]] | None = None,
        at: int | None = None,
    ) -> None:
        self.lsn += 1
        source = {"lsn": at or self.lsn, "snapshot": "false", "txId": self.tx}
        value = {**event, "ts_ms": self.lsn, "source": source, "transaction": None}
        place = self._partition(key) if key is not None else partition or 0
        more = {"headers": headers} if headers else {}
        self.events.append(
            (place, Fields(key=self._key(key) if key else None, value=value, **more))
        )


def by_key(row: Row) -> tuple[Any, ...]:
    return row["x"], row["y"]


def cuts(source: Source, again: bool) -> Iterator[list[tuple[int, Fields]]]:
    """The events in batches; `again`: now and then the connector was killed, and
    delivers its last events again."""
    sent, at = list[tuple[int, Fields]](), 0
    while at < len(source.events):
        end = at + source.random.randrange(1, 45)
        batch, at = source.events[at:end], end
        if again and source.random.random() < 0.3:
            repeated = source.random.randrange(1, 12)
            batch = [*batch, *(sent + batch)[-repeated:]]
        sent += batch
        yield batch


@pytest.mark.parametrize("identity", ["key", "full", "mixed"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_table_is_the_select_over_the_source(
    project: Project, feed_seed: int, partitions: int, identity: str
) -> None:
    is_full = identity != "key"
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    # each row of the source is one of the table: it is made without a join
    has_each = is_full == (partitions == 1)
    project.model("m", EVERY if has_each else SELECT, mode="cdc", keys=["x", "y"])
    source = Source(feed_seed, partitions, is_full, is_mixed=identity == "mixed")
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
    expected = source.every() if has_each else source.expected()
    assert sorted(project.rows_without_spark("m"), key=by_key) == expected
    assert not project.has("m__dead_letter") or project.reasons("m") == {}


@pytest.mark.parametrize(
    "config", [{}, {"sequence_by": "_change.position"}], ids=["arrival", "sequence"]
)
def test_rows_that_swap_their_keys_are_both_there(
    project: Project, config: dict[str, str]
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    select = SELECT.replace("v FROM", "v, _change.position AS at FROM")
    project.model("m", select, mode="cdc", keys=["x", "y"], **config)
    source = Source(0, is_full=True)
    source.rows = {(1, "p"): 10, (2, "p"): 20}
    source.snapshot()
    project.record("s", [event for _, event in source.events])
    project.run().check()
    events = source.events
    for cut in (1, 2, 3, 4, 6):
        events.clear()
        source.tx += 1
        source.swap([(1, "p"), (2, "p")])
        expected = {key[0]: value for key, value in source.rows.items()}
        for part in (events[:cut], events[cut:]):
            if part:
                project.record("s", [event for _, event in part])
                project.run().check()
        assert {
            row["x"]: row["v"] for row in project.rows_without_spark("m")
        } == expected
    source.tx += 1
    source._set((1, "p"), 11)
    expected = {key[0]: value for key, value in source.rows.items()}
    # a connector that was killed begins again within the last swap
    for again in (events[6:], events[3:]):
        project.record("s", [event for _, event in again])
        project.run().check()
        assert {
            row["x"]: row["v"] for row in project.rows_without_spark("m")
        } == expected


@pytest.mark.parametrize("unknown", [None, 0], ids=["nullable", "not-null"])
def test_a_row_that_had_a_key_within_a_transaction_is_gone_beside_whole_rows(
    project: Project, unknown: int | None
) -> None:
    """One partition sends its keys alone, with NULL or with Debezium's number beside
    them, the other one whole rows."""
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    project.model("m", EVERY, mode="cdc", keys=["x", "y"])
    source = Source(0, is_full=True, is_mixed=True, unknown=unknown)
    source.rows = {(0, "p"): 3, (1, "p"): 7, (2, "p"): 5}
    source.snapshot()
    project.record("s", [event for _, event in source.events])
    project.run().check()
    places = [(a, "p") for a in (2, 4, 6)]
    for cut in range(7):
        source.events.clear()
        source.tx += 1
        source._move({places[0]: places[1]}, None)
        source._move({places[1]: places[2]}, None)
        places.reverse()
        source.tx += 1
        source._set((1, "p"), 20 + cut)
        if unknown is not None:  # by which it is known that keys come alone
            source._set((0, "p"), 30 + cut)
        changes = [event for _, event in source.events]
        moves, others = changes[:6], changes[6:]
        for part in ([*others, *moves[:cut]], [*others, *moves[cut:]]):
            project.record("s", part)
            project.run().check()
        assert sorted(project.rows_without_spark("m"), key=by_key) == source.every(), (
            cut
        )


def test_rows_of_nothing_but_keys_are_shifted(project: Project) -> None:
    project.stream(
        "s", {"id": {"type": "int", "required": True}}, envelope="debezium", key=["id"]
    )
    project.model("m", "SELECT id FROM {s}", mode="cdc", keys=["id"])
    send(project, ("c", 1, None), ("c", 2, None))
    project.run().check()

    def half(op: str, id_: int, other: int, at: int) -> Fields:
        row, header = (
            {"id": id_},
            "__debezium.newkey" if op == "d" else "__debezium.oldkey",
        )
        sides = (
            {"before": row, "after": None}
            if op == "d"
            else {"before": None, "after": row}
        )
        event = {"op": op, **sides, "source": {"lsn": at, "txId": 7}}
        return Fields(
            key=row, value=event, headers=[[header, json.dumps({"id": other})]]
        )

    project.record(
        "s",
        [
            half("d", 1, 2, 50),
            half("c", 2, 1, 50),
            half("d", 2, 3, 51),
            half("c", 3, 2, 51),
        ],
    )
    project.run().check()
    assert [row["id"] for row in project.rows("m", "id")] == [2, 3]


def shuffled_cuts(source: Source) -> Iterator[list[tuple[int, Fields]]]:
    """Every event once or twice, in batches, most of them near their place and some far
    from it."""
    places = [
        (index + source.random.choice([0, 0, 0, 5, 60]) * source.random.random(), event)
        for index, event in enumerate(source.events)
        for _ in range(source.random.choice([1, 1, 1, 2]))
    ]
    left = [event for _, event in sorted(places, key=lambda place: place[0])]
    while left:
        size = source.random.randrange(1, 45)
        yield left[:size]
        left = left[size:]


def feed(project: Project, **columns: str) -> None:
    project.stream(
        "s",
        {"id": {"type": "int", "required": True}, **columns},
        envelope="debezium",
        key=["id"],
    )


def send(project: Project, *changes: tuple[str, int | None, int | None]) -> None:
    """Changes as op, key and value."""
    events = [
        {
            "op": op,
            "before": {"id": id_} if op == "d" else None,
            "after": {"id": id_, "v": v} if op in "cur" else None,
        }
        for op, id_, v in changes
    ]
    project.record(
        "s",
        [
            Fields(key={"id": id_}, value=event)
            for (_, id_, _), event in zip(changes, events, strict=True)
        ],
    )


@pytest.mark.parametrize("step", ["stage", "publish", "finish"])
def test_a_batch_that_is_written_again_changes_nothing_twice(
    project: Project, step: str
) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s} WHERE v > 0", mode="cdc", keys=["id"])
    send(project, ("c", 1, 1), ("c", 2, 2), ("c", 3, 3))
    project.run().check()
    send(project, ("d", 1, None), ("u", 2, 0), ("c", 4, 4), ("u", 3, 30))

    def break_off(_: str, reached: str) -> None:
        if reached == step:
            raise RuntimeError("killed")

    assert not project.run(reached=break_off).succeeded
    project.run().check()
    assert project.rows("m", "id") == [{"id": 3, "v": 30}, {"id": 4, "v": 4}]
    assert len(project.summaries("m")) == 2


def test_the_keys_of_the_model_are_those_of_a_feed_that_names_none(
    project: Project,
) -> None:
    project.stream("s", {"id": "int", "v": "int"}, envelope="debezium")
    project.model("m", "SELECT id AS x, v FROM {s}", mode="cdc", keys=["x"])
    send(project, ("c", 1, 1), ("c", 2, 2), ("d", 1, None))
    after = [{"id": 3, "v": 3}, {"id": 4, "v": 4}]
    keys = [None, {"v": 4}]
    events = [
        Fields(key=key, value={"op": "c", "after": row})
        for key, row in zip(keys, after, strict=True)
    ]
    project.record("s", events)
    project.run().check()
    assert project.rows("m") == [{"x": 2, "v": 2}]
    assert project.reasons("m") == {"unparsable": 2}


def test_a_mirror_is_filled_again_by_another_filter(project: Project) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s} WHERE v > 1", mode="cdc", keys=["id"])
    send(
        project,
        ("c", 1, 1),
        ("c", 2, 2),
        ("c", 3, 3),
        ("d", 3, None),
        ("u", 1, 5),
        ("u", 1, 1),
    )
    project.run().check()
    assert project.rows("m") == [{"id": 2, "v": 2}]
    project.model("m", "SELECT id, v FROM {s} WHERE v < 2", mode="cdc", keys=["id"])
    project.rebuild("m").check()
    assert project.rows("m") == [{"id": 1, "v": 1}]


def test_several_rows_of_one_row_of_the_source_fail_the_batch(project: Project) -> None:
    twice = project.table("twice")
    project.sql(
        f"CREATE TABLE {twice} USING iceberg AS SELECT explode(array(1, 2)) AS x"
    )
    feed(project, v="int")
    project.model(
        "m",
        f"SELECT id, v, t.x FROM {{s}} JOIN {twice} t ON t.x <= v",
        mode="cdc",
        keys=["id"],
    )
    send(project, ("c", 1, 1))
    project.run().check()
    send(project, ("c", 2, 2))
    ran = project.run()
    assert not ran.succeeded
    assert "several rows" in str(ran.finished("m").problems[0])
    assert project.rows("m") == [{"id": 1, "v": 1, "x": 1}]


def test_a_truncate_stops_a_model_that_takes_none(project: Project) -> None:
    feed(project, v="int")
    project.model(
        "m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"], on_truncate="fail"
    )
    send(project, ("c", 1, 1), ("c", 2, 2))
    project.run().check()
    send(project, ("d", 2, None), ("t", None, None), ("c", 3, 3))
    assert project.run().conditions("m") == ["truncate-refused"]
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2]
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    project.run().check()
    assert project.rows("m") == [{"id": 3, "v": 3}]


def test_the_preview_has_the_rows_that_the_source_has_now(project: Project) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s} WHERE v > 0", mode="cdc", keys=["id"])
    send(
        project,
        ("c", 9, 9),
        ("t", None, None),
        ("c", 1, 1),
        ("c", 2, 2),
        ("u", 1, 10),
        ("d", 2, None),
        ("c", 3, 0),
    )
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, "m"))
    session = project.lake.session.newSession()
    names, rows, records, _ = preview_rows(
        session, bound.select, bound.bindings, 10, Brokers()
    )
    assert (names, rows, records) == (("id", "v"), [(1, 10)], 7)


def send_at(
    project: Project, *changes: tuple[str, int | None, int | None, int | None]
) -> None:
    """Changes as op, key, value and position."""
    events = [
        {
            "op": op,
            "before": {"id": id_, "v": v} if op == "d" else None,
            "after": {"id": id_, "v": v} if op in "cur" else None,
            "source": {"lsn": at},
        }
        for op, id_, v, at in changes
    ]
    keys = [{"id": id_} if id_ is not None else None for _, id_, *_ in changes]
    project.record(
        "s",
        [Fields(key=key, value=event) for key, event in zip(keys, events, strict=True)],
    )


def mirror_by_position(project: Project, **config: Any) -> None:
    feed(project, v="int")
    select = "SELECT id, v, _change.position AS at FROM {s} WHERE v >= 0"
    project.model(
        "m",
        select,
        **{"mode": "cdc", "keys": ["id"], "sequence_by": "_change.position", **config},
    )


def values(project: Project) -> dict[int, int]:
    return {row["id"]: row["v"] for row in project.rows("m")}


def test_a_deleted_row_stays_away_for_as_long_as_it_is_remembered(
    project: Project,
) -> None:
    mirror_by_position(project)
    send_at(project, ("c", 1, 1, 10), ("c", 2, 2, 11), ("c", 3, 3, 12))
    project.run().check()
    send_at(project, ("d", 1, None, 20), ("u", 2, -2, 21))
    deleting = project.run().check()
    send_at(project, ("c", 1, 1, 10), ("c", 2, 2, 11), ("c", 3, 0, 9))
    project.run().check()
    assert values(project) == {3: 3}
    assert sorted(row["id"] for row in project.rows("m__tombstones")) == [1, 2]
    assert (
        deleting.finished("m").remembered,
        project.summaries("m")[1]["lakesql.remembered"],
    ) == (2, "2")
    assert [
        summary.get("lakesql.remembered") for summary in project.summaries("m")[::2]
    ] == [None, None]
    project.sql(f"DELETE FROM {project.table('m__tombstones')} WHERE id = 1")
    send_at(project, ("c", 1, 1, 10), ("c", 2, 2, 11))
    project.run().check()
    assert values(project) == {1: 1, 3: 3}


def test_changes_that_tie_are_told_apart_the_same_in_every_cut(
    project: Project,
) -> None:
    """Four changes of a key in every order, cut into batches in every way; each order
    and cut has a key of its own."""
    columns = {"id": {"type": "int", "required": True}, "v": "int", "at": "int"}
    project.stream("s", columns, envelope="debezium", key=["id"], max_per_batch=1)
    select = "SELECT id, v, at, _change.position AS position FROM {s}"
    project.model("tied", select, mode="cdc", keys=["id"], sequence_by="at")
    project.model(
        "told", select, mode="cdc", keys=["id"], sequence_by=["at", "_change.position"]
    )
    updated, deleted = (
        [("c", 1), ("u", 1), ("u", 2), ("u", 2)],
        [("c", 1), ("u", 2), ("u", 2), ("d", 2)],
    )
    batches: list[list[Fields]] = [[] for _ in range(4)]
    tied, told = dict[int, int](), dict[int, int]()
    for id_, (changes, order, cut) in enumerate(
        product((updated, deleted), permutations(range(4)), range(8))
    ):
        for number, place in enumerate(order):
            op, at = changes[place]
            row = {"id": id_, "v": place, "at": at}
            sides = (
                {"before": row, "after": None}
                if op == "d"
                else {"before": None, "after": row}
            )
            batch = batches[(cut & (1 << number) - 1).bit_count()]
            batch.append(
                Fields(
                    key={"id": id_},
                    value={"op": op, **sides, "source": {"lsn": 100 + place}},
                )
            )
        newest = max(range(4), key=lambda number: (changes[order[number]][1], number))
        for found, place in ((tied, order[newest]), (told, 3)):
            if changes[place][0] != "d":
                found[id_] = place
    for batch in batches:
        project.record("s", batch)
    project.run().check()
    assert {row["id"]: row["v"] for row in project.rows("tied")} == tied
    assert {row["id"]: row["v"] for row in project.rows("told")} == told


def test_a_truncate_keeps_what_is_newer_whenever_it_was_read(project: Project) -> None:
    mirror_by_position(project)
    send_at(project, ("c", 1, 1, 10), ("c", 2, 2, 11), ("u", 2, 22, 31))
    project.run().check()
    send_at(project, ("t", None, None, 30))
    project.run().check()
    assert values(project) == {2: 22}
    send_at(project, ("c", 1, 1, 10), ("c", 3, 3, 29), ("c", 4, 4, 32))
    project.run().check()
    assert values(project) == {2: 22, 4: 4}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"sequence_by": ["v", "_change.position"]},
        {"apply_deletes": "soft"},
        {"mode": "scd2"},
    ],
    ids=["by position", "by a column and the position", "soft", "history"],
)
def test_a_truncate_that_lacks_its_place_in_the_sequence_stops_the_model(
    project: Project, config: dict[str, Any]
) -> None:
    """As a dead letter it would leave the rows that it removes."""
    mirror_by_position(project, **config)
    send_at(project, ("c", 1, 1, 10), ("c", 2, 2, 11))
    project.run().check()
    send_at(project, ("c", 3, 3, 12), ("t", None, None, None))
    assert project.run().conditions("m") == ["truncate-refused"]
    assert project.run().conditions("m") == ["truncate-refused"]
    assert values(project) == {1: 1, 2: 2}
    assert not project.has("m__dead_letter")


def test_what_is_remembered_goes_when_its_time_is_over(project: Project) -> None:
    mirror_by_position(project, tombstone_retention="2 days")
    send_at(project, ("c", 1, 1, 10), ("d", 1, None, 20))
    project.run().check()
    table = project.table("m__tombstones")
    project.sql(
        f"INSERT INTO {table} VALUES (7, array(1), current_timestamp() - INTERVAL 4 DAYS)"
    )
    send_at(project, ("d", 2, None, 21))
    project.run().check()
    assert sorted(row["id"] for row in project.rows("m__tombstones")) == [1, 2]


def test_a_change_that_has_no_place_in_the_sequence_is_a_dead_letter(
    project: Project,
) -> None:
    feed(project, v="int", at="int")
    project.model(
        "m", "SELECT id, v, at FROM {s}", mode="cdc", keys=["id"], sequence_by="at"
    )
    event = {"op": "c", "before": None, "after": {"id": 1, "v": 1, "at": None}}
    late = {"op": "d", "before": {"id": 1, "v": 7, "at": 0}, "after": None}
    key_alone = {"op": "d", "before": {"id": 1, "v": None, "at": 0}, "after": None}
    project.record("s", [Fields(key={"id": 1}, value=event)])
    project.record(
        "s",
        [Fields(key={"id": 1}, value={"op": "u", "after": {"id": 1, "v": 2, "at": 3}})],
    )
    project.record(
        "s", [Fields(key={"id": 1}, value=late), Fields(key={"id": 1}, value=key_alone)]
    )
    project.run().check()
    assert values(project) == {1: 2}
    assert project.reasons("m") == {"sequence-missing": 2}
    assert any(
        "REPLICA IDENTITY" in row["detail"] for row in project.rows("m__dead_letter")
    )
    mirror_by_position(project)
    assert project.rebuild("m").conditions("m") == ["no-usable-record"]
    assert project.reasons("m") == {"sequence-missing": 4}


def test_a_rebuild_brings_its_own_tombstones_along(project: Project) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    send_at(project, ("c", 1, 1, 10), ("d", 1, None, 20), ("c", 2, 2, 21))
    project.run().check()
    assert not project.has("m__tombstones")
    mirror_by_position(project)
    project.rebuild("m").check()
    send_at(project, ("c", 1, 1, 10))
    project.run().check()
    assert values(project) == {2: 2}
    assert [row["id"] for row in project.rows("m__tombstones")] == [1]
    assert not project.has("m__rebuild__tombstones")


def test_what_is_remembered_of_a_cut_swap_is_maintained_and_is_the_rebuilds(
    project: Project,
) -> None:
    project.stream("s", COLUMNS, envelope="debezium", key=["a", "b"])
    project.model("m", SELECT, mode="cdc", keys=["x", "y"])
    source = Source(0, is_full=True)
    source.rows = {(1, "p"): 10, (2, "p"): 20}
    source.snapshot()
    source.tx += 1
    source.swap([(1, "p"), (2, "p")])
    # two rows, and two halves of both key changes with two tombstones
    events = [event for _, event in source.events]
    tasks = {
        "m": frozenset(
            task.name for task in maintenance_tasks(project.manifest().models["m"])
        )
    }

    def maintain() -> set[str]:
        ran = project.run(jobs_by=maintenance_jobs(tasks, at_once=True))
        assert not ran.of(MaintenanceFailed)
        return {event.task for event in ran.check().of(TableMaintained)}

    project.record("s", events[:2])
    project.run().check()
    assert not any(task.startswith("m__moves") for task in maintain())
    project.record("s", events[2:5])
    project.run().check()
    assert "m__moves.rewrite_data_files" in maintain()
    project.sql(f"DELETE FROM {project.table('m__moves')}")
    # the next run finishes it, when the replacement is gone
    break_off(project, "move-checkpoint")
    project.run().check()
    assert not project.has("m__rebuild__moves")
    assert project.rows("m__moves")
    project.record("s", events[5:])
    project.run().check()
    assert {row["x"]: row["v"] for row in project.rows("m")} == {1: 20, 2: 10}
    project.stream("t", COLUMNS, envelope="debezium", key=["a", "b"])
    project.model("m", SELECT.replace("{s}", "{t}"), mode="cdc", keys=["x", "y"])
    project.record("t", events[:2])
    project.rebuild("m").check()
    assert not project.has("m__moves"), "the rebuild has read no change of a key"
    assert {row["x"]: row["v"] for row in project.rows("m")} == {1: 10, 2: 20}


def test_a_row_that_an_upsert_has_deleted_stays_away_too(project: Project) -> None:
    project.stream("s", {"id": "int", "v": "int", "at": "int"})
    project.model(
        "m",
        "SELECT id, v, at FROM {s}",
        mode="upsert",
        keys="id",
        sequence_by="at",
        delete_when="v < 0",
    )
    for rows in (
        [(1, 1, 1), (2, 2, 1)],
        [(1, -1, 5)],
        [(1, 4, 4), (2, 3, 2)],
        [(1, 5, 5)],
    ):
        project.record("s", [{"id": id_, "v": v, "at": at} for id_, v, at in rows])
        project.run().check()
        assert values(project).get(1) == {5: 5, 1: 1}.get(rows[0][1])
    assert values(project) == {1: 5, 2: 3}


def test_a_batch_that_would_delete_too_much_stops_the_model(project: Project) -> None:
    feed(project, v="int")
    options = {"mode": "cdc", "keys": ["id"], "max_delete_ratio": 0.25}
    project.model("m", "SELECT id, v FROM {s} WHERE v > 0", **options)
    send(project, *(("c", id_, 1) for id_ in range(8)))
    project.run().check()
    send(project, ("d", 1, None), ("u", 2, -1), ("u", 3, 3))
    project.run().check()
    send(project, ("d", 4, None), ("d", 5, None))
    before = project.rows("m")
    assert project.run().conditions("m") == ["too-many-deletes"]
    assert project.rows("m") == before
    project.model(
        "m", "SELECT id, v FROM {s} WHERE v > 0", **{**options, "max_delete_ratio": 0.5}
    )
    project.run().check()
    assert sorted(values(project)) == [0, 3, 6, 7]
    send(
        project, *(("u", id_, -1) for id_ in range(20, 30)), ("d", 0, None)
    )  # of ten rows that the table does not have
    project.run().check()
    assert sorted(values(project)) == [3, 6, 7]
    send(project, ("t", None, None))
    assert project.run().conditions("m") == ["too-many-deletes"]


def test_deletes_that_a_compaction_has_left_behind_do_not_count(
    project: Project,
) -> None:
    feed(project, v="int")
    options = {
        "mode": "cdc",
        "keys": ["id"],
        "max_delete_ratio": 0.25,
        "maintenance": False,
    }
    project.model("m", "SELECT id, v FROM {s}", **options)
    for op in ("c", "u"):
        send(project, *((op, id_, 1) for id_ in range(8)))
        project.run().check()
    project.lake.session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{project.namespace}.m', options => map('rewrite-all', 'true'))"
    )
    send(project, ("d", 1, None), ("d", 2, None))
    project.run().check()
    assert len(project.rows("m")) == 6
    send(project, ("d", 3, None), ("d", 4, None))
    assert project.run().conditions("m") == ["too-many-deletes"]
    send(project, ("t", None, None))
    assert project.run().conditions("m") == ["too-many-deletes"]
    assert len(project.rows("m")) == 6


def test_an_upsert_that_would_delete_too_much_stops(project: Project) -> None:
    project.stream("s", {"id": "int", "v": "int"})
    project.model(
        "m",
        "SELECT id, v FROM {s}",
        mode="upsert",
        keys="id",
        delete_when="v < 0",
        max_delete_ratio=0.5,
    )
    project.record("s", [{"id": id_, "v": 1} for id_ in range(4)])
    project.run().check()
    project.record("s", [{"id": id_, "v": -1} for id_ in range(3)])
    assert project.run().conditions("m") == ["too-many-deletes"]
    assert len(project.rows("m")) == 4


def test_a_table_that_lacks_what_orders_its_changes_is_refused(
    project: Project,
) -> None:
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    send_at(project, ("c", 1, 1, 10))
    project.run().check()
    mirror_by_position(project, on_schema_change="ignore")
    send_at(project, ("c", 2, 1, 11))
    assert project.run().conditions("m") == ["schema-change"]


def test_rows_are_found_by_keys_of_every_type_however_they_are_written(
    project: Project,
) -> None:
    """A decimal with more zeros, a time as text and as number; a key with a NULL in it
    is that of no row."""
    columns = {
        "name": "string",
        "price": "decimal(12,2)",
        "at": {"type": "timestamp", "unit": "microseconds"},
    }
    key = [*columns, "day"]
    project.stream(
        "s", {**columns, "day": "date", "v": "int"}, envelope="debezium", key=key
    )
    select = "SELECT name, price AS p, at, day, v, _change.position AS place FROM {s}"
    project.model(
        "m",
        select,
        mode="cdc",
        keys=["name", "p", "at", "day"],
        sequence_by="_change.position",
    )
    project.model("n", "SELECT name, price, at, day, v FROM {s}", mode="cdc", keys=key)

    def change(op: str, position: int, v: int, *values: object) -> Fields:
        of_key = dict(zip(key, values, strict=True))
        row = {"before": of_key} if op == "d" else {"after": {**of_key, "v": v}}
        return Fields(key=of_key, value={"op": op, **row, "source": {"lsn": position}})

    project.record(
        "s",
        [
            change("c", 10, 1, "it's a 'key' ", "1.10", 1_000_000, 0),
            change("c", 11, 2, "it's a 'key'", "1.10", 1_000_000, 0),
            change("c", 12, 3, "", "-0.01", -1, -1),
            change("c", 13, 4, "日本\\n", "9999999999.99", 253402300799999999, 20000),
            change("c", 14, 5, "half", "1.10", None, 0),
        ],
    )
    project.run().check()
    project.record(
        "s",
        [
            change(
                "d", 20, 0, "it's a 'key' ", 1.1, "1970-01-01T00:00:01Z", "1970-01-01"
            ),
            change(
                "u", 21, 30, "", "-0.010", "1969-12-31T23:59:59.999999Z", "1969-12-31"
            ),
            change(
                "u",
                22,
                40,
                "日本\\n",
                "9999999999.990",
                "9999-12-31T23:59:59.999999+00:00",
                "2024-10-04",
            ),
        ],
    )
    project.run().check()
    project.record(
        "s",
        [
            change("u", 15, 9, "it's a 'key' ", "1.1", 1_000_000, 0),
            change("u", 16, 9, "", "-0.01", -1, -1),
        ],
    )
    project.run("m").check()
    for model in "mn":
        assert {row["name"]: row["v"] for row in project.rows(model)} == {
            "it's a 'key'": 2,
            "": 30,
            "日本\\n": 40,
        }
        assert project.reasons(model) == {"required-missing": 1}


def test_a_record_whose_key_is_not_that_of_the_stream_is_a_dead_letter(
    project: Project,
) -> None:
    """Its row would be found by the wrong columns: two rows of the source would be one,
    or an old one stay."""
    feed(project, v="int")
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    project.model("log", "SELECT id, v, _change.op AS op FROM {s}", mode="append")
    row = {"op": "c", "after": {"id": 1, "v": 1}}
    wrapped = {
        "schema": {"type": "struct", "fields": [{"field": "ID"}]},
        "payload": {"ID": 1},
    }
    others = [
        {"id": 1, "part": 2},
        {"v": 1},
        {"schema": {"fields": [{"field": "v"}]}, "payload": {"v": 1}},
    ]
    keys = [{"id": 1}, wrapped, None, "1", *others]
    project.record("s", [Fields(key=key, value=row) for key in keys])
    ran = project.run().check()
    assert project.rows("m") == [{"id": 1, "v": 1}]
    assert project.reasons("m") == {"unparsable": 3}
    assert "id, part" in " ".join(
        row["detail"] for row in project.rows("m__dead_letter")
    )
    assert ran.finished("log").rows == 7


def test_a_truncate_in_one_of_several_topics_does_not_empty_the_others_rows(
    project: Project,
) -> None:
    project.stream(
        "s",
        {"id": "int", "v": "int"},
        topics=["s", "t"],
        envelope="debezium",
        key=["id"],
    )
    project.model("m", "SELECT id, v FROM {s}", mode="cdc", keys=["id"])
    for topic, id_ in (("s", 1), ("t", 2)):
        project.record(
            topic,
            [Fields(key={"id": id_}, value={"op": "c", "after": {"id": id_, "v": 1}})],
        )
    others = [Fields(key=None, value={"op": "m"}), Fields(key={"id": 9}, value=None)]
    project.record("s", others)
    # the tombstone follows no delete: it is one
    assert project.run().check().finished("m").ignored == 1
    project.record("t", [Fields(key=None, value={"op": "t"})])
    assert project.run().conditions("m") == ["truncate-refused"]
    assert sorted(values(project)) == [1, 2]
