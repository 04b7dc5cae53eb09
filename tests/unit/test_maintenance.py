"""What is due on a table, by its metadata alone, and what must not go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakesql.compile.maintenance import (
    PartitionValue,
    argument_text,
    call_text,
    partitions_text,
)
from lakesql.decode import Node
from lakesql.engine.maintenance.call import has_changed_nothing
from lakesql.errors import Place, ProjectError
from lakesql.model.config import SortField
from lakesql.model.maintenance_tasks import MaintenanceTask
from lakesql.model.retention import Retention
from lakesql.model.table_name import TableName
from lakesql.project.duration import Duration
from lakesql.project.procedures import (
    DAY_MS,
    HOUR_MS,
    WHOLE_EVERY,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    name_of,
    spared_bytes,
)
from lakesql.project.size import Size, parse_size
from lakesql.table.due import (
    AT_ONCE,
    URGENT,
    KnownAmounts,
    follows,
    time_left_ms,
    why_due,
)
from lakesql.table.expiry import (
    count_old,
    expires_before_ms,
    goes_further,
    snapshots_kept,
)
from lakesql.table.maintenance_record import (
    MaintenanceRecord,
    parse_record,
    render_record,
)
from lakesql.table.metadata import TableMetadata, parse_metadata
from lakesql.table.rewrite_bounds import record_rewrite
from lakesql.table.simulation import SimulatedTask
from lakesql.table.uncompacted import count_commit, measure_uncompacted
from tests.cases import each_of

MB = 1024**2
NOW = 100 * DAY_MS
Summary = Mapping[str, Any]
ALL = {"min-input-files": "2"}


def facts(
    *summaries: Summary,
    version: int = 2,
    refs: Mapping[str, int] | None = None,
    **more: Any,
) -> TableMetadata:
    """A table whose commits have these summaries, oldest first, a minute apart, the
    last one now; those before the number `first` have expired."""
    count = len(summaries)
    snapshots = [
        {
            "snapshot-id": number,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
            "timestamp-ms": NOW - (count - number) * 60_000,
            "summary": {
                "operation": "append",
                **{key: str(value) for key, value in summary.items()},
            },
        }
        for number, summary in enumerate(summaries, 1)
        if number >= more.get("first", 1)
    ]
    return parse_metadata(
        json.dumps(
            {
                "format-version": version,
                "properties": {
                    "write.target-file-size-bytes": str(256 * MB),
                    **more.get("properties", {}),
                },
                "current-snapshot-id": count or None,
                "last-sequence-number": more.get("sequence", count),
                "refs": {
                    name: {"snapshot-id": id_} for name, id_ in (refs or {}).items()
                },
                "snapshots": [*snapshots, *more.get("staged", ())],
            }
        )
    )


def commit(
    files: int = 1, size: int = MB, partitions: int = 1, **totals: int
) -> Summary:
    written = {
        "added-data-files": files,
        "added-files-size": size,
        "changed-partition-count": partitions,
    }
    return {
        **written,
        **{f"total-{name.replace('_', '-')}": value for name, value in totals.items()},
    }


REWRITE = {
    "operation": "replace",
    "deleted-data-files": 9,
    "added-data-files": 1,
    "added-files-size": 9 * MB,
}


def due(
    options: Any,
    found: TableMetadata,
    factor: float = 1.0,
    manifests: int = 0,
    now_ms: int = NOW,
) -> bool:
    return bool(why(options, found, factor, manifests, now_ms))


def why(
    options: Any,
    found: TableMetadata,
    factor: float = 1.0,
    manifests: int = 0,
    now_ms: int = NOW,
    is_by_time: bool = False,
) -> str:
    task = SimulatedTask(name_of(options), options, is_by_time)
    return why_due(
        task, KnownAmounts(found, measure_uncompacted(found), manifests), now_ms, factor
    )


def test_small_files_are_counted_since_the_last_rewrite_and_by_partition() -> None:
    assert measure_uncompacted(facts(*[commit()] * 5)).small_files == 5
    assert (
        measure_uncompacted(
            facts(*[commit()] * 5, REWRITE, *[commit(2)] * 3)
        ).small_files
        == 6
    )
    assert (
        measure_uncompacted(facts(*[commit(100, 100 * MB, 50)] * 3)).small_files == 6
    ), "two in each partition"
    assert (
        measure_uncompacted(
            facts(commit(2, 2 * 200 * MB), commit(2, 2 * 190 * MB))
        ).small_files
        == 2
    )
    assert (
        measure_uncompacted(
            facts({"operation": "replace", "manifests-created": 1}, commit())
        ).small_files
        == 1
    )
    assert measure_uncompacted(facts()).small_files == 0


def test_deletes_are_counted_beyond_what_the_last_rewrite_has_left() -> None:
    before = commit(records=1000, position_deletes=90, delete_files=40)
    left = {
        **REWRITE,
        "total-records": 1000,
        "total-position-deletes": 40,
        "total-delete-files": 30,
    }
    after = commit(records=1000, position_deletes=140, delete_files=50)
    assert measure_uncompacted(facts(before)).deleted_ratio == pytest.approx(0.09)
    assert measure_uncompacted(facts(before, left)).delete_files == 0
    assert measure_uncompacted(
        facts(before, left, after)
    ).deleted_ratio == pytest.approx(0.1)
    assert due(RewriteDataFiles(small_files=100), facts(before, left, after))
    assert not due(RewriteDataFiles(small_files=100), facts(before, left))


def test_deletes_that_a_rewrite_has_left_hide_no_new_ones_once_they_are_removed() -> (
    None
):
    def head(deletes: int, files: int) -> Summary:
        return commit(records=1000, position_deletes=deletes, delete_files=files)

    left = {
        **REWRITE,
        "total-records": 1000,
        "total-position-deletes": 900,
        "total-delete-files": 50,
    }
    cleaned = {
        **head(0, 0),
        "operation": "replace",
        "removed-delete-files": 50,
        "added-data-files": 0,
    }
    found = measure_uncompacted(
        facts(head(900, 50), left, cleaned, head(100, 3), head(150, 4))
    )
    assert (found.deleted_ratio, found.delete_files, found.has_left_deletes) == (
        pytest.approx(0.15),
        4,
        False,
    )
    assert measure_uncompacted(
        facts(head(900, 50), left, head(950, 51))
    ).has_left_deletes


def test_one_more_commit_is_counted_as_the_metadata_count_it() -> None:
    left = {
        **REWRITE,
        "total-records": 1000,
        "total-position-deletes": 900,
        "total-delete-files": 50,
    }
    before = [
        commit(records=1000, position_deletes=900, delete_files=50),
        left,
        commit(4, 4 * MB, 2, records=1000, position_deletes=950, delete_files=51),
    ]
    for more in (
        commit(6, 3 * MB, 3, records=1000, position_deletes=990, delete_files=53),
        commit(2, 9 * MB, 1, records=1000, position_deletes=950, delete_files=51),
    ):
        metadata = facts(*before)
        known = measure_uncompacted(metadata)
        summary = {name: str(value) for name, value in more.items()}
        counted = count_commit(known, known, metadata, summary)
        assert counted == measure_uncompacted(facts(*before, more))
        assert counted.has_left_deletes and counted.partition_bytes > MB


def test_delete_files_that_their_rewrite_has_left_make_it_not_due_again() -> None:
    cleaned = {
        **commit(records=1000, delete_files=70),
        "operation": "replace",
        "removed-delete-files": 80,
    }
    again = facts(
        commit(records=1000, delete_files=80),
        cleaned,
        commit(records=1000, delete_files=100),
    )
    found = measure_uncompacted(again)
    assert (found.delete_files, found.new_delete_files) == (100, 30)
    assert due(RewriteDataFiles(small_files=100), again)
    assert due(RewritePositionDeleteFiles(delete_files=30), again)
    assert not due(RewritePositionDeleteFiles(delete_files=31), again)


def test_delete_files_that_a_call_has_left_are_looked_at_again_only_once_others_have_come() -> (
    None
):
    """Its `where` matches none of them, or they are equality deletes of somebody
    else."""
    head, left = (
        commit(records=1000, delete_files=50),
        {**REWRITE, "total-delete-files": 50},
    )
    options = RewritePositionDeleteFiles(delete_files=5)

    def is_due(
        *summaries: Summary, at_ms: int | None = NOW, factor: float = 1.0
    ) -> bool:
        work = MaintenanceRecord(
            {"rewrite_position_delete_files": at_ms} if at_ms else {}
        )
        return due(
            options,
            facts(*summaries, properties={"lakesql.maintenance": render_record(work)}),
            factor,
        )

    assert is_due(head, left, at_ms=None) and not is_due(head, left)
    assert is_due(head, left, at_ms=NOW - 1), "the rewrite of data files came after it"
    assert is_due(head, at_ms=None) and not is_due(head)
    assert is_due(head, left, factor=AT_ONCE), "somebody has asked for it"
    a_minute_ago = NOW - 60_000
    assert not is_due(head, left, commit(delete_files=54), at_ms=a_minute_ago)
    assert is_due(head, left, commit(delete_files=55), at_ms=a_minute_ago)
    assert not is_due(head, commit(delete_files=54), at_ms=a_minute_ago)
    assert is_due(head, commit(delete_files=55), at_ms=a_minute_ago)


def test_manifests_that_a_call_has_left_are_no_reason_for_another_while_nothing_has_come() -> (
    None
):
    def is_due(at_ms: int, factor: float = 1.0) -> bool:
        done = render_record(MaintenanceRecord({"rewrite_manifests": at_ms}))
        found = facts(commit(), properties={"lakesql.maintenance": done})
        return due(RewriteManifests(manifests=10), found, factor, manifests=90)

    assert is_due(NOW - 1) and not is_due(NOW) and is_due(NOW, AT_ONCE)


@each_of(
    ("options", "counts", "is_nothing"),
    [
        (
            RewriteDataFiles(),
            {"rewritten_bytes_count": 0, "rewritten_data_files_count": 0},
            True,
        ),
        (
            RewriteDataFiles(),
            {"rewritten_bytes_count": 9, "rewritten_data_files_count": 2},
            False,
        ),
        (
            RewritePositionDeleteFiles(),
            {"rewritten_delete_files_count": 0, "added_delete_files_count": 0},
            True,
        ),
        (
            RewritePositionDeleteFiles(),
            {"rewritten_delete_files_count": 2, "added_delete_files_count": 0},
            False,
        ),
        (
            RewriteManifests(),
            {"rewritten_manifests_count": 0, "added_manifests_count": 0},
            True,
        ),
        (
            RewriteManifests(),
            {"rewritten_manifests_count": 120, "added_manifests_count": 120},
            True,
        ),
        (
            RewriteManifests(),
            {"rewritten_manifests_count": 120, "added_manifests_count": 119},
            False,
        ),
        (
            ExpireSnapshots(),
            {"deleted_data_files_count": 0, "deleted_manifest_lists_count": 0},
            True,
        ),
        (
            ExpireSnapshots(),
            {"deleted_data_files_count": 0, "deleted_manifest_lists_count": 1},
            False,
        ),
        (RemoveOrphanFiles(), {"orphan_files_count": 0}, False),
    ],
)
def test_a_call_that_changes_nothing_rests(
    options: Any, counts: Mapping[str, int], is_nothing: bool
) -> None:
    assert has_changed_nothing(options, counts) == is_nothing


@each_of(
    ("options", "at", "below"),
    [
        (
            RewriteDataFiles(small_files=3),
            facts(*[commit()] * 3),
            facts(*[commit()] * 2),
        ),
        (
            RewriteDataFiles(delete_ratio=0.5),
            facts(commit(records=100, position_deletes=50)),
            facts(commit(records=100, position_deletes=49)),
        ),
        (
            RewriteDataFiles(delete_files=8),
            facts(commit(delete_files=8)),
            facts(commit(delete_files=7)),
        ),
        (
            RewritePositionDeleteFiles(delete_files=8),
            facts(commit(delete_files=8)),
            facts(commit(delete_files=7)),
        ),
        (
            RewritePositionDeleteFiles(delete_files=8),
            facts(commit(delete_files=8)),
            facts(commit(delete_files=800), version=3),
        ),
    ],
)
def test_each_threshold(options: Any, at: TableMetadata, below: TableMetadata) -> None:
    assert due(options, at) and not due(options, below)
    assert not due(options, at, factor=URGENT), "a model that is behind waits longer"


def test_a_model_that_is_behind_rewrites_where_most_rows_are_deleted() -> None:
    def is_due(deleted: int, options: Any, factor: float = URGENT) -> bool:
        return due(
            options, facts(commit(records=100, position_deletes=deleted)), factor
        )

    assert is_due(80, RewriteDataFiles()) and not is_due(79, RewriteDataFiles())
    assert is_due(40, RewriteDataFiles(delete_ratio=0.05)) and not is_due(
        39, RewriteDataFiles(delete_ratio=0.05)
    )
    assert is_due(90, RewriteDataFiles(delete_ratio=0.9)) and not is_due(
        89, RewriteDataFiles(delete_ratio=0.9)
    )
    assert is_due(90, RewriteDataFiles(delete_ratio=0.9), 1.0)


def test_manifests_are_counted() -> None:
    assert due(RewriteManifests(manifests=10), facts(commit()), manifests=10)
    assert not due(RewriteManifests(manifests=10), facts(commit()), manifests=9)
    assert not due(RewriteManifests(manifests=1), facts(commit()), 0.5, manifests=1), (
        "one cannot become fewer"
    )


def test_what_is_due_by_time() -> None:
    young = facts(commit())
    assert not due(RemoveOrphanFiles(), young) and due(
        RemoveOrphanFiles(), young, now_ms=NOW + DAY_MS
    )
    done = render_record(MaintenanceRecord({"remove_orphan_files": NOW}, ((NOW, 5),)))
    ran = facts(*[commit()] * 2000, properties={"lakesql.maintenance": done})
    assert not due(RemoveOrphanFiles(), ran, now_ms=NOW + DAY_MS - 1)
    assert (
        parse_record(done)
        == ran.record
        == MaintenanceRecord({"remove_orphan_files": NOW}, ((NOW, 5),))
    )
    looked = MaintenanceRecord({}, (), 7, 5, since_ms=3)
    assert parse_record(render_record(looked)) == looked
    failed = MaintenanceRecord(
        {}, ((NOW, 5),), bytes_per_ms=9, retry_at={"a.rewrite_data_files": NOW}
    )
    assert parse_record(render_record(failed)) == failed
    assert not failed.may("a.rewrite_data_files", NOW - 1) and failed.may(
        "a.rewrite_data_files", NOW
    )
    assert failed.may("a__dead_letter.rewrite_data_files", NOW - 1)
    assert MaintenanceRecord().since_whole == WHOLE_EVERY, (
        "the first rewrite takes in all"
    )
    partial = MaintenanceRecord(since_whole=3)
    assert parse_record(render_record(partial)) == partial
    assert (
        parse_record("{")
        == parse_record('{"done": 3}')
        == parse_record("[]")
        == MaintenanceRecord()
    )


def test_a_trigger_that_is_longer_than_snapshots_are_kept_counts_from_where_the_table_began() -> (
    None
):
    whole, cut = facts(*[commit()] * 5), facts(*[commit()] * 5, first=3)
    start = whole.start_ms
    assert (
        cut.start_ms == start + 2 * 60_000
        and cut.is_start_moving
        and not whole.is_start_moving
    )
    kept = facts(
        *[commit()] * 5,
        first=3,
        properties={
            "lakesql.maintenance": render_record(MaintenanceRecord(since_ms=start))
        },
    )
    assert (
        kept.start_ms == start
        and not kept.is_start_moving
        and not facts().is_start_moving
    )
    weekly = RemoveOrphanFiles(trigger=Duration("7 days", 7 * DAY_MS))
    assert due(weekly, kept, now_ms=start + 7 * DAY_MS) and not due(
        weekly, kept, now_ms=start + 7 * DAY_MS - 1
    )


def test_what_is_due_by_its_trigger_alone_has_no_threshold() -> None:
    hourly = RewriteDataFiles(trigger=Duration("1 hour", HOUR_MS), small_files=1)
    many = facts(*[commit()] * 50)

    def why_now(
        options: Any, found: TableMetadata, now_ms: int, factor: float = 1.0
    ) -> str:
        return why(options, found, factor, 1, now_ms, is_by_time=True)

    start = NOW - 49 * 60_000
    assert (
        not why_now(hourly, many, start + HOUR_MS - 1)
        and why_now(hourly, many, start + HOUR_MS) == "its time"
    )
    assert not why_now(hourly, many, start + HOUR_MS, factor=URGENT), (
        "the model is behind"
    )
    assert why_now(hourly, many, start, factor=0.0), "somebody has asked for it"
    assert not why_now(hourly, facts(*[commit()] * 50, REWRITE), NOW + HOUR_MS), (
        "there is nothing to do"
    )
    assert why_now(
        replace(hourly, rewrite_all=True),
        facts(*[commit()] * 50, REWRITE),
        NOW + HOUR_MS,
    )
    assert not why_now(ExpireSnapshots(), many, NOW + HOUR_MS), (
        "no snapshot is old enough"
    )


def test_a_condition_names_partitions_and_nothing_that_it_cannot_name() -> None:
    def said(*partitions: list[tuple[str, str, object]]) -> str | None:
        return partitions_text(
            "my-lake",
            [tuple(PartitionValue(*each) for each in one) for one in partitions],
        )

    assert said([("kind", "identity", "it's"), ("x y", "bucket[4]", 3)]) == (
        "kind = 'it\\'s' AND `my-lake`.system.bucket(4, `x y`) = 3"
    )
    day = ("at", "day", date(2026, 3, 1))
    assert said([day]) == "`my-lake`.system.days(at) = DATE '2026-03-01'"
    assert said([day], [day], [("at", "day", None)]) == (
        "(`my-lake`.system.days(at) = DATE '2026-03-01') OR (at IS NULL)"
    )
    assert said([("gone", "void", None), ("a.b", "truncate[2]", Decimal("1.50"))]) == (
        "`my-lake`.system.truncate(2, a.b) = 1.50BD"
    )
    nothing: list[list[tuple[str, str, object]]] = [
        [("at", "identity", datetime(2026, 3, 1, tzinfo=UTC))],
        [("x", "identity", 1.5)],
        [("x", "identity", b"x")],
        [("x", "zigzag[3]", 1)],
        [("x", "void", None)],
    ]
    for each in nothing:
        assert said([day], each) is None
    assert said() is None


@each_of(
    ("options", "bound", "counts", "expected"),
    [
        (RewriteDataFiles(), ALL, {"rewritten_data_files_count": 900}, (7, 7, 1)),
        (RewriteDataFiles(rewrite_all=True), {}, {}, (7, 7, 1)),
        (RewriteDataFiles(where="recent"), ALL, {}, (7, 7, 1)),
        (RewriteDataFiles(where="id = 3"), ALL, {}, (3, 2, 1)),
        (RewriteDataFiles(), {}, {"rewritten_data_files_count": 900}, (7, 2, 6)),
        (
            RewriteDataFiles(),
            {"min-file-size-bytes": "9"},
            {"rewritten_data_files_count": 4},
            (7, 2, 6),
        ),
        (RewriteDataFiles(where="id = 3"), {"min-file-size-bytes": "9"}, {}, (3, 2, 6)),
        (
            RewriteDataFiles(),
            {"max-files-to-rewrite": "5"},
            {"rewritten_data_files_count": 5},
            (3, 2, WHOLE_EVERY),
        ),
        (
            RewriteDataFiles(),
            {**ALL, "max-files-to-rewrite": "5"},
            {"rewritten_data_files_count": 4},
            (7, 7, 1),
        ),
        (
            RewriteDataFiles(max_files_to_rewrite=7),
            {},
            {"rewritten_data_files_count": 7},
            (3, 2, WHOLE_EVERY),
        ),
        (
            RewriteDataFiles(),
            {"min-file-size-bytes": "9"},
            {"failed_data_files_count": 1},
            (3, 2, WHOLE_EVERY),
        ),
    ],
)
def test_what_is_kept_of_a_rewrite(
    options: RewriteDataFiles,
    bound: Mapping[str, str],
    counts: Mapping[str, int],
    expected: tuple[int, int, int],
) -> None:
    before = MaintenanceRecord(
        {"expire_snapshots": 1}, (), rewritten=3, rewritten_whole=2, since_whole=5
    )
    table = facts(properties={"lakesql.maintenance": render_record(before)}, sequence=7)
    found = record_rewrite(options, bound, counts, table)
    assert (found.rewritten, found.rewritten_whole, found.since_whole) == expected
    assert found.done == before.done


def since(count: int, *summaries: Summary) -> TableMetadata:
    return facts(
        *summaries,
        properties={
            "lakesql.maintenance": render_record(MaintenanceRecord(since_whole=count))
        },
    )


@pytest.mark.parametrize(
    ("found", "options", "expected"),
    [
        (since(1, *[commit(1, MB)] * 8), RewriteDataFiles(), 32 * MB),
        (
            since(1, *[commit(1, MB)] * 8, REWRITE, *[commit(1, MB)] * 5),
            RewriteDataFiles(),
            20 * MB,
        ),
        (since(1, *[commit(10, 10 * MB, 10)] * 8), RewriteDataFiles(), 32 * MB),
        (since(1, *[commit(100, 100 * MB, 100)] * 5), RewriteDataFiles(), 100 * MB + 1),
        (since(1, *[commit(1, MB)] * 4), RewriteDataFiles(), None),
        (since(1, *[commit(1, MB)] * 4), RewriteDataFiles(min_input_files=2), 16 * MB),
        (since(WHOLE_EVERY, *[commit(1, MB)] * 8), RewriteDataFiles(), None),
        (facts(*[commit(1, MB)] * 8), RewriteDataFiles(), None),
        (since(1, *[commit(1, MB)] * 48), RewriteDataFiles(), None),
        (
            since(1, *[commit(1, MB)] * 8),
            RewriteDataFiles(target_file_size=Size("40 MB", 40 * MB)),
            None,
        ),
        (since(1, *[commit(1, MB)] * 8), RewriteDataFiles(rewrite_all=True), None),
        (
            since(1, *[commit(1, MB)] * 8),
            RewriteDataFiles(min_file_size=Size("2 MB", 2 * MB)),
            None,
        ),
    ],
    ids=[
        "four times what is new",
        "since the last rewrite",
        "in a partition",
        "no file of a commit is spared",
        "new ones alone are too few",
        "the model says how many are enough",
        "now and then all are taken",
        "the first time all are taken",
        "what is as large is not small",
        "of the size that is asked for",
        "all are asked for",
        "the model says what is small",
    ],
)
def test_which_files_a_rewrite_spares(
    found: TableMetadata, options: RewriteDataFiles, expected: int | None
) -> None:
    level = measure_uncompacted(found)
    spared = spared_bytes(
        options,
        found.target_bytes,
        found.record.since_whole,
        files=level.small_files,
        partition_bytes=level.partition_bytes,
        most_bytes=level.most_bytes,
    )
    assert spared == expected


def test_old_snapshots_are_counted_and_those_that_stay_are_not() -> None:
    many = facts(*[commit()] * 30, refs={"main": 30, "lakesql_ledger_a": 2})
    assert count_old(many, ExpireSnapshots(), NOW) == 0
    assert count_old(many, ExpireSnapshots(), NOW + 6 * DAY_MS) == 30 - 20 - 1
    assert due(ExpireSnapshots(), many, now_ms=NOW + 6 * DAY_MS)
    assert not due(ExpireSnapshots(retain_last=40), many, now_ms=NOW + 6 * DAY_MS)
    few = ExpireSnapshots(max_snapshots=25)
    assert count_old(many, few, NOW) == 0, "none of the last hour"
    assert count_old(many, few, NOW + 2 * HOUR_MS) == 30 - 25 - 1
    assert expires_before_ms(many, few, NOW + 2 * HOUR_MS) == many.history[24].at_ms
    assert expires_before_ms(many, few, NOW + 6 * DAY_MS) == NOW + DAY_MS
    assert [ExpireSnapshots(retain_last=last).most for last in (20, 9_000)] == [
        7_200,
        9_000,
    ]
    assert ExpireSnapshots(older_than=Duration("2 days", 2 * DAY_MS)).most is None
    shared = facts(*[commit()] * 30, properties={"gc.enabled": "false"})
    assert not due(ExpireSnapshots(), shared, now_ms=NOW + 6 * DAY_MS)
    assert not due(RemoveOrphanFiles(), shared, now_ms=NOW + 6 * DAY_MS)


def test_the_time_that_is_left_is_a_share_of_the_last_hour() -> None:
    assert time_left_ms([], 0.1, NOW - 60_000, NOW) == 6_000
    assert time_left_ms([(NOW - 10, 4_000)], 0.1, NOW - 60_000, NOW) == 2_000
    assert (
        time_left_ms([(NOW - HOUR_MS, 4_000)], 0.1, NOW - 9 * HOUR_MS, NOW) == 360_000
    )
    assert time_left_ms([(NOW - 10, 400_000)], 0.1, 0, NOW) < 0


def entry(model: str, batch: int) -> Summary:
    return {
        **commit(),
        "lakesql.model": model,
        "lakesql.checkpoint": "c",
        "lakesql.batch": batch,
    }


def test_the_newest_entry_of_each_query_is_found_behind_other_commits() -> None:
    found = facts(
        entry("a", 0), entry("a__replay", 0), entry("a", 1), REWRITE, commit()
    )
    assert {owner: each.id for owner, each in found.newest_by_owner().items()} == {
        "a": 3,
        "a__replay": 2,
    }
    assert [each.id for each in found.last_entries("a", 2)] == [3, 1]
    assert found.last_entries("b", 2) == []


def test_the_entry_of_a_replayed_commit_is_that_of_its_source() -> None:
    staged = {
        "snapshot-id": 77,
        "timestamp-ms": 5,
        "summary": {"operation": "append", **entry_text("a", 4)},
    }
    found = facts(
        entry("a", 3), commit(), {**commit(), "source-snapshot-id": 77}, staged=[staged]
    )
    assert found.newest_by_owner()["a"].id == 77


def entry_text(model: str, batch: int) -> dict[str, str]:
    return {key: str(value) for key, value in entry(model, batch).items()}


def test_a_tag_holds_an_entry_whose_history_is_gone() -> None:
    held = {"snapshot-id": 50, "timestamp-ms": 5, "summary": entry_text("a", 9)}
    found = facts(commit(), staged=[held], refs={"lakesql_ledger_a": 50})
    assert found.newest_by_owner()["a"].id == 50


def test_a_call_says_its_time_in_utc_and_what_narrows_it() -> None:
    table = TableName("lake", "shop", "o'rders")
    expiry = MaintenanceTask(
        "orders", "orders", "expire_snapshots", table, ExpireSnapshots()
    )
    at = datetime(2026, 3, 1, 12, 30, 0, 123_000, UTC)
    assert "older_than => TIMESTAMP '2026-03-01 12:30:00.123Z'" in call_text(
        expiry, before=at
    )
    rewrite = MaintenanceTask(
        "orders",
        "orders",
        "rewrite_data_files",
        table,
        RewriteDataFiles(options={"max-file-size-bytes": parse(" 1.5 GB").size_bytes}),
    )
    said = call_text(
        rewrite,
        (SortField("a b", descending=True, nulls_first=False),),
        options={"rewrite-all": "true"},
    )
    assert "sort_order => '`a b` DESC NULLS LAST'" in said
    assert "'max-file-size-bytes', '1610612736', 'rewrite-all', 'true'" in said
    assert argument_text(("it's",)) == r"array('it\'s')"


def parse(value: Any) -> Any:
    return parse_size(Node(value, Place("x")))


@each_of(
    ("text", "size"),
    [
        ("256 MB", 256 * MB),
        ("1KB", 1024),
        ("1 KiB", 1024),
        ("7 b", 7),
        ("1.5 gb", 3 * 512 * MB),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse(text).size_bytes == size


@each_of(
    "value",
    [
        "256",
        256,
        "MB",
        "-1 MB",
        "0 MB",
        "0.0001 B",
        "1 PB",
        "1e3 MB",
        "١ MB",
        None,
        True,
    ],
)
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(ProjectError) as raised:
        parse(value)
    assert raised.value.problems[0].condition == "bad-size"


@each_of("said", ["false", "FALSE", "False", "off", "0", "no", "", " true"])
def test_no_file_goes_by_any_word_that_iceberg_takes_for_false(said: str) -> None:
    kept = facts(*[commit()] * 50, properties={"gc.enabled": said})
    for options in (
        ExpireSnapshots(older_than=Duration("1 hour", 1), retain_last=1),
        RemoveOrphanFiles(),
    ):
        assert not due(options, kept, AT_ONCE)
    for other in ("true", "TRUE", "True"):
        assert due(
            RemoveOrphanFiles(),
            facts(commit(), properties={"gc.enabled": other}),
            AT_ONCE,
        )


def test_of_an_option_and_a_property_the_one_counts_that_keeps_more() -> None:
    hour = ExpireSnapshots(older_than=Duration("1 hour", HOUR_MS), retain_last=3)

    def found(options: ExpireSnapshots = hour, **said: str) -> tuple[int, int]:
        keys = {
            "age": "history.expire.max-snapshot-age-ms",
            "least": "history.expire.min-snapshots-to-keep",
        }
        table = facts(
            *[commit()] * 200,
            properties={keys[name]: value for name, value in said.items()},
        )
        return expires_before_ms(table, options, NOW), snapshots_kept(table, options)

    assert found() == (NOW - HOUR_MS, 3)
    assert found(age=str(2 * HOUR_MS), least="40") == (NOW - 2 * HOUR_MS, 40)
    assert found(age="60000", least="2") == (NOW - HOUR_MS, 3)
    assert found(age="never", least="-1") == (NOW - HOUR_MS, 3), (
        "Iceberg refuses these by itself"
    )
    few = replace(hour, max_snapshots=10, older_than=Duration("2 hours", 2 * HOUR_MS))
    assert found(few) == (NOW - HOUR_MS, 3)
    assert found(few, age=str(3 * HOUR_MS)) == (NOW - 3 * HOUR_MS, 3), (
        "however many these are"
    )


@each_of(
    ("minutes", "before", "further"),
    [(30, 90, True), (90, 90, False), (120, 90, False), (0, 199, True)],
)
def test_an_age_of_the_branch_main_that_takes_more_is_known(
    minutes: int, before: int, further: bool
) -> None:
    plain = facts(*[commit()] * 200)
    table = replace(plain, retention=Retention(main_age_ms=minutes * 60_000))
    options = ExpireSnapshots(retain_last=1)
    assert goes_further(table, options, NOW - before * 60_000, NOW) is further
    assert not goes_further(plain, options, NOW - before * 60_000, NOW)
    assert expires_before_ms(
        table, replace(options, older_than=Duration("1 hour", HOUR_MS)), NOW
    ) == NOW - max(HOUR_MS, minutes * 60_000)


def test_a_rewrite_of_delete_files_belongs_to_the_rewrite_of_their_data_files() -> None:
    data, deletes, manifests = (
        MaintenanceTask(
            "a", "a", name_of(options), TableName("lake", "t", "a"), options
        )
        for options in (
            RewriteDataFiles(),
            RewritePositionDeleteFiles(),
            RewriteManifests(),
        )
    )
    assert follows(deletes, data)
    assert not follows(manifests, deletes) and not follows(manifests, data)
