"""Upsert against a replay in plain Python: one row a key, the newest."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakesql.compile.batch import KeyRange
from lakesql.engine.batch.bounds import BULK, FEW, LISTED, read_keys
from lakesql.engine.batch.counters import BatchCounters
from lakesql.engine.batch.prepare import make_once
from lakesql.engine.ledger import snapshots
from lakesql.engine.spark.arrow import close_allocators
from lakesql.engine.spark.gateway import java_class
from lakesql.events import BatchCommitted, BatchEmpty, Event, RecordsRejected, Retrying
from lakesql.names import ROWS_VIEW
from tests.spark.project import Fields, Lake, Project, Row, sorted_rows

Batch = Sequence[Row]


def replayed(
    batches: Sequence[Batch],
    keys: Sequence[str],
    sequence: Sequence[str] = (),
    is_deleted: Callable[[Row], bool] = lambda row: False,
) -> list[Row]:
    """What stands after the batches: of each batch a key's last row by `sequence`, then
    by its place in the batch, is written unless the stored row is newer, or the delete
    of the key is."""
    table: dict[tuple[Any, ...], Row] = {}
    deleted: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def age(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in sequence)

    for batch in batches:
        newest: dict[tuple[Any, ...], Row] = {}
        for row in batch:
            key = tuple(row[name] for name in keys)
            if key not in newest or age(row) >= age(newest[key]):
                newest[key] = row
        for key, row in newest.items():
            if (key in table and age(row) < age(table[key])) or age(row) < deleted.get(
                key, ()
            ):
                continue
            table.pop(key, None)
            if is_deleted(row):
                deleted[key] = age(row)
            else:
                table[key] = row
    return sorted_rows(table.values())


def write(project: Project, batches: Sequence[Sequence[Any]]) -> None:
    """A topic `s` that is read one file, so one of `batches`, at a time."""
    for batch in batches:
        project.record("s", batch)


PAIRS = {"a": "int", "b": "string", "seq": "int", "sub": "int", "v": "string"}


def pair(a: int, b: str, seq: int, sub: int, v: str) -> Row:
    return {"a": a, "b": b, "seq": seq, "sub": sub, "v": v}


def test_composite_keys_and_sequences_keep_the_newest_row(project: Project) -> None:
    batches = [
        [
            pair(1, "x", 5, 1, "first"),
            pair(1, "x", 5, 2, "second"),
            pair(1, "x", 5, 1, "late"),
            pair(1, "y", 1, 1, ""),
        ],
        [
            pair(1, "x", 5, 1, "older"),
            pair(1, "y", 1, 1, "equal"),
            pair(2, "x", 0, 0, "new"),
            pair(1, "x", 4, 9, "o"),
        ],
        [
            pair(2, "x", 0, 1, "newer"),
            pair(1, "x", 6, 0, "newest"),
            pair(2, "X", 1, 1, "another case"),
        ],
    ]
    project.stream("s", PAIRS, max_per_batch=1)
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys=["a", "b"],
        sequence_by=["seq", "sub"],
    )
    write(project, batches)

    ran = project.run().check()

    assert len(ran.of(BatchCommitted)) == 3
    assert project.rows("m") == replayed(batches, ["a", "b"], ["seq", "sub"])
    assert [row["v"] for row in project.rows("m", "v")] == [
        "another case",
        "equal",
        "newer",
        "newest",
    ]


def test_without_a_sequence_the_source_position_decides(project: Project) -> None:
    def at(partition: int, offset: int, key: int, v: str) -> Fields:
        return Fields(partition=partition, offset=offset, value={"k": key, "v": v})

    project.stream("s", {"k": "int", "v": "string"}, max_per_batch=1)
    project.model("m", "SELECT v, k FROM {s}", mode="upsert", keys="k")
    write(
        project,
        [
            [
                at(0, 7, 1, "later"),
                at(0, 3, 1, "earlier"),
                at(1, 0, 2, "partition 1"),
                at(0, 9, 2, "p 0"),
            ]
        ],
    )
    write(
        project,
        [
            [at(0, 10, 3, "a"), at(0, 12, 3, "c"), at(0, 11, 3, "b")],
            [at(0, 13, 1, "last")],
        ],
    )

    project.run().check()

    assert {row["k"]: row["v"] for row in project.rows("m")} == {
        1: "last",
        2: "partition 1",
        3: "c",
    }


def test_delete_when_deletes_a_key_unless_the_stored_row_is_newer(
    project: Project,
) -> None:
    columns = {"id": "int", "seq": "int", "op": "string"}
    batches = [
        [
            {"id": 1, "seq": 1, "op": "put"},
            {"id": 2, "seq": 1, "op": "put"},
            {"id": 3, "seq": 5, "op": "put"},
        ],
        [
            {"id": 1, "seq": 2, "op": "del"},  # goes
            {"id": 2, "seq": 0, "op": "del"},  # older than what stands
            {"id": 9, "seq": 1, "op": "del"},  # unknown
            {"id": 4, "seq": 1, "op": "put"},  # put and deleted in one batch
            {"id": 4, "seq": 2, "op": "del"},
            {"id": 3, "seq": 6, "op": "del"},  # deleted and put in one batch
            {"id": 3, "seq": 7, "op": "put"},
            {"id": 5, "seq": 1, "op": None},  # neither
        ],
        [
            {"id": 1, "seq": 3, "op": "put"},
            {"id": 4, "seq": 1, "op": "put"},
            {"id": 9, "seq": 1, "op": "put"},
        ],
    ]
    project.stream("s", columns, max_per_batch=1)
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys="id",
        sequence_by="seq",
        delete_when="op = 'del'",
    )
    write(project, batches)

    project.run().check()

    assert project.rows("m") == replayed(
        batches, ["id"], ["seq"], lambda row: row["op"] == "del"
    )
    assert [row["id"] for row in project.rows("m", "id")] == [1, 2, 3, 5, 9]


def test_rows_without_a_key_or_a_sequence_are_dead_letters(project: Project) -> None:
    good = {"id": 1, "part": "p", "seq": 1}
    bad = [
        {**good, "id": None},
        {**good, "part": None},
        {**good, "seq": None},
        {"id": None, "part": None, "seq": None},
    ]
    project.stream("s", {"id": "int", "part": "string", "seq": "int"}, max_per_batch=1)
    project.model(
        "m", "SELECT * FROM {s}", mode="upsert", keys=["id", "part"], sequence_by="seq"
    )
    project.record("s", [good, *bad, "broken"])
    project.record("s", bad[:1])

    ran = project.run().check()

    assert project.rows("m") == [good]
    assert project.reasons("m") == {
        "key-missing": 4,
        "sequence-missing": 1,
        "unparsable": 1,
    }
    letters = project.rows("m__dead_letter", "offset")
    assert [letter["offset"] for letter in letters] == [1, 2, 3, 4, 5, 6]
    assert [letter["detail"] for letter in letters[:4]] == ["id", "part", "seq", "id"]
    assert [event.rejected for event in ran.of(BatchCommitted)] == [5]
    assert [event.rejected for event in ran.of(BatchEmpty) if event.records] == [1]
    assert len(project.snapshot_ids("m")) == 1


@pytest.mark.parametrize("connection", ["recorded", "files"])
def test_a_copy_on_write_table_keeps_the_newest_row_of_each_key(
    project: Project, connection: str
) -> None:
    batches = [
        [pair(1, "x", 1, 1, "a"), pair(2, "x", 1, 1, "b")],
        [pair(1, "x", 0, 0, "c"), pair(3, "x", 1, 1, "d")],
    ]
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys=["a", "b"],
        properties={
            f"write.{change}.mode": "copy-on-write"
            for change in ("merge", "update", "delete")
        },
    )
    if connection == "recorded":
        project.stream("s", PAIRS, max_per_batch=1)
        write(project, batches)
    else:
        project.stream("s", PAIRS, path="m/*.jsonl", max_per_batch=1)
        for number, batch in enumerate(batches):
            file = project.write(
                f"m/{number}.jsonl", "".join(f"{json.dumps(row)}\n" for row in batch)
            )
            os.utime(file, (number, number))

    ran = project.run().check()

    assert len(ran.of(BatchCommitted)) == 2
    assert project.rows("m") == replayed(batches, ["a", "b"])
    assert all(
        int(summary.get("total-delete-files", 0)) == 0
        for summary in project.summaries("m")
    )


@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_a_bulk_load_is_merged_in_one_pass(
    project: Project, monkeypatch: pytest.MonkeyPatch, write_mode: str
) -> None:
    def rows(first: int, end: int, seq: int) -> list[Row]:
        return [
            {"id": number, "seq": seq, "v": f"{number}-{seq}"}
            for number in range(first, end)
        ]

    good = [
        rows(0, BULK, 1),
        rows(BULK // 2, BULK + BULK // 2, 2),
        [],
        rows(7, 10, 0) + rows(10, 13, 3),
        rows(0, 3, 4),
    ]
    bad = {"id": None, "seq": 9, "v": ""}
    project.stream("s", {"id": "int", "seq": "int", "v": "string"}, max_per_batch=1)
    properties = {"write.merge.mode": write_mode}
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys="id",
        sequence_by="seq",
        properties=properties,
    )
    write(project, [good[0], [*good[1], bad, "broken"], [bad], *good[3:]])
    look = Mock(wraps=read_keys)
    monkeypatch.setattr("lakesql.engine.batch.prepare.read_keys", look)

    ran = project.run().check()

    assert project.rows("m") == replayed(good, ["id"], ["seq"])
    assert project.reasons("m") == {"key-missing": 2, "unparsable": 1}
    assert [(event.batch, event.rejected) for event in ran.of(BatchCommitted)] == [
        (0, 0),
        (1, 2),
        (3, 0),
        (4, 0),
    ]
    assert [event.rows for event in ran.of(BatchCommitted)] == [BULK, BULK, 3, 3], (
        "without those carried over"
    )
    assert [
        (event.batch, event.rejected) for event in ran.of(BatchEmpty) if event.records
    ] == [(2, 1)]
    # The first batch is appended. The keys of each other one are read that does not
    # follow a bulk one, or that follows one which wrote files anew: of the last batch,
    # or of the last three.
    assert look.call_count == (3 if write_mode == "copy-on-write" else 1)


def test_arrow_memory_of_a_merge_is_released(project: Project) -> None:
    project.stream("s", PAIRS, max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys=["a", "b"])
    write(project, [[pair(1, "x", number, 0, "")] for number in range(3)])
    allocators = java_class("org.apache.iceberg.arrow.ArrowAllocation").rootAllocator()
    close_allocators()
    assert not allocators.getChildAllocators()

    project.run().check()

    assert allocators.getChildAllocators()
    close_allocators()
    assert not allocators.getChildAllocators()
    assert project.rows("m") == [pair(1, "x", 2, 0, "")]


def test_a_row_of_a_file_without_a_key_is_a_dead_letter(project: Project) -> None:
    rows = [{"id": number or None, "v": f"é{number}"} for number in (1, 0, 2)]
    project.stream("s", {"id": "int", "v": "string"}, path="m/*.jsonl")
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id")
    project.write("m/rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))

    project.run().check()

    assert [row["v"] for row in project.rows("m", "id")] == ["é1", "é2"]
    (letter,) = project.rows("m__dead_letter")
    assert (letter["reason"], letter["detail"], json.loads(letter["value"])) == (
        "key-missing",
        "id",
        rows[1],
    )
    assert letter["topic"].endswith("/m/rows.jsonl")


KINDS: dict[str, tuple[str, list[Any]]] = {
    "string": (
        "string",
        [
            "",
            " ",
            "x",
            "x ",
            "X",
            "it's",
            "''",
            "\\",
            'back\\"q"',
            "zwölf\n",
            "日本",
            "🙂",
            "a%_b",
            "\0",
            "${env:HOME}",
            "{{",
        ],
    ),
    "bigint": ("bigint", [-(2**63), -(2**31), -1, 0, 2**31, 2**63 - 1]),
    "tinyint": ("tinyint", [-128, -1, 0, 127]),
    "decimal": (
        "decimal(20,3)",
        [
            Decimal("-12345678901234567.891"),
            Decimal("-0.001"),
            Decimal("0.000"),
            Decimal("99999999999999999.999"),
        ],
    ),
    "date": (
        "date",
        [date(1, 1, 1), date(1969, 12, 31), date(2026, 3, 2), date(9999, 12, 31)],
    ),
    "timestamp": (
        "timestamp",
        [
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
            datetime(2026, 10, 25, 1, 30, 0, 1, UTC),
        ],
    ),
    "timestamp_ntz": (
        "timestamp_ntz",
        [datetime(1969, 12, 31, 23, 59), datetime(2026, 10, 25, 2, 30, 0, 1)],
    ),
    "boolean": ("boolean", [True, False]),
    "double": ("double", [-1.5, 0.0, 1e300]),
}


@pytest.fixture
def far_away() -> Iterator[None]:
    """A machine whose clock shows another time than UTC, with summer time."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_keys_of_every_type_are_updated_and_not_duplicated(project: Project) -> None:
    """Each key is written twice: if the MERGE's literal bounds left one out, it would
    stand twice."""
    for kind, (type_, values) in KINDS.items():
        project.stream(f"s_{kind}", {"k": type_, "v": "int"}, max_per_batch=1)
        project.model(
            f"m_{kind}", f"SELECT * FROM {{s_{kind}}}", mode="upsert", keys="k"
        )
        for v in (1, 2):
            project.record(
                f"s_{kind}", [f'{{"k": {_json(value)}, "v": {v}}}' for value in values]
            )

    project.run().check()

    for kind, (_, values) in KINDS.items():
        assert project.rows(f"m_{kind}") == sorted_rows(
            {"k": value, "v": 2} for value in values
        ), kind


def _json(value: Any) -> str:
    match value:
        case datetime():
            return json.dumps(value.isoformat().replace("+00:00", "Z"))
        case Decimal():
            return f"{value:f}"
        case date():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(value)


@pytest.mark.parametrize(
    ("ids", "bound"),
    [
        (range(5, 6), KeyRange("id", low=5, high=5)),
        (range(-100, 400, 2), KeyRange("id", low=-100, high=398)),
        (range(0, 10 * LISTED, 10), KeyRange("id", tuple(range(0, 10 * LISTED, 10)))),
        (
            range(0, 10 * FEW, 10),
            KeyRange("id", tuple(range(0, 10 * FEW, 10)), 0, 10 * FEW - 10),
        ),
        (range(0, 10 * FEW + 10, 10), KeyRange("id", low=0, high=10 * FEW)),
    ],
)
def test_sparse_keys_are_bounded_by_their_values_and_others_by_their_range(
    lake: Lake, ids: range, bound: KeyRange
) -> None:
    batch = lake.session.range(ids.start, ids.stop, ids.step)
    assert read_keys(batch, ("id",)) == (bound,)
    assert read_keys(batch.where("false"), ("id",)) is None


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("ids", [range(-1100, 1100), range(-9000, 9000, 60)])
def test_more_keys_than_files_are_chosen_by_are_bounded_by_their_range(
    project: Project, ids: range
) -> None:
    moment = datetime(2026, 10, 24, 23, tzinfo=UTC).timestamp()
    rows = [
        {
            "id": number,
            "at": datetime.fromtimestamp(moment + number * 60, UTC).isoformat(),
            "s": f"{number:x}",
        }
        for number in ids
    ]
    project.stream(
        "s",
        {"id": "int", "at": "timestamp", "s": "string", "v": "int"},
        max_per_batch=1,
    )
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys=["id", "at", "s"])
    for v in (1, 2):
        project.record("s", [{**row, "v": v} for row in rows])

    project.run().check()

    assert sorted((row["id"], row["v"]) for row in project.rows("m")) == [
        (number, 2) for number in ids
    ]


def test_keys_are_found_whatever_their_case(project: Project) -> None:
    project.stream("s", {"Id": "int", "Seq": "int", "v": "int"}, max_per_batch=1)
    project.model(
        "m",
        "SELECT * FROM {s}",
        mode="upsert",
        keys="ID",
        sequence_by="sEQ",
        delete_when="SEQ = 9",
    )
    write(project, [[{"Id": 1, "Seq": 1, "v": 1}, {"Id": 2, "Seq": 1, "v": 1}]])
    write(project, [[{"Id": 1, "Seq": 2, "v": 2}, {"Id": 2, "Seq": 9, "v": 2}]])

    project.run().check()

    assert project.rows("m") == [{"Id": 1, "Seq": 2, "v": 2}]


@pytest.mark.parametrize("invalid_text", ["replace", "dead_letter"])
def test_keys_that_are_not_utf8_are_counted_or_dead_letters(
    project: Project, invalid_text: str
) -> None:
    """Replaced, two of them may become one key: which of their rows is there is known
    by the count alone."""
    project.stream(
        "s", {"h": "string", "v": "int"}, max_per_batch=1, invalid_text=invalid_text
    )
    project.model(
        "m", "SELECT CAST(unhex(h) AS string) AS k, v FROM {s}", mode="upsert", keys="k"
    )
    for v in (1, 2):
        project.record("s", [{"h": h, "v": v} for h in ("FF", "FE", "61FF", "61")])

    ended = project.run().check().finished("m")

    found = project.sql(f"SELECT hex(k) AS h, v FROM {project.table('m')} ORDER BY h")
    if invalid_text == "replace":
        assert found == [{"h": h, "v": 2} for h in ("61", "61EFBFBD", "EFBFBD")]
        assert (ended.replaced_keys, ended.rejected) == (6, 0)
    else:
        assert found == [{"h": "61", "v": 2}]
        assert (ended.replaced_keys, ended.rejected) == (0, 6)


def test_a_batch_reads_one_version_of_a_joined_table(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch's keys and its rows are of one version of it, or a key that was not
    looked for stands twice."""
    project.stream("arrived", {"customer": "int"})
    project.stream(
        "orders", {"id": "int", "customer": "int", "v": "int"}, max_per_batch=1
    )
    project.model("customers", "SELECT customer FROM {arrived}", mode="append")
    joined = "SELECT o.id, o.v FROM {orders} o JOIN {customers!r} c ON o.customer = c.customer"
    project.model("m", joined, mode="upsert", keys="id")
    project.record("arrived", [{"customer": 1}])
    project.record(
        "orders", [{"id": 1, "customer": 1, "v": 1}, {"id": 5, "customer": 1, "v": 1}]
    )
    project.run().check()
    project.record(
        "orders", [{"id": 1, "customer": 1, "v": 2}, {"id": 5, "customer": 9, "v": 2}]
    )

    def look(newest: DataFrame, *others: Any) -> tuple[KeyRange, ...] | None:
        found = read_keys(newest, *others)
        project.sql(f"INSERT INTO {project.table('customers')} VALUES (9)")
        return found

    monkeypatch.setattr("lakesql.engine.batch.prepare.read_keys", look)
    project.run("m").check()

    assert project.rows("m", "id") == [{"id": 1, "v": 2}, {"id": 5, "v": 1}]


def test_a_joined_table_that_loses_a_column_during_a_batch_causes_a_retry(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark refuses the plan that it has made, and takes the next one: the batch is
    tried again."""
    project.stream("arrived", {"customer": "int", "name": "string"})
    project.stream("orders", {"id": "int", "customer": "int"})
    project.model("customers", "SELECT customer, name FROM {arrived}", mode="append")
    joined = (
        "SELECT o.id FROM {orders} o JOIN {customers!r} c ON o.customer = c.customer"
    )
    project.model("m", joined, mode="upsert", keys="id")
    project.record("arrived", [{"customer": 1, "name": "x"}])
    project.run("customers").check()
    project.record("orders", [{"id": 1, "customer": 1}])
    count, changed = BatchCounters.rows, []

    def change(watch: BatchCounters, rows: DataFrame, *others: Any) -> DataFrame:
        if not changed:
            project.sql(f"ALTER TABLE {project.table('customers')} DROP COLUMN name")
            changed.append(True)
        return count(watch, rows, *others)

    monkeypatch.setattr(BatchCounters, "rows", change)
    ran = project.run("m").check()

    assert [event.problems[0].condition for event in ran.of(Retrying)] == [
        "commit-conflict"
    ]
    assert project.rows("m") == [{"id": 1}]


def test_a_compaction_during_a_merge_has_it_run_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files in which the MERGE has found its rows are none of the table's any more
    when it is published."""
    project.stream("s", {"id": "int", "v": "int"}, max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id")
    for number in range(2):
        project.record("s", [{"id": number, "v": 0}])
    project.run().check()
    project.record("s", [{"id": 0, "v": 1}])
    count = BatchCounters.rows
    merging, compacted = project.directory / "merging", project.directory / "compacted"

    def wait_for(file: Path) -> bool:
        ends_by = time.monotonic() + 60
        while not file.exists() and time.monotonic() < ends_by:
            time.sleep(0.05)
        return file.exists()

    def compact() -> None:
        name = f"{project.namespace}.m"
        assert wait_for(merging)
        project.sql(
            f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        compacted.touch()

    @F.udf("boolean")
    # runs where the MERGE makes its rows, when it has chosen the files
    def meet() -> bool:
        merging.touch()
        return wait_for(compacted)

    def watch_rows(watch: BatchCounters, rows: DataFrame, *others: Any) -> DataFrame:
        return count(watch, rows.where(meet.asNondeterministic()()), *others)

    monkeypatch.setattr(BatchCounters, "rows", watch_rows)
    # the rows are made while they are merged
    monkeypatch.setattr("lakesql.engine.batch.bounds.BULK", 0)
    with ThreadPoolExecutor() as pool:
        other = pool.submit(compact)
        ran = project.run().check()
        other.result()

    assert not ran.of(Retrying)
    assert project.rows("m", "id") == [{"id": 0, "v": 1}, {"id": 1, "v": 0}]


@pytest.mark.promise
def test_a_foreign_commit_of_a_key_of_the_batch_makes_no_duplicate(
    project: Project,
) -> None:
    """A MERGE that only inserts looks like an append, which Iceberg would replay on top
    of the foreign row."""
    project.stream("s", {"id": "int", "v": "string"}, max_per_batch=1)
    project.model("m", "SELECT * FROM {s}", mode="upsert", keys="id")
    project.record("s", [{"id": 1, "v": "a"}])
    project.run().check()
    project.record("s", [{"id": 2, "v": "ours"}, "broken"])

    def intrude(event: Event) -> None:
        if isinstance(event, RecordsRejected):
            project.sql(f"INSERT INTO {project.table('m')} VALUES (2, 'foreign')")

    project.run(meet=intrude).check()

    assert project.rows("m", "id") == [{"id": 1, "v": "a"}, {"id": 2, "v": "ours"}]


def test_what_another_session_does_to_a_view_of_that_name_counts_no_record_twice(
    spark: SparkSession,
) -> None:
    """Spark drops what is kept in memory of it then, at any moment."""
    is_done, seen = threading.Event(), set[int]()

    def disturb() -> None:
        other = spark.newSession()
        for number in count():
            if is_done.is_set():
                return
            other.range(number).createOrReplaceTempView(ROWS_VIEW)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(disturb)
        try:
            for _ in range(60):
                observed = Observation()
                rows = spark.range(0, 2 * FEW, 1, 1).observe(
                    observed, F.count("*").alias("records")
                )
                rows.createOrReplaceTempView(ROWS_VIEW)
                kept = spark.sql(
                    f"SELECT id, row_number() OVER (PARTITION BY id ORDER BY id) FROM {ROWS_VIEW}"
                ).persist()
                make_once(kept)
                seen.add(observed.get["records"])
                assert read_keys(kept, ("id",)) == (
                    KeyRange("id", low=0, high=2 * FEW - 1),
                )
                seen.add(observed.get["records"])
                kept.unpersist()
        finally:
            is_done.set()
    assert seen == {2 * FEW}


SPREAD = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
"""How Spark joins a table that is large: in as many tasks as there are cores."""


@pytest.mark.parametrize("size", ["few rows", "many rows"])
def test_a_small_batch_is_one_file_whatever_the_size_of_the_table(
    project: Project, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    given = snapshots.distribution
    monkeypatch.setattr(
        snapshots,
        "distribution",
        lambda *asked, **how: {**given(*asked, **how), **SPREAD},
    )
    if size == "many rows":
        monkeypatch.setattr("lakesql.engine.batch.bounds.JOINED_ROWS", 0)
    batches = [
        [
            {"a": 7 * number % 241, "b": 11 * number % 239, "v": batch}
            for number in range(start, start + 300)
        ]
        for batch, start in enumerate((0, 150, 300))
    ]
    project.stream("s", {"a": "int", "b": "int", "v": "int"}, max_per_batch=1)
    project.model(
        "m", "SELECT * FROM {s}", mode="upsert", keys=["a", "b"], maintenance=False
    )
    write(project, batches)
    # more pairs than are named one by one
    assert len({(row["a"], row["b"]) for row in batches[1]}) == 300

    project.run().check()

    added = [
        {each: had.get(f"added-{each}-files") for each in ("data", "delete")}
        for had in project.summaries("m")
    ]
    assert added == [
        {"data": "1", "delete": None},
        *([{"data": "1", "delete": "1"}] * 2),
    ]
    assert project.rows("m") == replayed(batches, ["a", "b"])


def test_rows_that_come_in_one_task_are_written_by_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also into partitions, to which those of several tasks are brought: that would be
    a shuffle of a few rows."""
    given, modes = snapshots.distribution, dict[str, set[str | None]]()
    running = ""

    def distribution(*asked: Any, **how: Any) -> dict[str, str]:
        found = given(*asked, **how)
        modes.setdefault(running, set()).add(
            found.get("spark.sql.iceberg.distribution-mode")
        )
        return {**found, **SPREAD}

    monkeypatch.setattr(snapshots, "distribution", distribution)
    project.stream("s", {"k": "int", "v": "int"}, max_per_batch=1)
    parted = {"partition_by": ["bucket(4, k)"], "maintenance": False}
    project.model("added", "SELECT * FROM {s}", mode="append", **parted)
    project.model("plain", "SELECT * FROM {s}", mode="append", maintenance=False)
    project.model(
        "twice",
        "SELECT k, v FROM {s} UNION ALL SELECT k + 1, v FROM {s}",
        mode="append",
        **parted,
    )
    project.model("newest", "SELECT * FROM {s}", mode="upsert", keys="k", **parted)
    for batch in range(2):
        write(project, [[{"k": number, "v": batch} for number in range(100)]])
    for running in ("added", "plain", "twice", "newest"):
        project.run(running).check()

    # The first batch of an upsert is an INSERT, whose own mode is `none`; the second is
    # a MERGE of few rows, which meet in one task as well.
    assert modes == {
        "added": {"none"},
        "plain": {None},
        "twice": {None},
        "newest": {None, "none"},
    }
    for name in ("added", "newest"):
        assert [summary["added-data-files"] for summary in project.summaries(name)] == [
            "4",
            "4",
        ]
    assert project.rows("newest", "k") == [
        {"k": number, "v": 1} for number in range(100)
    ]


def test_many_groups_of_a_stateful_model_are_all_counted(project: Project) -> None:
    """More than are looked at one by one, and the one without a key in a later task
    than the first."""
    conf = project.lake.session.conf
    before = conf.get("spark.sql.shuffle.partitions")
    groups = 4 * FEW + FEW
    project.stream("s", {"k": "int"})
    project.model(
        "m", "SELECT k, count(*) AS n FROM {s} GROUP BY k", mode="upsert", keys="k"
    )
    project.record("s", [{"k": number} for number in range(groups)] + [{"k": None}])
    conf.set("spark.sql.shuffle.partitions", "4")
    try:
        ran = project.run().check()
    finally:
        conf.set("spark.sql.shuffle.partitions", str(before))

    assert [(event.records, event.rejected) for event in ran.of(BatchCommitted)] == [
        (groups + 1, 1)
    ]
    assert len(project.rows("m")) == groups
    assert project.reasons("m") == {"key-missing": 1}
