"""A test of many cases: each runs, and all that fail are named."""

from __future__ import annotations

import pytest

from tests.cases import each_of


def test_each_case_runs_and_all_that_fail_are_named() -> None:
    seen: list[tuple[int, str]] = []

    @each_of(("number", "text"), [(1, "a"), (2, "b"), (3, "c")])
    def is_odd(number: int, text: str) -> None:
        seen.append((number, text))
        if number == 3:
            pytest.fail("it is three")
        assert number % 2 == 1

    with pytest.raises(BaseExceptionGroup) as caught:
        is_odd()
    assert seen == [(1, "a"), (2, "b"), (3, "c")]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["of the case 2, 'b'"],
        ["of the case 3, 'c'"],
    ]


def test_a_case_that_is_skipped_has_failed() -> None:
    @each_of("number", [1])
    def is_skipped(number: int) -> None:
        pytest.skip("there is none")

    with pytest.raises(BaseExceptionGroup):
        is_skipped()


def test_what_tests_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no case"):
        each_of("number", [])
    with pytest.raises(ValueError, match="1 values for 2 arguments"):
        each_of("number, text", [(1,)])
    with pytest.raises(TypeError, match="no argument"):
        each_of("other", [1])(lambda number: None)


@each_of("outer", [1, 2])
@each_of("inner", ["a", "b"])
def test_cases_of_two_lists_are_combined(outer: int, inner: str) -> None:
    assert (outer, inner) in {(1, "a"), (1, "b"), (2, "a"), (2, "b")}
