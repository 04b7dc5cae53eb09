"""Which cases a run takes of them."""

from __future__ import annotations

from tests.share import choose_share

CASES = tuple(range(19))


def test_a_share_is_chosen_by_the_seed_and_no_case_is_left_out_for_ever() -> None:
    shares = [choose_share(CASES, "1/2", seed) for seed in range(40)]
    assert shares == [choose_share(CASES, "1/2", seed) for seed in range(40)]
    assert {len(set(share)) for share in shares} == {10}
    assert set().union(*shares) == set(CASES)
    assert sorted(choose_share(CASES, "1/1", 7)) == list(CASES)
