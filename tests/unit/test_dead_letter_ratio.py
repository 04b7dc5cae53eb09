"""Among which records dead letters are counted: it does not matter which model has read
a topic of several."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from lakesql.engine.batch import refuse
from lakesql.engine.batch.counters import BatchCounts
from lakesql.errors import RunError


def sink(ratio: float, planned: int | None, source_table: tuple[str, ...]) -> Any:
    model = Mock(
        option_place=lambda option: None, **{"config.max_dead_letter_ratio": ratio}
    )
    model.name = "m"
    stream = Mock(
        registry="", route=None, source_table=source_table, tells_columns=True
    )
    return Mock(
        model=model,
        bindings=[Mock(stream=stream)],
        letters=None,
        **{"progress.planned": planned},
    )


def check(sink: Any, records: int, bad: int) -> None:
    refuse.check_batch(
        sink,
        Mock(records=[], checked=None),
        BatchCounts(records, bad, 0, records - bad, None),
        0,
    )


@pytest.mark.parametrize("records", [2, 92])
def test_of_a_topic_of_several_tables_all_records_count(records: int) -> None:
    """Of 92 records two cannot be read; the others are of other tables, and another
    model may have read them."""
    check(sink(0.1, 92, ("public.notes",)), records, 2)
    with pytest.raises(RunError, match="2 of 92 records"):
        check(sink(0.01, 92, ("public.notes",)), records, 2)


def test_of_another_topic_those_of_the_batch_count() -> None:
    """A compacted topic has fewer records than offsets."""
    with pytest.raises(RunError, match="2 of 10 records"):
        check(sink(0.1, 92, ()), 10, 2)
    check(sink(0.2, 92, ()), 10, 2)
