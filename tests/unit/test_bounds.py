"""Which batches are bounded by their keys before they are merged."""

import pytest

from lakesql.engine.batch.bounds import BULK, ROWS_PER_KEY, bounds_pay
from lakesql.engine.ledger.entry import Snapshot


def snapshot(total: int, added: int, model: str = "m") -> Snapshot:
    ledger = {"lakesql.model": model} if model else {}
    return Snapshot(1, {"total-records": str(total), "added-records": str(added), **ledger})


@pytest.mark.parametrize(
    ("total", "added", "expected"),
    [
        (ROWS_PER_KEY * BULK, BULK, False),
        (ROWS_PER_KEY * BULK + 1, BULK, True),
        (BULK, BULK - 1, True),
        (0, 0, True),
    ],
)
def test_bounds_pay_unless_the_last_batch_was_a_bulk_load(total: int, added: int, expected: bool) -> None:
    assert bounds_pay([snapshot(total, added)], "m") is expected


def test_commits_of_others_are_no_batches() -> None:
    assert not bounds_pay([snapshot(BULK, 1, ""), snapshot(BULK, 1, "other"), snapshot(BULK, BULK)], "m")
    assert bounds_pay([snapshot(BULK, BULK, "other")], "m")


def test_the_first_batch_is_taken_to_be_small() -> None:
    assert bounds_pay([snapshot(1, 1, "")], "m")
    assert bounds_pay([], "m")


def test_rows_rewritten_by_copy_on_write_do_not_count_as_the_batch() -> None:
    bulk = snapshot(BULK, BULK)
    assert bounds_pay([Snapshot(1, {**bulk.summary, "deleted-data-files": "4"})], "m")
