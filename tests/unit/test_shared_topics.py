"""Where the batches of models end that read topics together: each goes through all of
them, without a gap."""

from __future__ import annotations

from contextlib import ExitStack
from random import Random
from typing import Any, cast
from unittest.mock import Mock

import pytest

from lakesql.engine.together.seat import Seat
from lakesql.engine.together.shared_topics import MOST_KEPT, SharedTopics, TopicShare
from lakesql.engine.together.topic_batches import LONGEST, TopicBatches
from lakesql.source.cluster import Offsets, numbered
from lakesql.source.stream_state import Position, position_of
from tests.share import a_few

MODELS = ("a", "b", "c", "d")


class Topic:
    """A topic that grows, in the place of what is asked of a broker."""

    def __init__(self, partitions: int) -> None:
        self.ends = dict.fromkeys(range(partitions), 0)

    def find_ends(self) -> Offsets:
        return {"t": dict(self.ends)}

    def begins_early(self) -> bool:
        return True

    def starts(self, start: Offsets, end: Offsets) -> Offsets:
        return {"t": {number: start.get("t", {}).get(number, 0) for number in end["t"]}}


def batches_of(
    topic: Topic, shared: SharedTopics, limits: dict[str, int | None]
) -> dict[str, TopicBatches]:
    places: Any = topic
    unread: Any = None
    return {
        model: TopicBatches(
            places, topic.find_ends, limit, TopicShare(shared, model, unread, unread)
        )
        for model, limit in limits.items()
    }


@pytest.mark.parametrize("seed", a_few(range(40), 4))
def test_each_model_reads_all_that_there_is(seed: int) -> None:
    random = Random(seed)
    topic = Topic(random.choice((1, 3)))
    shared = SharedTopics(lambda: dict.fromkeys(MODELS, "t"))
    limit = random.choice((None, 10))
    batches = batches_of(topic, shared, dict.fromkeys(MODELS, limit))
    positions: dict[str, Position] = dict.fromkeys(MODELS)

    def step(model: str) -> bool:
        end = batches[model].find_end(positions[model], None)
        if end is None:
            return False
        begins = numbered(positions[model]).get("t", {})
        reached = numbered(end)["t"]
        assert all(
            begins.get(number, 0) <= at <= topic.ends[number]
            for number, at in reached.items()
        )
        assert sum(reached.values()) > sum(begins.values())
        positions[model] = end
        return True

    for _ in range(200):
        if random.random() < 0.5:
            topic.ends[random.randrange(len(topic.ends))] += random.choice((1, 5, 40))
        if random.random() < 0.02:
            shared.clear()
        step(random.choice(MODELS[: random.choice((2, 4))]))
    for model in MODELS:
        while step(model):
            pass
    assert {str(position) for position in positions.values()} == {
        str(position_of({"t": topic.ends}))
    }


def test_models_that_stand_apart_meet_and_go_on_together() -> None:
    topic = Topic(1)
    shared = SharedTopics(lambda: dict.fromkeys(MODELS, "t"))
    batches = batches_of(topic, shared, dict.fromkeys(MODELS))
    positions: dict[str, Position] = {
        "a": {"t": {"0": 5}},
        "b": {"t": {"0": 9}},
        "c": {"t": {"0": 5}},
    }
    stretches = []
    for end in (20, 30, 40):
        topic.ends[0] = end
        for model in positions:
            topic.ends[0] += 1  # it grows while they begin
            reached = batches[model].find_end(positions[model], None)
            stretches.append((positions[model]["t"]["0"], reached["t"]["0"]))
            positions[model] = reached
    assert stretches[:3] == [(5, 21), (9, 21), (5, 21)]
    assert len({*stretches[3:6]}) == len({*stretches[6:]}) == 1


def test_no_more_is_kept_than_may_be() -> None:
    shared = SharedTopics(lambda: dict.fromkeys(MODELS, "t"))
    for at in range(MOST_KEPT + 2):
        shared.plan({"t": {"0": at}}, {"t": {"0": at + 1}})
    kept = [
        at
        for at in range(MOST_KEPT + 2)
        if shared.find_end({"t": {"0": at}}) is not None
    ]
    assert kept == [*range(2, MOST_KEPT + 2)]


def test_a_model_that_notes_where_it_begins_reads_nothing_of_the_others() -> None:
    """The others begin with the first record, and their stretch ends where it
    begins."""

    class Later(Topic):
        def begins_early(self) -> bool:
            return False

        def find_start(self) -> Position:
            return position_of(self.find_ends())

        def read(self, start: Position, end: Position) -> str:
            return f"its own read from {start}"

    topic, unread = Later(1), cast(Any, None)
    topic.ends[0] = 7
    shared = SharedTopics(lambda: dict.fromkeys(MODELS, "t"))
    shared.plan(None, {"t": {"0": 7}})
    batches = TopicBatches(
        cast(Any, topic), topic.find_ends, None, TopicShare(shared, "a", unread, unread)
    )
    end = batches.find_end(None, None)
    assert end == {"t": {"0": 7}}
    with ExitStack() as held:
        assert batches.read(None, end, held) == "its own read from None"


def test_what_is_too_much_to_be_kept_is_not_read_together() -> None:
    topic, unread = Topic(1), cast(Any, None)
    shared = SharedTopics(lambda: dict.fromkeys(MODELS, "t"))
    rounds: Any = Mock(find_end=lambda model, standing: position_of(topic.find_ends()))
    places: Any = topic
    seat = Seat(
        "a", places, rounds, topic.find_ends, TopicShare(shared, "a", unread, unread)
    )
    for size, is_kept in ((LONGEST + 1, False), (LONGEST, True)):
        topic.ends[0] = size
        seat.find_end(None, None)
        assert (shared.find_end(None) is not None) == is_kept


def test_a_model_that_is_alone_shares_nothing() -> None:
    topic = Topic(1)
    shared = SharedTopics(lambda: {"a": "t"})
    topic.ends[0] = 7
    assert batches_of(topic, shared, {"a": None})["a"].find_end(None, None) == {
        "t": {"0": 7}
    }
    assert shared.find_end(None) is None
