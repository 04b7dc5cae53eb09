"""The figures of a table, and what is made of them, on facts that are written down by
hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakesql.events import TableTotals
from lakesql.model.properties import NO_LIMITS, Freshness
from lakesql.model.table_name import TableName
from lakesql.plan.health import (
    HOUR_MS,
    Figures,
    Finding,
    TableFacts,
    check,
    is_rewrite_overdue,
    judge,
    measure,
    percentile,
    worst,
)
from lakesql.project.duration import Duration
from lakesql.project.procedures import RewriteDataFiles
from lakesql.table.commits import Commit
from lakesql.table.live_files import LiveFile, MetadataSizes
from lakesql.table.metadata import TableMetadata, read_metadata
from lakesql.table.uncompacted import Uncompacted, measure_uncompacted
from tests.cases import each_of

NOW = 1_800_000_000_000
MINUTE = 60_000
TARGET = 1_000


def facts(**given: Any) -> TableFacts:
    metadata = TableMetadata(
        "", 2, {"write.target-file-size-bytes": str(TARGET)}, {}, ()
    )
    empty = TableFacts(
        TableName("lake", "shop", "orders"),
        metadata,
        True,
        (),
        TableTotals(),
        (),
        MetadataSizes(file_bytes=100),
    )
    return replace(empty, **given)


def committed(*summaries: dict[str, Any]) -> TableMetadata:
    """A table whose commits have these summaries, the oldest first, an hour apart, the
    last one now."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 if number > 1 else None,
            "timestamp-ms": NOW - (len(summaries) - number) * HOUR_MS,
            "summary": {key: str(value) for key, value in summary.items()},
        }
        for number, summary in enumerate(summaries, 1)
    ]
    return read_metadata(
        {
            "format-version": 2,
            "properties": {"write.target-file-size-bytes": str(TARGET)},
            "snapshots": snapshots,
            "current-snapshot-id": len(summaries),
        }
    )


def figures(**given: Any) -> Figures:
    """Of a table with one commit, a minute ago, and nothing that is not well."""
    return replace(measure(facts(commits=(commit(1),)), NOW), **given)


def commit(
    minutes: float, *, rows: int = 10, latency_s: float | None = None, late: int = 0
) -> Commit:
    at_ms = NOW - round(minutes * MINUTE)
    return Commit(
        at_ms,
        rows,
        1,
        100,
        None if latency_s is None else at_ms - round(1000 * latency_s),
        late,
    )


def file(
    size: int,
    minutes: int = 1,
    partition: str = "a",
    *,
    delete: bool = False,
    compacted: bool = False,
) -> LiveFile:
    return LiveFile(
        ("0", partition), size, 10, NOW - minutes * MINUTE, delete, compacted
    )


def minutes(count: int) -> Duration:
    return Duration(f"{count} minutes", count * MINUTE)


class TestMeasure:
    def test_a_table_without_a_commit_has_no_age(self) -> None:
        found = measure(facts(), NOW)
        assert (
            found.age_ms,
            found.freshness_ms,
            found.latency_ms,
            found.latency_p95_ms,
        ) == (None, None, None, None)
        assert (
            found.commits_last_hour,
            found.data_files,
            found.small_file_ratio,
            found.compaction_lag_ms,
        ) == (0,) * 4

    def test_the_last_hour_is_an_hour(self) -> None:
        found = measure(
            facts(commits=tuple(commit(each, late=2) for each in (61, 60, 59.9, 5))),
            NOW,
        )
        assert (
            found.commits_last_hour,
            found.rows_last_hour,
            found.late_last_hour,
        ) == (2, 20, 4)
        assert found.age_ms == 5 * MINUTE

    def test_latency_is_from_the_newest_event_to_the_commit(self) -> None:
        commits = tuple(
            commit(200 - number, latency_s=number) for number in range(1, 121)
        )
        found = measure(facts(commits=commits), NOW)
        assert found.latency_ms == 120_000
        assert found.latency_p95_ms == 115_000  # of the last hundred, 21 to 120
        assert (found.freshness_ms, found.is_by_event) == (80 * MINUTE + 120_000, True)

    def test_an_event_after_its_commit_is_no_negative_latency(self) -> None:
        found = measure(facts(commits=(commit(1, latency_s=-500),)), NOW)
        assert (found.latency_ms, found.freshness_ms) == (0, MINUTE)

    def test_an_event_of_a_wrong_clock_makes_no_table_fresh(self) -> None:
        found = measure(
            facts(
                commits=(commit(90, latency_s=-10_000_000), commit(60, latency_s=30))
            ),
            NOW,
        )
        assert (found.freshness_ms, found.is_by_event) == (60 * MINUTE + 30_000, True)

    @each_of(
        ("latencies", "newest"),
        [
            ((None, None), None),
            ((1, 2, None, None), None),  # the last one is the first of its run
            ((40, None), 40),
            ((3 * 86_400, 3 * 86_400, None), 3 * 86_400),
            # it catches up: each commit is half an hour nearer
            ((9000, 7200, None), 5400),
            ((9000, 600, None), 0),
            ((1, 90_000, None), 2 * 60 + 1),  # no older than what is there
        ],
    )
    def test_the_last_commits_newest_event_is_taken_from_those_before(
        self, latencies: tuple[int | None, ...], newest: int | None
    ) -> None:
        commits = [
            commit(2 + age, latency_s=found)
            for age, found in enumerate(reversed(latencies))
        ]
        found = measure(facts(commits=tuple(reversed(commits))), NOW)
        expected = 2 * MINUTE + 1000 * (newest or 0)
        assert (found.freshness_ms, found.is_by_event) == (expected, False)
        assert found.is_by_latency == (newest is not None)

    def test_an_older_event_in_the_last_commit_does_not_age_the_table(self) -> None:
        found = measure(
            facts(commits=(commit(30, latency_s=1), commit(2, latency_s=7200))), NOW
        )
        assert found.freshness_ms == 30 * MINUTE + 1000

    def test_small_is_below_three_quarters_of_the_target(self) -> None:
        found = measure(
            facts(files=(file(749), file(750), file(2000), file(10, delete=True))), NOW
        )
        assert (found.data_files, found.small_files, found.small_file_ratio) == (
            3,
            1,
            1 / 3,
        )
        assert (found.data_bytes, found.file_bytes_average, found.delete_files) == (
            3499,
            1166,
            1,
        )

    def test_sizes_have_percentiles(self) -> None:
        found = measure(
            facts(files=tuple(file(size) for size in range(100, 0, -1))), NOW
        )
        assert (found.file_bytes_p10, found.file_bytes_p50, found.file_bytes_p90) == (
            10,
            50,
            90,
        )

    def test_small_files_are_averaged_over_partitions(self) -> None:
        files = (
            *(file(1, partition="a") for _ in range(3)),
            file(1, partition="b"),
            file(1000, partition="c"),
        )
        found = measure(facts(files=files), NOW)
        assert (found.partitions, found.average_small_files) == (3, 4 / 3)

    def test_five_small_files_of_a_partition_are_not_compacted_and_four_are_nothing_to_do(
        self,
    ) -> None:
        few = tuple(file(10, age, "few") for age in range(500, 504))
        crowd = tuple(file(20, age, "crowd") for age in (40, 30, 20, 10, 5))
        large = file(1000, 900, "crowd")
        found = measure(facts(files=(*few, *crowd, large)), NOW)
        assert (found.compaction_lag_ms, found.uncompacted_bytes) == (40 * MINUTE, 100)
        assert (
            measure(facts(files=(*few, *crowd[1:], large)), NOW).compaction_lag_ms == 0
        )

    def test_files_that_are_not_compacted_are_counted_by_commit_as_maintenance_does(
        self,
    ) -> None:
        every = {
            "added-data-files": 3,
            "added-files-size": 30,
            "changed-partition-count": 3,
        }
        alone = {"added-data-files": 2, "added-files-size": 20}
        metadata = committed(*[every] * 6, *[alone] * 12)
        assert measure(
            facts(metadata=metadata), NOW
        ).uncompacted_files == pytest.approx(6 + 24)

    def test_what_a_compaction_wrote_is_compacted_however_small(self) -> None:
        files = (file(10, 90, compacted=True), *(file(10, age) for age in (8, 6, 4, 2)))
        found = measure(facts(files=files), NOW)
        assert (found.compaction_lag_ms, found.uncompacted_bytes) == (8 * MINUTE, 40)

    def test_a_delete_file_is_not_compacted_however_few_there_are(self) -> None:
        found = measure(facts(files=(file(1000, 90), file(7, 30, delete=True))), NOW)
        assert (found.compaction_lag_ms, found.uncompacted_bytes) == (30 * MINUTE, 7)

    def test_totals_of_the_summary_go_before_what_was_read(self) -> None:
        totals = TableTotals(data_files=200, delete_files=50, rows=1000, deletes=250)
        found = measure(facts(files=(file(10),), totals=totals), NOW)
        assert (
            found.data_files,
            found.delete_files,
            found.rows,
            found.delete_ratio,
        ) == (200, 50, 1000, 0.25)
        assert (found.delete_files_per_data_file, found.files_read) == (0.25, 1)

    def test_rows_deleted_twice_are_no_more_than_all(self) -> None:
        assert measure(facts(totals=TableTotals(1, 1, 10, 25)), NOW).delete_ratio == 1

    def test_dead_letters_are_compared_with_rows_of_the_same_hour(self) -> None:
        letters = ((NOW - 2 * HOUR_MS, 500), (NOW - MINUTE, 3), (NOW, 2))
        found = measure(
            facts(
                commits=(commit(90, rows=1000), commit(1, rows=15)),
                dead_letters=letters,
            ),
            NOW,
        )
        assert (found.dead_letters_last_hour, found.dead_letter_ratio) == (5, 0.25)


class TestJudge:
    def test_a_fresh_table_is_well(self) -> None:
        assert judge(figures(), NO_LIMITS, False) == ()
        assert worst(()) == "well"

    @each_of(
        ("given", "found"),
        [
            ({"average_small_files": 50}, []),
            ({"average_small_files": 50.1}, [("average_small_files", "watch", 50)]),
            ({"average_small_files": 501}, [("average_small_files", "ill", 500)]),
            (
                {"compaction_lag_ms": 25 * HOUR_MS},
                [("compaction_lag", "watch", 24 * HOUR_MS)],
            ),
            (
                {"compaction_lag_ms": 8 * 24 * HOUR_MS},
                [("compaction_lag", "ill", 7 * 24 * HOUR_MS)],
            ),
            ({"delete_ratio": 0.5, "delete_files": 10}, []),
            ({"delete_ratio": 0.5, "delete_files": 11}, [("delete_ratio", "ill", 0.3)]),
            ({"delete_files_per_data_file": 20, "delete_files": 5}, []),
            (
                {"delete_files_per_data_file": 2, "delete_files": 20},
                [("delete_files_per_data_file", "watch", 1)],
            ),
            ({"metadata_bytes": 16_000_001}, [("metadata_bytes", "watch", 16_000_000)]),
            ({"dead_letter_ratio": 0.9}, [("dead_letter_ratio", "watch", 0.01)]),
            ({"late_ratio": 0.02}, [("late_ratio", "watch", 0.01)]),
            ({"age_ms": 10**12, "freshness_ms": 10**12}, []),
        ],
    )
    def test_each_figure_has_its_bounds(
        self, given: dict[str, Any], found: list[tuple[str, str, float]]
    ) -> None:
        judged = judge(figures(**given), NO_LIMITS, is_overdue=True)
        assert [(each.figure, each.word, each.limit) for each in judged] == found

    @each_of(
        ("given", "is_judged"),
        [
            ({"small_files": 9}, False),
            ({"small_files": 32}, False),  # a rewrite may just be beginning
            ({"small_files": 32.5}, True),
            ({"delete_files": 64}, False),
            ({"delete_files": 65}, True),
            ({"deleted_ratio": 0.1}, False),
            ({"deleted_ratio": 0.11}, True),
        ],
    )
    def test_what_is_not_compacted_is_judged_where_there_is_more_than_makes_a_rewrite_due(
        self, given: dict[str, Any], is_judged: bool
    ) -> None:
        found = figures(compaction_lag_ms=30 * 24 * HOUR_MS)
        is_overdue = is_rewrite_overdue(RewriteDataFiles(), Uncompacted(**given), 2)
        expected = [("compaction_lag", "ill")] if is_judged else []
        assert [
            (each.figure, each.word) for each in judge(found, NO_LIMITS, is_overdue)
        ] == expected
        (own,) = judge(found, Freshness(max_compaction_lag=minutes(1)), is_overdue)
        assert (own.figure, own.word, own.limit) == ("compaction_lag", "ill", MINUTE)

    def test_what_makes_a_rewrite_due_the_model_says(self) -> None:
        found = Uncompacted(small_files=20)
        assert not is_rewrite_overdue(RewriteDataFiles(small_files=20), found, 2)
        assert is_rewrite_overdue(RewriteDataFiles(small_files=19), found, 2)

    def test_a_table_that_is_compacted_in_time_is_well_all_the_time(self) -> None:
        """A file an hour, of which the 32nd makes a rewrite due: no moment of a week is
        worse than another."""
        small = {"operation": "append", "added-data-files": 1, "added-files-size": 10}
        rewrite = {
            "operation": "replace",
            "added-data-files": 1,
            "added-files-size": 320,
            "deleted-data-files": 32,
        }
        for hours in range(24 * 7):
            left = hours % 32 + 1
            rewritten = [file(10, 60 * left, compacted=True)] if hours >= 32 else []
            files = (*rewritten, *(file(10, 60 * age) for age in range(left)))
            metadata = committed(
                *([*[small] * 32, rewrite] if hours >= 32 else []), *[small] * left
            )
            is_overdue = is_rewrite_overdue(
                RewriteDataFiles(), measure_uncompacted(metadata), 2
            )
            found = measure(
                facts(files=files, commits=(commit(1),), metadata=metadata), NOW
            )
            assert judge(found, NO_LIMITS, is_overdue) == (), hours

    def test_the_worst_is_first(self) -> None:
        judged = judge(
            figures(average_small_files=60, metadata_bytes=10**9), NO_LIMITS, False
        )
        assert [(each.figure, each.word) for each in judged] == [
            ("metadata_bytes", "ill"),
            ("average_small_files", "watch"),
        ]
        assert worst(judged) == "ill"

    def test_a_limit_of_the_model_stands_in_the_place_of_the_usual_one(self) -> None:
        crowded = figures(average_small_files=600)
        assert judge(crowded, Freshness(max_average_small_files=1000), False) == ()
        limits = Freshness(max_average_small_files=2)
        assert [
            each.word for each in judge(figures(average_small_files=3), limits, False)
        ] == ["ill"]


class TestCheck:
    LIMITS = Freshness(warn_after=minutes(5), error_after=minutes(15))

    @each_of(("age", "word"), [(5, "well"), (6, "watch"), (15, "watch"), (16, "ill")])
    def test_age_against_both_limits(self, age: int, word: str) -> None:
        (found,) = check(figures(freshness_ms=age * MINUTE), self.LIMITS)
        assert (found.figure, found.word) == ("freshness", word)

    def test_a_warning_alone_is_never_an_error(self) -> None:
        (found,) = check(figures(freshness_ms=10**15), Freshness(warn_after=minutes(5)))
        assert found == Finding("freshness", "watch", 10**15, 5 * MINUTE)

    def test_what_is_not_there_is_older_than_any_limit(self) -> None:
        assert check(None, self.LIMITS) == (
            Finding("freshness", "ill", None, 15 * MINUTE),
        )
        assert check(None, Freshness(warn_after=minutes(5))) == (
            Finding("freshness", "watch", None, 5 * MINUTE),
        )
        assert check(None, Freshness(max_average_small_files=1)) == (
            Finding("average_small_files", "ill", None, 1),
        )
        assert check(figures(freshness_ms=None), self.LIMITS)[0].word == "ill"

    def test_every_limit_is_checked(self) -> None:
        limits = Freshness(minutes(1), minutes(2), 5.0, minutes(3), 0.5)
        found = check(
            figures(
                freshness_ms=0,
                average_small_files=5,
                compaction_lag_ms=4 * MINUTE,
                dead_letter_ratio=0.6,
            ),
            limits,
        )
        assert [(each.figure, each.word, each.limit) for each in found] == [
            ("freshness", "well", MINUTE),
            ("average_small_files", "well", 5.0),
            ("compaction_lag", "ill", 3 * MINUTE),
            ("dead_letter_ratio", "ill", 0.5),
        ]


@each_of(
    ("values", "share", "found"),
    [
        ([], 0.5, None),
        ([7], 0.95, 7),
        ([1, 2], 0.5, 1),
        ([1, 2, 3], 0.5, 2),
        ([1, 2, 3], 1, 3),
        ([1, 2, 3], 0, 1),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[int], share: float, found: int | None
) -> None:
    assert percentile(values, share) == found
