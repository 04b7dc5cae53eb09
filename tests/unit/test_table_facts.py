"""What is read of tables that pyiceberg wrote, and how much is read for it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakesql.catalog import manifests
from lakesql.catalog.connect import OpenCatalog, open_catalog
from lakesql.catalog.table_facts import read_facts
from lakesql.catalog.tables import load_table
from lakesql.errors import RunError
from lakesql.model.table_name import TableName
from lakesql.names import LEDGER_BATCH, LEDGER_EVENT_TIME, LEDGER_LATE, LEDGER_MODEL
from lakesql.plan.health import TableFacts, measure
from lakesql.project.profiles import Catalog
from lakesql.table.commits import Commit, ReplacedFiles
from tests.long_tables import FIRST_ID, Past, make_past, rewrite_past

ORDERS = TableName("lake", "shop", "orders")
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
MINUTE = 60_000
NOW = 1_800_000_000_000


@pytest.fixture
def opened(tmp_path: Path) -> OpenCatalog:
    file = tmp_path / "catalog.db"
    catalog = open_catalog(
        Catalog(
            name="lake",
            type="sql",
            uri=f"sqlite:///{file}",
            warehouse=str(tmp_path / "w"),
        )
    )
    catalog.iceberg.create_namespace("shop")
    return catalog


def entry(batch: int, **keys: str) -> dict[str, str]:
    return {LEDGER_MODEL: "orders", LEDGER_BATCH: str(batch), **keys}


def rows(*cities: str) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(len(cities)), pa.int64()), "city": list(cities)}
    )


def read(opened: OpenCatalog) -> TableFacts:
    facts = read_facts(opened, ORDERS)
    assert facts is not None
    return facts


def times_of(table: Table) -> list[int]:
    return [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]


class TestCommits:
    def test_no_table_has_no_facts(self, opened: OpenCatalog) -> None:
        assert read_facts(opened, ORDERS) is None
        assert read_facts(opened, TableName("lake", "nowhere", "orders")) is None

    def test_a_table_without_rows_has_no_commit(self, opened: OpenCatalog) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        facts = read(opened)
        assert (
            facts.commits,
            facts.files,
            facts.metadata.snapshots,
            facts.is_ours,
        ) == ((), (), {}, False)
        assert facts.sizes.total_bytes > 0

    def test_batches_are_told_by_the_ledger(self, opened: OpenCatalog) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        table.append(
            rows("a"),
            snapshot_properties=entry(
                0, **{LEDGER_EVENT_TIME: "2026-03-01T10:00:00+00:00"}
            ),
        )
        table.append(rows("a", "b"))  # somebody else's
        table.append(
            rows("c", "d", "e"), snapshot_properties=entry(1, **{LEDGER_LATE: "4"})
        )
        table.append(
            rows("z"), snapshot_properties={**entry(0), LEDGER_MODEL: "orders__replay"}
        )
        facts, at = read(opened), times_of(table)
        assert facts.is_ours
        event_ms = round(datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp() * 1000)
        assert [
            (each.at_ms, each.rows, each.event_ms, each.late) for each in facts.commits
        ] == [
            (at[0], 1, event_ms, 0),
            (at[2], 3, None, 4),
        ]
        assert facts.totals.rows == 7

    def test_without_a_ledger_all_commits_that_bring_rows_count(
        self, opened: OpenCatalog
    ) -> None:
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [
                Past(1, (10,)),
                Past(2, (10,), operation="replace", drops=True),
                Past(3, (10,), operation="overwrite"),
            ],
        )
        facts = read(opened)
        assert not facts.is_ours
        assert [each.at_ms for each in facts.commits] == [1, 3]

    def test_rows_that_a_merge_carries_over_are_not_of_its_batch(
        self, opened: OpenCatalog
    ) -> None:
        anew = {"deleted-data-files": "1", "deleted-records": "1000"}
        copied = {"spark.merge-into.num-target-rows-copied": "990"}
        past = [
            Past(NOW - 30 * MINUTE, (10,), rows=1000, summary=entry(0)),
            Past(
                NOW - 20 * MINUTE,
                (10,),
                rows=1005,
                drops=True,
                summary={**entry(1), **anew, **copied},
            ),
            Past(
                NOW - 10 * MINUTE,
                (10,),
                rows=1007,
                drops=True,
                summary={**entry(2), **anew},
            ),
        ]
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [replace(each, operation="overwrite") for each in past],
        )
        letters = [Past(NOW - MINUTE, (1,), rows=22, summary=entry(2))]
        make_past(opened, ("shop", "orders__dead_letter"), SCHEMA, letters)
        facts = read(opened)
        assert [each.rows for each in facts.commits] == [1000, 15, 7]
        assert measure(facts, NOW + 35 * MINUTE).dead_letter_ratio == 0.5

    def test_what_is_staged_or_on_a_branch_is_no_commit(
        self, opened: OpenCatalog
    ) -> None:
        table = opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        table.append(rows("a"), snapshot_properties=entry(0))
        head = table.current_snapshot()
        assert head is not None
        table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
        table.append(rows("b"), snapshot_properties=entry(1), branch="audit")
        facts = read(opened)
        assert (
            len(facts.commits),
            len(facts.metadata.snapshots),
            len(facts.files),
        ) == (1, 2, 1)

    def test_a_replayed_commit_has_the_entry_of_its_source(
        self, opened: OpenCatalog
    ) -> None:
        event = {LEDGER_EVENT_TIME: "1970-01-01T00:00:01+00:00"}
        past = [
            Past(1000, (10,), summary=entry(0)),
            Past(2000, (10,), summary=entry(1, **event)),
            Past(3000, (10,), summary={"source-snapshot-id": str(FIRST_ID + 1)}),
            Past(4000, (10,), summary={"source-snapshot-id": "17"}),  # it is expired
        ]
        make_past(opened, ("shop", "orders"), SCHEMA, past)
        found = read(opened).commits
        assert [(each.at_ms, each.event_ms) for each in found] == [
            (1000, None),
            (2000, 1000),
            (3000, 1000),
        ]

    def test_a_batch_that_the_ledgers_tag_holds_counts_though_those_after_it_are_expired(
        self, opened: OpenCatalog
    ) -> None:
        past = [
            Past(1000, (10,), summary=entry(0)),
            Past(2000, (10,), operation="replace"),
            Past(3000, (10,), operation="replace"),
        ]
        table = make_past(opened, ("shop", "orders"), SCHEMA, past)
        place = Path(table.metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text())
        first, _, last = metadata["snapshots"]
        metadata["snapshots"] = [first, last]
        place.write_text(json.dumps(metadata))
        assert not read(opened).is_ours
        metadata["refs"]["lakesql_ledger_orders"] = {
            "snapshot-id": first["snapshot-id"],
            "type": "tag",
        }
        place.write_text(json.dumps(metadata))
        facts = read(opened)
        assert facts.is_ours
        assert [each.at_ms for each in facts.commits] == [1000]

    @pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01"])
    def test_an_event_time_that_is_none_is_not_known(
        self, opened: OpenCatalog, text: str
    ) -> None:
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [Past(1, (10,), summary=entry(0, **{LEDGER_EVENT_TIME: text}))],
        )
        assert read(opened).commits == (Commit(1, 100, 1, 10),)

    def test_files_that_a_commit_wrote_anew_are_told_from_its_own(
        self, opened: OpenCatalog
    ) -> None:
        counts = {
            "deleted-data-files": "3",
            "deleted-records": "120",
            "spark.merge-into.num-target-rows-copied": "100",
        }
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [Past(1, (10,), rows=150, summary={**entry(0), **counts})],
        )
        (commit,) = read(opened).commits
        assert (commit.rows, commit.replaced) == (50, ReplacedFiles(files=3, rows=20))

    def test_dead_letters_are_those_that_batches_brought(
        self, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        past = [
            Past(1000, (10,), rows=3, summary=entry(0)),
            # marked as replayed
            Past(2000, (10,), rows=3, operation="overwrite", summary=entry(0)),
            Past(3000, (10,), rows=5, operation="replace"),
            Past(4000, (10,), rows=2, summary=entry(7)),
        ]
        make_past(opened, ("shop", "orders__dead_letter"), SCHEMA, past)
        assert read(opened).dead_letters == ((1000, 3), (4000, 2))

    def test_dead_letters_that_were_staged_count_where_they_were_published(
        self, opened: OpenCatalog
    ) -> None:
        opened.iceberg.create_table(("shop", "orders"), SCHEMA)
        staged = str(FIRST_ID + 1)
        past = [
            Past(1000, (10,), rows=1, summary=entry(0)),
            Past(2000, (10,), rows=3, summary=entry(1)),  # it stands beside the branch
            Past(3000, (10,), rows=3, summary={"source-snapshot-id": staged}),
        ]
        table = make_past(opened, ("shop", "orders__dead_letter"), SCHEMA, past)
        place = Path(table.metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text())
        metadata["snapshots"][2]["parent-snapshot-id"] = FIRST_ID
        place.write_text(json.dumps(metadata))
        assert read(opened).dead_letters == ((1000, 1), (3000, 3))


class TestFiles:
    def test_they_are_those_that_pyiceberg_lists(self, opened: OpenCatalog) -> None:
        table = opened.iceberg.create_table(
            ("shop", "orders"), SCHEMA, partition_spec=BY_CITY
        )
        table.append(rows("a", "b", "a"), snapshot_properties=entry(0))
        table.append(rows("b", "c"), snapshot_properties=entry(1))
        table.delete("city = 'c'")
        facts = read(opened)
        listed = table.inspect.files().to_pylist()
        assert sorted(
            (each.size_bytes, each.rows, each.partition[1]) for each in facts.files
        ) == sorted(  # type: ignore[index]
            (
                each["file_size_in_bytes"],
                each["record_count"],
                each["partition"]["city"],
            )
            for each in listed
        )
        at = dict(
            zip(
                (snapshot.snapshot_id for snapshot in table.metadata.snapshots),
                times_of(table),
                strict=True,
            )
        )
        assert {each.written_ms for each in facts.files} == set(list(at.values())[:2])
        assert not any(each.is_delete or each.is_compacted for each in facts.files)

    def test_delete_files_and_compacted_ones_are_told_apart(
        self, opened: OpenCatalog
    ) -> None:
        past = [
            Past(1, (10, 20), (5,)),
            Past(2, (30,), operation="replace", drops=True),
            Past(3, (40,), (6, 7)),
        ]
        make_past(opened, ("shop", "orders"), SCHEMA, past)
        facts = read(opened)
        assert sorted(
            (each.size_bytes, each.written_ms, each.is_delete, each.is_compacted)
            for each in facts.files
        ) == [
            (6, 3, True, False),
            (7, 3, True, False),
            (30, 2, False, True),
            (40, 3, False, False),
        ]
        assert (
            facts.totals.data_files,
            facts.totals.delete_files,
            facts.totals.deletes,
        ) == (2, 2, 200)

    def test_a_file_is_compacted_after_the_snapshot_that_rewrote_it_is_gone(
        self, opened: OpenCatalog
    ) -> None:
        past = [
            Past(100, (10,)),
            Past(200, (20,), operation="replace", drops=True),
            Past(300, (30,)),
        ]
        table = make_past(opened, ("shop", "orders"), SCHEMA, past)
        place = Path(table.metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text())
        place.write_text(
            json.dumps({**metadata, "snapshots": metadata["snapshots"][2:]})
        )
        assert [
            (each.size_bytes, each.is_compacted) for each in read(opened).files
        ] == [(20, True), (30, False)]

    def test_a_file_whose_snapshot_is_gone_is_as_old_as_the_oldest_at_least(
        self, opened: OpenCatalog
    ) -> None:
        table = make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [Past(at, (10,)) for at in (100, 200, 300)],
        )
        place = Path(table.metadata_location.removeprefix("file://"))
        metadata = json.loads(place.read_text())
        place.write_text(
            json.dumps({**metadata, "snapshots": metadata["snapshots"][1:]})
        )
        assert [each.written_ms for each in read(opened).files] == [200, 200, 300]

    def test_the_target_size_is_the_tables_own(self, opened: OpenCatalog) -> None:
        opened.iceberg.create_table(
            ("shop", "orders"),
            SCHEMA,
            properties={"write.target-file-size-bytes": "268435456"},
        )
        assert read(opened).metadata.target_bytes == 268_435_456
        opened.iceberg.create_table(("shop", "plain"), SCHEMA)
        plain = read_facts(opened, TableName("lake", "shop", "plain"))
        assert plain is not None and plain.metadata.target_bytes == 536_870_912

    def test_from_a_number_of_files_on_no_further_manifest_is_read(
        self, opened: OpenCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(manifests, "MOST_FILES", 150)
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [Past(at, (10,)) for at in range(1, 401)],
        )
        facts = read(opened)
        assert {each.written_ms for each in facts.files} == set(range(201, 401))
        found = measure(facts, 2000)
        assert (found.data_files, found.files_read) == (400, 200)


class TestWhatIsRead:
    @pytest.fixture
    def read_places(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of the files that are opened."""
        places: list[str] = []
        real = PyArrowFileIO.new_input

        def new_input(self: PyArrowFileIO, location: str) -> Any:
            found = real(self, location)
            opens = found.open

            def open_noted(*args: Any, **kwargs: Any) -> Any:
                places.append(location.rpartition("/")[2])
                return opens(*args, **kwargs)

            found.open = open_noted  # type: ignore[method-assign]
            return found

        monkeypatch.setattr(PyArrowFileIO, "new_input", new_input)
        return places

    @pytest.mark.checks
    def test_of_a_thousand_snapshots_the_manifests_of_one_are_read(
        self, opened: OpenCatalog, read_places: list[str]
    ) -> None:
        now = time.time_ns() // 1_000_000
        past = [
            Past(
                now - (1000 - number) * MINUTE,
                (100 + number,),
                (5,) if number % 2 else (),
                summary=entry(number),
            )
            for number in range(1000)
        ]
        table = make_past(opened, ("shop", "orders"), SCHEMA, past)
        read_places.clear()
        facts = read(opened)
        metadata = table.metadata_location.rpartition("/")[2]
        expected = [metadata, "snap-999.avro"]
        expected += [f"data-{first}-{first + 99}.avro" for first in range(0, 1000, 100)]
        expected += [
            f"deletes-{first + 1}-{first + 99}.avro" for first in range(0, 1000, 100)
        ]
        assert sorted(read_places) == sorted(expected)
        found = measure(facts, now)
        assert (found.snapshots, found.data_files, found.delete_files) == (
            1000,
            1000,
            500,
        )
        assert (found.commits_last_hour, len(facts.commits), found.age_ms) == (
            59,
            1000,
            MINUTE,
        )

    def test_manifests_of_one_shape_are_understood_once(
        self, opened: OpenCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = 0
        real = manifests._reader

        def counted(*given: Any) -> Any:
            nonlocal made
            made += 1
            return real(*given)

        monkeypatch.setattr(manifests, "_reader", counted)
        monkeypatch.setattr(manifests, "READERS", 1)
        make_past(
            opened,
            ("shop", "orders"),
            SCHEMA,
            [Past(at, (10,)) for at in range(1, 301)],
        )
        assert len(read(opened).files) == 300
        assert made == 2  # of the entry, and of the data file in it


class TestUnreadable:
    def test_a_manifest_that_is_gone(self, opened: OpenCatalog) -> None:
        table = make_past(opened, ("shop", "orders"), SCHEMA, [Past(1, (10,))])
        Path(table.metadata_location.removeprefix("file://")).parent.joinpath(
            "data-0-0.avro"
        ).unlink()
        with pytest.raises(RunError) as caught:
            read(opened)
        (problem,) = caught.value.problems
        assert problem.condition == "table-unreadable"
        assert "data-0-0.avro" in problem.why

    def test_a_manifest_that_is_none(self, opened: OpenCatalog) -> None:
        table = make_past(opened, ("shop", "orders"), SCHEMA, [Past(1, (10,))])
        place = (
            Path(table.metadata_location.removeprefix("file://")).parent
            / "data-0-0.avro"
        )
        place.write_bytes(place.read_bytes()[:-20])
        with pytest.raises(RunError) as caught:
            read(opened)
        assert [problem.condition for problem in caught.value.problems] == [
            "table-unreadable"
        ]

    def test_a_table_that_is_read_again_is_read_anew(self, opened: OpenCatalog) -> None:
        table = make_past(opened, ("shop", "orders"), SCHEMA, [Past(1, (10,))])
        assert len(read(opened).commits) == 1
        rewrite_past(opened, table, [Past(1, (10,)), Past(2, (10,))])
        assert len(read(opened).commits) == 2
        assert load_table(opened, ORDERS) is not None
