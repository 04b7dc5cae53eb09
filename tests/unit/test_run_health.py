"""What a run knows of a table by its commits, beside what the table's metadata says of
the same commits."""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.events import BatchCommitted, TableTotals
from lakesql.model.properties import NO_LIMITS
from lakesql.model.table_name import TableName
from lakesql.plan.health import (
    HOUR_MS,
    Judged,
    TableFacts,
    is_rewrite_overdue,
    judge,
    measure,
)
from lakesql.plan.run_health import (
    MINUTE_MS,
    SeenByRun,
    count_commit,
    count_letters,
    count_rewrite,
    is_run_overdue,
    measure_run,
)
from lakesql.project.procedures import RewriteDataFiles
from lakesql.table.commits import Commit
from lakesql.table.live_files import LiveFile, MetadataSizes
from lakesql.table.metadata import read_metadata
from lakesql.table.uncompacted import measure_uncompacted

NOW = 1_800_000_000_000
TARGET = 1_000
SMALL = 100


def committed(minutes_ago: float, **given: Any) -> BatchCommitted:
    at_ms = NOW - round(minutes_ago * MINUTE_MS)
    one = {"rows": 10, "table": TableTotals(1, 0, 10, 0), "event_time": ""} | given
    return BatchCommitted(
        model="m",
        batch=0,
        records=0,
        rejected=0,
        snapshot=0,
        duration_ms=0,
        at_ms=at_ms,
        **one,
    )


def known(*events: BatchCommitted) -> SeenByRun:
    return reduce(count_commit, events, SeenByRun())


def figures(*events: BatchCommitted, now_ms: int = NOW) -> Judged:
    return measure_run(known(*events), None, now_ms)


def test_freshness_is_of_the_newest_event_where_the_last_commits_is_known() -> None:
    newest, older = "2027-01-15T07:59:00+00:00", "2027-01-15T07:00:00+00:00"
    found = figures(committed(20, event_time=newest), committed(10, event_time=older))
    assert (found.freshness_ms, found.is_by_event) == (20 * MINUTE_MS, True), (
        "no event is newer than its commit"
    )
    found = figures(committed(20, event_time="2027-01-15T07:30:00+00:00"))
    assert (found.freshness_ms, found.is_by_event) == (30 * MINUTE_MS, True), (
        "the ledger may not have it yet"
    )
    found = figures(committed(20, event_time=newest), committed(10))
    assert (found.freshness_ms, found.is_by_event) == (10 * MINUTE_MS, False)


def test_a_table_without_a_commit_is_as_old_as_the_run_has_looked_at_it() -> None:
    assert measure_run(SeenByRun(), None, NOW).freshness_ms == 0
    assert measure_run(SeenByRun(), NOW - 5_000, NOW).freshness_ms == 5_000
    assert measure_run(known(committed(0.05)), NOW - 5_000, NOW).freshness_ms == 3_000


def test_dead_letters_and_late_events_count_for_an_hour() -> None:
    found = count_letters(known(committed(90, late=7)), 10)
    assert measure_run(found, None, NOW).dead_letter_ratio == 0, "its batch is not done"
    found = count_commit(found, committed(30, rows=30, late=10))
    now = measure_run(found, None, NOW)
    assert (now.dead_letters_last_hour, now.dead_letter_ratio) == (10, 0.25)
    assert (now.late_last_hour, now.late_ratio) == (10, 0.25)
    later = measure_run(found, None, NOW + HOUR_MS)
    assert (
        later.dead_letters_last_hour,
        later.dead_letter_ratio,
        later.late_last_hour,
    ) == (0, 0, 0)


def test_an_hour_is_kept_in_few_values() -> None:
    found = known(*(committed(seconds / 60) for seconds in range(9_000, 0, -1)))
    assert len(found.minutes) <= 61
    assert sum(minute.rows for minute in found.minutes) >= 10 * 3_590


def test_deletes_are_those_of_the_last_commit() -> None:
    found = figures(
        committed(30, table=TableTotals(4, 8, 100, 10)),
        committed(20, table=TableTotals(4, 12, 100, 40)),
    )
    assert (
        found.delete_files,
        found.delete_ratio,
        found.delete_files_per_data_file,
    ) == (12, 0.4, 3)
    assert found.compaction_lag_ms == 30 * MINUTE_MS
    compacted = committed(10, table=TableTotals(5, 2, 100, 1))
    assert (
        figures(
            committed(30, table=TableTotals(4, 8, 100, 10)), compacted
        ).compaction_lag_ms
        == 10 * MINUTE_MS
    )


def test_a_delete_file_that_another_takes_the_place_of_is_not_old() -> None:
    replaced = (
        committed(each, table=TableTotals(1, 1, 100, 5), removed_delete_files=1)
        for each in (50, 30, 7)
    )
    found = figures(committed(60, table=TableTotals(1, 1, 100, 5)), *replaced)
    assert (found.delete_files, found.compaction_lag_ms) == (1, 7 * MINUTE_MS)


def grown(
    minutes_ago: float, files: int, partitions: int | None = None
) -> BatchCommitted:
    table = TableTotals(files, 0, 10 * files, 0)
    return committed(
        minutes_ago,
        table=table,
        small_files=1,
        small_bytes=SMALL,
        partitions=partitions,
    )


def test_small_files_of_a_table_without_partitions_add_up_until_it_is_rewritten() -> (
    None
):
    run = [grown(60 - number, 10 + number) for number in range(6)]
    found = figures(*run)
    assert (
        found.average_small_files,
        found.compaction_lag_ms,
        found.uncompacted_bytes,
    ) == (*(6, 60 * MINUTE_MS, 6 * SMALL),)
    assert found.uncompacted_files == 6
    assert figures(*run[:4]).compaction_lag_ms == 0  # too few to be rewritten
    # somebody has rewritten them
    assert figures(*run, grown(1, 3)).average_small_files == 1
    after = measure_run(count_rewrite(known(*run)), None, NOW)
    assert (
        after.average_small_files,
        after.compaction_lag_ms,
        after.uncompacted_bytes,
    ) == (0, 0, 0)


def test_of_a_table_with_partitions_no_small_file_is_claimed() -> None:
    found = figures(
        *(grown(60 - number, 10 + number, partitions=1) for number in range(600))
    )
    assert (found.average_small_files, found.compaction_lag_ms) == (0, 0)
    assert judge(found, NO_LIMITS, False) == ()


@given(
    st.lists(
        st.tuples(st.integers(1, 90), st.integers(0, 3), st.integers(0, 50)),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 30),
)
def test_no_figure_is_worse_than_by_the_metadata(
    commits: list[tuple[int, int, int]], before: int
) -> None:
    """Of appends to a table that had files before the run: what the run says is not
    more than what the table says."""
    at_ms = sorted(NOW - minutes * MINUTE_MS for minutes, _, _ in commits)
    files = [LiveFile((), SMALL, 10, NOW - 100 * MINUTE_MS, False, False)] * before
    facts, events, snapshots = [], [], []
    for moment, (_, added, late) in zip(at_ms, commits, strict=True):
        files = [*files, *([LiveFile((), SMALL, 10, moment, False, False)] * added)]
        facts.append(Commit(moment, 10 * added, added, SMALL * added, None, late))
        totals = TableTotals(len(files), 0, 10 * len(files), 0)
        minutes_ago = (NOW - moment) / MINUTE_MS
        number = len(snapshots) + 1
        summary = {
            "operation": "append",
            "added-data-files": str(added),
            "added-files-size": str(SMALL * added),
        }
        snapshots.append(
            {
                "snapshot-id": number,
                "parent-snapshot-id": number - 1,
                "timestamp-ms": moment,
                "summary": summary,
            }
        )
        more = {"late": late, "small_files": added, "small_bytes": SMALL * added}
        events.append(committed(minutes_ago, rows=10 * added, table=totals, **more))
    metadata = read_metadata(
        {
            "format-version": 2,
            "properties": {"write.target-file-size-bytes": str(TARGET)},
            "snapshots": snapshots,
            "current-snapshot-id": len(snapshots),
        }
    )
    name, sizes = TableName("l", "s", "t"), MetadataSizes(file_bytes=0)
    table = TableFacts(
        name, metadata, True, tuple(facts), events[-1].table, tuple(files), sizes
    )
    for small_files in (5, 20):
        rewrite = RewriteDataFiles(small_files=small_files)
        is_overdue = is_rewrite_overdue(rewrite, measure_uncompacted(metadata), 2)
        assert is_run_overdue(known(*events), rewrite) <= is_overdue
    by_run, by_table = figures(*events), measure(table, NOW)
    for field in fields(Judged):
        told, is_so = getattr(by_run, field.name), getattr(by_table, field.name)
        assert told <= is_so, field.name
    if not before:
        assert by_run.average_small_files == by_table.average_small_files
    assert by_run.freshness_ms == by_table.freshness_ms
    assert by_run.late_ratio == pytest.approx(by_table.late_ratio)
