from __future__ import annotations

from functools import reduce

from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Event,
    ModelFinished,
    Progress,
    QueryStarted,
    RecordsRejected,
    Retrying,
    RunFinished,
    RunStarted,
    SessionStarted,
)
from lakesql.observe.board import Board, advance, most_telling


def played(*events: Event) -> Board:
    return reduce(advance, events, Board())


def committed(model: str, batch: int, at_ms: int = 0) -> BatchCommitted:
    return BatchCommitted(model, batch, 100, 90, 10, 1, 5, "", at_ms)


STARTED = RunStarted("dev", ("a", "b", "c"), False, 1)


def test_figures_add_up_over_batches_of_every_kind() -> None:
    board = played(
        STARTED,
        SessionStarted(5, 2),
        QueryStarted("a", 3),
        BatchSkipped("a", 6, 4),
        committed("a", 7, at_ms=70),
        RecordsRejected("a", 8, "t", 5, (("unparsable", 5),), 79),
        BatchEmpty("a", 8, 5, 5, 80),
        committed("a", 9, at_ms=90),
        committed("b", 0),
    )
    a = board.models["a"]
    assert (a.batch, a.batches, a.skipped_batches, a.records, a.rows, a.rejected) == (9, 2, 1, 205, 180, 5)
    assert (a.phase, a.committed_at_ms) == ("running", 90)
    assert board.models["b"].rows == 90
    assert board.models["c"].phase == "waiting"
    assert board.spark_is_up


def test_an_empty_batch_is_no_commit() -> None:
    board = played(STARTED, committed("a", 1, at_ms=50), BatchEmpty("a", 2, 0, 0, 60))
    assert board.models["a"].committed_at_ms == 50


def test_a_model_that_is_tried_again_keeps_its_figures() -> None:
    away = Retrying("a", 1, 10, 1_000, (), 3)
    board = played(STARTED, committed("a", 0), Progress("a", 5.0, 1, "files", 2), away)
    a = board.models["a"]
    assert (a.phase, a.rows, a.records_per_second, board.count("retrying")) == ("retrying", 90, None, 1)
    assert most_telling(advance(board, QueryStarted("b", 4)), 1) == (a,)
    assert advance(board, QueryStarted("a", 4)).models["a"].phase == "running"


def test_the_end_of_a_model_has_the_last_word() -> None:
    finished = ModelFinished("a", "success", 4, 400, 360, 40, 2, 9, 9)
    a = played(STARTED, committed("a", 0), finished).models["a"]
    assert (a.phase, a.batches, a.records, a.rows, a.rejected, a.skipped_batches) == ("success", 4, 400, 360, 40, 2)
    assert a.finished is finished


def test_reasons_add_up() -> None:
    board = played(
        STARTED,
        RecordsRejected("a", 1, "t", 3, (("missing-value", 1), ("not-readable", 2)), 1),
        RecordsRejected("a", 2, "t", 4, (("missing-value", 4),), 2),
    )
    assert dict(board.models["a"].reasons) == {"missing-value": 5, "not-readable": 2}
    assert board.models["a"].rejected == 7
    assert board.models["a"].dead_letters == "t"


def test_a_speed_that_is_no_number_is_none() -> None:
    assert played(STARTED, Progress("a", float("nan"), 1, "files", 1)).models["a"].records_per_second is None


def test_a_model_that_was_not_announced_gets_its_line() -> None:
    assert tuple(played(STARTED, QueryStarted("d", 2)).models) == ("a", "b", "c", "d")


def test_an_event_makes_a_new_board_and_leaves_the_old_one() -> None:
    before = played(STARTED)
    after = advance(before, committed("a", 0))
    assert before.models["a"].rows == 0
    assert after.models["a"].rows == 90


def test_the_most_telling_models_keep_the_order_of_the_run() -> None:
    names = tuple("abcdef")
    board = played(
        RunStarted("dev", names, False, 1),
        ModelFinished("a", "success", 1, 1, 1, 0, 0, 1, 2),
        QueryStarted("b", 2),
        ModelFinished("f", "error", 1, 1, 1, 0, 0, 1, 2),
        ModelFinished("e", "skipped", 0, 0, 0, 0, 0, 0, 2),
    )
    assert [model.name for model in most_telling(board, 2)] == ["b", "f"]
    assert [model.name for model in most_telling(board, 4)] == ["b", "c", "d", "f"]
    assert [model.name for model in most_telling(board, 9)] == list(names)
    assert most_telling(board, 0) == ()


def test_a_new_run_starts_from_nothing() -> None:
    board = played(STARTED, committed("a", 0), RunFinished(5, False, 9), STARTED)
    assert board.finished is None
    assert board.models["a"].rows == 0
