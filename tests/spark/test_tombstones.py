"""Records without a value delete the row of their key in mode `upsert`, against a
replay in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from lakesql.events import BatchCommitted
from tests.spark.project import Fields, Project, Row, sorted_rows

pytestmark = pytest.mark.long

COLUMNS = {"a": "int", "b": "string", "seq": "int", "gone": "boolean", "v": "int"}
Record = tuple[tuple[int, str], Row | None]


def replayed(
    records: Iterable[Record],
    passes: Callable[[Row], bool],
    sequence: Sequence[str] = (),
    is_deleted: Callable[[Row], bool] = lambda row: False,
    kept: Sequence[str] = (),
) -> list[Row]:
    """What stands after the records, one by one in the order of arrival. A tombstone is
    newer than all before it, and what comes after it is compared with what it has
    deleted."""
    table: dict[tuple[int, str], Row] = {}
    deleted: dict[tuple[int, str], tuple[Any, ...]] = {}

    def age(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in sequence)

    for key, row in records:
        stored = table.get(key)
        if row is None:
            if stored is not None:
                deleted[key] = max(deleted.get(key, ()), age(table.pop(key)))
            continue
        if (
            not passes(row)
            or (stored is not None and age(row) < age(stored))
            or age(row) < deleted.get(key, ())
        ):
            continue
        if is_deleted(row):
            table.pop(key, None)
            deleted[key] = age(row)
        else:
            kept_values = (
                {name: stored[name] for name in kept} if stored is not None else {}
            )
            table[key] = {**row, **kept_values}
    return sorted_rows({"x": row["a"], "y": row["b"], **row} for row in table.values())


def fields(record: Record, partitions: int) -> Fields:
    (a, b), row = record
    return Fields(key={"a": a, "b": b}, value=row, partition=a % partitions)


KEYS = st.tuples(st.integers(0, 2), st.sampled_from(["", "ü'"]))
ROWS = st.fixed_dictionaries(
    {
        "seq": st.integers(0, 6),
        "gone": st.sampled_from([None, False, False, False, True]),
        "v": st.integers(0, 99),
    }
)
RECORDS = st.tuples(KEYS, st.one_of(ROWS, ROWS, st.none())).map(
    lambda it: (it[0], it[1] and {"a": it[0][0], "b": it[0][1], **it[1]})
)
TOMBSTONES = KEYS.map(lambda key: (key, None))


@settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    batches=st.lists(
        st.lists(RECORDS, min_size=3, max_size=30), min_size=3, max_size=3
    ),
    alone=st.lists(TOMBSTONES, min_size=1, max_size=4),
)
def test_any_cut_into_batches_gives_the_rows_of_a_replay_record_by_record(
    new_project: Callable[[], Project], batches: list[list[Record]], alone: list[Record]
) -> None:
    """The same records are read a file at a time and all at once, of one partition and
    of two."""
    project = new_project()
    batches = [batches[0], alone, *batches[1:]]
    project.stream("cut", COLUMNS, max_per_batch=1, key=["b", "a"])
    project.stream("whole", COLUMNS, key=["a", "b"])
    options: dict[str, dict[str, Any]] = {
        "arrived": {},
        "sequenced": {"sequence_by": "seq", "delete_when": "gone"},
        "pairs": {"sequence_by": ["seq", "v"]},
        "kept": {"sequence_by": "seq", "exclude_columns": "v"},
        "first": {"exclude_columns": ["v", "gone"], "delete_when": "gone"},
    }
    for stream, partitions in (("cut", 1), ("whole", 2)):
        for name, given_ in options.items():
            select = f"SELECT a AS x, b AS y, * FROM {{{stream}}} WHERE v < 80"
            project.model(
                f"{name}_{stream}", select, mode="upsert", keys=["x", "y"], **given_
            )
        for batch in batches:
            project.record(
                stream, [fields(record, partitions) for record in batch], partition=None
            )

    project.run().check()

    records, passes = (
        [record for batch in batches for record in batch],
        lambda row: row["v"] < 80,
    )
    expected = {
        "arrived": replayed(records, passes),
        "sequenced": replayed(records, passes, ["seq"], lambda row: bool(row["gone"])),
        "pairs": replayed(records, passes, ["seq", "v"]),
        "kept": replayed(records, passes, ["seq"], kept=["v"]),
        "first": replayed(
            records, passes, (), lambda row: bool(row["gone"]), kept=["v", "gone"]
        ),
    }
    for stream in ("cut", "whole"):
        assert {name: project.rows(f"{name}_{stream}") for name in options} == expected
        assert not any(project.has(f"{name}_{stream}__dead_letter") for name in options)


def in_schema(payload: Any) -> str:
    return json.dumps({"schema": {"type": "struct"}, "payload": payload})


@pytest.mark.parametrize(
    ("kind", "keys", "bad"),
    [
        (
            "bigint",
            ["1", '{"id": 2}', in_schema({"id": 3}), in_schema(4)],
            ["x", '"5"', '{"ID": 5}', "5.5", "[5]"],
        ),
        (
            "string",
            ["1", '"2"', '{"id": "3"}', in_schema("4")],
            ['{"id": null}', '{"ID": "5"}', in_schema(None)],
        ),
        (
            "date",
            ["2026-01-01", '"2026-01-02"', '{"id": "2026-01-03"}'],
            ["20260105", "2026-13-01"],
        ),
        ("decimal(6,2)", ["1.5", '{"id": 2.50}'], ["5,5", "1e10000000"]),
    ],
)
def test_a_key_is_read_as_a_value_of_its_column_or_its_tombstone_is_a_dead_letter(
    project: Project, kind: str, keys: list[str], bad: list[str]
) -> None:
    values = {
        "bigint": [1, 2, 3, 4, 5],
        "string": ["1", "2", "3", "4", "5"],
        "date": [f"2026-01-0{day}" for day in range(1, 6)],
        "decimal(6,2)": [1.5, 2.5, 3.5, 4.5, 5.5],
    }[kind]
    project.stream("s", {"id": kind, "v": "int"}, key=["id"])
    project.model("m", "SELECT id, v FROM {s}", mode="upsert", keys="id")
    project.record("s", [{"id": value, "v": 1} for value in values])  # type: ignore[attr-defined]
    project.run().check()
    project.record("s", [Fields(key=key, value=None) for key in [*keys, *bad]])
    project.record("s", [Fields(value=None), {"id": values[0], "v": 2}])
    project.run().check()
    assert len(project.rows("m")) == 5 - len(keys) + 1
    assert project.reasons("m") == {"tombstone": len(bad) + 1}
    details = {row["detail"] for row in project.rows("m__dead_letter")}
    assert details == {f"the record has no value, and its key is not JSON of id {kind}"}


def test_tombstones_that_would_delete_too_much_stop_the_model_and_others_delete_nothing(
    project: Project,
) -> None:
    """Where the keys are not the key of the stream, or it has none, a tombstone is a
    dead letter."""
    project.stream("keyed", {"id": "int", "v": "int"}, key=["id"])
    project.stream("keyless", {"id": "int", "v": "int"})
    project.model(
        "bounded",
        "SELECT * FROM {keyed}",
        mode="upsert",
        keys="id",
        max_delete_ratio=0.5,
    )
    project.model("other", "SELECT * FROM {keyed}", mode="upsert", keys="v")
    project.model(
        "made", "SELECT id + 0 AS id, v FROM {keyed}", mode="upsert", keys="id"
    )
    project.model("plain", "SELECT * FROM {keyless}", mode="upsert", keys="id")
    project.model("added", "SELECT * FROM {keyed}", mode="append")
    for stream in ("keyed", "keyless"):
        project.record(
            stream,
            [Fields(key={"id": id_}, value={"id": id_, "v": id_}) for id_ in range(4)],
        )
    project.run().check()
    for stream in ("keyed", "keyless"):
        project.record(
            stream, [Fields(key={"id": id_}, value=None) for id_ in range(3)]
        )
    ran = project.run()
    assert ran.conditions("bounded") == ["too-many-deletes"]
    for model in ("other", "made", "plain", "added"):
        assert len(project.rows(model)) == 4
        assert project.reasons(model) == {"tombstone": 3}
    project.model(
        "bounded",
        "SELECT * FROM {keyed}",
        mode="upsert",
        keys="id",
        max_delete_ratio=0.75,
    )
    assert [it.rows for it in project.run("bounded").check().of(BatchCommitted)] == [0]
    assert project.rows("bounded") == [{"id": 3, "v": 3}]
