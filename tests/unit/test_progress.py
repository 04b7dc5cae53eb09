"""What a query learns of topics that appear while it runs."""

from __future__ import annotations

from typing import Any

from lakesql.engine.facts import Origin
from lakesql.engine.position import Source
from lakesql.engine.progress import Progress

ORIGIN = Origin("m", "uuid", ("o", "c"), "")


def learned(sources: tuple[Source, ...], now: tuple[Source, ...], *offsets: Any) -> tuple[list[dict[str, str]], int]:
    """The topics of each source after a batch that ended there, and how often the broker was asked in two batches."""
    asked: list[int] = []

    def look() -> tuple[Source, ...]:
        asked.append(1)
        return now

    progress = Progress.__new__(Progress)
    progress._sources, progress._look, progress._origin = sources, look, ORIGIN
    for _ in range(2):
        progress._learn_topics(offsets)
    return [dict(source.topics) for source in progress._sources], len(asked)


def test_a_new_topic_gets_its_id_and_the_others_keep_theirs() -> None:
    before = (Source("o", "kafka", {"a": "1"}), Source("c", "table"))
    now = (Source("o", "kafka", {"a": "9", "b": "2"}), Source("c", "table"))
    assert learned(before, now, {"a": {"0": 1}, "b": {"0": 1}}, {"snapshot_id": 1}) == ([{"a": "1", "b": "2"}, {}], 1)
    assert learned(before, now, {"a": {"0": 1}}, {"snapshot_id": 1})[1] == 0


def test_a_topic_that_is_gone_again_is_not_asked_for_twice() -> None:
    before = (Source("o", "kafka", {"a": "1"}),)
    assert learned(before, before, {"a": {"0": 1}, "b": {"0": 1}}) == ([{"a": "1", "b": ""}], 1)


def test_sources_in_another_order_are_no_news() -> None:
    before = (Source("o", "kafka", {"a": "1"}), Source("c", "kafka", {"b": "2"}), Source("r", "rate"))
    assert learned(before, before, {"b": {"0": 1}}, 7, {"a": {"0": 1}})[1] == 0
    assert learned(before, before, None, {"a": {"0": 1}}, {"b": {"0": 1}})[1] == 0
