"""What a query learns of topics that appear, or are created again, while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakesql.engine.progress.progress import QueryProgress
from lakesql.errors import RunError, TransientError
from lakesql.model.table_name import TableName
from lakesql.progress.position import count_between
from lakesql.progress.state import Origin, QueryIdentity
from lakesql.source.stream_state import NO_ID, SourceState
from tests.cases import each_of

ORIGIN = Origin("m", "uuid", ("o", "c"), "")


class Asked:
    """A broker that says `now` of each source's topics, or raises it; `times` counts
    the questions."""

    def __init__(self, *now: Mapping[str, str] | Exception) -> None:
        self.now = now
        self.times = 0

    def __call__(self) -> list[Mapping[str, str]]:
        self.times += 1
        for found in self.now:
            if isinstance(found, Exception):
                raise found
        return [found for found in self.now if not isinstance(found, Exception)]


def progress(sources: tuple[SourceState, ...], look: Asked) -> QueryProgress:
    found = QueryProgress.__new__(QueryProgress)
    found._sources, found._look, found._origin = sources, look, ORIGIN
    return found


def learned(
    sources: tuple[SourceState, ...], look: Asked, *offsets: Any
) -> tuple[list[dict[str, str]], int]:
    """The topics of each source after a batch that ended there, and how often the
    broker was asked in two batches."""
    found = progress(sources, look)
    for _ in range(2):
        found._learn_topics(offsets)
    return [dict(source.topics) for source in found._sources], look.times


def test_a_new_topic_gets_its_id_and_the_others_keep_theirs() -> None:
    before, now = (
        (SourceState("o", "kafka", {"a": "1"}), SourceState("c", "table")),
        ({"a": "1", "b": "2"}, {}),
    )
    read = {"a": {"0": 1}, "b": {"0": 1}}, {"snapshot_id": 1}
    assert learned(before, Asked(*now), *read) == ([{"a": "1", "b": "2"}, {}], 1)
    assert learned(before, Asked(*now), {"a": {"0": 1}}, {"snapshot_id": 1})[1] == 0


def test_a_topic_that_is_gone_again_is_not_asked_for_twice() -> None:
    before = (SourceState("o", "kafka", {"a": "1"}),)
    assert learned(before, Asked({"a": "1"}), {"a": {"0": 1}, "b": {"0": 1}}) == (
        [{"a": "1", "b": ""}],
        1,
    )


class Files(dict[str, str]):
    """The files of a checkpoint. `writes` counts how often one was written."""

    writes = 0

    def read(self, name: str) -> str | None:
        return self.get(name)

    def write(self, name: str, text: str) -> None:
        self.writes += 1
        self[name] = text


def opened(
    sources: tuple[SourceState, ...], look: Asked, files: Files
) -> QueryProgress:
    """The progress of a query that has written no batch."""
    found = progress(sources, look)
    found._files, found._positions, found._backlog = files, {}, ""  # type: ignore[assignment]
    found.identity, found.last = (
        QueryIdentity("m", "m", TableName("lake", "shop", "m"), ""),
        -1,
    )
    found._checkpoint = found._query_hash = ""
    found._asked, found._before, found.planned = -1, {}, None
    return found


def test_the_checkpoint_knows_a_topic_of_which_no_row_was_written() -> None:
    """Neither the table nor the origin of the checkpoint would have told it apart from
    one that is made again.

    It has appeared before the query was opened, or while it runs.
    """
    read = json.dumps({"a": {"0": 9}, "new": {"0": 5}})
    files = Files({f"offsets/{batch}": f"v1\n{{}}\n{read}" for batch in (6, 7)})
    for sources in (
        (SourceState("o", "kafka", {"a": "1", "new": "2"}),),
        (SourceState("o", "kafka", {"a": "1"}),),
    ):
        found = opened(sources, Asked({"a": "1", "new": "2"}), files)
        found.last = 5
        found._origin = replace(
            ORIGIN, streams=("o",), topics={"a": "1"}, empty_after=5, empty_through=5
        )
        files.writes = 0
        for batch in (6, 7):
            entry = found.entry(batch)
            saved = json.loads(files["lakesql.json"])
            assert saved["topics"] == entry.topics == {"a": "1", "new": "2"}
        assert files.writes == 1
        found.note_empty(entry)
        saved = json.loads(files["lakesql.json"])
        assert saved["topics"] == entry.topics and saved["empty_through"] == 7


def test_the_first_batch_has_at_most_the_offsets_from_where_the_topics_begin() -> None:
    topics = SourceState(
        "o", "kafka", {"a": "1", "b": "2"}, {"a": {0: 100}, "b": {0: 0, 1: 40}}
    )
    ends = [
        {"a": {"0": 103}, "b": {"0": 2, "1": 40}},
        {"a": {"0": 104}, "b": {"0": 2, "1": 40}},
    ]
    files = Files(
        {
            f"offsets/{batch}": f"v1\n{{}}\n{json.dumps(end)}"
            for batch, end in enumerate(ends)
        }
    )
    found = opened((topics,), Asked(), files)
    planned = []
    for batch in (0, 0, 1):  # the first is taken again
        found.entry(batch)
        planned.append(found.planned)
    assert planned == [5, 5, 1]


def test_the_first_batch_of_files_has_no_offsets() -> None:
    files = Files({"offsets/0": 'v1\n{}\n{"logOffset":0}'})
    found = opened((SourceState("f", "files"),), Asked(), files)
    found.entry(0)
    assert found.planned is None


def test_sources_in_another_order_cause_no_request_to_the_broker() -> None:
    before = (
        SourceState("o", "kafka", {"a": "1"}),
        SourceState("c", "kafka", {"b": "2"}),
        SourceState("r", "rate"),
    )
    assert learned(before, Asked(), {"b": {"0": 1}}, 7, {"a": {"0": 1}})[1] == 0
    assert learned(before, Asked(), None, {"a": {"0": 1}}, {"b": {"0": 1}})[1] == 0


@each_of(
    ("now", "condition"),
    [
        (({"a": "1", "new": "3"}, {"x": "5"}, {}), ""),
        (({"a": NO_ID}, {"x": "5"}, {}), ""),
        (({}, {}, {}), ""),
        (({"a": "9"}, {"x": "5"}, {}), "topic-recreated"),
        ((RunError.of("unknown-topic", "There is no topic 'a'."),), "unknown-topic"),
    ],
)
def test_a_topic_recreated_or_deleted_during_a_batch_is_a_transient_error(
    now: tuple[Mapping[str, str] | Exception, ...], condition: str
) -> None:
    """One whose id was not known may have any. Whatever is wrong, the next try says
    what to do about it."""
    sources = (
        SourceState("o", "kafka", {"a": "1"}),
        SourceState("c", "kafka", {"x": ""}),
        SourceState("r", "rate"),
    )
    met = ""
    try:
        progress(sources, Asked(*now)).check_topics()
    except TransientError as error:
        met = error.problems[0].condition
    assert met == condition


def test_who_reads_no_topic_is_not_asked() -> None:
    look = Asked({})
    progress((SourceState("r", "rate"),), look).check_topics()
    assert look.times == 0


def test_the_offsets_of_a_batch_are_counted_where_all_streams_are_topics() -> None:
    before: dict[str, Any] = {"a": {"t": {"0": 5, "1": 0}}, "b": {"u": {"0": 1}}}
    after: dict[str, Any] = {
        "a": {"t": {"0": 9, "1": 2}, "new": {"0": 4}},
        "b": {"u": {"0": 1}},
    }
    assert count_between(before, after) == 4 + 2 + 4
    assert count_between({}, after) is None, "where it begins is not known"
    files = {"a": {"logOffset": 3}}
    assert count_between(files, {"a": {"logOffset": 4}}) is None
