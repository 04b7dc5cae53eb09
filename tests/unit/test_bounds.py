"""Which batches are bounded by their keys before they are merged."""

from dataclasses import replace

from lakesql.compile.batch import KeyRange
from lakesql.compile.quote import EpochDay
from lakesql.engine.batch.bounds import (
    BULK,
    MATCHED,
    ROWS_PER_KEY,
    bounds_pay,
    match_few,
)
from lakesql.ledger.entry import Snapshot
from tests.cases import each_of


def snapshot(total: int, added: int, model: str = "m") -> Snapshot:
    ledger = {"lakesql.model": model} if model else {}
    return Snapshot(
        1, {"total-records": str(total), "added-records": str(added), **ledger}
    )


@each_of(
    ("total", "added", "expected"),
    [
        (ROWS_PER_KEY * BULK, BULK, False),
        (ROWS_PER_KEY * BULK + 1, BULK, True),
        (BULK, BULK - 1, True),
        (0, 0, True),
    ],
)
def test_bounds_pay_unless_the_last_batch_was_a_bulk_load(
    total: int, added: int, expected: bool
) -> None:
    assert bounds_pay([snapshot(total, added)], "m") is expected


def test_commits_of_others_are_no_batches() -> None:
    assert not bounds_pay(
        [snapshot(BULK, 1, ""), snapshot(BULK, 1, "other"), snapshot(BULK, BULK)], "m"
    )
    assert bounds_pay([snapshot(BULK, BULK, "other")], "m")


def test_the_first_batch_is_taken_to_be_small() -> None:
    assert bounds_pay([snapshot(1, 1, "")], "m")
    assert bounds_pay([], "m")


def test_rows_rewritten_by_copy_on_write_do_not_count_as_the_batch() -> None:
    bulk = snapshot(BULK, BULK)
    assert bounds_pay([Snapshot(1, {**bulk.summary, "deleted-data-files": "4"})], "m")


@each_of(
    ("ranges", "expected"),
    [
        ((KeyRange("id", (1, 5, 9)),), True),
        ((KeyRange("id", low=1, high=MATCHED),), True),
        ((KeyRange("id", low=1, high=MATCHED + 1),), False),
        ((KeyRange("id", tuple(range(0, 600, 2)), 0, 598),), True),
        ((KeyRange("id", has_null=True),), True),
        ((KeyRange("id", low=1, high=MATCHED, has_null=True),), False),
        ((KeyRange("id", low=EpochDay(1), high=EpochDay(MATCHED)),), True),
        ((KeyRange("id", low=EpochDay(1), high=EpochDay(MATCHED + 1)),), False),
        ((), False),
    ],
)
def test_few_rows_match_where_the_bounds_hold_few_keys(
    ranges: tuple[KeyRange, ...], expected: bool
) -> None:
    assert match_few(ranges, ("id",)) is expected


def test_each_key_of_one_column_goes_with_each_of_the_others() -> None:
    shops, days = (
        KeyRange("shop", tuple("abcd")),
        KeyRange("day", low=1, high=MATCHED // 4),
    )
    assert match_few((shops, days), ("shop", "day"))
    assert not match_few((shops, replace(days, high=MATCHED)), ("shop", "day"))
    assert not match_few((shops,), ("shop", "day"))
