"""What Kafka's topics may have come to since they were read last, and what follows from
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lakesql.errors import RunError
from lakesql.ledger.entry import Entry
from lakesql.progress.decide import decide, decide_all
from lakesql.progress.position import positions_now, topic_ids
from lakesql.progress.remarks import remark_on
from lakesql.progress.start import choose_start
from lakesql.progress.state import Batch, Checkpoint, Resume, StartFrom
from lakesql.progress.topics import check_upstream
from lakesql.source.cluster import find_held
from lakesql.source.stream_state import NO_ID, Expired, SourceState
from tests.unit.test_decide import (
    ID,
    READ,
    SOURCE,
    checkpoint,
    entry,
    origin,
    outcome,
    refusal,
    state,
)


def test_a_recreated_topic_is_refused() -> None:
    anew = (replace(SOURCE, topics={"shop.orders": "id-2"}),)
    assert refusal(state(checkpoint(5, 5), entry(5), sources=anew)) == "topic-recreated"
    assert refusal(state(None, entry(5), sources=anew)) == "topic-recreated"
    known_to_origin = origin(topics={"shop.orders": "id-1"}, empty_through=5)
    there = checkpoint(5, 5, origin=known_to_origin)
    assert refusal(state(there, None, sources=anew)) == "topic-recreated"
    unknown = entry(5, topics={})
    assert decide(state(checkpoint(5, 5), unknown, sources=anew)) == Resume(5)
    stands, then = {"orders": READ}, {"shop.orders": "id-1"}
    assert positions_now(anew, stands, then) == {
        "orders": {"shop.orders": {"0": 0, "1": 0}}
    }
    assert positions_now((replace(SOURCE, topics={}),), stands, then) == {"orders": {}}
    assert positions_now((SOURCE,), stands, then) == {"orders": READ}
    assert positions_now((SOURCE, SourceState("new", "kafka")), stands, then) == {
        "orders": READ
    }
    assert positions_now((SOURCE,), {"orders": None}, then) == {"orders": None}


def test_a_topic_without_an_id_is_none_that_was_made_again() -> None:
    """The broker has no ids, has got them by an upgrade, or has lost them by going
    back."""
    without, upgraded = (replace(SOURCE, topics={"shop.orders": NO_ID}),), (SOURCE,)
    anew = (replace(SOURCE, topics={"shop.orders": "id-2"}),)
    old = entry(5, topics={"shop.orders": NO_ID})
    for sources, newest in ((without, old), (upgraded, old), (without, entry(5))):
        for there in (checkpoint(5, 5), None):
            assert isinstance(
                decide(state(there, newest, sources=sources)), Resume | StartFrom
            )
        assert positions_now(sources, {"orders": READ}, newest.topics) == {
            "orders": READ
        }
    learnt = checkpoint(
        6,
        6,
        origin=origin(topics={"shop.orders": "id-1"}, empty_after=5, empty_through=6),
    )
    learnt = replace(learnt, positions={6: (READ,)})
    assert refusal(state(learnt, old, sources=anew)) == "topic-recreated"
    assert [
        list(remark_on(source)) for source in (SOURCE, SourceState("r", "rate"))
    ] == [[], []]
    (said,) = remark_on(without[0])
    assert "(shop.orders)" in said


def test_records_behind_an_open_transaction_are_told() -> None:
    ends = {"t": {0: 80, 1: 9}, "u": {0: 4}}
    assert (
        find_held(ends, ends)
        == find_held(ends, {"t": {0: 85, 1: 9}, "u": {0: 4}})
        == {}
    )
    held = find_held(ends, {"t": {0: 3, 1: 9}, "u": {0: 4}})
    assert held == {"t": {0: 3}}
    (said,) = remark_on(replace(SOURCE, ends=ends, held=held))
    assert "77 offsets of t-0, from 3 on, are read once it ends" in said
    many = {"t": dict.fromkeys(range(9), 1)}
    (said,) = remark_on(
        replace(SOURCE, ends=many, held={"t": dict.fromkeys(range(9), 0)})
    )
    assert "t-4, from 0 on and of 4 more partitions" in said and "t-5" not in said


def test_nothing_follows_from_topics_that_were_not_asked_for() -> None:
    unasked = SourceState("orders", "kafka", is_asked=False)
    assert decide(state(checkpoint(5, 5), entry(5), sources=(unasked,))) == Resume(5)
    assert (
        refusal(
            state(
                checkpoint(5, 5), entry(5), sources=(replace(unasked, is_asked=True),)
            )
        )
        == "data-lost"
    )


def test_a_checkpoint_made_for_the_recreated_topic_resumes() -> None:
    """Also where its first batch had no row, so that the ledger still knows the old
    one."""
    anew = (replace(SOURCE, topics={"shop.orders": "id-2"}),)
    made = origin(topics={"shop.orders": "id-2"}, follows=Batch(ID, 5), empty_through=1)
    assert decide(
        state(checkpoint(1, 1, id="c-2", origin=made), entry(5), sources=anew)
    ) == Resume(-1)


def test_topics_of_one_name_on_two_clusters_are_not_taken_for_each_other() -> None:
    eu, us = (
        replace(SOURCE, name="eu"),
        replace(SOURCE, name="us", topics={"shop.orders": "id-2", "more": "id-3"}),
    )
    assert topic_ids((eu, us)) == {"more": "id-3"}
    assert topic_ids((eu, replace(us, topics=eu.topics))) == {"shop.orders": "id-1"}


def test_a_position_is_that_of_the_topics_whatever_the_order() -> None:
    """The first records of both topics have gone by retention, after they were read."""
    clicks = SourceState(
        "clicks", "kafka", {"shop.clicks": "id-2"}, {"shop.clicks": {0: 3}}
    )
    orders = replace(SOURCE, beginnings={"shop.orders": {0: 4, 1: 7}})
    there = origin(streams=("orders", "clicks"), state="s")
    positions = ({"shop.clicks": {"0": 9}}, READ)
    newest = entry(
        5, positions=dict(zip(there.streams, positions, strict=True)), state="s"
    )
    given = state(
        checkpoint(5, 5, origin=there, positions={5: positions}), newest, shape="s"
    )
    assert decide(replace(given, sources=(orders, clicks))) == Resume(5)
    assert decide(
        replace(
            given,
            sources=(clicks, orders),
            checkpoint=replace(
                given.checkpoint, origin=replace(there, streams=("clicks", "orders"))
            ),
        )
    ) == Resume(5)


def test_a_stream_that_joins_itself_is_looked_at_as_any_other() -> None:
    """Spark has a position for each time that it reads the stream; of two the lower one
    counts."""
    behind = {"shop.orders": {"0": 3, "1": 7}}
    there = checkpoint(
        5,
        5,
        origin=origin(streams=("orders",), state="s"),
        positions={5: (READ, behind)},
    )
    newest = entry(5, positions={"0": READ, "1": behind}, state="s")
    given = state(there, newest, shape="s")
    assert decide(given) == Resume(5)
    anew = replace(SOURCE, topics={"shop.orders": "id-2"})
    assert refusal(replace(given, sources=(anew,))) == "topic-recreated"
    begins_at = [
        replace(SOURCE, beginnings={"shop.orders": {0: first, 1: 7}})
        for first in (3, 4)
    ]
    assert decide(replace(given, sources=(begins_at[0],))) == Resume(5)
    assert refusal(replace(given, sources=(begins_at[1],))) == "data-lost"


def test_a_table_that_joins_itself_is_known_to_be_rebuilt() -> None:
    stands = {"version": 1, "snapshot_id": 7, "position": 0, "scan_all_files": False}
    there = checkpoint(
        5,
        5,
        origin=origin(streams=("orders",), state="s"),
        positions={5: (stands, stands)},
    )
    newest = entry(5, positions={"0": stands, "1": stands}, state="s")
    given = state(
        there,
        newest,
        sources=(SourceState("orders", "table", rebuilt=(7, 8)),),
        shape="s",
    )
    check_upstream(given, decide(given))
    with pytest.raises(RunError) as caught:
        check_upstream(
            replace(given, sources=(SourceState("orders", "table", rebuilt=(8, 9)),)),
            Resume(5),
        )
    assert caught.value.problems[0].condition == "upstream-rebuilt"


def test_a_loss_of_one_query_of_several_is_accepted() -> None:
    sources = (replace(SOURCE, beginnings=LOST),)
    unlost = state(checkpoint(5, 5), entry(5), accept_data_loss=True)
    lost = replace(unlost, sources=sources)
    for queries in ([unlost, lost], [lost, unlost], [lost]):
        found = [type(decision) for decision in decide_all(queries)]
        assert found == [StartFrom if query is lost else Resume for query in queries]
    with pytest.raises(RunError) as caught:
        decide_all([unlost, unlost])
    assert caught.value.problems[0].condition == "nothing-lost"


LOST: Mapping[str, Mapping[int, int]] = {"shop.orders": {0: 45, 1: 7, 2: 100}}


def test_records_that_are_gone_are_named() -> None:
    sources = (replace(SOURCE, beginnings=LOST),)
    for there, newest in ((checkpoint(5, 5), entry(5)), (None, entry(5))):
        with pytest.raises(RunError) as caught:
            decide(state(there, newest, sources=sources))
        (problem,) = caught.value.problems
        assert problem.condition == "data-lost"
        assert "shop.orders-0: 40 to 44, shop.orders-2: 0 to 99" in problem.what
        assert "105 offsets" in problem.what


def test_what_is_gone_is_shown_in_order_of_topics_and_partitions() -> None:
    positions = {"b": {"10": 4, "2": 7}, "a": {"0": 10, "1": 0}, "deleted": {"0": 3}}
    source = SourceState(
        "orders",
        "kafka",
        {},
        {"a": {0: 12, 1: 0, 2: 9}, "b": {2: 8, 10: 5}, "new": {0: 3}},
    )
    there = entry(5, positions={"orders": positions}, topics={})
    found = decide(state(None, there, sources=(source,), accept_data_loss=True))
    assert isinstance(found, StartFrom)
    assert (
        found.accepted
        == "a-0: 10 to 11, a-2: 0 to 8, b-2: 7 to 7, b-10: 4 to 4, deleted-0: 3 on, new-0: 0 to 2"
    )
    assert found.positions == {
        "orders": {
            "b": {"10": 5, "2": 8},
            "a": {"0": 12, "1": 0, "2": 9},
            "new": {"0": 3},
        },
    }


def test_a_loss_of_a_log_is_accepted_at_the_place_that_follows() -> None:
    """A partition that has come since the position may have lost records too, and one
    may be gone for good."""
    expired = {
        ("s", "gone"): Expired("it is gone.", {"ended": True}),
        ("s", "new"): Expired("its parents are gone."),
    }
    source = SourceState("orders", "kinesis", find_expired=lambda _: expired)
    there = entry(
        5,
        positions={"orders": {"s": {"gone": {"after": "1"}, "left": {"after": "2"}}}},
        topics={},
    )
    assert refusal(state(None, there, sources=(source,))) == "data-lost"
    found = decide(state(None, there, sources=(source,), accept_data_loss=True))
    assert isinstance(found, StartFrom)
    assert found.positions == {
        "orders": {"s": {"gone": {"ended": True}, "left": {"after": "2"}, "new": None}}
    }


def test_a_topic_that_no_longer_exists_is_refused_as_lost() -> None:
    """It was deleted, or the stream names others now: with the checkpoint, without it,
    and accepted."""
    read = {**READ, "old": {"0": 3, "1": 0}}
    for there in (checkpoint(5, 5, positions={5: (read,)}), None):
        given = state(there, entry(5, positions={"orders": read}))
        with pytest.raises(RunError) as caught:
            decide(given)
        (problem,) = caught.value.problems
        assert problem.condition == "data-lost"
        assert (
            "old-0: 3 on, old-1: 0 on" in problem.what
            and "shop.orders" not in problem.what
        )
        assert problem.fix.endswith("lakesql run --select orders --accept-data-loss")
        found = decide(replace(given, accept_data_loss=True))
        assert isinstance(found, StartFrom)
        assert (found.positions, found.accepted) == (
            {"orders": READ},
            "old-0: 3 on, old-1: 0 on",
        )


def test_a_partition_that_ends_before_the_read_offset_is_refused() -> None:
    """Or before what was planned and must be read again. What may be seen of it later
    would be skipped."""
    short = (replace(SOURCE, ends={"shop.orders": {0: 39, 1: 7}}),)
    for accepts in (False, True):
        given = state(
            checkpoint(5, 5),
            entry(5),
            sources=short,
            accept_data_loss=accepts,
            has_rows=True,
        )
        with pytest.raises(RunError) as caught:
            decide(given)
        (problem,) = caught.value.problems
        assert problem.condition == "data-lost"
        assert problem.what.endswith(": shop.orders-0 ends at 39, 40 was reached.")
        assert "lakesql rewind orders --to TIME --allow-duplicates" in problem.fix
    before = {"shop.orders": {"0": 30, "1": 7}}
    planned = checkpoint(5, 4, positions={4: (before,), 5: (READ,)})
    assert (
        refusal(state(planned, entry(4, positions={"orders": before}), sources=short))
        == "data-lost"
    )
    level = (replace(SOURCE, ends={"shop.orders": {0: 40, 1: 7}}),)
    assert decide(state(checkpoint(5, 5), entry(5), sources=level)) == Resume(5)


def test_an_accepted_loss_is_recorded_and_the_next_offsets_are_read() -> None:
    sources = (replace(SOURCE, beginnings=LOST),)
    before = entry(5, accepted="shop.orders-1: 2 to 3")
    found = decide(
        state(checkpoint(5, 5), before, sources=sources, accept_data_loss=True)
    )
    assert isinstance(found, StartFrom)
    assert found.positions == {"orders": {"shop.orders": {"0": 45, "1": 7, "2": 100}}}
    assert (
        found.accepted
        == "shop.orders-1: 2 to 3, shop.orders-0: 40 to 44, shop.orders-2: 0 to 99"
    )
    assert found.follows == Batch(ID, 5)
    stateful = state(
        checkpoint(5, 5, origin=origin(state="s")),
        entry(5, state="s"),
        shape="s",
        sources=sources,
    )
    assert outcome(replace(stateful, accept_data_loss=True)) == "data-lost"


def test_a_loss_that_was_accepted_before_any_row_is_kept() -> None:
    """The table has not heard of it yet, or was dropped since."""
    made = origin(
        follows=Batch(ID, 5), accepted="shop.orders-0: 10 to 14", empty_through=1
    )
    there = checkpoint(1, 1, id="c-2", origin=made)
    sources = (replace(SOURCE, beginnings={"shop.orders": {0: 45, 1: 7}}),)
    found = decide(state(there, entry(5), sources=sources, accept_data_loss=True))
    assert isinstance(found, StartFrom)
    assert found.accepted == "shop.orders-0: 10 to 14, shop.orders-0: 40 to 44"
    again = checkpoint(1, 1, id="c-3", origin=replace(made, accepted=found.accepted))
    found = decide(state(again, entry(5), sources=sources, accept_data_loss=True))
    assert isinstance(found, StartFrom)
    assert found.accepted == "shop.orders-0: 10 to 14, shop.orders-0: 40 to 44", (
        "each of them once"
    )
    for to, newest in (
        ("ledger", entry(5)),
        ("checkpoint", entry(5)),
        ("checkpoint", None),
    ):
        assert choose_start(state(there, newest), to).accepted == made.accepted  # type: ignore[arg-type]
    gone_on = state(there, entry(7, "c-9", accepted="shop.orders-1: 2 to 3"))
    assert choose_start(gone_on, "ledger").accepted == "shop.orders-1: 2 to 3"


@pytest.mark.parametrize(
    ("there", "newest"), [(checkpoint(5, 5), entry(5)), (None, entry(5)), (None, None)]
)
def test_accepting_a_loss_where_nothing_is_lost_is_refused(
    there: Checkpoint | None, newest: Entry | None
) -> None:
    assert refusal(state(there, newest, accept_data_loss=True)) == "nothing-lost"


def test_a_replayed_batch_is_read_from_where_the_one_before_it_ended() -> None:
    """Batch 5 is planned and not in the table: its records, from offset 30 on, are
    still to be read."""
    sources = (replace(SOURCE, beginnings={"shop.orders": {0: 35, 1: 0}}),)
    before = {"shop.orders": {"0": 30, "1": 7}}
    there = checkpoint(5, 4, positions={4: (before,), 5: (READ,)})
    newest = entry(4, positions={"orders": before})
    assert refusal(state(there, newest, sources=sources)) == "data-lost"
    assert decide(state(there, entry(5), sources=sources)) == Resume(5)
    # Its state must see a batch again that is in the table.
    with_state = checkpoint(
        5, 4, positions={4: (before,), 5: (READ,)}, origin=origin(state="s")
    )
    assert (
        outcome(state(with_state, entry(5, state="s"), sources=sources, shape="s"))
        == "data-lost"
    )
