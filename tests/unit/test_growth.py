"""How a table grows: against a table that is kept as a list of its files, and against
what is known of each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.compile.growth import (
    BATCH_MS,
    RUN_MS,
    commit_files,
    interval_of,
)
from lakesql.model.config import AvailableNow, Every
from lakesql.project.duration import Duration
from lakesql.project.procedures import (
    DAY_MS,
    GROUP_FILES,
    SIZE_RATIO,
    WHOLE_EVERY,
    ExpireSnapshots,
    Maintenance,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)
from lakesql.table.simulation import (
    Maintained,
    SimulatedTask,
    Sizes,
    Stock,
    TableGrowth,
    Writes,
    grow,
)
from lakesql.table.terms import Terms, read_terms
from tests.cases import each_of

MINUTE = 60_000
PLAIN = Writes(MINUTE, rows=100, row_bytes=100)
MERGES = replace(PLAIN, deleted=50, scattered=50)
NOTHING = Maintenance(
    rewrite_data_files=None,
    rewrite_position_delete_files=None,
    rewrite_manifests=None,
    expire_snapshots=None,
)


def grown(
    writes: Writes = PLAIN,
    commits: int = 100,
    kept: Maintenance | Maintained | None = None,
    **given: Any,
) -> TableGrowth:
    terms = given.get("terms", Terms())
    maintained = maintained_by(kept) if isinstance(kept, Maintenance) else kept
    return grow(
        writes,
        terms,
        given.get("sizes", Sizes()),
        given.get("stock", Stock()),
        maintained,
        commits * MINUTE,
    )


def maintained_by(maintenance: Maintenance, *by_time: str) -> Maintained:
    procedures = {
        name: each
        for name, each in maintenance.procedures.items()
        if name != "remove_orphan_files"
    }
    tasks = [
        SimulatedTask(name, each, is_by_time=name in by_time)
        for name, each in procedures.items()
    ]
    return Maintained(tuple(tasks), maintenance.max_time_ratio)


class TestUnmaintained:
    def test_each_commit_leaves_its_files_and_a_snapshot(self) -> None:
        found = grown(replace(PLAIN, files=3, partitions=3), 50)
        assert (found.batches, found.maintenance, found.commits) == (50, 0, 50)
        assert (found.end.data_files, found.end.delete_files, found.end.snapshots) == (
            150,
            0,
            50,
        )
        assert found.most == found.end

    def test_no_procedure_is_no_maintenance(self) -> None:
        assert grown(MERGES, 300, NOTHING) == grown(MERGES, 300)

    def test_the_metadata_file_lists_each_snapshot_and_earlier_metadata_files_up_to_the_limit(
        self,
    ) -> None:
        sizes = Sizes(
            table=1_000,
            snapshot=100,
            log_entry=10,
            manifest_list=0,
            list_entry=0,
            manifest=0,
            entry=0,
        )
        by_commits = {
            count: grown(commits=count, sizes=sizes).end.metadata_bytes
            for count in (1, 30, 100, 120)
        }
        assert by_commits == {
            1: 1_110,
            30: 4_300,
            100: 12_000,
            120: 14_000,
        }  # each commit leaves one, of which 100 stay
        assert (
            grown(commits=120, sizes=sizes, terms=Terms(log=1_000)).end.metadata_bytes
            == 14_200
        )

    def test_what_is_written_of_metadata_grows_by_the_square(self) -> None:
        """The commit of a batch writes all snapshots again."""
        sizes = Sizes(
            table=0,
            snapshot=100,
            log_entry=0,
            manifest_list=0,
            list_entry=0,
            manifest=0,
            entry=0,
        )
        for count in (10, 100, 1_000):
            assert grown(commits=count, sizes=sizes).written_bytes == sum(
                100 * n for n in range(1, count + 1)
            )

    def test_manifests_are_brought_together_by_the_commit_that_makes_a_hundred(
        self,
    ) -> None:
        sizes = Sizes(
            table=0,
            snapshot=0,
            log_entry=0,
            manifest_list=0,
            list_entry=0,
            manifest=1,
            entry=0,
        )
        manifests = [
            grown(commits=count, sizes=sizes).end.metadata_bytes
            for count in (99, 100, 101, 198, 199)
        ]
        assert manifests == [99, 1, 2, 99, 1]
        assert (
            grown(
                commits=500, sizes=sizes, terms=Terms(merge_manifests=0)
            ).end.metadata_bytes
            == 500
        )

    def test_a_data_file_has_one_delete_file_at_most(self) -> None:
        assert grown(replace(MERGES, delete_files=5), 40).end.delete_files == 39, (
            "nothing is deleted of the newest one"
        )

    def test_files_that_are_written_anew_take_the_place_of_the_former_ones(
        self,
    ) -> None:
        rewrites = replace(MERGES, rewrites=True)
        found = grown(
            rewrites,
            stock=Stock(data_files=1, small_files=1, small_bytes=10_000, rows=100),
        )
        assert (found.end.data_files, found.end.delete_files) == (1, 0)
        # they lie together, in a file of a hundred
        newest = replace(rewrites, scattered=0.01)
        assert (
            grown(newest, 10, stock=Stock(data_files=100, rows=10_000)).end.data_files
            == 110
        )

    def test_many_commits_at_once_are_the_same_as_each_by_itself(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        each = grown(MERGES, 997)
        monkeypatch.setattr("lakesql.table.simulation.MOST_STEPS", 90)
        together = grown(replace(MERGES, row_bytes=100.5), 997)
        assert (together.batches, together.end.data_files) == (
            each.batches,
            each.end.data_files,
        )
        assert together.end.snapshots == each.end.snapshots
        assert together.written_bytes == pytest.approx(each.written_bytes, rel=0.05)

    def test_it_begins_with_what_the_table_has(self) -> None:
        stock = Stock(
            data_files=7,
            small_files=2,
            delete_files=1,
            ages_ms=(5.0, 4.0),
            data_manifests=2,
        )
        found = grown(commits=3, stock=stock)
        assert (found.end.data_files, found.end.delete_files, found.end.snapshots) == (
            10,
            1,
            5,
        )
        assert grown(commits=0, stock=stock).end.data_files == 7
        assert grown(commits=0).end.metadata_bytes == 0


@pytest.mark.checks
class TestMaintained:
    @given(
        # with four, the rewrite needs the file that the last one has left
        small_files=st.integers(4, 60),
        commits=st.integers(0, 400),
        partitions=st.sampled_from([1, 2, 4]),  # whose shares of the bytes are exact
        files=st.integers(1, 3),
    )
    def test_small_files_rise_to_their_threshold_and_fall_to_one_and_those_that_are_left(
        self, small_files: int, commits: int, partitions: int, files: int
    ) -> None:
        kept = replace(
            NOTHING, rewrite_data_files=RewriteDataFiles(small_files=small_files)
        )
        found = grown(
            replace(PLAIN, files=files * partitions, partitions=partitions),
            commits,
            kept,
        )
        new, rewritten, since, upkeep, most = 0, list[int](), WHOLE_EVERY, 0, 0
        for _ in range(commits):
            new += files
            most = max(most, len(rewritten) + new)
            if new >= small_files:
                is_whole = since >= WHOLE_EVERY or new < GROUP_FILES
                left = [
                    size
                    for size in rewritten
                    if size >= SIZE_RATIO * new and not is_whole
                ]
                rewritten = [*left, sum(rewritten) - sum(left) + new]
                new, since, upkeep = 0, 1 if is_whole else since + 1, upkeep + 1
        in_partition = len(rewritten) + new
        assert (found.end.data_files, found.maintenance) == (
            in_partition * partitions,
            upkeep,
        )
        assert (found.most.data_files, found.end.snapshots) == (
            most * partitions,
            commits + upkeep,
        )

    def test_deleted_rows_make_a_rewrite_due_and_no_delete_file_is_left(self) -> None:
        lazy = RewriteDataFiles(
            small_files=10_000, delete_files=10_000, delete_ratio=0.2
        )
        stock = Stock(data_files=1, rows=10_000)
        alone = replace(NOTHING, rewrite_data_files=lazy)
        both = replace(
            alone,
            rewrite_position_delete_files=RewritePositionDeleteFiles(
                delete_files=10_000
            ),
        )
        found, left = (
            grown(MERGES, 200, both, stock=stock),
            grown(MERGES, 200, alone, stock=stock),
        )
        assert found.maintenance and found.maintenance % 2 == 0, (
            "each rewrite is followed by one of the delete files"
        )
        assert (
            found.most.delete_files < grown(MERGES, 200, stock=stock).end.delete_files
        )
        assert left.end.delete_files > found.end.delete_files, "nobody removes them"
        vectors = grown(MERGES, 200, both, terms=Terms(version=3), stock=stock)
        assert (vectors.maintenance, vectors.end.delete_files) == (
            found.maintenance / 2,
            found.end.delete_files,
        )

    def test_delete_files_are_rewritten_again_only_once_as_many_have_come(self) -> None:
        alone = replace(
            NOTHING,
            rewrite_position_delete_files=RewritePositionDeleteFiles(delete_files=20),
        )
        found = grown(MERGES, 200, alone, stock=Stock(data_files=1, rows=10_000))
        assert found.end.delete_files > 100, "each data file keeps one"
        assert 5 <= found.maintenance <= 10
        by_partition = grown(
            MERGES,
            200,
            alone,
            terms=Terms(deletes_by_file=False),
            stock=Stock(data_files=1, rows=1),
        )
        assert by_partition.most.delete_files <= 22 and by_partition.maintenance == 10

    def test_large_files_keep_their_deletes_until_many_of_their_rows_are_deleted_or_all_are_asked_for(
        self,
    ) -> None:
        kept = replace(NOTHING, rewrite_data_files=RewriteDataFiles(delete_files=64))
        stock = Stock(data_files=1_000, rows=100_000_000, delete_files=0)
        found = grown(MERGES, 60, kept, stock=stock)
        assert found.end.delete_files > 900, (
            "less than a thousandth of the rows is deleted"
        )
        assert found.maintenance <= 6, "a rewrite that finds nothing rests"
        for more, rows in (({"rewrite_all": True}, 100_000_000), ({}, 10_000)):
            every = replace(
                NOTHING,
                rewrite_data_files=RewriteDataFiles(delete_files=64, **more),
                rewrite_position_delete_files=RewritePositionDeleteFiles(),
            )
            found = grown(
                MERGES, 60, every, stock=replace(stock, rows=rows, deleted=rows / 20)
            )
            assert found.end.delete_files < 700

    def test_a_statement_that_is_due_by_time_follows_no_rewrite(self) -> None:
        rewrite = RewriteDataFiles(small_files=10)
        daily = RewritePositionDeleteFiles(trigger=Duration("1 day", DAY_MS))
        alone = replace(NOTHING, rewrite_data_files=rewrite)
        following = replace(alone, rewrite_position_delete_files=daily)
        by_time = maintained_by(following, "rewrite_position_delete_files")
        stock = Stock(data_files=1, rows=10_000)
        assert (
            grown(MERGES, 600, by_time, stock=stock).maintenance
            == grown(MERGES, 600, alone, stock=stock).maintenance
        )
        assert (
            grown(MERGES, 600, following, stock=stock).maintenance
            > grown(MERGES, 600, alone, stock=stock).maintenance
        )

    def test_few_deletes_reach_few_files(self) -> None:
        stock = Stock(data_files=1, rows=1_000_000)
        rare, local = (
            replace(MERGES, deleted=10, scattered=10, delete_files=least)
            for least in (0, 1)
        )
        assert grown(rare, 100, stock=stock).end.delete_files <= 10, (
            "most rows lie in the large file"
        )
        assert grown(local, 100, stock=stock).end.delete_files >= 99, (
            "unless each commit deletes rows of the last one"
        )
        by_partition = Terms(deletes_by_file=False)
        assert grown(rare, 100, stock=stock, terms=by_partition).end.delete_files == 100

    def test_snapshots_stop_growing_once_the_first_are_old(self) -> None:
        kept = replace(
            NOTHING,
            expire_snapshots=ExpireSnapshots(
                older_than=Duration("2 hours", 120 * MINUTE)
            ),
        )
        hours = [grown(commits=60 * count, kept=kept) for count in (1, 2, 4, 20, 200)]
        assert [found.end.snapshots for found in hours[:2]] == [60, 120]
        assert all(120 <= found.end.snapshots <= 181 for found in hours[2:])
        assert all(found.maintenance == 0 for found in hours), "it leaves no snapshot"
        assert hours[-1].written_bytes < grown(commits=12_000).written_bytes / 10

    def test_the_newest_snapshots_stay_however_old_they_are(self) -> None:
        expire = ExpireSnapshots(
            older_than=Duration("1 hour", 60 * MINUTE), retain_last=300
        )
        assert (
            grown(
                commits=2_000, kept=replace(NOTHING, expire_snapshots=expire)
            ).end.snapshots
            >= 300
        )

    def test_the_oldest_snapshots_go_where_there_are_too_many_but_none_of_the_last_hour(
        self,
    ) -> None:
        kept, slow = (
            replace(NOTHING, expire_snapshots=ExpireSnapshots(max_snapshots=most))
            for most in (200, 50)
        )
        hours = [grown(commits=60 * count, kept=kept) for count in (1, 3, 4, 20, 200)]
        assert [found.end.snapshots for found in hours[:2]] == [60, 180]
        assert all(200 <= found.end.snapshots <= 261 for found in hours[2:])
        assert 60 <= grown(commits=1_200, kept=slow).end.snapshots <= 121
        assert (
            grown(commits=1_200, kept=kept, terms=Terms(is_shared=True)).end.snapshots
            == 1_200
        )
        always = replace(
            NOTHING, expire_snapshots=ExpireSnapshots(max_snapshots=1, retain_last=300)
        )
        assert 300 <= grown(commits=1_200, kept=always).end.snapshots <= 361, (
            "those that are retained stay"
        )

    def test_manifests_that_are_many_become_one(self) -> None:
        kept = replace(NOTHING, rewrite_manifests=RewriteManifests(manifests=20))
        sizes = Sizes(
            table=0,
            snapshot=0,
            log_entry=0,
            manifest_list=0,
            list_entry=0,
            manifest=1,
            entry=0,
        )
        found = grown(commits=99, kept=kept, sizes=sizes)
        assert (found.most.metadata_bytes, found.maintenance) == (20, 5)
        merged = grown(MERGES, 1_000, kept, stock=Stock(data_files=1, rows=10_000))
        assert 1_000 // 20 <= merged.maintenance <= 2 * 1_000 // 18, (
            "a commit adds two at most"
        )
        timed = replace(
            NOTHING,
            rewrite_manifests=RewriteManifests(
                trigger=Duration("10 minutes", 10 * MINUTE)
            ),
        )
        assert grown(commits=99, kept=timed).maintenance == 9

    def test_a_rewrite_waits_for_the_time_that_it_may_take(self) -> None:
        eager = RewriteDataFiles(small_files=5)
        quick = replace(PLAIN, interval_ms=100.0)
        idle, busy = (
            grow(
                quick,
                Terms(),
                Sizes(),
                Stock(),
                maintained_by(
                    replace(NOTHING, rewrite_data_files=eager, max_time_ratio=ratio)
                ),
                DAY_MS / 24,
            )
            for ratio in (1.0, 0.01)
        )
        assert busy.maintenance < idle.maintenance / 10
        assert busy.most.data_files > idle.most.data_files

    def test_files_of_the_target_size_are_left_alone(self) -> None:
        large = replace(PLAIN, rows=1_000_000, row_bytes=300)
        kept = replace(NOTHING, rewrite_data_files=RewriteDataFiles(small_files=5))
        assert grown(large, 100, kept) == grown(large, 100)

    def test_partitions_by_time_keep_a_file_each_and_are_not_rewritten_again(
        self,
    ) -> None:
        kept = replace(NOTHING, rewrite_data_files=RewriteDataFiles(small_files=20))
        hourly = replace(PLAIN, new_partitions=24)
        found = grown(hourly, 10 * 24 * 60, kept)
        assert 240 <= found.end.data_files <= 262
        assert found.maintenance == 10 * 24 * 60 // 20, (
            "older partitions keep it from none"
        )
        assert (
            grown(replace(hourly, rows=100_000), 10 * 24 * 60, kept).maintenance
            == found.maintenance
        ), "nor do their bytes"

    def test_options_without_a_hash_are_no_obstacle(self) -> None:
        orphans = RemoveOrphanFiles(equal_schemes={"s3a": "s3"})
        assert grown(kept=Maintenance(remove_orphan_files=orphans)) == grown(
            kept=Maintenance()
        )


@each_of(
    ("trigger", "rows_per_second", "interval_ms"),
    [
        (Every("1 minute", MINUTE), 100, MINUTE),
        (Every("1 millisecond", 1), 100, BATCH_MS),
        (Every("1 minute", MINUTE), 0.001, 1_000_000),
        (AvailableNow(), 100, RUN_MS),
    ],
)
def test_no_commit_comes_before_a_batch_ends_or_without_a_row(
    trigger: Any, rows_per_second: float, interval_ms: float
) -> None:
    assert interval_of(trigger, rows_per_second, BATCH_MS) == interval_ms


@each_of(
    ("given", "is_spread", "files"),
    [
        ({"rows": 100}, False, 1),
        ({"rows": 50_000}, False, 3),
        ({"rows": 50_000}, True, 1),
        ({"rows": 5_000_000}, False, 8),
        ({"rows": 1_000, "partitions": 6}, True, 6),
        ({"rows": 30_000, "row_bytes": 100_000, "partitions": 2}, True, 12),
    ],
)
def test_a_commit_has_a_file_for_each_partition_task_and_target_size(
    given: dict[str, Any], is_spread: bool, files: int
) -> None:
    assert (
        commit_files(replace(PLAIN, **given), 268_435_456, is_spread=is_spread) == files
    )


def test_properties_that_are_no_numbers_are_as_good_as_none() -> None:
    assert read_terms({}) == Terms(target_bytes=536_870_912)
    said = {
        "write.target-file-size-bytes": "x",
        "write.metadata.previous-versions-max": "7",
        "format-version": "3",
    }
    assert read_terms(said) == Terms(target_bytes=536_870_912, log=7, version=3)
    assert read_terms({"commit.manifest-merge.enabled": "false"}).merge_manifests == 0
