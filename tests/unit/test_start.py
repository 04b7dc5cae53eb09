"""Where a model continues by an operator's word."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from lakesql.decode import node_of
from lakesql.engine.progress.open import check_starts
from lakesql.engine.sources.binding import StreamBinding
from lakesql.errors import Place, ProjectError, RunError
from lakesql.progress.decide import decide
from lakesql.progress.start import choose_start
from lakesql.progress.state import (
    Batch,
    Checkpoint,
    Decision,
    Fresh,
    ProgressState,
    Resume,
    StartFrom,
)
from lakesql.source.kafka import Kafka
from lakesql.source.recorded import Recorded
from lakesql.source.stream_state import NO_ID, SourceState
from lakesql.stream.stream import read_stream
from tests.unit.test_decide import ID, READ, SOURCE, checkpoint, entry, origin, state


def chosen(
    given: ProgressState, to: Any, allow_duplicates: bool = False
) -> StartFrom | str:
    try:
        return choose_start(given, to, allow_duplicates)
    except RunError as error:
        (problem,) = error.problems
        return problem.condition


def test_a_rewind_to_the_ledger_starts_from_the_tables_positions() -> None:
    for there in (None, checkpoint(9, 9), checkpoint(3, 3, damage="broken")):
        found = chosen(state(there, entry(5, accepted="x")), "ledger")
        assert isinstance(found, StartFrom)
        assert (found.positions, found.follows, found.accepted) == (
            {"orders": READ},
            Batch(ID, 5),
            "x",
        )
    anew = (
        replace(SOURCE, topics={"shop.orders": "id-2"}),
        SourceState("more", "kafka"),
    )
    found = chosen(state(None, entry(5), sources=anew), "ledger")
    assert isinstance(found, StartFrom) and found.positions == {
        "orders": {"shop.orders": {"0": 0, "1": 0}}
    }
    assert chosen(state(checkpoint(5, 5), None), "ledger") == "rewind-impossible"
    assert (
        chosen(state(checkpoint(5, 5), entry(5, state="s"), shape="s"), "ledger")
        == "rewind-impossible"
    )


def test_files_are_known_to_the_checkpoint_that_read_them() -> None:
    read = entry(5, positions={"orders": {"logOffset": 5}})
    for kind in ("files", "recorded"):
        sources = (SourceState("orders", kind),)  # type: ignore[arg-type]
        assert isinstance(
            chosen(state(checkpoint(7, 7), read, sources=sources), "ledger"), StartFrom
        )
        assert (
            chosen(state(None, read, sources=sources), "ledger") == "rewind-impossible"
        )
        assert (
            chosen(state(checkpoint(7, 7, id="c-2"), read, sources=sources), "ledger")
            == "rewind-impossible"
        )
    generated = entry(5, positions={"orders": 5})
    sources = (SourceState("orders", "rate"),)
    assert (
        chosen(state(checkpoint(5, 5), generated, sources=sources), "ledger")
        == "rewind-impossible"
    )


def test_a_stream_that_was_moved_is_read_from_its_start() -> None:
    recorded = {"logOffset": 5, "through": {"orders": "b.jsonl"}}
    moved = state(
        checkpoint(5, 5, positions={5: ({"logOffset": 5},)}),
        entry(5, positions={"orders": recorded}),
    )
    assert chosen(moved, "ledger") == chosen(moved, "checkpoint") == "rewind-impossible"
    assert isinstance(chosen(moved, "start", allow_duplicates=True), StartFrom)


def test_a_rewind_to_the_checkpoint_starts_from_its_positions() -> None:
    before, after = {"shop.orders": {"0": 30}}, {"shop.orders": {"0": 50}}
    there = checkpoint(6, 5, positions={5: (before,), 6: (after,)})
    for newest, stands in ((entry(3), before), (None, before), (entry(6), after)):
        found = chosen(state(there, newest), "checkpoint")
        assert isinstance(found, StartFrom)
        assert found.positions == {"orders": stands}
        assert found.follows == (Batch(ID, newest.batch) if newest else None)
    assert chosen(state(None, entry(5)), "checkpoint") == "rewind-impossible"
    assert (
        chosen(state(checkpoint(5, 5, positions={}), entry(5)), "checkpoint")
        == "rewind-impossible"
    )
    assert (
        chosen(state(there, entry(5, state="s"), shape="s"), "checkpoint")
        == "rewind-impossible"
    )


def test_where_a_checkpoint_stands_is_by_the_streams_that_it_was_made_for() -> None:
    """Also where the model names them in another order now, or reads one of them no
    longer."""
    orders, clicks = replace(SOURCE, name="orders"), SourceState("clicks", "recorded")
    stands = (READ, {"logOffset": 3})
    there = checkpoint(
        5, 5, origin=origin(streams=("orders", "clicks")), positions={5: stands}
    )
    by_name = dict(zip(("orders", "clicks"), stands, strict=True))
    for sources in ((orders, clicks), (clicks, orders), (clicks,)):
        found = chosen(state(there, entry(5), sources=sources), "checkpoint")
        assert isinstance(found, StartFrom)
        assert found.positions == {
            source.name: by_name[source.name] for source in sources
        }
    of_another_number = checkpoint(
        5, 5, origin=origin(streams=("orders",)), positions={5: stands}
    )
    assert (
        chosen(state(of_another_number, entry(5)), "checkpoint") == "rewind-impossible"
    )


def test_a_topic_that_was_made_again_is_read_from_its_beginning_wherever_a_rewind_goes() -> (
    None
):
    """The table was dropped, rolled back, or filled from another checkpoint, which knew
    another topic."""
    anew = (replace(SOURCE, topics={"shop.orders": "id-2"}),)
    there = checkpoint(5, 5, origin=origin(topics={"shop.orders": "id-1"}))
    beginning = {"orders": {"shop.orders": {"0": 0, "1": 0}}}
    for newest in (None, entry(3), entry(9, "c-2", topics={"shop.orders": "id-2"})):
        found = chosen(state(there, newest, sources=anew), "checkpoint")
        assert isinstance(found, StartFrom) and found.positions == beginning
        assert "'shop.orders' was deleted and made again" in found.because
        made = checkpoint(
            0,
            0,
            id="c-3",
            origin=origin(topics={"shop.orders": "id-2"}, follows=found.follows),
        )
        made = replace(
            made,
            positions={0: (found.positions["orders"],)},
            origin=replace(made.origin, empty_through=0),
        )
        assert decide(state(made, newest, sources=anew)) == Resume(-1)
    found = chosen(state(there, entry(3), sources=anew), "ledger")
    assert (
        isinstance(found, StartFrom)
        and found.positions == beginning
        and "made again" in found.because
    )


def test_a_topic_that_is_gone_is_left_out_and_named() -> None:
    read = {**READ, "shop.more": {"0": 3}}
    known = {"shop.orders": "id-1", "shop.more": "id-2"}
    there = checkpoint(5, 5, origin=origin(topics=known), positions={5: (read,)})
    given = state(there, entry(5, topics=known, positions={"orders": read}))
    for to in ("ledger", "checkpoint"):
        found = chosen(given, to)
        assert isinstance(found, StartFrom) and found.positions == {"orders": READ}
        assert found.because.endswith(
            "; topic 'shop.more' is not there any more, and left out"
        )


def test_a_renamed_stream_continues_where_its_topics_stand() -> None:
    """Also where it is split, joined with another, or reads a topic more; a topic that
    was made again begins anew."""
    ids = {"a": "id-a", "b": "id-b"}
    stood = {"one": {"a": {"0": 4}}, "two": {"b": {"0": 5}}}
    there = checkpoint(
        5,
        5,
        origin=origin(streams=tuple(stood), topics=ids),
        positions={5: tuple(stood.values())},
    )
    given = state(there, entry(5, positions=stood, topics=ids), mode="append")
    begins = {"a": {0: 0}, "b": {0: 0}, "c": {0: 0}}
    both = SourceState("both", "kafka", {**ids, "c": "id-c"}, begins)
    one, other = (
        SourceState("one", "kafka", {"a": "id-a"}, begins),
        SourceState("other", "kafka", {"b": "id-b"}, begins),
    )
    split = (replace(one, name="x"), other)
    for to in ("ledger", "checkpoint"):
        for sources, expected in (
            ((one, other), {"one": {"a": {"0": 4}}, "other": {"b": {"0": 5}}}),
            (split, {"x": {"a": {"0": 4}}, "other": {"b": {"0": 5}}}),
            ((both,), {"both": {"a": {"0": 4}, "b": {"0": 5}}}),
            (
                (one, replace(other, topics={"b": "id-9"})),
                {"one": {"a": {"0": 4}}, "other": {"b": {"0": 0}}},
            ),
            ((one, replace(other, topics={"c": "id-c"})), {"one": {"a": {"0": 4}}}),
            ((one, replace(other, topics={"a": "id-a"})), {"one": {"a": {"0": 4}}}),
        ):
            assert given.would_duplicate
            found = chosen(replace(given, sources=sources), to)
            assert isinstance(found, StartFrom) and found.positions == expected
            assert (f"stream '{sources[-1].name}' continues" in found.because) == (
                sources[-1].name in expected
            )


def test_a_topic_that_two_streams_have_read_is_continued_where_both_stand() -> None:
    ids, other = {"a": "id-a"}, (SourceState("other", "kafka", {"a": "id-a"}),)
    for offset, expected in ((4, {"other": {"a": {"0": 4}}}), (5, "rewind-duplicates")):
        stood = {"one": {"a": {"0": 4}}, "two": {"a": {"0": offset}}}
        found = chosen(
            state(None, entry(5, positions=stood, topics=ids), sources=other), "ledger"
        )
        assert (found.positions if isinstance(found, StartFrom) else found) == expected


def test_topics_of_a_renamed_stream_whose_ids_are_not_known_are_not_read_twice() -> (
    None
):
    for known, (to, now) in product(
        ({}, {"shop.orders": NO_ID}), (("ledger", "id-1"), ("checkpoint", NO_ID))
    ):
        other = replace(SOURCE, name="other", topics={"shop.orders": now})
        given = state(checkpoint(5, 5), entry(5, topics=known), sources=(other,))
        assert chosen(given, to) == "rewind-duplicates"
        for may in (
            chosen(given, to, allow_duplicates=True),
            chosen(replace(given, unique_by=("id",)), to),
        ):
            assert isinstance(may, StartFrom) and may.positions == {}


def test_a_rewind_to_start_is_refused_where_it_would_duplicate_rows() -> None:
    given = state(checkpoint(5, 5), entry(5))
    assert chosen(given, "start") == "rewind-duplicates"
    assert isinstance(chosen(given, "start", allow_duplicates=True), StartFrom)
    assert isinstance(chosen(replace(given, unique_by=("id",)), "start"), StartFrom)
    assert chosen(replace(given, entry=None), "start") == "rewind-duplicates", (
        "its history was expired"
    )
    found = chosen(replace(given, entry=None, has_rows=False), "start")
    assert isinstance(found, StartFrom) and (
        found.positions,
        found.follows,
        found.start_ms,
    ) == ({}, None, None)


def test_a_rewind_to_a_time_is_refused_where_it_would_duplicate_rows() -> None:
    assert (
        chosen(state(None, entry(5), has_rows=True), 1_700_000_000_000)
        == "rewind-duplicates"
    )
    found = chosen(
        state(None, entry(5), has_rows=True), 1_700_000_000_000, allow_duplicates=True
    )
    assert isinstance(found, StartFrom)
    found = chosen(state(None, entry(5), unique_by=("id",)), 1_700_000_000_000)
    assert isinstance(found, StartFrom)
    assert (found.positions, found.follows, found.start_ms) == (
        {},
        Batch(ID, 5),
        1_700_000_000_000,
    )
    for kind in ("table", "rate"):
        sources = (SourceState("orders", kind),)  # type: ignore[arg-type]
        assert (
            chosen(state(None, entry(5), sources=sources), 1, allow_duplicates=True)
            == "rewind-impossible"
        )


def test_the_next_run_resumes_from_a_rewound_checkpoint() -> None:
    """Each place to continue from gives a checkpoint that the next run continues
    with."""
    given = state(checkpoint(5, 3), entry(5), unique_by=("id",))
    for to in ("ledger", "checkpoint", "start", 1):
        found = chosen(given, to)
        assert isinstance(found, StartFrom)
        seeded = 0 if found.positions else -1
        made = checkpoint(
            seeded,
            seeded,
            id="c-2",
            origin=origin(follows=found.follows, empty_through=seeded),
        )
        assert decide(replace(given, checkpoint=made)) == Resume(-1)


KAFKA = Kafka("127.0.0.1:1")


def test_a_topic_is_not_begun_at_a_time_that_is_still_to_come() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    now_ms = int(now.timestamp() * 1000)

    def begun(
        start: str,
        decision: Decision,
        there: Checkpoint | None = None,
        source: Any = KAFKA,
    ) -> str:
        declared = {
            "name": "orders",
            "connection": "shop",
            "topic": "shop.orders",
            "columns": {"id": "int"},
        }
        stream = read_stream(
            node_of({**declared, "start": start}, Place("streams/shop.yml", 2))
        )
        try:
            check_starts(
                state(there, None), decision, (StreamBinding(stream, source),), now_ms
            )
        except ProjectError as error:
            (problem,) = error.problems
            assert problem.place == stream.place and problem.fix
            return problem.condition
        return ""

    past, later = now.isoformat(), (now + timedelta(seconds=1)).isoformat()
    for start in ("earliest", "latest", past):
        assert begun(start, Fresh()) == ""
    unplanned = checkpoint(-1, -1)
    rewound = checkpoint(-1, -1, origin=origin(start_ms=now_ms + 1))
    assert begun(later, Fresh()) == begun(later, Resume(-1), unplanned) == "bad-start"
    assert (
        begun(later, Resume(5), checkpoint(5, 5))
        == begun(later, StartFrom({"orders": READ}, None, ""))
        == ""
    )
    assert (
        begun(past, Resume(-1), rewound)
        == begun(past, StartFrom({}, None, "", now_ms + 1))
        == "bad-start"
    )
    assert begun(later, StartFrom({}, None, "", now_ms)) == ""
    assert begun(later, Fresh(), source=Recorded("streams")) == "", (
        "it has what is of that time, and no more"
    )
