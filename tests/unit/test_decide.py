"""What a checkpoint and a ledger may say of each other, and what follows from it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

import pytest

from lakesql.errors import RunError
from lakesql.ledger.entry import Entry
from lakesql.progress.decide import decide
from lakesql.progress.state import (
    Batch,
    Checkpoint,
    Decision,
    Fresh,
    Origin,
    ProgressState,
    Resume,
    StartFrom,
)
from lakesql.source.kinds import SOURCES
from lakesql.source.stream_state import SourceState, spark_position
from tests.cases import each_of

TABLE_ID, ID = "uuid-1", "c-1"
READ = {"shop.orders": {"0": 40, "1": 7}}
SOURCE = SourceState(
    "orders",
    "kafka",
    {"shop.orders": "id-1"},
    {"shop.orders": {0: 0, 1: 0}},
    {"shop.orders": {0: 90, 1: 9}},
)


def entry(batch: int, checkpoint: str = ID, **fields: Any) -> Entry:
    positions = fields.pop("positions", {"orders": READ})
    topics = fields.pop("topics", {"shop.orders": "id-1"})
    return Entry(
        "orders", checkpoint, batch, json.dumps(positions), "q", topics=topics, **fields
    )


def origin(**fields: Any) -> Origin:
    return Origin(
        **{
            "model": "orders",
            "table_id": TABLE_ID,
            "streams": ("orders",),
            "state": "",
            **fields,
        }
    )


def checkpoint(newest_planned: int, newest_committed: int, **fields: Any) -> Checkpoint:
    """A checkpoint whose files are complete up to these batches."""
    known: dict[str, Any] = {
        "id": ID,
        "planned": frozenset(range(newest_planned + 1)),
        "committed": frozenset(range(newest_committed + 1)),
        "positions": {
            number: (READ,)
            for number in {newest_planned, newest_committed}
            if number >= 0
        },
        "origin": origin(),
        **fields,
    }
    return Checkpoint(**known)


def state(
    there: Checkpoint | None, newest: Entry | None, **fields: Any
) -> ProgressState:
    base = ProgressState(
        "orders",
        "orders",
        "lake.shop.orders",
        TABLE_ID,
        "checkpoints/orders",
        (SOURCE,),
        "",
        there,
        newest,
    )
    return replace(base, **{"has_rows": newest is not None, **fields})


def refusal(given: ProgressState) -> str:
    with pytest.raises(RunError) as caught:
        decide(given)
    (problem,) = caught.value.problems
    assert problem.what and problem.fix
    assert not re.search(r"(?<!`)\blakesql \w+[^`]*\. [A-Z]", problem.fix), (
        "a command and a sentence run together"
    )
    assert (
        "lakesql r" in problem.fix
        or "lakesql drop" in problem.fix
        or "--accept-data-loss" in problem.fix
    )
    return problem.condition


def outcome(given: ProgressState) -> Decision | str:
    """The decision, or the condition that it ends with."""
    try:
        return decide(given)
    except RunError as error:
        return error.problems[0].condition


@pytest.mark.parametrize("there", [checkpoint(5, 5), None])
def test_rows_of_another_mode_or_of_other_keys_are_refused(
    there: Checkpoint | None,
) -> None:
    written = entry(5, mode="upsert", keys=("id", "Day"))
    assert refusal(state(there, written, mode="append")) == "mode-changed"
    assert refusal(state(there, written, mode="upsert", keys=("id",))) == "keys-changed"
    marked = entry(5, mode="cdc", keys=("id",), deletes="soft")
    assert refusal(state(there, marked, mode="cdc", keys=("id",))) == "mode-changed"
    assert isinstance(
        outcome(state(there, marked, mode="cdc", keys=("id",), deletes="soft")),
        Resume | StartFrom,
    )
    for same in (
        state(there, written, mode="upsert", keys=("day", "id")),
        state(there, written, mode="append", has_rows=False),
        state(there, entry(5), mode="append"),
    ):
        assert isinstance(decide(same), Resume if there else StartFrom)


def test_rows_that_another_model_has_written_otherwise_are_refused() -> None:
    """A model that has another name and the same table begins with its rows, whatever
    the checkpoint says."""
    written = replace(entry(5, mode="upsert", keys=("id",)), model="orders_before")
    for there, own in [
        (None, None),
        (checkpoint(3, 3), entry(3, mode="upsert", keys=("id", "day"))),
    ]:
        given = state(there, own, has_rows=True, written=written, unique_by=("id",))
        assert refusal(replace(given, mode="append")) == "mode-changed"
        assert (
            refusal(replace(given, mode="upsert", keys=("id", "day"))) == "keys-changed"
        )
        assert isinstance(
            decide(replace(given, mode="upsert", keys=("ID",))),
            Resume if there else Fresh,
        )
        assert isinstance(
            decide(replace(given, mode="append", has_rows=False)),
            Resume if there else Fresh,
        )


def test_dead_letters_that_the_models_own_query_has_written_are_no_other_rows() -> None:
    written = replace(entry(5, mode="upsert", keys=("id",)), model="orders")
    given = state(checkpoint(3, 3), entry(3), has_rows=True, written=written)
    assert refusal(given) == "mode-changed"
    assert decide(replace(given, is_companion=True)) == Resume(3)


def test_nothing_there_is_a_fresh_start() -> None:
    assert decide(state(None, None)) == Fresh()
    assert decide(state(None, None, table_id="")) == Fresh()


def test_a_checkpoint_in_which_nothing_was_planned_is_none() -> None:
    empty = checkpoint(-1, -1)
    assert decide(state(empty, None)) == Resume(-1)
    assert decide(state(replace(empty, origin=None), None)) == Fresh()
    assert isinstance(decide(state(empty, entry(3, "c-0"))), StartFrom)


@pytest.mark.parametrize("done", [0, 5])
def test_a_checkpoint_that_agrees_with_the_ledger_resumes(done: int) -> None:
    assert decide(state(checkpoint(done, done), entry(done))) == Resume(done)
    assert decide(state(checkpoint(done + 1, done), entry(done))) == Resume(done)
    assert decide(state(checkpoint(done + 1, done), entry(done + 1))) == Resume(
        done + 1
    )


def test_every_combination_of_checkpoint_files_and_ledger_matches_an_oracle() -> None:
    """Over all sets of files of four batches, and each place where the table may stand:
    an oracle of its own words."""
    numbers = range(4)
    sets = [
        frozenset(some)
        for some in chain.from_iterable(
            combinations(numbers, size) for size in range(5)
        )
    ]
    resumed = 0
    for planned, committed, last in product(sets, sets, range(-1, 5)):
        there = checkpoint(-1, -1, planned=planned, committed=committed)
        newest = entry(last) if last >= 0 else None
        found = outcome(state(there, newest))
        newest_planned, newest_committed = (
            max(planned, default=-1),
            max(committed, default=-1),
        )
        if not planned and not committed:
            expected: Any = Resume(-1) if last < 0 else "checkpoint-behind"
        elif newest_planned - newest_committed not in (0, 1) or (
            set(range(min(planned), newest_planned)) - planned
            or (newest_planned > 0 and min(planned) == newest_planned)
        ):
            expected = "checkpoint-inconsistent"
        elif last > newest_planned:
            expected = "checkpoint-behind"
        elif newest_committed > last:
            expected = "table-behind" if last >= 0 else "ledger-missing"
        else:
            expected = Resume(last)
            resumed += 1
        assert found == expected, (sorted(planned), sorted(committed), last)
    assert resumed > 50


def test_old_files_are_gone_as_spark_removes_them() -> None:
    kept = frozenset({3, 7, *range(50, 151)})
    there = checkpoint(150, 150, planned=kept, committed=kept)
    assert decide(state(there, entry(150))) == Resume(150)
    holed = replace(there, planned=kept - {120})
    assert refusal(state(holed, entry(150))) == "checkpoint-inconsistent"


@each_of(
    "there",
    [
        checkpoint(5, 5, id=""),
        checkpoint(5, 5, damage="offsets/5 cannot be read"),
        checkpoint(5, 3),
        checkpoint(5, 6),
        checkpoint(5, -1),
        checkpoint(5, 5, planned=frozenset({0, 1, 2, 4, 5})),
        checkpoint(5, 5, planned=frozenset({5})),
    ],
)
def test_inconsistent_checkpoint_files_are_refused(there: Checkpoint) -> None:
    assert refusal(state(there, entry(5))) == "checkpoint-inconsistent"
    assert refusal(state(there, None)) == "checkpoint-inconsistent"


def test_a_table_behind_its_checkpoint_is_refused() -> None:
    assert refusal(state(checkpoint(5, 5), entry(4))) == "table-behind"
    assert refusal(state(checkpoint(5, 5), entry(0))) == "table-behind"
    assert refusal(state(checkpoint(5, 5), None)) == "ledger-missing"
    assert refusal(state(checkpoint(6, 5), entry(4))) == "table-behind"


def test_batches_without_rows_are_no_roll_back() -> None:
    def through(after: int, through: int) -> Origin:
        return origin(empty_after=after, empty_through=through)

    assert decide(state(checkpoint(5, 5, origin=through(3, 5)), entry(3))) == Resume(3)
    assert decide(state(checkpoint(6, 5, origin=through(3, 5)), entry(3))) == Resume(3)
    assert decide(state(checkpoint(5, 5, origin=through(-1, 5)), None)) == Resume(-1)
    assert (
        refusal(state(checkpoint(5, 5, origin=through(3, 4)), entry(3)))
        == "table-behind"
    )
    assert (
        refusal(state(checkpoint(5, 5, origin=through(3, 5)), entry(2)))
        == "table-behind"
    )
    assert (
        refusal(state(checkpoint(5, 5, origin=through(3, 5)), None)) == "ledger-missing"
    )


def test_a_checkpoint_that_has_run_without_a_ledger_entry_is_refused() -> None:
    assert refusal(state(checkpoint(5, 5, origin=None), None)) == "ledger-missing"
    follows = origin(follows=Batch("c-0", 9))
    assert refusal(state(checkpoint(5, 5, origin=follows), None)) == "ledger-missing"


def test_a_checkpoint_of_another_model_or_table_is_refused() -> None:
    assert refusal(state(checkpoint(5, 5), entry(5, "c-2"))) == "checkpoint-foreign"
    assert (
        refusal(state(checkpoint(5, 5, origin=None), entry(5, "c-2")))
        == "checkpoint-foreign"
    )
    assert (
        refusal(state(checkpoint(5, 5, origin=origin(model="clicks")), entry(5)))
        == "checkpoint-foreign"
    )
    assert (
        refusal(state(checkpoint(5, 5, origin=origin(model="clicks")), None))
        == "checkpoint-foreign"
    )


def test_a_seeded_checkpoint_resumes_only_after_the_batch_that_it_follows() -> None:
    seeded = origin(follows=Batch("c-0", 9), empty_through=0)
    assert decide(state(checkpoint(0, 0, origin=seeded), entry(9, "c-0"))) == Resume(-1)
    assert decide(state(checkpoint(1, 0, origin=seeded), entry(9, "c-0"))) == Resume(-1)
    assert decide(state(checkpoint(1, 1, origin=seeded), entry(1))) == Resume(1)
    assert (
        refusal(state(checkpoint(1, 1, origin=seeded), entry(9, "c-0")))
        == "table-behind"
    )
    assert (
        refusal(state(checkpoint(0, 0, origin=seeded), entry(8, "c-0")))
        == "checkpoint-foreign"
    )


def test_a_checkpoint_behind_its_table_is_refused() -> None:
    assert refusal(state(checkpoint(4, 4), entry(5))) == "checkpoint-behind"
    assert refusal(state(checkpoint(4, 3), entry(5))) == "checkpoint-behind"
    assert refusal(state(checkpoint(3, 3), entry(5))) == "checkpoint-behind"


def test_a_batch_planned_with_other_offsets_than_the_tables_is_refused() -> None:
    """Skipping it, because its number is in the table, would lose what is in this one
    and not in that."""
    other = {"shop.orders": {"0": 50, "1": 7}}
    there = checkpoint(5, 4, positions={4: (READ,), 5: (other,)})
    assert refusal(state(there, entry(5))) == "checkpoint-inconsistent"
    recorded = SourceState("orders", "recorded")
    position = {"logOffset": 5}
    there = checkpoint(5, 4, positions={5: (position,)})
    newest = entry(
        5, positions={"orders": {**position, "through": {"orders": "b.jsonl"}}}
    )
    assert decide(state(there, newest, sources=(recorded,))) == Resume(5)


def test_a_recreated_table_is_refused() -> None:
    for table_id in ("uuid-2", ""):
        for newest in (None, entry(5)):
            assert (
                refusal(state(checkpoint(5, 5), newest, table_id=table_id))
                == "table-recreated"
            )


def test_changed_streams_are_refused() -> None:
    clicks = SourceState("clicks", "recorded")
    assert (
        refusal(state(checkpoint(5, 5), entry(5), sources=(SOURCE, clicks)))
        == "streams-changed"
    )
    assert (
        refusal(state(checkpoint(5, 5), entry(5), sources=(clicks,)))
        == "streams-changed"
    )
    assert (
        refusal(state(checkpoint(5, 5, origin=None), entry(5), sources=(clicks,)))
        == "streams-changed"
    )
    assert refusal(state(None, entry(5), sources=(SOURCE, clicks))) == "streams-changed"
    two = origin(streams=("clicks", "orders"))
    assert (
        refusal(state(checkpoint(0, -1, origin=two), None, sources=(SOURCE, clicks)))
        == "streams-changed"
    )


@pytest.mark.parametrize(("before", "now"), [("", "s"), ("s", ""), ("s", "t")])
def test_a_changed_stateful_shape_is_refused(before: str, now: str) -> None:
    there = checkpoint(5, 5, origin=origin(state=before))
    assert refusal(state(there, entry(5, state=before), shape=now)) == "state-changed"
    assert (
        refusal(state(replace(there, origin=None), entry(5, state=before), shape=now))
        == "state-changed"
    )
    assert decide(state(there, entry(5, state=before), shape=before)) == Resume(5)


def test_a_lost_checkpoint_starts_from_the_ledgers_positions() -> None:
    found = decide(state(None, entry(5, accepted="x-0: 1 to 2")))
    assert isinstance(found, StartFrom)
    assert (found.positions, found.follows, found.accepted) == (
        {"orders": READ},
        Batch(ID, 5),
        "x-0: 1 to 2",
    )
    assert found.start_ms is None


@each_of(
    ("kind", "position", "is_enough"),
    [
        ("kafka", READ, True),
        ("table", {"snapshot_id": 1, "position": 2}, True),
        ("recorded", {"logOffset": 3, "through": {"orders": "a.jsonl"}}, True),
        ("recorded", {"logOffset": 3}, False),
        ("files", {"logOffset": 3}, False),
        ("rate", 12, False),
        ("kafka", None, False),
        ("table", None, False),
        ("recorded", None, False),
    ],
)
def test_a_lost_checkpoint_needs_positions_that_its_kind_of_source_can_start_from(
    kind: str, position: Any, is_enough: bool
) -> None:
    assert SOURCES[kind].can_start_from(position) is is_enough
    sources = (SOURCE if kind == "kafka" else SourceState("orders", kind),)
    given = state(None, entry(5, positions={"orders": position}), sources=sources)
    if is_enough:
        assert isinstance(decide(given), StartFrom)
    else:
        assert refusal(given) == "checkpoint-lost"


def test_state_is_not_in_the_ledger() -> None:
    for unique_by in (("id",), ()):
        assert (
            refusal(state(None, entry(5, state="s"), shape="s", unique_by=unique_by))
            == "checkpoint-lost"
        )
    assert isinstance(decide(state(None, entry(5, state="s"))), StartFrom)


def test_dead_letters_leave_no_trace_of_most_batches() -> None:
    companion: dict[str, Any] = {"is_companion": True}
    assert decide(state(checkpoint(5, 5), None, **companion)) == Resume(-1)
    assert decide(state(checkpoint(5, 5), entry(2), **companion)) == Resume(2)
    assert decide(state(checkpoint(6, 5), entry(6), **companion)) == Resume(6)
    assert (
        refusal(state(checkpoint(5, 5), entry(7), **companion)) == "checkpoint-behind"
    )
    assert (
        refusal(state(checkpoint(5, 5), entry(2, "c-2"), **companion))
        == "checkpoint-foreign"
    )
    assert (
        refusal(state(checkpoint(5, 3), entry(2), **companion))
        == "checkpoint-inconsistent"
    )


def test_a_refused_dead_letter_query_advises_a_rewind_of_its_model() -> None:
    """Which makes a checkpoint for that query alone, and so reads nothing again."""
    owner = "orders__dead_letter"
    made = origin(model=owner)
    whole = checkpoint(5, 5, origin=made)
    files = (SourceState("orders", "files"),)
    for there, newest, sources in (
        (whole, entry(7), (SOURCE,)),
        (whole, entry(2, "c-2"), (SOURCE,)),
        (checkpoint(5, 3, origin=made), None, (SOURCE,)),
        (replace(whole, origin=origin()), entry(5), (SOURCE,)),
        (
            replace(whole, origin=replace(made, streams=("clicks",))),
            entry(5),
            (SOURCE,),
        ),
        (
            replace(whole, origin=replace(made, topics={"shop.orders": "id-0"})),
            None,
            (SOURCE,),
        ),
        (None, entry(5, positions={"orders": {"logOffset": 3}}), files),
        (None, entry(5, positions={"orders": {"logOffset": 3}}), (SOURCE,)),
    ):
        with pytest.raises(RunError) as caught:
            decide(
                state(there, newest, sources=sources, owner=owner, is_companion=True)
            )
        (problem,) = caught.value.problems
        assert re.findall(r"`(lakesql rewind .*?)`", problem.fix) == [
            "lakesql rewind orders"
        ], problem


def test_what_is_added_to_a_position_is_taken_off() -> None:
    assert spark_position({"logOffset": 1, "through": {}}) == {"logOffset": 1}
    assert spark_position(READ) == READ
    assert spark_position(12) == 12
    assert spark_position(None) is None


STANDS: dict[str, Any] = {
    "kafka": READ,
    "recorded": {"logOffset": 5, "through": {"orders": "b.jsonl"}},
    "files": {"logOffset": 5},
    "table": {"version": 1, "snapshot_id": 7, "position": 0, "scan_all_files": False},
}


@each_of(("before", "now"), [(a, b) for a, b in product(STANDS, STANDS) if a != b])
def test_a_position_of_another_kind_of_source_is_refused(before: str, now: str) -> None:
    """A position of another kind of source is no place in this one."""
    stands, sources = (
        STANDS[before],
        (SourceState("orders", now, *((SOURCE.topics,) if now == "kafka" else ())),),
    )
    newest = entry(5, positions={"orders": stands})
    there = checkpoint(5, 5, positions={5: (spark_position(stands),)})
    if {before, now} <= {"recorded", "files"}:  # both count batches of files
        assert decide(state(there, newest, sources=sources)) == Resume(5)
    else:
        assert refusal(state(there, newest, sources=sources)) == "streams-changed"
        assert refusal(state(None, newest, sources=sources)) == "streams-changed"


def test_sources_that_spark_orders_otherwise_are_not_moved() -> None:
    """It does so for a stateful SELECT over common table expressions, and reads a
    stream in twice that joins itself."""
    sources = (SOURCE, SourceState("clicks", "table"))
    there = origin(streams=("orders", "clicks"), state="s")
    positions = (STANDS["table"], STANDS["kafka"])
    newest = entry(
        5, positions=dict(zip(there.streams, positions, strict=True)), state="s"
    )
    given = state(
        checkpoint(5, 5, origin=there, positions={5: positions}),
        newest,
        sources=sources,
        shape="s",
    )
    assert decide(given) == Resume(5)
    numbered = entry(
        5, positions={str(n): p for n, p in enumerate((READ, *positions))}, state="s"
    )
    twice = checkpoint(5, 5, origin=there, positions={5: (READ, *positions)})
    assert decide(replace(given, checkpoint=twice, entry=numbered)) == Resume(5)


@pytest.mark.parametrize("topic", ["logOffset", "snapshot_id"])
def test_a_topic_may_be_called_as_a_mark_of_other_positions(topic: str) -> None:
    position = {topic: {"0": 5}}
    assert SOURCES["kafka"].is_position(position)
    assert not any(
        SOURCES[kind].is_position(position) for kind in ("recorded", "files", "table")
    )


@each_of("kind", STANDS)
def test_a_position_is_recognized_by_its_own_kind_of_source(kind: str) -> None:
    assert SOURCES[kind].is_position(STANDS[kind]) and SOURCES[kind].is_position(None)


def test_the_first_batch_is_compared_as_well() -> None:
    """It was planned anew with other records: to skip it would lose them. What came
    before it has no batch."""
    other = {"shop.orders": {"0": 39, "1": 7}}
    planned = checkpoint(0, -1, positions={0: (other,)})
    assert refusal(state(planned, entry(0))) == "checkpoint-inconsistent"
    made = origin(follows=Batch("c-0", 9))
    rewound = checkpoint(
        0, -1, id="c-1", origin=made, positions={-1: (READ,), 0: (other,)}
    )
    assert decide(state(rewound, entry(9, "c-0"))) == Resume(-1)


def test_a_seeded_checkpoint_whose_predecessor_has_expired_is_refused() -> None:
    made = checkpoint(0, 0, origin=origin(follows=Batch("c-0", 9), empty_through=0))
    assert refusal(state(made, None)) == "ledger-missing"


BROKEN = checkpoint(5, 5, damage="x")
WITH_STATE = replace(BROKEN, origin=origin(state="s"))
FROM_FILES = state(
    checkpoint(5, 5), entry(5), sources=(SourceState("orders", "files"),)
)


@each_of(
    ("given", "said", "unsaid"),
    [
        # The table is right: a new checkpoint continues from it, unless there is state,
        # which no ledger holds.
        (state(BROKEN, entry(5)), "`lakesql rewind orders`. ", "--to start"),
        (state(WITH_STATE, entry(5, state="s"), shape="s"), "--to start", "orders`. "),
        (state(BROKEN, None), "lakesql rewind orders --to start", "--to checkpoint"),
        # The table is not: in mode append, what is in it would stand there twice.
        (
            state(checkpoint(5, 5), None, has_rows=True),
            "Drop the table, or",
            "To read all again",
        ),
        (
            state(checkpoint(5, 5), None, has_rows=True, unique_by=("id",)),
            "To read all again",
            "Drop the table",
        ),
        (
            state(checkpoint(5, 5), None),
            "lakesql rewind orders --to checkpoint",
            "Drop the table",
        ),
        # Neither says what was read.
        (FROM_FILES, "--to TIME --allow-duplicates", "#"),
        (replace(FROM_FILES, unique_by=("id",)), "--to TIME", "--allow"),
        (
            state(
                checkpoint(5, 5), entry(5), sources=(SourceState("orders", "table"),)
            ),
            "--to start --allow",
            "--to TIME",
        ),
    ],
)
def test_a_refusal_advises_the_commands_that_duplicate_nothing(
    given: ProgressState, said: str, unsaid: str
) -> None:
    with pytest.raises(RunError) as caught:
        decide(given)
    (problem,) = caught.value.problems
    assert said in problem.fix and unsaid not in problem.fix, problem.fix


def test_a_stream_that_would_begin_behind_expired_rows_is_refused_until_somebody_accepts_it() -> (
    None
):
    cut = (SourceState("orders", "table", is_cut=True),)
    assert refusal(state(None, None, sources=cut)) == "upstream-expired"
    assert decide(state(None, None, sources=cut, accept_data_loss=True)) == Fresh()
    assert (
        decide(state(None, None, sources=(SourceState("orders", "table"),))) == Fresh()
    )
    rebuilt = SourceState("orders", "table", rebuilt=(7, 8), rebuilt_ms=5)
    assert isinstance(decide(state(None, None, sources=(rebuilt,))), StartFrom), (
        "it begins with all rows"
    )
    at = {"version": 1, "snapshot_id": 7, "position": 1, "scan_all_files": False}
    known = checkpoint(3, 3, positions={3: (at,)})
    assert isinstance(
        decide(
            state(known, entry(3, positions={"orders": at}, topics={}), sources=cut)
        ),
        Resume,
    )


AT_A = {"version": 1, "snapshot_id": 7, "position": 1, "scan_all_files": False}
BEFORE_A = {"version": 1, "snapshot_id": -1, "position": -1, "scan_all_files": False}


def streams_of_tables(*positions: Any, cut: tuple[bool, ...]) -> ProgressState:
    """A model that was rewound to positions of its streams, which are tables, and has
    run no batch since."""
    names = tuple(f"t{number}" for number in range(len(positions)))
    is_started = any(position is not None for position in positions)
    newest = 0 if is_started else -1
    made = origin(streams=names, follows=Batch("c-0", 9), empty_through=newest)
    there = checkpoint(
        newest,
        newest,
        id="c-1",
        positions={0: positions} if is_started else {},
        origin=made,
    )
    sources = tuple(
        SourceState(name, "table", is_cut=is_cut)
        for name, is_cut in zip(names, cut, strict=True)
    )
    return state(there, entry(9, "c-0", positions={"orders": READ}), sources=sources)


@each_of("positions", list(product((None, BEFORE_A, AT_A), repeat=2)))
@each_of("cut", list(product((False, True), repeat=2)))
def test_a_stream_that_begins_behind_expired_rows_after_a_rewind_is_refused(
    positions: tuple[Any, Any], cut: tuple[bool, bool]
) -> None:
    given = streams_of_tables(*positions, cut=cut)
    misses = any(
        is_cut and at is not AT_A for at, is_cut in zip(positions, cut, strict=True)
    )
    assert outcome(given) == ("upstream-expired" if misses else Resume(-1))
    accepted = outcome(replace(given, accept_data_loss=True))
    assert accepted == (Resume(-1) if misses else "nothing-lost")


def test_a_stream_of_expired_rows_is_refused_however_the_model_was_rewound() -> None:
    cut = (SourceState("a", "table", is_cut=True),)
    read = entry(9, "c-0", positions={"a": AT_A})
    follows = origin(streams=("a",), follows=Batch("c-0", 9))
    rewound = checkpoint(-1, -1, id="c-1", positions={}, origin=follows)
    assert refusal(state(rewound, read, sources=cut)) == "upstream-expired", (
        "to its start"
    )
    assert decide(state(rewound, read, sources=(SourceState("a", "table"),))) == Resume(
        -1
    )


def test_an_accepted_loss_of_a_table_says_nothing_of_a_topic_that_was_made_again() -> (
    None
):
    made = origin(
        streams=("orders", "a"),
        follows=Batch("c-0", 9),
        empty_through=0,
        topics={"shop.orders": "id-1"},
    )
    there = checkpoint(0, 0, id="c-1", positions={0: (READ, None)}, origin=made)
    sources = (SOURCE, SourceState("a", "table", is_cut=True))
    given = state(there, entry(9, "c-0"), sources=sources, accept_data_loss=True)
    assert decide(given) == Resume(-1)
    another = replace(SOURCE, topics={"shop.orders": "id-2"})
    assert refusal(replace(given, sources=(another, sources[1]))) == "topic-recreated"
