from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce

from lakesql.events import (
    BatchCommitted,
    BatchEmpty,
    BatchSkipped,
    Event,
    FieldsRescued,
    ModelFinished,
    Progress,
    QueryPaused,
    QueryStarted,
    RecordsRejected,
    RescuedFields,
    Retrying,
    RunFinished,
    RunStarted,
    SessionStarted,
    StreamEmpty,
)
from lakesql.observe.live import most_telling
from lakesql.observe.results import render_results
from lakesql.observe.summary import render_remarks
from lakesql.observe.tally import ModelTally, RunTally, count_event
from lakesql.observe.text import describe, is_up_to_date


def tally(*events: Event) -> RunTally:
    return reduce(count_event, events, RunTally())


def committed(model: str, batch: int, at_ms: int = 0) -> BatchCommitted:
    return BatchCommitted(model, batch, 100, 90, 10, 1, 5, "", at_ms=at_ms)


STARTED = RunStarted("dev", ("a", "b", "c"), False, at_ms=1)


def test_figures_add_up_over_batches_of_every_kind() -> None:
    run = tally(
        STARTED,
        SessionStarted(5, at_ms=2),
        QueryStarted("a", at_ms=3),
        BatchSkipped("a", 6, at_ms=4),
        committed("a", 7, at_ms=70),
        RecordsRejected("a", 8, "t", 5, (("unparsable", 5),), at_ms=79),
        BatchEmpty("a", 8, 5, 5, at_ms=80),
        committed("a", 9, at_ms=90),
        committed("b", 0),
    )
    a = run.models["a"]
    assert (a.batch, a.batches, a.skipped_batches, a.records, a.rows, a.rejected) == (
        9,
        2,
        1,
        205,
        180,
        5,
    )
    assert (a.phase, a.committed_at_ms) == ("running", 90)
    assert run.models["b"].rows == 90
    assert run.models["c"].phase == "waiting"
    assert run.spark_is_up


def test_rows_that_fail_what_is_expected_are_counted_by_name_and_said() -> None:
    failing = replace(committed("a", 1), violations=(("x > 0", 2), ("y", 1)))
    run = tally(
        STARTED, failing, BatchEmpty("a", 2, 5, 0, violations=(("y", 4),), at_ms=9)
    )
    assert run.models["a"].violations == (("y", 5), ("x > 0", 2))
    assert describe(failing).tone == "warning"
    assert describe(failing).text.endswith("2 rows fail 'x > 0', 1 row fails 'y'")
    assert render_remarks(run) == ("a: 5 rows fail 'y', 2 rows fail 'x > 0'",)
    finished = run.models["a"].finish("success", 1, 2)
    results = json.loads(
        render_results(tally(STARTED, failing, finished), False, command="run", at_ms=1)
    )
    assert results["results"][0]["violations"] == {"y": 5, "x > 0": 2}


def test_streams_without_anything_are_said_once_and_not_called_up_to_date() -> None:
    empty = StreamEmpty("a", "s", "no file matches x", False, at_ms=2)
    run = tally(STARTED, empty, empty, QueryStarted("a", at_ms=3))
    finished = run.models["a"].finish("success", 9, 6)
    assert finished.warnings == ("stream s: no file matches x",)
    assert (run.models["a"].has_nothing, run.models["b"].has_nothing) == (True, False)
    assert describe(finished).text == "nothing to read: stream s: no file matches x"
    run = tally(STARTED, empty, finished)
    assert render_remarks(run) == ("a: stream s: no file matches x",)
    (result, *_) = json.loads(render_results(run, False, command="run", at_ms=9))[
        "results"
    ]
    assert (result["status"], result["warnings"]) == (
        "success",
        ["stream s: no file matches x"],
    )


def test_rows_that_came_too_late_add_up_and_are_said() -> None:
    late = BatchCommitted("a", 0, 3, 2, 0, 1, 5, "", late=2, at_ms=4)
    run = tally(STARTED, late, BatchEmpty("a", 1, 5, 0, late=5, at_ms=5))
    finished = run.models["a"].finish("success", 9, 6)
    assert (run.models["a"].late, finished.late) == (7, 7)
    assert "2 dropped as late" in describe(late).text
    assert "7 dropped as late" in describe(finished).text
    assert render_remarks(run) == (
        "a: 7 dropped as late, older than its watermark; no dead letter has them",
    )


def test_records_without_an_event_time_add_up_and_are_said() -> None:
    written = BatchCommitted("a", 0, 3, 2, 0, 1, 5, "", at_ms=4, without_event_time=2)
    empty = BatchEmpty("a", 1, 5, 0, at_ms=5, without_event_time=3)
    (remark,) = render_remarks(tally(STARTED, written, empty))
    assert remark.startswith("a: 5 records without an event time")


def test_what_a_feed_sends_beside_changes_and_what_is_remembered_add_up() -> None:
    written = BatchCommitted(
        "a", 0, 9, 2, 0, 1, 5, "", ignored=3, remembered=4, at_ms=4
    )
    run = tally(STARTED, written, written, BatchEmpty("a", 1, 1, 0, ignored=1, at_ms=5))
    finished = run.models["a"].finish("success", 9, 6)
    assert (finished.ignored, finished.remembered) == (7, 8)
    assert any("8 remembered" in remark for remark in render_remarks(run))
    assert tally(STARTED, finished).models["a"].finished == finished


def test_a_model_whose_records_all_came_too_late_is_not_up_to_date() -> None:
    finished = (
        tally(STARTED, BatchEmpty("a", 1, 5, 0, late=5, at_ms=5))
        .models["a"]
        .finish("success", 9, 6)
    )
    assert not is_up_to_date(finished)
    assert is_up_to_date(tally(STARTED).models["a"].finish("success", 9, 6))


def test_an_empty_batch_is_not_a_commit() -> None:
    run = tally(
        STARTED, committed("a", 1, at_ms=50), BatchEmpty("a", 2, 0, 0, at_ms=60)
    )
    assert run.models["a"].committed_at_ms == 50


def test_a_retried_model_keeps_its_figures() -> None:
    away = Retrying("a", 1, 10, 1_000, (), at_ms=3)
    run = tally(
        STARTED, committed("a", 0), Progress("a", 5.0, 1, "files", at_ms=2), away
    )
    a = run.models["a"]
    assert (a.phase, a.rows, a.records_per_second, run.count("retrying")) == (
        "retrying",
        90,
        None,
        1,
    )
    assert most_telling(count_event(run, QueryStarted("b", at_ms=4)), 1) == (a,)
    assert count_event(run, QueryStarted("a", at_ms=4)).models["a"].phase == "running"


def test_a_model_that_pauses_waits_and_is_not_retried() -> None:
    a = tally(STARTED, committed("a", 0), QueryPaused("a", at_ms=3)).models["a"]
    assert (a.phase, a.retries, a.rows, a.health) == ("waiting", 0, 90, "well")
    assert "pauses" in describe(QueryPaused("a", at_ms=3)).text


def test_the_figures_of_a_finished_model_are_those_of_its_last_event() -> None:
    finished = ModelFinished("a", "success", 4, 400, 360, 40, 2, 9, at_ms=9)
    a = tally(STARTED, committed("a", 0), finished).models["a"]
    assert (a.phase, a.batches, a.records, a.rows, a.rejected, a.skipped_batches) == (
        "success",
        4,
        400,
        360,
        40,
        2,
    )
    assert a.finished is finished


def test_reasons_of_dead_letters_add_up() -> None:
    run = tally(
        STARTED,
        RecordsRejected(
            "a", 1, "t", 3, (("missing-value", 1), ("not-readable", 2)), at_ms=1
        ),
        RecordsRejected("a", 2, "t", 4, (("missing-value", 4),), at_ms=2),
    )
    assert dict(run.models["a"].reasons) == {"missing-value": 5, "not-readable": 2}
    assert run.models["a"].rejected == 7
    assert run.models["a"].dead_letter_table == "t"


def test_fields_that_no_contract_knows_add_up_by_stream() -> None:
    first = (RescuedFields("s", 3, ("x", "y")), RescuedFields("t", 1, ("z",)))
    then = (RescuedFields("s", 2, ("y", "v", "w", "u", "more")),)
    run = tally(
        STARTED,
        FieldsRescued("a", 1, first, at_ms=1),
        FieldsRescued("a", 2, then, at_ms=2),
    )
    assert run.models["a"].rescued == (
        RescuedFields("s", 5, ("x", "y", "v", "w", "u")),
        RescuedFields("t", 1, ("z",)),
    )
    assert run.models["a"].finish("success", 1, 3).rescued == run.models["a"].rescued
    assert render_remarks(run) == (
        "a: 5 records of stream s have fields that its contract does not know: x, y, v, w, u; `_rescued` has them",
        "a: 1 record of stream t has fields that its contract does not know: z; `_rescued` has them",
    )


def test_a_speed_that_is_not_finite_is_none() -> None:
    assert (
        tally(STARTED, Progress("a", float("nan"), 1, "files", at_ms=1))
        .models["a"]
        .records_per_second
        is None
    )


def test_a_model_that_was_not_announced_gets_its_line() -> None:
    assert tuple(tally(STARTED, QueryStarted("d", at_ms=2)).models) == (
        "a",
        "b",
        "c",
        "d",
    )


def test_a_tally_is_not_changed_by_the_next_event() -> None:
    before = tally(STARTED)
    after = count_event(before, committed("a", 0))
    assert before.models["a"].rows == 0
    assert after.models["a"].rows == 90


def test_the_most_telling_models_keep_the_order_of_the_run() -> None:
    names = tuple("abcdef")
    run = tally(
        RunStarted("dev", names, False, at_ms=1),
        ModelFinished("a", "success", 1, 1, 1, 0, 0, 1, at_ms=2),
        QueryStarted("b", at_ms=2),
        ModelFinished("f", "error", 1, 1, 1, 0, 0, 1, at_ms=2),
        ModelFinished("e", "skipped", 0, 0, 0, 0, 0, 0, at_ms=2),
    )
    assert [model.name for model in most_telling(run, 2)] == ["b", "f"]
    assert [model.name for model in most_telling(run, 4)] == ["b", "c", "d", "f"]
    assert [model.name for model in most_telling(run, 9)] == list(names)
    assert most_telling(run, 0) == ()


def test_retries_are_counted_since_the_last_batch() -> None:
    second = Retrying("a", 2, 10, 1_000, (), at_ms=3)
    assert tally(STARTED, second).models["a"].retries == 2
    for batch in (
        committed("a", 0),
        BatchSkipped("a", 0, at_ms=4),
        BatchEmpty("a", 0, 0, 0, at_ms=4),
    ):
        assert tally(STARTED, second, batch).models["a"].retries == 0


def test_retries_are_counted_until_the_query_waits_for_something_new() -> None:
    second, busy = (
        Retrying("a", 2, 10, 1_000, (), at_ms=3),
        Progress("a", 0.0, None, "records", is_busy=True, at_ms=5),
    )
    restarted = tally(STARTED, second, QueryStarted("a", at_ms=4), busy)
    assert restarted.models["a"].retries == 2
    assert count_event(restarted, replace(busy, is_busy=False)).models["a"].retries == 0


def test_a_finished_model_says_what_was_counted() -> None:
    a = tally(
        STARTED, BatchSkipped("a", 0, at_ms=4), committed("a", 1), committed("a", 2)
    ).models["a"]
    assert a.finish("success", 9, 10) == ModelFinished(
        "a", "success", 2, 200, 180, 0, 1, 9, at_ms=10
    )
    assert ModelTally("b").finish("skipped", 0, 1, because="late") == ModelFinished(
        "b", "skipped", 0, 0, 0, 0, 0, 0, because="late", at_ms=1
    )


def test_a_new_run_starts_from_nothing() -> None:
    run = tally(STARTED, committed("a", 0), RunFinished(5, False, at_ms=9), STARTED)
    assert run.finished is None
    assert run.models["a"].rows == 0
