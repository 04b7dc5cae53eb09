"""Which cases a run takes of them."""

from __future__ import annotations

import pytest

from tests.share import a_few, choose_share, may_mark

CASES = tuple(range(19))


def test_a_share_is_chosen_by_the_seed_and_no_case_is_left_out_for_ever() -> None:
    shares = [choose_share(CASES, "1/2", seed) for seed in range(40)]
    assert shares == [choose_share(CASES, "1/2", seed) for seed in range(40)]
    assert {len(set(share)) for share in shares} == {10}
    assert set().union(*shares) == set(CASES)
    assert sorted(choose_share(CASES, "1/1", 7)) == list(CASES)


@pytest.mark.parametrize("case", a_few(range(4), 2))
def test_a_file_whose_cases_are_marked_by_a_few_is_read_for_the_tier(
    case: int, request: pytest.FixtureRequest
) -> None:
    text = request.path.read_text("utf-8")
    assert (request.node.get_closest_marker("checks") is None) == (case in (0, 2))
    assert may_mark(text, "checks")
    assert not may_mark(text, "services") and not may_mark("def test(): ...", "checks")
    assert may_mark("@pytest.mark.long", "long") and not may_mark("a_few(", "long")
