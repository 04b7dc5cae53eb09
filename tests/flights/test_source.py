"""The flights: what is written is the package's data, and the sums that tests compare
with are sound."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from random import Random

import duckdb
import pytest

from tests.flights import source


@pytest.fixture(scope="module")
def topic(tmp_path_factory):
    return source.write_topic(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def records(topic):
    return [
        json.loads(line)
        for path in topic.paths
        for line in path.read_text("utf-8").splitlines()
    ]


def test_the_source_has_no_missing_and_no_duplicate_flight():
    assert len(source.flights()) == len(set(source.flights())) == source.COUNT


def test_sequence_orders_the_flights_of_every_key():
    sequences = defaultdict(list)
    for flight in source.flights():
        sequences[source.key_of(flight)].append(source.sequence_of(flight))
    assert len(sequences) == source.DAILY_COUNT
    assert all(len(seen) == len(set(seen)) for seen in sequences.values())


def test_daily_holds_the_last_flight_of_each_key():
    daily = source.daily(source.flights())
    assert len(daily) == source.DAILY_COUNT
    assert (
        daily["WN", "2269", "2013", "6", "8"][source.COLUMNS.index("sched_dep_time")]
        == "1540"
    )


def test_topic_holds_each_flight_and_the_bad_records(topic, records):
    assert len(records) == topic.record_count == source.COUNT + source.BAD_COUNT
    assert Counter(item.kind for item in topic.bad) == dict.fromkeys(
        source.BAD_KINDS, 25
    )
    bad = {(item.partition, item.offset): item for item in topic.bad}
    good = [
        item["value"]
        for item in records
        if (item["partition"], item["offset"]) not in bad
    ]
    assert Counter(map(_cells, good)) == Counter(source.flights())
    set_aside = [item for item in records if (item["partition"], item["offset"]) in bad]
    for item in set_aside:
        expected = bad[item["partition"], item["offset"]].value.decode()
        value = item["value"]
        assert (
            value
            if isinstance(value, str)
            else json.dumps(value, separators=(",", ":"))
        ) == expected


def test_topic_has_ascending_offsets_in_each_partition(records):
    offsets = defaultdict(list)
    for item in records:
        offsets[item["partition"]].append(item["offset"])
    assert sorted(offsets) == [0, 1, 2]
    assert all(seen == list(range(len(seen))) for seen in offsets.values())


def test_of_every_second_pair_the_newer_flight_arrives_first(topic, records):
    seen = Counter(map(source.key_of, source.flights()))
    pairs = {key for key, count in seen.items() if count > 1}
    record_keys = {f"{carrier}-{flight}" for carrier, flight, *_ in pairs}
    bad = {(item.partition, item.offset) for item in topic.bad}
    arrived = defaultdict(list)
    for item in records:
        if (
            item["key"] in record_keys
            and (item["partition"], item["offset"]) not in bad
        ):
            flight = _cells(item["value"])
            arrived[source.key_of(flight)].append(source.sequence_of(flight))
    assert len(pairs) == 24
    assert sum(arrived[key] != sorted(arrived[key]) for key in pairs) == 12


def test_a_sample_of_the_flights_has_pairs_and_every_kind_of_bad_record():
    some = source.flights()[source.SOME]
    records = list(source.records(some))
    assert (len(some), len(source.daily(some))) == (30_000, 30_000 - 14)
    assert source.expected("flights_daily", some)[0] == 30_000 - 14
    assert Counter(item.kind for item in records) == {
        **dict.fromkeys(source.BAD_KINDS, 25),
        "": 30_000,
    }
    assert Counter(item.value for item in records if not item.kind) == Counter(
        map(source.to_json, some)
    )


def test_csv_files_hold_the_flights_as_the_package_does(tmp_path):
    paths = source.write_csv(tmp_path, files=5)
    texts = [path.read_text("utf-8").splitlines() for path in paths]
    assert len(paths) == 5
    assert all(lines[0] == ",".join(source.COLUMNS) for lines in texts)
    assert [tuple(line.split(",")) for lines in texts for line in lines[1:]] == list(
        source.flights()
    )


def test_checksum_is_the_same_in_any_order_and_differs_for_a_changed_row():
    some = list(source.flights()[:1000])
    shuffled = Random(1).sample(some, len(some))
    assert source.checksum(shuffled) == source.checksum(some)
    changed = (*some[0][:-1], "2013-01-01T10:00:01Z")
    assert source.checksum([changed, *some[1:]]) != source.checksum(some)
    assert source.checksum([*some, some[0]]) != source.checksum(some)


def test_rows_read_from_a_table_become_the_cells_of_the_csv():
    flight = next(flight for flight in source.flights() if source.NULL in flight)
    row = json.loads(source.to_json(flight))
    hour = datetime.fromisoformat(row["time_hour"])
    for time_hour in (hour, hour.astimezone(UTC).replace(tzinfo=None)):
        assert source.canonical({**row, "time_hour": time_hour}) == flight


def test_checksum_in_duckdb_is_the_one_in_python(tmp_path):
    source.write_csv(tmp_path)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        f"CREATE TABLE flights AS FROM read_csv('{tmp_path}/flights/*.csv', nullstr='NA', "
        "types={'time_hour': 'TIMESTAMPTZ'})"
    )
    assert connection.sql(
        "SELECT count(*) FROM flights WHERE dep_time IS NULL"
    ).fetchone() == (8255,)
    rows, checksum = connection.sql(source.checksum_sql("duckdb", "flights")).fetchone()
    assert (rows, checksum) == (source.COUNT, source.checksum(source.flights()))


def _cells(value):
    return tuple(
        source.NULL if value[name] is None else str(value[name])
        for name in source.COLUMNS
    )
