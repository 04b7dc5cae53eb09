"""Parquet timestamps in any unit that its writers choose: exactly what was written, or
said."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesql.compile.build_select import build_select
from lakesql.engine.batch.sample import preview_rows
from lakesql.engine.sources.broker import Brokers
from lakesql.events import Noted
from lakesql.run.streams.bind import bind_select
from tests.spark.project import Project, Row

EPOCH = datetime(1970, 1, 1)
NS = 1_000_000_000
FIRST_NS, LAST_NS = -(2**63) + 1, 2**63 - 1
"""What 64 bits of nanoseconds reach: from 1677 to 2262."""


def time_of(nanoseconds: int) -> datetime:
    assert nanoseconds % 1000 == 0
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def write_times(
    file: Path,
    values: list[int | None],
    ids: list[int],
    unit: str,
    zone: str | None = None,
) -> None:
    """Times, each a number of nanoseconds, in a file with this unit; `int96` is what
    Hive and Impala wrote."""
    arrow = pa.timestamp("ns" if unit == "int96" else unit, zone)
    divisor = NS // {"ms": 1_000, "us": 1_000_000}.get(unit, NS)
    times = pa.array(
        [None if value is None else value // divisor for value in values], pa.int64()
    ).cast(arrow)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as sink:
        table = pa.table({"id": pa.array(ids, pa.int64()), "t": times})
        pq.write_table(
            table, sink, version="2.6", use_deprecated_int96_timestamps=unit == "int96"
        )


def read(project: Project, model: str = "m") -> dict[int, datetime | None]:
    return {
        row["id"]: row["t"] and row["t"].replace(tzinfo=None)
        for row in project.rows(model)
    }


def stream(
    project: Project, name: str = "s", kind: str = "timestamp", **options: Any
) -> None:
    project.stream(
        name,
        {"id": "bigint", "t": kind},
        path="in/*.parquet",
        format="parquet",
        **options,
    )


@pytest.mark.parametrize("finer_are", ["cut", "dead_letter"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_times_of_files_with_different_units_are_exact(
    project: Project, feed_seed: int, kind: str, finer_are: str
) -> None:
    """Several batches: those with nanoseconds, without, and with both."""
    choose = random.Random(feed_seed)
    stream(project, kind=kind, nanoseconds=finer_are)
    project.model("m", "SELECT id, t FROM {s}", mode="append")
    wanted: dict[int, datetime | None] = {}
    finer: set[int] = set()
    cut: list[int] = []
    number = 0
    zones = (None, "UTC") if kind == "timestamp" else (None,)
    units = (
        ("ms", "us", "ns") if kind == "timestamp_ntz" else ("ms", "us", "ns", "int96")
    )
    for batch, allowed in enumerate((units, ("us", "ms"), ("ns",))):
        for _ in range(4):
            unit, values, ids = choose.choice(allowed), list[int | None](), list[int]()
            for _ in range(choose.randint(1, 5)):
                number += 1
                value = choose.choice(
                    [None, 0, -1000, 999, 1, -1, choose.randrange(FIRST_NS, LAST_NS)]
                )
                if value is not None and choose.random() < 0.7:
                    value -= value % 1_000_000
                if unit in ("us", "int96", "ms") and value is not None:
                    value -= value % (1_000_000 if unit == "ms" else 1000)
                if value is not None and not FIRST_NS <= value <= LAST_NS:
                    value = 0
                values.append(value)
                ids.append(number)
                if value is not None and value % 1000:
                    finer.add(number)
                    value -= value % 1000
                if finer_are == "cut" or number not in finer:
                    wanted[number] = None if value is None else time_of(value)
            write_times(
                project.directory / f"in/{number} é[{batch}].parquet",
                values,
                ids,
                unit,
                choose.choice(zones),
            )
        ran = project.run().check()
        assert read(project) == wanted, batch
        cut += [
            int(found[1])
            for note in ran.of(Noted)
            if (found := re.search(r"(\d+) records? with digits", note.text))
        ]
    assert project.reasons("m") == Counter(
        {"unparsable": len(finer)} if finer and finer_are == "dead_letter" else {}
    )
    assert sum(cut) == (len(finer) if finer_are == "cut" else 0)


def test_a_time_below_a_microsecond_is_a_dead_letter_with_its_digits(
    project: Project,
) -> None:
    stream(project, nanoseconds="dead_letter")
    project.model("m", "SELECT id, t FROM {s}", mode="append")
    write_times(
        project.directory / "in/a.parquet",
        [1_772_359_200_123_456_789, -1, 5000],
        [1, 2, 3],
        "ns",
    )
    project.run().check()
    assert read(project) == {3: datetime(1970, 1, 1, 0, 0, 0, 5)}
    letters = sorted(
        project.rows("m__dead_letter"), key=lambda letter: bytes(letter["value"])
    )
    assert [bytes(letter["value"]).decode() for letter in letters] == [
        '{"id":1,"t":"2026-03-01T10:00:00.123456789Z"}',
        '{"id":2,"t":"1969-12-31T23:59:59.999999999Z"}',
    ]
    assert all(
        "a.parquet" in letter["topic"] and "microsecond" in letter["detail"]
        for letter in letters
    )


def test_times_within_structs_arrays_and_maps_are_read(project: Project) -> None:
    types: dict[str, Any] = {
        "id": "bigint",
        "s": "struct<T:timestamp,x:int>",
        "a": "array<struct<t:timestamp>>",
        "m": "map<string,timestamp>",
        "day": "date",
    }
    project.stream(
        "s", types, path="in/*/*.parquet", format="parquet", nanoseconds="dead_letter"
    )
    project.model("m", "SELECT * FROM {s}", mode="append")
    ns = pa.timestamp("ns")
    values = [
        {
            "id": 1,
            "s": {"t": 1000, "x": 1},
            "a": [{"t": 2000}, None, {"t": None}],
            "m": {"k": 3000},
        },
        {"id": 2, "s": None, "a": None, "m": None},
        {"id": 3, "s": {"t": 1, "x": 1}, "a": [], "m": {}},
        {"id": 4, "s": {"t": None, "x": 1}, "a": [{"t": 2001}], "m": {}},
        {"id": 5, "s": {"t": None, "x": 1}, "a": [], "m": {"k": 5}},
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("t", ns), ("x", pa.int32())])),
            ("a", pa.list_(pa.struct([("t", ns)]))),
            ("m", pa.map_(pa.string(), ns)),
        ]
    )
    file = project.directory / "in/day=2026-03-01/f.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(values, schema), file)
    project.run().check()
    rows = project.rows("m", "id")
    assert [row["id"] for row in rows] == [1, 2] and {
        str(row["day"]) for row in rows
    } == {"2026-03-01"}
    first = rows[0]
    at = [first["s"]["T"], first["a"][0]["t"], dict(first["m"])["k"]]
    assert [each.replace(tzinfo=None) for each in at] == [
        time_of(1000),
        time_of(2000),
        time_of(3000),
    ]
    assert first["s"]["x"] == 1 and first["a"][1:] == [None, {"t": None}]
    assert rows[1] == {"id": 2, "s": None, "a": None, "m": None, "day": first["day"]}
    assert len(project.rows("m__dead_letter")) == 3


def test_one_of_several_streams_has_nanoseconds(project: Project) -> None:
    """The records of the others are read once, by the query."""
    for name in ("a", "b"):
        columns = {"id": "bigint", "t": "timestamp"}
        project.stream(
            name,
            columns,
            path=f"{name}/*.parquet",
            format="parquet",
            nanoseconds="dead_letter",
        )
    project.stream("c", {"id": "bigint", "t": "timestamp"})
    selects = (f"SELECT id, t FROM {{{name}}}" for name in ("a", "b", "c"))
    project.model("m", " UNION ALL ".join(selects), mode="append")
    project.record("c", [{"id": 1, "t": "2026-03-01T00:00:00Z"}])
    write_times(project.directory / "a/1.parquet", [1_000_000], [2], "us")
    write_times(project.directory / "b/1.parquet", [2000, 1], [3, 4], "ns")
    project.run().check()
    at = datetime(2026, 3, 1)
    assert read(project) == {1: at, 2: time_of(1_000_000), 3: time_of(2000)}
    assert len(project.rows("m__dead_letter")) == 1
    project.record("c", [{"id": 5, "t": "2026-03-01T00:00:00Z"}])
    write_times(project.directory / "a/2.parquet", [7000], [6], "ns")
    project.run().check()
    assert read(project) == {
        1: at,
        2: time_of(1_000_000),
        3: time_of(2000),
        5: at,
        6: time_of(7000),
    }


def test_a_stateful_model_refuses_nanoseconds_until_the_file_has_microseconds(
    project: Project,
) -> None:
    stream(project, watermark={"column": "t", "delay": "1 hour"})
    project.model(
        "w",
        "SELECT window.start AS t, count(*) AS n FROM {s} GROUP BY window(t, '1 hour')",
        mode="append",
    )
    file, times = (
        project.directory / "in/a.parquet",
        [3600 * NS, 36_000 * NS, 720_000 * NS],
    )
    write_times(file, times, [1, 2, 3], "ns")
    (problem,) = project.run().finished("w").problems
    assert (
        problem.condition == "file-unreadable"
        and "a.parquet" in problem.what
        and "'us'" in problem.fix
    )
    write_times(file, times, [1, 2, 3], "us")
    project.run().check()
    found: list[Row] = project.rows("w", "t")
    assert [(row["t"].astimezone(UTC).hour, row["n"]) for row in found] == [
        (1, 1),
        (10, 1),
    ]


def test_a_preview_shows_nanoseconds(project: Project) -> None:
    stream(project, nanoseconds="dead_letter")
    project.model("m", "SELECT id, t FROM {s}", mode="append")
    write_times(project.directory / "in/a.parquet", [1000, 1], [1, 2], "ns")
    manifest = project.manifest()
    bound = bind_select(manifest, build_select(manifest, "m"))
    _, rows, records, rejected = preview_rows(
        project.lake.session, bound.select, bound.bindings, 10, Brokers()
    )
    assert [(row[0], row[1].replace(tzinfo=None)) for row in rows] == [
        (1, time_of(1000))
    ]
    assert (records, rejected) == (2, (("unparsable", 1),))
