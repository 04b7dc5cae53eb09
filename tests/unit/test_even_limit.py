"""How a backlog is shared out among batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakesql.progress.position import EVEN_FROM, even_limit


@given(st.integers(1, 10**8), st.integers(EVEN_FROM, 10**6))
def test_no_batch_is_a_small_rest_and_none_is_much_above_the_limit(
    backlog: int, limit: int
) -> None:
    each = even_limit(backlog, limit)
    batches = -(-backlog // each)
    assert batches <= -(-backlog // limit)
    assert each <= limit * 1.1 + 1
    last = backlog - (batches - 1) * each
    # by what rounding up takes from the last one
    assert batches == 1 or last >= each - batches


def test_a_rest_of_a_hundredth_makes_no_batch_of_its_own() -> None:
    assert even_limit(1_010_000, 1_000_000) == 1_010_000
    assert even_limit(1_010_000, 100_000) == 101_000
    assert even_limit(1_500_000, 1_000_000) == 750_000
    assert even_limit(40, 30) == 30
    assert even_limit(900_000, 1_000_000) == 1_000_000
