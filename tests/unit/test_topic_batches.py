"""The batches of a model over topics, by a broker that is a dictionary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesql.engine.together.topic_batches import TopicBatches
from lakesql.errors import TransientError
from lakesql.source.cluster import find_share

OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 50), min_size=1),
)


class Places:
    """Topics from their first records to their ends; `start` is where a stream begins
    that begins elsewhere."""

    def __init__(
        self,
        ends: dict[str, dict[int, int]],
        start: dict[str, dict[str, int]] | None = None,
    ) -> None:
        self.ends, self.start = ends, start

    def find_ends(self) -> Any:
        return self.ends

    def begins_early(self) -> bool:
        return self.start is None

    def find_start(self) -> Any:
        return self.start

    def starts(self, start: Any, end: Any) -> Any:
        return {
            topic: {number: start.get(topic, {}).get(number, 0) for number in ends}
            for topic, ends in end.items()
        }


def batches_of(places: Places, limit: int | None) -> TopicBatches:
    return TopicBatches(places, lambda: places.ends, limit)  # type: ignore[arg-type]


def read_all(batches: TopicBatches, position: Any) -> list[Any]:
    """Where each batch ends, until nothing is left."""
    until = batches.find_last(position)
    found: list[Any] = []
    while (end := batches.find_end(position, until)) is not None:
        found.append(end)
        position = end
    return found


@given(OFFSETS, st.none() | st.integers(1, 40))
def test_batches_take_all_and_none_twice(
    ends: dict[str, dict[int, int]], limit: int | None
) -> None:
    found = read_all(batches_of(Places(ends), limit), None)
    position: dict[str, dict[str, int]] = {}
    for end in found:
        sizes = [
            at - position.get(topic, {}).get(number, 0)
            for topic, each in end.items()
            for number, at in each.items()
        ]
        assert all(size >= 0 for size in sizes) and sum(sizes) > 0
        assert limit is None or sum(sizes) <= limit + len(sizes)
        position = end
    total = sum(sum(each.values()) for each in ends.values())
    assert sum(sum(each.values()) for each in position.values()) == total


def test_a_stream_that_begins_at_the_end_notes_where_and_takes_what_comes() -> None:
    places = Places({"a": {0: 7}}, start={"a": {"0": 7}})
    batches = batches_of(places, None)
    assert read_all(batches, None) == [{"a": {"0": 7}}]
    places.ends = {"a": {0: 9}}
    assert read_all(batches, {"a": {"0": 7}}) == [{"a": {"0": 9}}]


def test_a_start_behind_what_was_seen_before_is_no_loss() -> None:
    """Records come between the look at the ends and that at the start."""
    places = Places({"a": {0: 7}}, start={"a": {"0": 8}})
    batches = batches_of(places, None)
    until = batches.find_last(None)
    start = batches.find_end(None, until)
    assert batches.find_end(start, until) is None


@pytest.mark.parametrize(
    "position",
    [{"a": {"0": 4, "1": 2}}, {"a": {"0": 3, "1": 5, "2": 1}}, {"b": {"0": 1}}],
)
def test_a_topic_that_ends_before_what_was_read_is_refused(position: Any) -> None:
    batches = batches_of(Places({"a": {0: 3, 1: 5}}), None)
    with pytest.raises(TransientError) as raised:
        read_all(batches, position)
    assert [problem.condition for problem in raised.value.problems] == [
        "topic-recreated"
    ]


def test_a_look_from_before_a_model_read_on_is_no_loss() -> None:
    places = Places({"a": {0: 9}})
    batches = TopicBatches(places, lambda: {"a": {0: 4}}, None)  # type: ignore[arg-type]
    assert read_all(batches, {"a": {"0": 7}}) == [{"a": {"0": 9}}]


@given(OFFSETS, st.integers(1, 60))
def test_a_share_is_of_each_partition_that_has_something(
    lag: dict[str, dict[int, int]], limit: int
) -> None:
    share = find_share(lag, limit)
    for topic, partitions in lag.items():
        for number, behind in partitions.items():
            assert 0 <= share[topic][number] <= behind
            assert share[topic][number] > 0 or not behind
