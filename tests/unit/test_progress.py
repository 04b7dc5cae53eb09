"""What a query learns of topics that appear while it runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lakesql.engine.facts import Origin
from lakesql.engine.position import Source
from lakesql.engine.progress import LOOKS_EVERY_S, Progress
from lakesql.errors import TransientError

ORIGIN = Origin("m", "uuid", ("o", "c"), "")


def learned(
    sources: tuple[Source, ...], now: tuple[Source, ...], *offsets: Any, since_s: float = 0
) -> tuple[list[dict[str, str]], int]:
    """The topics of each source after a batch that ended there, and how often the broker was asked in two batches."""
    asked: list[int] = []

    def look() -> tuple[Source, ...]:
        asked.append(1)
        return now

    progress = Progress.__new__(Progress)
    progress._sources, progress._look, progress._origin = sources, look, ORIGIN
    progress._looked = time.monotonic() - since_s
    for _ in range(2):
        progress._learn_topics(offsets)
    return [dict(source.topics) for source in progress._sources], len(asked)


def test_a_new_topic_gets_its_id_and_the_others_keep_theirs() -> None:
    before = (Source("o", "kafka", {"a": "1"}), Source("c", "table"))
    now = (Source("o", "kafka", {"a": "1", "b": "2"}), Source("c", "table"))
    assert learned(before, now, {"a": {"0": 1}, "b": {"0": 1}}, {"snapshot_id": 1}) == ([{"a": "1", "b": "2"}, {}], 1)
    assert learned(before, now, {"a": {"0": 1}}, {"snapshot_id": 1})[1] == 0


def test_all_are_asked_for_once_in_a_while() -> None:
    before = (Source("o", "kafka", {"a": "1"}), Source("c", "kafka", {"x": ""}), Source("r", "rate"))
    now = (Source("o", "kafka", {"a": "1"}), Source("c", "kafka", {"x": "5"}), Source("r", "rate"))
    assert learned(before, now, {"a": {"0": 1}}, {"x": {"0": 1}}, 7, since_s=LOOKS_EVERY_S)[1] == 1
    assert learned(before[2:], now[2:], 7, since_s=LOOKS_EVERY_S)[1] == 0


def test_a_topic_that_was_made_anew_ends_the_query() -> None:
    before, now = (Source("o", "kafka", {"a": "1"}),), (Source("o", "kafka", {"a": "9"}),)
    assert learned(before, now, {"a": {"0": 1}})[1] == 0
    with pytest.raises(TransientError) as caught:
        learned(before, now, {"a": {"0": 1}}, since_s=LOOKS_EVERY_S)
    assert caught.value.problems[0].condition == "topic-recreated"


def test_a_topic_that_is_gone_again_is_not_asked_for_twice() -> None:
    before = (Source("o", "kafka", {"a": "1"}),)
    assert learned(before, before, {"a": {"0": 1}, "b": {"0": 1}}) == ([{"a": "1", "b": ""}], 1)


def test_sources_in_another_order_are_no_news() -> None:
    before = (Source("o", "kafka", {"a": "1"}), Source("c", "kafka", {"b": "2"}), Source("r", "rate"))
    assert learned(before, before, {"b": {"0": 1}}, 7, {"a": {"0": 1}})[1] == 0
    assert learned(before, before, None, {"a": {"0": 1}}, {"b": {"0": 1}})[1] == 0
